//! What the log says of steps: that a call for one is on record, and what came of it.
//!
//! A Machine's status has a call before it is made and until its outcome is known; so two versions of it say what was begun
//! and what ended in between. Of guests that belong to nothing, the change set that lists their removal says it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use setpoint_api::change_set::{StepState, StepStatus};
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::machine::{DoneStep, Intent};
use setpoint_api::requester::REQUESTED_BY;
use setpoint_api::step::{Action, Target};

use super::record::{ChangeSetName, Entry, Fact, StepFact, StepOutcome, message, names};
use super::reviews::{Meta, StoredChangeSet};

const MACHINE: &str = "Machine";

/// What counts of a stored Machine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct StoredMachine {
    pub(super) metadata: Meta,
    spec: MachineSpec,
    status: MachineStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct MachineSpec {
    environment: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct MachineStatus {
    conditions: Vec<Condition>,
    intents: Vec<Intent>,
    done: Vec<DoneStep>,
}

/// What happened to the steps of a Machine between two versions of it. `change_set` of each has a uid alone.
pub(super) fn of_machine(before: Option<&StoredMachine>, after: Option<&StoredMachine>, now: Timestamp) -> Vec<Entry> {
    let Some(machine) = after.or(before) else { return Vec::new() };
    let (none, nothing) = (MachineStatus::default(), MachineStatus::default());
    let old = before.map_or(&none, |before| &before.status);
    let new = after.map_or(&nothing, |after| &after.status);
    let uid = &machine.metadata.uid;
    let is_listed = |intents: &[Intent], intent: &Intent| {
        intents.iter().any(|other| other.id == intent.id && other.started_at == intent.started_at)
    };
    let mut entries = Vec::new();
    let mut ended: BTreeMap<(&str, Timestamp), &DoneStep> = new
        .done
        .iter()
        .filter(|done| !old.done.iter().any(|other| other.digest == done.digest && other.at == done.at))
        .map(|done| ((done.digest.as_str(), done.at), done))
        .collect();
    for intent in old.intents.iter().filter(|intent| !is_listed(&new.intents, intent)) {
        let outcome = ended.keys().find(|(digest, _)| *digest == intent.digest).copied();
        let call = format!("{uid}/{}/{}", intent.id, intent.started_at);
        entries.push(match outcome.and_then(|key| ended.remove(&key)) {
            Some(done) => of_done(machine, done, Some(intent)),
            None if after.is_none() => {
                let id = format!("{call}/removed");
                Entry { id, time: now, fact: of_intent(machine, intent, StepOutcome::ObjectRemoved, None) }
            }
            None => {
                let why =
                    new.conditions.iter().find(|one| one.type_ == "Synced" && one.status != ConditionStatus::True);
                let why = why.and_then(|condition| condition.message.as_deref()).map(message);
                let id = format!("{call}/failed");
                Entry { id, time: now, fact: of_intent(machine, intent, StepOutcome::Failed, why) }
            }
        });
    }
    entries.extend(ended.into_values().map(|done| of_done(machine, done, None)));
    for intent in new.intents.iter().filter(|intent| !is_listed(&old.intents, intent)) {
        let id = format!("{uid}/{}/{}/begun", intent.id, intent.started_at);
        entries.push(Entry { id, time: intent.started_at, fact: of_intent(machine, intent, StepOutcome::Begun, None) });
    }
    entries
}

fn of_done(machine: &StoredMachine, done: &DoneStep, intent: Option<&Intent>) -> Entry {
    let outcome = if done.unseen { StepOutcome::Unseen } else { StepOutcome::Done };
    let step = fact(machine, done.action, &done.digest, outcome);
    let step = StepFact {
        guest: intent.and_then(|intent| intent.provider_id.as_deref()).map(message),
        class: intent.and_then(|intent| intent.class),
        intent: intent.map(|intent| intent.id.clone()),
        change_set: done.change_set.as_deref().map(by_uid),
        ..step
    };
    let id = format!("{}/{}/{}/done", machine.metadata.uid, done.digest, done.at);
    Entry { id, time: done.at, fact: Fact::Step(step) }
}

fn of_intent(machine: &StoredMachine, intent: &Intent, outcome: StepOutcome, message_: Option<String>) -> Fact {
    Fact::Step(StepFact {
        guest: intent.provider_id.as_deref().map(message),
        class: intent.class,
        intent: Some(intent.id.clone()),
        change_set: intent.change_set.as_deref().map(by_uid),
        message: message_,
        ..fact(machine, intent.action, &intent.digest, outcome)
    })
}

fn fact(machine: &StoredMachine, action: Action, digest: &str, outcome: StepOutcome) -> StepFact {
    let Meta { name, namespace, uid, annotations, .. } = &machine.metadata;
    let requesters = annotations.get(REQUESTED_BY).map(String::as_str).unwrap_or_default();
    StepFact {
        action,
        target: Target { namespace: namespace.clone(), name: name.clone(), kind: MACHINE.to_owned() },
        uid: Some(uid.clone()),
        environment: machine.spec.environment.clone(),
        guest: None,
        class: None,
        digest: digest.to_owned(),
        outcome,
        message: None,
        intent: None,
        change_set: None,
        approved_by: Vec::new(),
        approvals_not_judged: Vec::new(),
        requested_by: names(requesters.split('\n')),
    }
}

fn by_uid(uid: &str) -> ChangeSetName {
    ChangeSetName { uid: uid.to_owned(), namespace: String::new(), name: String::new() }
}

/// What happened, between two versions of a change set, to the steps it lists for guests that belong to nothing.
pub(super) fn of_guests(before: Option<&StoredChangeSet>, after: &StoredChangeSet) -> Vec<Entry> {
    let outcome = |state: &StepStatus| match state.state {
        StepState::Running => Some(StepOutcome::Begun),
        StepState::Done => Some(StepOutcome::Done),
        _ if state.spent => Some(StepOutcome::Unseen),
        _ => None,
    };
    let old = |state: &StepStatus| {
        let mut states = before.iter().flat_map(|before| &before.status.step_states);
        states.find(|old| old.id == state.id && old.digest == state.digest).and_then(outcome)
    };
    let news = after.status.step_states.iter().filter_map(|state| {
        let outcome = outcome(state).filter(|outcome| old(state) != Some(*outcome))?;
        let mut steps = after.status.steps.iter().filter(|step| step.target.kind != MACHINE);
        let step = steps.find(|step| step.id == state.id && step.digest == state.digest)?;
        let fact = Fact::Step(StepFact {
            action: step.action,
            target: step.target.clone(),
            uid: None,
            environment: after.spec.environment.clone(),
            guest: step.provider_id.as_deref().map(message),
            class: Some(step.class),
            digest: step.digest.clone(),
            outcome,
            message: None,
            intent: None,
            change_set: Some(after.reference()),
            approved_by: Vec::new(),
            approvals_not_judged: Vec::new(),
            requested_by: names([after.spec.requested_by.as_str()]),
        });
        let id = format!("{}/{}/{}/{outcome:?}", after.metadata.uid, step.id, step.digest);
        Some(Entry { id, time: state.since, fact })
    });
    news.collect()
}

/// Adds to a step what its change set says of it.
pub(super) fn complete(step: &mut StepFact, set: &StoredChangeSet) {
    let listed = set.status.steps.iter().find(|listed| listed.digest == step.digest);
    step.class = step.class.or(listed.map(|listed| listed.class));
    step.change_set = Some(set.reference());
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use setpoint_api::step::Class;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_794_744_600, 0);

    fn machine(intents: &[&str], done: &[(&str, bool)]) -> StoredMachine {
        let intent = |digest: &&str| {
            json!({"id": format!("web-{digest}"), "action": "Replace", "digest": digest, "class": "Destructive",
                "startedAt": "2026-03-01T12:00:00Z", "epoch": 1, "providerId": "101", "changeSet": "c1"})
        };
        let step = |(digest, unseen): &(&str, bool)| json!({"action": "Replace", "digest": digest, "at": "2026-03-01T12:00:05Z", "changeSet": "c1", "unseen": unseen});
        let (intents, done): (Vec<Value>, Vec<Value>) =
            (intents.iter().map(intent).collect(), done.iter().map(step).collect());
        let synced =
            json!([{"type": "Synced", "status": "False", "reason": "ProviderError", "message": "disk is full"}]);
        let object = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "m1",
                "annotations": {"setpoint.dev/requested-by": "bob\ncarol"}},
            "spec": {"environment": "lab", "env": [{"name": "TOKEN", "value": "hunter2"}]},
            "status": {"intents": intents, "done": done, "conditions": synced},
        });
        serde_json::from_value(object).expect("a Machine")
    }

    #[test]
    fn what_was_begun_and_what_came_of_it_is_told_once() {
        use StepOutcome::{Begun, Done, Failed, ObjectRemoved, Unseen};
        let rows = [
            ("nothing happens", Some(machine(&[], &[])), Some(machine(&[], &[])), vec![]),
            ("a call is on record", Some(machine(&[], &[])), Some(machine(&["a"], &[])), vec![Begun]),
            ("it still is", Some(machine(&["a"], &[])), Some(machine(&["a"], &[])), vec![]),
            ("it was done", Some(machine(&["a"], &[])), Some(machine(&[], &[("a", false)])), vec![Done]),
            ("no effect was seen", Some(machine(&["a"], &[])), Some(machine(&[], &[("a", true)])), vec![Unseen]),
            ("it failed", Some(machine(&["a"], &[])), Some(machine(&[], &[])), vec![Failed]),
            ("the Machine goes", Some(machine(&["a"], &[])), None, vec![ObjectRemoved]),
            (
                "one is done and the next begun",
                Some(machine(&["a"], &[])),
                Some(machine(&["b"], &[("a", false)])),
                vec![Done, Begun],
            ),
            ("found after a restart", None, Some(machine(&["b"], &[("a", false)])), vec![Done, Begun]),
        ];
        for (name, before, after, expected) in rows {
            let entries = of_machine(before.as_ref(), after.as_ref(), NOW);
            let found = entries.iter().map(|entry| {
                let Fact::Step(step) = &entry.fact else { panic!("{name}: a step") };
                assert_eq!(step.requested_by, ["bob", "carol"], "{name}");
                assert_eq!((step.target.to_string(), step.environment.as_str()), ("shop/web".into(), "lab"), "{name}");
                assert!(!String::from_utf8_lossy(&entry.line()).contains("hunter2"), "{name}");
                step.outcome
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{name}");
        }
    }

    #[test]
    fn the_same_step_has_the_same_id_whoever_tells_it() {
        let (begun, done) = (machine(&["a"], &[]), machine(&[], &[("a", false)]));
        let seen = of_machine(Some(&begun), Some(&done), NOW);
        let found = of_machine(None, Some(&done), NOW);
        assert_eq!((seen.len(), &seen[0].id, seen[0].time), (1, &found[0].id, found[0].time));
        let [failed] = &of_machine(Some(&begun), Some(&machine(&[], &[])), NOW)[..] else { panic!("one entry") };
        let Fact::Step(step) = &failed.fact else { panic!("a step") };
        assert_eq!((step.message.as_deref(), step.guest.as_deref()), (Some("disk is full"), Some("101")));
        assert_eq!(step.class, Some(Class::Destructive));
    }

    #[test]
    fn the_removal_of_what_belongs_to_nothing_is_told() {
        let set = |named: &str| -> StoredChangeSet {
            let step = |kind: &str| {
                json!({"id": kind, "target": {"namespace": "", "name": "7", "kind": kind}, "action": "Delete",
                    "class": "Destructive", "digest": "sha256:a", "providerId": "7"})
            };
            let state =
                |id: &str| json!({"id": id, "digest": "sha256:a", "state": named, "since": "2026-03-01T12:00:00Z"});
            let object = json!({
                "metadata": {"name": "lab-1", "namespace": "kube-system", "uid": "c1"},
                "spec": {"environment": "lab", "requestedBy": "system:nobody"},
                "status": {"steps": [step("Guest"), step(MACHINE)], "stepStates": [state("Guest"), state(MACHINE)]},
            });
            serde_json::from_value(object).expect("a change set")
        };
        let rows = [
            ("it waits", None, "Waiting", None),
            ("it is done", Some("Approved"), "Done", Some(StepOutcome::Done)),
            ("it was", Some("Done"), "Done", None),
        ];
        for (name, before, after, expected) in rows {
            let entries = of_guests(before.map(set).as_ref(), &set(after));
            let found: Vec<_> = entries
                .iter()
                .map(|entry| match &entry.fact {
                    Fact::Step(step) => (step.outcome, step.target.to_string()),
                    other => panic!("{name}: {other:?}"),
                })
                .collect();
            assert_eq!(found, expected.map(|outcome| (outcome, "guest 7".to_owned())).into_iter().collect::<Vec<_>>());
        }
    }
}
