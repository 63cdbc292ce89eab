//! The gatekeeper: shows what change sets would do, asks people where they must be asked, and says how far all is.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`case`] | a change set with everything that people said of it |
//! | `own` | the change sets that controllers made for an object |
//! | `preview` | the steps of a change set that brings its objects along |
//! | `work` | what is known of the objects that a change set has steps for |
//! | `rivals` | the change sets that list steps of one Machine |
//! | `gate` | the Gate of a change set: that it is there, and what it says |
//! | `verdicts` | what each review is told |
//! | `retention` | when a change set has been there for long enough |
//! | `wakeup` | whom a change concerns |
//!
//! It authorizes nothing: whoever acts asks the core, with the same reviews, at that moment. What it writes is for people,
//! and for the record that keeps an approval from being used twice.

pub mod case;
mod gate;
mod own;
mod preview;
mod retention;
mod rivals;
mod verdicts;
mod wakeup;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use setpoint_api::change_set::{ChangeSet, ChangeSetStatus, GateReference, Mode};
use setpoint_api::environment::{Approval, Environment};
use setpoint_api::planspec::gate::Gate;
use setpoint_core::authority::{self, Progress};
use setpoint_core::gate::{Decision, Input, Requesters, Usage};
use setpoint_core::machine;
use setpoint_core::workload::selection::controller_of;

pub use self::case::{Case, cases, cases_of};
pub use self::own::{Owner, can_be_decided, is_open};
use crate::events::{Recorder, is_code};
use crate::ownership::unless_moved;
use crate::planning::Planning;
use crate::queue::{Lane, Queue};
use crate::runtime::{Caches, Configuration, Context, Controller, Error, Name, Next, Round};

/// When to look again at what moved while it was written.
const MOVED: Duration = Duration::from_millis(100);

pub struct ChangeSets {
    client: Client,
    caches: Caches,
    planning: Planning,
    recorder: Recorder,
}

impl std::fmt::Debug for ChangeSets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeSets").finish_non_exhaustive()
    }
}

impl ChangeSets {
    pub fn new(context: &Context, caches: &Caches, planning: &Planning) -> ChangeSets {
        let (client, recorder) = (context.client.clone(), context.recorder("gatekeeper"));
        ChangeSets { client, caches: caches.clone(), planning: planning.clone(), recorder }
    }

    /// Judges what is asked for, and writes down what came of it.
    async fn judge(
        &self,
        change_set: Arc<ChangeSet>,
        environment: &Environment,
        round: &mut Round,
    ) -> Result<Next, Error> {
        let case = Case::of(&self.caches, change_set.clone());
        let asked = self.ask(&case, environment, round.now);
        let objects = work::Objects::of(&self.caches, &change_set, &asked, environment);
        let abandoned = retention::abandoned(&change_set, &objects, round.now);
        let known = objects.known();
        let works = known.iter().map(|(target, wants)| (*target, objects.work(target, wants))).collect();
        let progress = authority::progress(&change_set, &asked, &works, abandoned, round.now);
        let gate = self.gate(&case, &progress.decision, round).await?;
        let steps = change_set.status.as_ref().map_or(&[][..], |status| &status.steps);
        let is_rejection_needed = retention::is_rejection_needed(steps, &asked, &progress, &objects);
        let end = retention::end(&change_set, &progress, !case.reviews.is_empty(), is_rejection_needed);
        if end.is_some_and(|end| end <= round.now) {
            self.remove(&change_set, round).await?;
            return Ok(Next::Idle);
        }
        self.tell_reviewers(&case, &progress.decision, round).await?;
        let approval = environment.spec.approval.as_ref();
        if !self.write(&case, &progress, gate.as_deref(), approval, round).await? {
            return Ok(Next::After(MOVED));
        }
        let wakes = [end, retention::wake(&change_set, &asked, &objects, round.now)];
        let wake = wakes.into_iter().flatten().min();
        Ok(wake.map_or(Next::Idle, |at| Next::After(until(at, round.now))))
    }

    /// What the gate says of the steps now.
    fn ask(&self, case: &Case, environment: &Environment, now: Timestamp) -> Decision {
        let (spec, status) = (&environment.spec, environment.status.as_ref());
        let usage = Usage {
            instances: status.and_then(|status| status.instances),
            gpus: status.and_then(|status| status.gpus),
            hourly_cost: status.and_then(|status| status.hourly_cost),
        };
        let metadata = &case.change_set.metadata;
        let steps = case.change_set.status.as_ref().map_or(&[][..], |status| &status.steps);
        let writers = work::writers(&self.caches, &case.change_set);
        // As whoever acts sees it: one that a Machine's controller made asks for those who wrote the Machine.
        let is_of_machine = controller_of(metadata).is_some_and(|owner| owner.kind == machine::KIND);
        let asks = Some(case.change_set.spec.requested_by.as_str()).filter(|_| !is_of_machine);
        let requesters = Requesters {
            of_targets: writers.iter().map(|(target, writer)| (*target, writer.as_str())).collect(),
            ..Requesters::of_all(asks)
        };
        setpoint_core::gate::gate(&Input {
            steps,
            approval: spec.approval.as_ref(),
            guardrails: spec.guardrails.as_ref(),
            expires_at: None,
            evidence: &case.evidence(),
            used_nonces: &case.used_nonces(),
            ledger: status.map_or(&[][..], |status| &status.ledger),
            under_way: &work::calls_under_way(&self.caches, steps),
            usage,
            gpus: &BTreeMap::new(),
            requesters: &requesters,
            cluster_uid: self.planning.cluster(),
            namespace: metadata.namespace.as_deref().unwrap_or_default(),
            gate: metadata.name.as_deref().unwrap_or_default(),
            change_set_uid: metadata.uid.as_deref().unwrap_or_default(),
            opened_at: metadata.creation_timestamp.as_ref().map_or(Timestamp::MAX, |time| time.0),
            now,
        })
    }

