//! The steps of a change set that brings its objects along, by a fresh look at what concerns them.
//!
//! What a user brings is believed for what it asks for and for nothing else: which object it is and what is on record of it
//! is taken from what is stored.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use setpoint_api::change_set::{ChangeSet, MAX_STEPS, Mode, Phase, StepState};
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::step::{Refusal, Step, Target};
use setpoint_core::conditions;
use setpoint_core::gate::Judged;
use setpoint_core::machine::KIND;
use setpoint_core::plan::Orphans;

use super::work::asked_generations;
use super::{ChangeSets, is_unplanned, retention};
use crate::planning::{Error as PlanningError, Planned, Subject};
use crate::runtime::{Error, Name, Next, Round};

/// Whether the steps of a change set have yet to be computed here: of one without objects, who made it says them.
pub(super) fn is_to_plan(change_set: &ChangeSet) -> bool {
    let is_owned = change_set.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    is_unplanned(change_set) && !is_owned
}

impl ChangeSets {
    /// Computes the steps and writes them down; the next round goes on from there.
    pub(super) async fn plan(
        &self,
        change_set: &ChangeSet,
        environment: &Environment,
        round: &mut Round,
    ) -> Result<Next, Error> {
        let (subjects, mut refused) = self.subjects(change_set, round);
        let (planned, beyond_limits) = match self.planned(change_set, environment, &subjects).await {
            Ok(planned) => planned,
            Err(error) => {
                self.say_unplanned(change_set, reason(&error), &error.to_string(), round).await?;
                return Err(error.into());
            }
        };
        let steps = &planned.change_set.steps;
        if steps.len() > MAX_STEPS {
            let message = format!("it has {} steps, and a change set holds {MAX_STEPS}: ask for less", steps.len());
            self.say_unplanned(change_set, "TooManySteps", &message, round).await?;
            return Ok(retention::next(change_set, true, round.now));
        }
        refused.extend(planned.change_set.refused.iter().cloned());
        let digest = self.planning.key().await?.digest(&digests(steps));
        let mut status = status(change_set, &planned, &refused, &digest, round.now);
        status["stepStates"] = match change_set.spec.mode {
            Mode::Preview => beyond_limits.iter().map(|judged| held(judged, round.now)).collect(),
            // Whoever answers what is asked here answers it for this write, also before anybody judges that.
            Mode::Execute => {
                let asked = asked_generations(&self.caches, change_set, steps);
                steps.iter().zip(asked).map(|(step, generation)| pending(step, generation, round.now)).collect()
            }
        };
        self.patch(change_set, status, round).await?;
        Ok(Next::Idle)
    }

    /// What would be done, and, where that is all that is asked, for what of it there is no room.
    async fn planned(
        &self,
        change_set: &ChangeSet,
        environment: &Environment,
        subjects: &[Subject],
    ) -> Result<(Planned, Vec<Judged>), PlanningError> {
        let planned = self.planning.plan(environment, subjects, Orphans::Ignore).await?;
        let planned = Planned { change_set: planned.change_set.without_surplus(), ..planned };
        let beyond_limits = match change_set.spec.mode {
            Mode::Preview => self.planning.beyond_limits(environment, &planned).await?,
            Mode::Execute => Vec::new(),
        };
        Ok((planned, beyond_limits))
    }

    /// Says why there are no steps.
    pub(super) async fn say_unplanned(
        &self,
        change_set: &ChangeSet,
        reason: &str,
        message: &str,
        round: &mut Round,
    ) -> Result<(), Error> {
        let old = change_set.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        let conditions = planned_condition(change_set, ConditionStatus::False, reason, Some(message), round.now);
        if conditions != old {
            let status = json!({"phase": Phase::Pending, "conditions": conditions});
            self.patch(change_set, status, round).await?;
        }
        Ok(())
    }

    /// What to plan for: the Machines that the change set brings along, and those that it would delete.
    fn subjects(&self, change_set: &ChangeSet, round: &Round) -> (Vec<Subject>, Vec<Refusal>) {
        let namespace = change_set.metadata.namespace.as_deref().unwrap_or_default();
        let (mut subjects, mut refused) = (Vec::new(), Vec::new());
        for object in &change_set.spec.objects {
            match self.brought(change_set, namespace, object) {
                Ok(machine) => subjects.extend(machine.map(|machine| Subject::stored(Arc::new(machine)))),
                Err(refusal) => refused.push(refusal),
            }
        }
        for target in change_set.spec.deletes.iter().filter(|target| target.kind == KIND) {
            if target.namespace != namespace {
                refused.push(foreign(target.clone(), namespace));
                continue;
            }
            let machine = self.caches.machines.get(&Name::new(namespace, &target.name));
            let here = machine.filter(|machine| machine.spec.environment == change_set.spec.environment);
            subjects.extend(here.map(|machine| Subject::deleted(&machine, round.now)));
        }
        (subjects, refused)
    }

