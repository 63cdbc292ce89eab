//! What is told, and when it began.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use setpoint_api::change_set::{ChangeSet, ChangeSetStatus, StepState};
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;

use crate::queue::{Lane, Queue};
use crate::runtime::{Caches, Name};

/// Something that people are told of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Occasion {
    /// A change set waits for people.
    GateWaiting(Name),
    /// A Machine is no longer as it was made.
    Drifted(Name),
    /// A limit of an Environment holds something back.
    BudgetHit(Name),
}

/// What is told. It holds no Secret and no value of any field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// `GateWaiting`, `Drifted` or `BudgetHit`.
    pub occasion: &'static str,
    pub environment: String,
    /// The object that it is about, as `kubectl get` takes it.
    pub object: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: String,
    /// Who asked for what waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    /// The same in words for people.
    pub message: String,
    pub since: Timestamp,
}

impl Occasion {
    /// The Environment that it happened in.
    pub(super) fn environment(&self, caches: &Caches) -> Lane {
        let change_set = |name| caches.change_sets.get(name).map(|set| set.spec.environment.as_str().into());
        let machine = |name| caches.machines.get(name).map(|machine| machine.spec.environment.as_str().into());
        match self {
            Occasion::GateWaiting(name) => change_set(name).unwrap_or_default(),
            Occasion::Drifted(name) => machine(name).unwrap_or_default(),
            Occasion::BudgetHit(name) => name.name.clone(),
        }
    }

    /// What is to be told, if it still holds.
    pub(super) fn message(&self, caches: &Caches) -> Option<Message> {
        match self {
            Occasion::GateWaiting(name) => gate_waiting(name, &*caches.change_sets.get(name)?),
            Occasion::Drifted(name) => drifted(name, &*caches.machines.get(name)?),
            Occasion::BudgetHit(name) => budget_hit(name, &*caches.environments.get(name)?),
        }
    }
}

fn gate_waiting(name: &Name, change_set: &ChangeSet) -> Option<Message> {
    let status = change_set.status.as_ref()?;
    let approved = status.conditions.iter().find(|condition| condition.type_ == "Approved")?;
    let waits = approved.status == ConditionStatus::False && approved.reason.as_deref() == Some("Waiting");
    let since = asked_at(status).or(approved.last_transition_time).filter(|_| waits && status.gate_ref.is_some())?;
    Some(Message {
        occasion: "GateWaiting",
        environment: change_set.spec.environment.clone(),
        object: format!("changesets.setpoint.dev/{}", name.name),
        namespace: name.namespace.to_string(),
        requested_by: Some(change_set.spec.requested_by.clone()),
        message: approved.message.clone().unwrap_or_default(),
        since,
    })
}

/// When the last of the steps began to wait: a gate that waits already may be asked something else.
fn asked_at(status: &ChangeSetStatus) -> Option<Timestamp> {
    let waiting = status.step_states.iter().filter(|step| step.state == StepState::Waiting);
    waiting.map(|step| step.since).max()
}

fn drifted(name: &Name, machine: &Machine) -> Option<Message> {
    let conditions = &machine.status.as_ref()?.conditions;
    let drifted = holds(conditions, "Drifted", ConditionStatus::True)?;
    // Values stay where they are: whoever is told may look.
    let fields: Vec<&str> =
        machine.status.iter().flat_map(|status| &status.drift).map(|drift| drift.field.as_str()).collect();
    Some(Message {
        occasion: "Drifted",
        environment: machine.spec.environment.clone(),
        object: format!("machines.setpoint.dev/{}", name.name),
        namespace: name.namespace.to_string(),
        requested_by: None,
        message: format!("it is not as it was made: {}", fields.join(", ")),
        since: drifted.last_transition_time?,
    })
}

fn budget_hit(name: &Name, environment: &Environment) -> Option<Message> {
    let conditions = &environment.status.as_ref()?.conditions;
    let held = holds(conditions, "WithinLimits", ConditionStatus::False)?;
    Some(Message {
        occasion: "BudgetHit",
        environment: name.name.to_string(),
        object: format!("environments.setpoint.dev/{}", name.name),
        namespace: String::new(),
        requested_by: None,
        message: held.message.clone().unwrap_or_default(),
        since: held.last_transition_time?,
    })
}

fn holds<'c>(conditions: &'c [Condition], type_: &str, status: ConditionStatus) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == type_ && condition.status == status)
}

/// Has an occasion looked at when what it is about changes.
pub(super) fn wire(caches: &Caches, queue: &Arc<Queue<Occasion>>) {
    let own = queue.clone();
    caches.change_sets.listen(move |change| own.add(Occasion::GateWaiting(Name::of(&**change.latest()))));
    let own = queue.clone();
    caches.machines.listen(move |change| {
        let is_drifted = |machine: &Machine| {
            let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            holds(conditions, "Drifted", ConditionStatus::True).and_then(|condition| condition.last_transition_time)
        };
        let [before, after] = [&change.before, &change.after].map(|machine| machine.as_deref().and_then(is_drifted));
        if before != after {
            own.add(Occasion::Drifted(Name::of(&**change.latest())));
        }
    });
    let own = queue.clone();
    caches.environments.listen(move |change| own.add(Occasion::BudgetHit(Name::of(&**change.latest()))));
}
