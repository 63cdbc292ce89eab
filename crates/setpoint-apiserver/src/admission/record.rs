//! What people were asked, and what they decided, stays on record: a rejection holds for as long as its change set is there.
//!
//! So a change set is deleted only by who may change the rules of its environment, which controllers may; and a preview, in
//! which nothing is decided, by who made it. What goes with its owner or its namespace goes.

use super::Change;
use crate::authorization::{Access, Policy};
use crate::failure::{Failure, Result};
use crate::registry::text_at;

pub(super) fn check(policy: &Policy, change: &Change<'_>) -> Result<()> {
    let is_change_set = change.resource.group == setpoint_api::GROUP && change.resource.plural == "changesets";
    let (Some(before), None, true) = (change.before, change.after, is_change_set) else { return Ok(()) };
    let identity = &change.caller.identity;
    let (mode, environment) = (text_at(before, &["spec", "mode"]), text_at(before, &["spec", "environment"]));
    let is_own_preview = mode == "Preview" && text_at(before, &["spec", "requestedBy"]) == change.caller.real().user;
    let rules = Access::to_object("update", [setpoint_api::GROUP, "environments", ""], environment, "");
    if is_own_preview || rules.is_allowed(policy, identity) {
        return Ok(());
    }
    let why = format!(
        "it keeps what people decide: it goes by itself when it is over, and only who may update the Environment \
         {environment:?} deletes it before; a preview is deleted by who made it"
    );
    Err(Failure::forbidden(change.resource, change.name(), &why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixture::judge;
    use super::*;
    use crate::authorization::{Change as PolicyChange, Kind};

    /// Olga may change the rules of the environment `lab`.
    fn policy() -> Policy {
        let role = json!({
            "metadata": {"name": "rules"},
            "rules": [{
                "verbs": ["update"], "apiGroups": [setpoint_api::GROUP], "resources": ["environments"],
                "resourceNames": ["lab"],
            }],
        });
        let binding = json!({
            "metadata": {"name": "rules"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "rules"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "olga"}],
        });
        let mut policy = Policy::default();
        policy.apply(&PolicyChange::Set(Kind::ClusterRole, &role));
        policy.apply(&PolicyChange::Set(Kind::ClusterRoleBinding, &binding));
        policy
    }

    #[test]
    fn nobody_deletes_what_people_decide_who_does_not_set_their_rules() {
        let policy = policy();
        let set = |mode: &str, environment: &str| {
            json!({
                "metadata": {"name": "web"},
                "spec": {"mode": mode, "environment": environment, "requestedBy": "carol"},
            })
        };
        let rows = [
            ("one's own preview", "carol", "Preview", "lab", true),
            ("another's preview", "dave", "Preview", "lab", false),
            ("what one asked for oneself", "carol", "Execute", "lab", false),
            ("what another asked for", "dave", "Execute", "lab", false),
            ("who sets the rules", "olga", "Execute", "lab", true),
            ("who sets the rules of another environment", "olga", "Execute", "production", false),
        ];
        for (name, user, mode, environment, is_allowed) in rows {
            let set = set(mode, environment);
            let judged = judge(user, "ChangeSet", (Some(&set), None), |change| check(&policy, change));
            assert_eq!(judged.is_ok(), is_allowed, "{name}");
        }
        let execute = set("Execute", "lab");
        let write = judge("dave", "ChangeSet", (Some(&execute), Some(&execute)), |change| check(&policy, change));
        assert!(write.is_ok(), "it is about deleting");
        let machine = judge("dave", "Machine", (Some(&execute), None), |change| check(&policy, change));
        assert!(machine.is_ok(), "other kinds are free");
    }
}
