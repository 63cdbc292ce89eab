//! How the steps of a change set stand with people, in the gatekeeper's own words: it knows the policy and who said what,
//! which who reviews may not be able to read.

use std::time::Duration;

use kube::Api;
use kube::runtime::wait::await_condition;
use setpoint_api::change_set::{ChangeSet, StepState, StepStatus};
use setpoint_api::step::Step;

use crate::apply::condition;
use crate::session::Session;

/// How long the gatekeeper may take to write down what a verdict came to. Where it comes to nothing new, so long is waited.
const MOMENT: Duration = Duration::from_secs(3);
/// How long what was approved is followed where nobody else would carry it out.
const CARRYING_OUT: Duration = Duration::from_secs(60);

/// A step that is on record as one that has to wait, or must not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Left {
    /// The step, by its id.
    pub(super) step: String,
    pub(super) is_refused: bool,
    /// `Destructive: 1 of 2 approvals, not by carol`, or `rejected by jane`.
    pub(super) why: String,
}

impl Left {
    /// What keeps a step from being done, if something does and it is written down.
    pub(super) fn of(set: &ChangeSet, step: &Step) -> Option<Left> {
        let state = state(set, step)?;
        let is_refused = match state.state {
            StepState::Waiting => false,
            StepState::Failed => true,
            _ => return None,
        };
        let message = state.message.as_deref()?;
        let why = message.strip_prefix("waits: ").or(message.strip_prefix("refused: ")).unwrap_or(message);
        Some(Left { step: step.id.clone(), is_refused, why: why.to_owned() })
    }

    /// A title and words, as a step shows it.
    pub(super) fn titled(self) -> (&'static str, String) {
        (if self.is_refused { "state:" } else { "waits:" }, self.why)
    }

    /// Waits until nothing more comes of steps that were approved. Says of which something may.
    pub(super) async fn under_way(session: &Session, set: &ChangeSet, steps: &[Step]) -> Vec<Left> {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let sets: Api<ChangeSet> = Api::namespaced(session.server.client.clone(), namespace);
        let is_open = |state: StepState| !matches!(state, StepState::Done | StepState::Failed | StepState::Stale);
        let open = |set: &ChangeSet, step: &Step| state(set, step).is_some_and(|state| is_open(state.state));
        let is_over = |set: Option<&ChangeSet>| set.is_none_or(|set| !steps.iter().any(|step| open(set, step)));
        if tokio::time::timeout(CARRYING_OUT, await_condition(sets.clone(), name, is_over)).await.is_ok() {
            return Vec::new();
        }
        let Ok(Some(now)) = sets.get_opt(name).await else { return Vec::new() };
        let left = steps.iter().filter(|step| open(&now, step));
        let why = || "it is not done yet, and goes on when a control plane runs again".to_owned();
        left.map(|step| Left { step: step.id.clone(), is_refused: false, why: why() }).collect()
    }

    /// Whether somebody rejected the step.
    pub(super) fn is_rejected(&self) -> bool {
        self.is_refused && self.why.starts_with("rejected by ")
    }

    /// Whether steps that somebody rejected are rejected no more once a verdict shows in their change set.
    pub(super) async fn is_taken_back(session: &Session, before: &ChangeSet, steps: &[Step]) -> bool {
        let is_rejected = |set: &ChangeSet| {
            let mut left = steps.iter().filter_map(|step| Left::of(set, step));
            left.any(|left| left.is_rejected())
        };
        is_rejected(before) && after(session, before, steps).await.is_some_and(|now| !is_rejected(&now))
    }

    /// What people have yet to say of steps once a verdict shows in their change set, as far as that can be read.
    pub(super) async fn after(session: &Session, before: &ChangeSet, steps: &[Step]) -> Vec<Left> {
        let now = after(session, before, steps).await;
        now.map(|now| Left::to_people(&now, steps)).unwrap_or_default()
    }