    /// Writes down how far a change set is, if that is not written. Says whether it is now.
    async fn write(
        &self,
        case: &Case,
        progress: &Progress,
        gate: Option<&Gate>,
        approval: Option<&Approval>,
        round: &mut Round,
    ) -> Result<bool, Error> {
        let old = case.change_set.status.clone().unwrap_or_default();
        let name = case.change_set.metadata.name.clone().unwrap_or_default();
        let new = ChangeSetStatus {
            phase: Some(progress.phase),
            step_states: progress.step_states.clone(),
            conditions: progress.conditions.clone(),
            gate_ref: gate.map(|_| GateReference { name }).or_else(|| old.gate_ref.clone()),
            nonces: case.nonces(approval),
            ..old.clone()
        };
        if new == old {
            return Ok(true);
        }
        let status = json!({
            "phase": new.phase, "stepStates": new.step_states, "conditions": new.conditions,
            "gateRef": new.gate_ref, "nonces": new.nonces,
        });
        self.patch(&case.change_set, status, round).await
    }

    /// Writes some of a change set's status, unless it moved. Says whether it did not.
    async fn patch(&self, change_set: &ChangeSet, status: Value, round: &mut Round) -> Result<bool, Error> {
        let metadata = &change_set.metadata;
        let seen = json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version});
        let patch = Patch::Merge(json!({"metadata": seen, "status": status}));
        let name = metadata.name.as_deref().unwrap_or_default();
        let written = self.sets(change_set).patch_status(name, &PatchParams::default(), &patch).await;
        let written = unless_moved(written)?;
        written.iter().for_each(|written| round.wrote(&self.caches.change_sets, written));
        Ok(written.is_some())
    }

    /// Deletes a change set whose time is over; its Gate and its reviews go with it.
    async fn remove(&self, change_set: &ChangeSet, round: &mut Round) -> Result<(), Error> {
        let metadata = &change_set.metadata;
        let only = Preconditions { uid: metadata.uid.clone(), resource_version: metadata.resource_version.clone() };
        let parameters = DeleteParams { preconditions: Some(only), ..DeleteParams::background() };
        match self.sets(change_set).delete(metadata.name.as_deref().unwrap_or_default(), &parameters).await {
            Ok(_) => round.removed(&self.caches.change_sets, change_set),
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn sets(&self, change_set: &ChangeSet) -> Api<ChangeSet> {
        Api::namespaced(self.client.clone(), change_set.metadata.namespace.as_deref().unwrap_or_default())
    }
}

impl Controller for ChangeSets {
    type Key = Name;
    const NAME: &'static str = "changeset";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Name>>) {
        wakeup::wire(caches, queue);
    }

    async fn reconcile(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        let Some(change_set) = self.caches.change_sets.get(key) else {
            self.tell_of_no_gate(key, round).await?;
            return Ok(Next::Idle);
        };
        if change_set.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Idle);
        }
        let environment = self.caches.environments.get(&Name::new("", &change_set.spec.environment));
        if retention::is_over(&change_set, environment.is_some(), round.now) {
            self.remove(&change_set, round).await?;
            return Ok(Next::Idle);
        }
        let Some(environment) = environment else {
            // What is over stays on record as what it was.
            if !own::is_settled(&change_set) {
                let message = format!("there is no Environment {}", change_set.spec.environment);
                self.say_unplanned(&change_set, "EnvironmentMissing", &message, round).await?;
            }
            return Ok(retention::next(&change_set, false, round.now));
        };
        if preview::is_to_plan(&change_set) {
            return self.plan(&change_set, &environment, round).await;
        }
        // What is shown is shown, and who made a change set without objects says what it is about.
        if change_set.spec.mode == Mode::Preview || is_unplanned(&change_set) {
            return Ok(retention::next(&change_set, true, round.now));
        }
        self.judge(change_set, &environment, round).await
    }

    /// To plan is to look at a place; to judge is not.
    fn lane(&self, key: &Name) -> Lane {
        let change_set = self.caches.change_sets.get(key).filter(|change_set| preview::is_to_plan(change_set));
        change_set.map(|change_set| change_set.spec.environment.as_str().into()).unwrap_or_default()
    }

    fn about(&self, key: &Name) -> Option<ObjectReference> {
        self.caches.change_sets.get(key).map(|change_set| change_set.object_ref(&()))
    }

    fn keys(&self) -> Vec<Name> {
        self.caches.change_sets.names()
    }

    fn configuration() -> Configuration {
        Configuration::of_places()
    }
}

/// Whether nobody has said yet what is to be done.
fn is_unplanned(change_set: &ChangeSet) -> bool {
    change_set.status.as_ref().is_none_or(|status| status.digest.is_none())
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}