    /// A Machine as it would be; none where the object is of another kind, or of another environment.
    fn brought(
        &self,
        change_set: &ChangeSet,
        namespace: &str,
        object: &Map<String, Value>,
    ) -> Result<Option<Machine>, Refusal> {
        if object.get("kind").is_none_or(|kind| *kind != KIND) {
            return Ok(None);
        }
        let name = object.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
        let target = |namespace: &str| Target {
            namespace: namespace.to_owned(),
            name: name.unwrap_or_default().to_owned(),
            kind: KIND.to_owned(),
        };
        let mut machine: Machine = serde_json::from_value(Value::Object(object.clone())).map_err(|error| Refusal {
            target: target(namespace),
            field: "spec".to_owned(),
            message: error.to_string(),
        })?;
        if machine.metadata.namespace.as_deref().is_some_and(|own| own != namespace) {
            let own = machine.metadata.namespace.unwrap_or_default();
            return Err(foreign(target(&own), namespace));
        }
        let stored = self.caches.machines.get(&Name::new(namespace, name.unwrap_or_default()));
        machine.metadata.namespace = Some(namespace.to_owned());
        machine.metadata.uid = stored.as_ref().and_then(|stored| stored.metadata.uid.clone());
        machine.metadata.generation = stored.as_ref().and_then(|stored| stored.metadata.generation);
        machine.metadata.deletion_timestamp =
            stored.as_ref().and_then(|stored| stored.metadata.deletion_timestamp.clone());
        machine.status = stored.as_ref().and_then(|stored| stored.status.clone());
        Ok((machine.spec.environment == change_set.spec.environment).then_some(machine))
    }
}

fn foreign(target: Target, namespace: &str) -> Refusal {
    let message = format!("a change set is about objects of its own namespace, {namespace}");
    Refusal { target, field: "metadata.namespace".to_owned(), message }
}

fn digests(steps: &[Step]) -> Value {
    steps.iter().map(|step| step.digest.as_str()).collect()
}

fn status(change_set: &ChangeSet, planned: &Planned, refused: &[Refusal], digest: &str, now: jiff::Timestamp) -> Value {
    let plan = &planned.change_set;
    let phase = if change_set.spec.mode == Mode::Preview { Phase::Planned } else { Phase::Pending };
    json!({
        "phase": phase,
        "observedGeneration": change_set.metadata.generation,
        "observedAt": planned.observation.observed_at,
        "steps": plan.steps,
        "waiting": plan.waiting,
        "refused": refused,
        "counts": plan.counts,
        "hourlyCostDelta": plan.hourly_cost_delta(),
        "digest": digest,
        "conditions": planned_condition(change_set, ConditionStatus::True, "Planned", None, now),
    })
}

/// A step that would not be taken now although everybody agreed.
fn held(judged: &Judged, now: jiff::Timestamp) -> Value {
    let state = if judged.verdict.waits_for_room() { StepState::Waiting } else { StepState::Failed };
    json!({
        "id": judged.step, "digest": judged.digest, "state": state, "message": judged.verdict.to_string(), "since": now,
    })
}

/// A step that was just planned, for this generation of its object.
fn pending(step: &Step, generation: Option<i64>, now: jiff::Timestamp) -> Value {
    let state = StepState::Pending;
    json!({"id": step.id, "digest": step.digest, "state": state, "since": now, "generation": generation})
}

fn planned_condition(
    change_set: &ChangeSet,
    status: ConditionStatus,
    reason: &str,
    message: Option<&str>,
    now: jiff::Timestamp,
) -> Vec<Condition> {
    let mut all = change_set.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let condition = Condition {
        type_: "Planned".to_owned(),
        status,
        reason: Some(reason.to_owned()),
        message: message.map(str::to_owned),
        last_transition_time: None,
        observed_generation: change_set.metadata.generation,
    };
    conditions::set(&mut all, condition, now);
    all
}

fn reason(error: &PlanningError) -> &'static str {
    match error {
        PlanningError::Api(_) => "ApiError",
        PlanningError::Provider(_) => "ProviderError",
        PlanningError::NotOpen(_) => "EnvironmentNotOpen",
        PlanningError::Unsound(_) => "UnsoundPlan",
    }
}