    /// What people have yet to say of steps; nothing where they have said enough.
    fn to_people(set: &ChangeSet, steps: &[Step]) -> Vec<Left> {
        let approved = set.status.as_ref().and_then(|status| condition(&status.conditions, "Approved"));
        let reason = approved.and_then(|approved| approved.reason.as_deref());
        match reason {
            Some("Waiting" | "Rejected") => steps.iter().filter_map(|step| Left::of(set, step)).collect(),
            _ => Vec::new(),
        }
    }

    /// `shop/db/delete still waits: …`, or `shop/db/delete is still refused: …`.
    pub(super) fn sentence(&self) -> String {
        let Left { step, why, .. } = self;
        match self.is_refused {
            true => format!("{step} is still refused: {why}"),
            false => format!("{step} still waits: {why}"),
        }
    }
}

/// A change set once a verdict shows in it; nothing if it is gone, or cannot be read.
async fn after(session: &Session, before: &ChangeSet, steps: &[Step]) -> Option<ChangeSet> {
    let namespace = before.metadata.namespace.as_deref().unwrap_or_default();
    let name = before.metadata.name.as_deref().unwrap_or_default();
    let sets: Api<ChangeSet> = Api::namespaced(session.server.client.clone(), namespace);
    let told = |set: &ChangeSet| steps.iter().map(|step| state(set, step).cloned()).collect::<Vec<_>>();
    let was = told(before);
    let is_news =
        |set: Option<&ChangeSet>| set.is_none_or(|set| set.metadata.uid != before.metadata.uid || told(set) != was);
    let found = match tokio::time::timeout(MOMENT, await_condition(sets.clone(), name, is_news)).await {
        Ok(found) => found.ok().flatten(),
        Err(_) => sets.get_opt(name).await.ok().flatten(),
    };
    found.filter(|set| set.metadata.uid == before.metadata.uid)
}

fn state<'a>(set: &'a ChangeSet, step: &Step) -> Option<&'a StepStatus> {
    set.status.as_ref()?.step_states.iter().find(|state| state.id == step.id && state.digest == step.digest)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(state: &str, message: Value, reason: &str) -> Vec<String> {
        let step = json!({
            "id": "shop/db/delete", "digest": "d", "action": "Delete", "reason": "it goes", "origin": "Desired",
            "target": {"namespace": "shop", "name": "db", "kind": "Machine"}, "class": "Destructive",
            "classReason": "its data would be lost",
        });
        let status = json!({
            "steps": [step], "conditions": [{"type": "Approved", "status": "False", "reason": reason}],
            "stepStates": [{
                "id": "shop/db/delete", "digest": "d", "state": state, "message": message, "since": "2026-01-01T00:00:00Z",
            }],
        });
        let set = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": "apply-1"},
            "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "carol"}, "status": status,
        });
        let set: ChangeSet = serde_json::from_value(set).expect("a ChangeSet");
        let steps = set.status.clone().unwrap_or_default().steps;
        Left::to_people(&set, &steps).iter().map(Left::sentence).collect()
    }

    #[test]
    fn what_people_have_yet_to_say_is_told_in_the_gatekeepers_words() {
        let quorum = "waits: Destructive: 1 of 2 approvals, signed by operator, not by carol (alice until then)";
        let rows = [
            (
                "one of two has approved",
                told("Waiting", json!(quorum), "Waiting"),
                vec![
                    "shop/db/delete still waits: Destructive: 1 of 2 approvals, signed by operator, not by carol \
                     (alice until then)",
                ],
            ),
            (
                "somebody else rejected it",
                told("Failed", json!("refused: rejected by bob"), "Rejected"),
                vec!["shop/db/delete is still refused: rejected by bob"],
            ),
            ("enough have approved", told("Approved", Value::Null, "Approved"), vec![]),
            ("only a budget holds it", told("Waiting", json!("waits: maxInstances 2 is used up"), "Approved"), vec![]),
        ];
        for (row, told, expected) in rows {
            assert_eq!(told, expected, "{row}");
        }
    }
}
