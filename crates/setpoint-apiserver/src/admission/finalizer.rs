//! What keeps a Machine until its guest is gone is taken off by its controller, or by who has all rights.
//!
//! Whoever else did would leave a guest behind that nobody was asked about, and with the Machine the record would go of what
//! was done by which approval.

use serde_json::Value;
use setpoint_api::machine::FINALIZER;

use super::Change;
use super::authorship::CONTROLLERS;
use crate::authorization::MASTERS;
use crate::failure::{Failure, Result};

pub(super) fn check(change: &Change<'_>) -> Result<()> {
    let is_machine = change.resource.group == setpoint_api::GROUP && change.resource.plural == "machines";
    let (Some(before), Some(after), true) = (change.before, change.after, is_machine) else { return Ok(()) };
    let identity = &change.caller.identity;
    if !is_kept(before) || is_kept(after) || identity.user == CONTROLLERS || identity.is_in(MASTERS) {
        return Ok(());
    }
    let why = format!(
        "metadata.finalizers must keep {FINALIZER:?} until its guest is gone: delete the Machine, and it goes after its \
         guest; only members of {MASTERS} take it off before, and leave the guest behind"
    );
    Err(Failure::forbidden(change.resource, change.name(), &why))
}

fn is_kept(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::fixture::{judge, judge_by};
    use super::*;
    use crate::authentication::{Caller, Identity, Standing};

    #[test]
    fn only_the_controller_lets_a_machine_go() {
        let machine = |finalizers: &[&str]| json!({"metadata": {"name": "web", "finalizers": finalizers}});
        let (kept, freed) = (machine(&[FINALIZER, "a/b"]), machine(&["a/b"]));
        let rows = [
            ("somebody takes it off", "carol", &kept, &freed, false),
            ("somebody leaves out all of them", "carol", &kept, &json!({"metadata": {"name": "web"}}), false),
            ("the controller takes it off", CONTROLLERS, &kept, &freed, true),
            ("somebody takes another off", "carol", &kept, &machine(&[FINALIZER]), true),
            ("somebody puts it on", "carol", &freed, &kept, true),
            ("it was not there", "carol", &freed, &machine(&[]), true),
        ];
        for (name, user, before, after, is_allowed) in rows {
            let judged = judge(user, "Machine", (Some(before), Some(after)), check);
            assert_eq!(judged.is_ok(), is_allowed, "{name}");
        }
        assert!(judge("carol", "App", (Some(&kept), Some(&freed)), check).is_ok(), "other kinds are free");
        let admin = Caller::new(Arc::new(Identity::new("root", [MASTERS])), Standing::default());
        assert!(judge_by(&admin, "Machine", (Some(&kept), Some(&freed)), check).is_ok(), "who has all rights");
    }
}
