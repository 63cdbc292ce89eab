//! The change sets that controllers made for an object.

use std::collections::BTreeSet;
use std::sync::Arc;

use setpoint_api::change_set::{ChangeSet, Mode, Phase, StepState, StepStatus};
use setpoint_api::condition::ConditionStatus;
use setpoint_core::workload::selection::controller_of;

use crate::runtime::Caches;
use crate::runtime::caches::CHANGE_SETS_BY_OWNER;

/// An object that change sets are made for.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    pub uid: &'a str,
    /// Where its change sets are made.
    pub namespace: &'a str,
    pub environment: &'a str,
}

impl Owner<'_> {
    /// Its change sets, and none that only name it: elsewhere, other people decide.
    pub fn change_sets(&self, caches: &Caches) -> Vec<Arc<ChangeSet>> {
        let sets = caches.change_sets.by(&CHANGE_SETS_BY_OWNER, self.uid);
        sets.into_iter().filter(|set| self.made(set)).collect()
    }

    /// Whether a change set was made for it, where its controller would have made it.
    pub fn made(&self, set: &ChangeSet) -> bool {
        let is_named = controller_of(&set.metadata).is_some_and(|owner| owner.uid == self.uid);
        let is_there = set.metadata.namespace.as_deref() == Some(self.namespace);
        is_named && is_there && set.spec.environment == self.environment && set.spec.mode == Mode::Execute
    }
}

/// Whether people can decide on all these steps in a change set.
pub fn can_be_decided<'a>(set: &ChangeSet, digests: impl IntoIterator<Item = &'a str>) -> bool {
    let used_up = used_up(set);
    is_open(set) && !digests.into_iter().any(|digest| used_up.contains(digest))
}

/// The digests of steps on which nobody can decide in a change set any more, though it is open: they were done, or tried.
pub(super) fn used_up(set: &ChangeSet) -> BTreeSet<&str> {
    let states = set.status.as_ref().map_or(&[][..], |status| &status.step_states);
    let used_up = states.iter().filter(|step| step.is_used_up());
    used_up.map(|step| step.digest.as_str()).collect()
}

/// The digests of steps that are on record as rejected in a change set.
pub(super) fn rejected(set: &ChangeSet) -> BTreeSet<&str> {
    let states = set.status.iter().flat_map(|status| &status.step_states);
    states.filter(|step| step.state == StepState::Failed).map(|step| step.digest.as_str()).collect()
}

/// Whether it is on record that nobody is waited for in a change set.
pub(super) fn is_approved(set: &ChangeSet) -> bool {
    let conditions = set.status.iter().flat_map(|status| &status.conditions);
    let mut approved = conditions.filter(|condition| condition.type_ == "Approved");
    approved.any(|condition| condition.status == ConditionStatus::True)
}

/// Whether all of it is on record as done or used up: nothing that happens to its objects changes that.
pub(super) fn is_settled(set: &ChangeSet) -> bool {
    let states = set.status.as_ref().map_or(&[][..], |status| &status.step_states);
    match phase(set) {
        Some(Phase::Succeeded) => true,
        Some(Phase::Stale) => states.iter().all(StepStatus::is_used_up),
        _ => false,
    }
}

/// Whether people can still decide on it.
pub fn is_open(set: &ChangeSet) -> bool {
    let is_over = matches!(phase(set), Some(Phase::Succeeded | Phase::Failed | Phase::Stale));
    set.metadata.deletion_timestamp.is_none() && set.spec.mode == Mode::Execute && !is_over
}

fn phase(set: &ChangeSet) -> Option<Phase> {
    set.status.as_ref().and_then(|status| status.phase)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_used_up_in_a_change_set_is_decided_in_another() {
        let rows = [
            ("it waits", "Waiting", "Waiting", false, true),
            ("it is not wanted for now", "Waiting", "Stale", false, true),
            ("it was done", "Running", "Done", false, false),
            ("it was tried", "Running", "Stale", true, false),
            ("all is over", "Stale", "Stale", false, false),
        ];
        for (name, phase, state, spent, expected) in rows {
            let step = json!({
                "id": "web/update", "digest": "a", "state": state, "since": "2026-11-15T12:00:00Z", "spent": spent,
            });
            let set = json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": "web"},
                "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "carol"},
                "status": {"phase": phase, "stepStates": [step]},
            });
            let set: ChangeSet = serde_json::from_value(set).unwrap();
            assert_eq!(can_be_decided(&set, ["a", "b"]), expected, "{name}");
            assert_eq!(can_be_decided(&set, ["b"]), phase != "Stale", "{name}: another step");
        }
    }

    #[test]
    fn what_is_on_record_as_over_is_not_looked_at_for_what_becomes_of_its_objects() {
        let rows = [
            ("all is done", "Succeeded", [("Done", false), ("Done", false)], true),
            ("what was not done is used up", "Stale", [("Done", false), ("Stale", true)], true),
            ("what is not wanted for now may be again", "Stale", [("Stale", true), ("Stale", false)], false),
            ("somebody rejected it", "Failed", [("Failed", false), ("Done", false)], false),
            ("it goes on", "Running", [("Running", false), ("Done", false)], false),
        ];
        for (name, phase, states, expected) in rows {
            let state = |(state, spent): (&str, bool)| json!({"id": "web", "digest": "a", "state": state, "since": "2026-11-15T12:00:00Z", "spent": spent});
            let set = json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": "web"},
                "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "carol"},
                "status": {"phase": phase, "stepStates": states.map(state)},
            });
            assert_eq!(is_settled(&serde_json::from_value(set).unwrap()), expected, "{name}");
        }
    }

    #[test]
    fn a_change_set_is_an_objects_own_where_its_controller_would_have_made_it() {
        let owner = Owner { uid: "1", namespace: "shop", environment: "lab" };
        let rows = [
            ("where it is made", "1", "shop", "lab", "Execute", true),
            ("for another object", "2", "shop", "lab", "Execute", false),
            ("in another namespace", "1", "bank", "lab", "Execute", false),
            ("in another environment", "1", "shop", "production", "Execute", false),
            ("a preview", "1", "shop", "lab", "Preview", false),
        ];
        for (name, uid, namespace, environment, mode, is_own) in rows {
            let owner_reference = json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "name": "web", "uid": uid, "controller": true,
            });
            let set = json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet",
                "metadata": {"name": "web", "namespace": namespace, "ownerReferences": [owner_reference]},
                "spec": {"environment": environment, "mode": mode, "requestedBy": "carol"},
            });
            assert_eq!(owner.made(&serde_json::from_value(set).unwrap()), is_own, "{name}");
        }
    }
}
