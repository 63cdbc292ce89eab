//! The policy in force of an Environment is written by its controller, or by who has all rights; and so is what keeps an
//! Environment until its policy may go with it.
//!
//! Whoever else did could loosen the rules of a place without the approvals that this needs.

use serde_json::Value;
use setpoint_api::environment::FINALIZER;

use super::Change;
use super::authorship::CONTROLLERS;
use crate::authorization::MASTERS;
use crate::failure::{Failure, Result};

pub(super) fn check(change: &Change<'_>) -> Result<()> {
    let is_environment = change.resource.group == setpoint_api::GROUP && change.resource.plural == "environments";
    let (Some(before), Some(after), true) = (change.before, change.after, is_environment) else { return Ok(()) };
    let identity = &change.caller.identity;
    if identity.user == CONTROLLERS || identity.is_in(MASTERS) {
        return Ok(());
    }
    if before["status"]["policy"] != after["status"]["policy"] {
        let why = "status.policy is written by the Environment's controller: change the spec, and what is looser waits for \
                   its approvals";
        return Err(Failure::forbidden(change.resource, change.name(), why));
    }
    let has_policy = before["status"]["policy"].is_object();
    if has_policy && is_kept(before) && !is_kept(after) {
        let why = format!(
            "metadata.finalizers must keep {FINALIZER:?} until nothing is left there and its rules may go: delete the \
             Environment; only members of {MASTERS} take it off before"
        );
        return Err(Failure::forbidden(change.resource, change.name(), &why));
    }
    Ok(())
}

fn is_kept(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixture::judge;
    use super::*;

    #[test]
    fn only_the_controller_loosens_a_policy() {
        let environment = |approvals: u32, finalizers: &[&str]| {
            let rule = json!({"class": "Destructive", "approvals": approvals});
            json!({
                "metadata": {"name": "lab", "finalizers": finalizers},
                "status": {"policy": {"spec": {"approval": {"rules": [rule]}}}},
            })
        };
        let kept = environment(2, &[FINALIZER]);
        let young = json!({"metadata": {"name": "lab", "finalizers": [FINALIZER]}});
        let bare = json!({"metadata": {"name": "lab"}});
        let rows = [
            ("somebody loosens it", "carol", &kept, &environment(0, &[FINALIZER]), false),
            ("the controller loosens it", CONTROLLERS, &kept, &environment(0, &[FINALIZER]), true),
            ("somebody takes it away", "carol", &kept, &young, false),
            ("somebody invents it", "carol", &young, &kept, false),
            ("somebody takes the finalizer off", "carol", &kept, &environment(2, &[]), false),
            ("the controller takes the finalizer off", CONTROLLERS, &kept, &environment(2, &[]), true),
            ("somebody puts another on", "carol", &kept, &environment(2, &[FINALIZER, "a/b"]), true),
            ("it has no policy yet", "carol", &young, &bare, true),
        ];
        for (name, user, before, after, is_allowed) in rows {
            let judged = judge(user, "Environment", (Some(before), Some(after)), check);
            assert_eq!(judged.is_ok(), is_allowed, "{name}");
        }
    }
}
