//! Shows what change sets would do, asks people where they must be asked, and says what became of each step.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`opener`] | opens change sets for steps that need an approval |
//! | [`case`] | a change set with everything that people said of it |
//! | `subjects` | the objects that the steps of a change set are for |
//! | `preview` | the steps of a change set that brings its objects along |
//! | `gate` | the Gate of a change set: that it is there, and what it says |
//! | `verdicts` | what each review is told |
//! | `retention` | when a change set has been there for long enough |
//! | `wakeup` | whom a change concerns |
//!
//! It authorizes nothing: whoever acts asks the core, with the same reviews, at that moment. What it writes is for people,
//! except that an entry that is closed authorizes nothing any more.

pub mod case;
mod gate;
pub mod opener;
mod preview;
mod retention;
mod subjects;
mod verdicts;
mod wakeup;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use setpoint_api::change_set::{ChangeSet, ChangeSetStatus, Entry, EntryState, GateReference, Mode};
use setpoint_api::environment::Environment;
use setpoint_api::planspec::gate::Gate;
use setpoint_api::price::Price;
use setpoint_api::step::Step;
use setpoint_core::authority::{self, Progress, UNWANTED_FOR, stricter};
use setpoint_core::gate::{Decision, Input, Judged, Level, Requesters, Usage, Verdict};
use setpoint_core::plan;
use setpoint_core::stricter::rules_for;

pub use self::case::{Case, cases};
pub use self::opener::ChangeSetOpener;
pub use self::subjects::NAMESPACE_OF_ENVIRONMENTS;
use self::subjects::Subjects;
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
        environment: &Arc<Environment>,
        round: &mut Round,
    ) -> Result<Next, Error> {
        let case = Case::of(&self.caches, change_set.clone()).with_rights(&self.client).await?;
        let subjects = Subjects::of(&self.caches, &change_set, environment);
        let decision = self.decide(&case, &subjects, environment, round.now);
        let entries = authority::entries(&change_set, &subjects.facts(), &decision, round.now);
        let told = told(&change_set, &decision, &entries);
        let progress = authority::progress(&change_set, &entries, &told, round.now);
        let gate = self.gate(&case, &told, round).await?;
        // An entry closes only once everybody who decided on it was told.
        let is_told = self.tell_reviewers(&case, &decision, round).await?;
        if !is_told || !self.write(&change_set, &progress, &entries, gate.as_deref(), round).await? {
            return Ok(Next::After(MOVED));
        }
        let flapping = entries.iter().filter(|entry| !entry.state.is_closed()).filter_map(|entry| entry.unwanted_since);
        let wakes = flapping.filter_map(|since| since.checked_add(UNWANTED_FOR).ok());
        let rooms = told.steps.iter().filter_map(|judged| judged.verdict.until());
        let ends = retention::end(&change_set, &entries, !case.reviews.is_empty());
        let wake = wakes.chain(rooms).chain(told.approved_until).chain(ends).filter(|at| *at > round.now).min();
        Ok(wake.map_or(Next::Idle, |at| Next::After(until(at, round.now))))
    }

    /// What the gate says of the open steps now.
    fn decide(&self, case: &Case, subjects: &Subjects<'_>, environment: &Environment, now: Timestamp) -> Decision {
        let status = environment.status.as_ref();
        let usage = Usage::from(Level {
            instances: status.and_then(|status| status.instances),
            gpus: status.and_then(|status| status.gpus),
            hourly_cost: status.and_then(|status| status.hourly_cost),
        });
        let (metadata, asked) = (&case.change_set.metadata, &case.change_set.spec);
        let open = case.open();
        let mut steps: Vec<Step> = asked.steps.clone();
        steps.retain(|step| open.contains(step.digest.as_str()));
        // What a step depends on that needs no approval is seen to by its controller.
        let ids: BTreeSet<String> = steps.iter().map(|step| step.id.clone()).collect();
        steps.iter_mut().for_each(|step| step.depends_on.retain(|id| ids.contains(id)));
        let rules = rules_for(environment, &steps);
        let policy = stricter(&asked.rules, rules.approval.as_ref());
        let mut of_targets = subjects.writers();
        // Nothing is taken any more for an object that is gone, and who asked for what was taken is known of the opening alone.
        for step in &steps {
            of_targets.entry(&step.target).or_insert(&asked.requested_by);
        }
        let requesters = Requesters { of_targets, ..Requesters::default() };
        setpoint_core::gate::gate(&Input {
            steps: &steps,
            approval: policy.as_ref().or(rules.approval.as_ref()),
            guardrails: rules.guardrails.as_ref(),
            windows: &rules.windows,
            expires_at: None,
            evidence: &case.evidence(),
            ledger: status.map_or(&[][..], |status| &status.ledger),
            under_way: &BTreeSet::new(),
            usage: &usage,
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
        change_set: &ChangeSet,
        progress: &Progress,
        entries: &[Entry],
        gate: Option<&Gate>,
        round: &mut Round,
    ) -> Result<bool, Error> {
        let old = change_set.status.clone().unwrap_or_default();
        let name = change_set.metadata.name.clone().unwrap_or_default();
        let steps = &change_set.spec.steps;
        let known: Vec<Price> = steps.iter().filter_map(|step| step.hourly_cost_delta).collect();
        let new = ChangeSetStatus {
            phase: Some(progress.phase),
            entries: entries.to_vec(),
            conditions: progress.conditions.clone(),
            gate_ref: gate.map(|_| GateReference { name }).or_else(|| old.gate_ref.clone()),
            counts: Some(plan::counts(steps)),
            hourly_cost_delta: (!known.is_empty()).then(|| known.into_iter().sum()),
            ..old.clone()
        };
        if new == old {
            return Ok(true);
        }
        let status = json!({
            "phase": new.phase, "entries": new.entries, "conditions": new.conditions, "gateRef": new.gate_ref,
            "counts": new.counts, "hourlyCostDelta": new.hourly_cost_delta,
        });
        self.patch(change_set, status, round).await
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

    /// What is over stays as it is, and goes after a while.
    async fn keep(&self, change_set: &Arc<ChangeSet>, round: &mut Round) -> Result<Next, Error> {
        let case = Case::of(&self.caches, change_set.clone());
        // A review that comes too late is told so.
        self.tell_reviewers(&case, &Decision::default(), round).await?;
        let entries = change_set.status.as_ref().map_or(&[][..], |status| &status.entries);
        match retention::end(change_set, entries, !case.reviews.is_empty()) {
            Some(end) if end <= round.now => self.remove(change_set, round).await.map(|()| Next::Idle),
            end => Ok(end.map_or(Next::Idle, |end| Next::After(until(end, round.now)))),
        }
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
            if !wakeup::is_over(&change_set) {
                let message = format!("there is no Environment {}", change_set.spec.environment);
                self.say_unplanned(&change_set, "EnvironmentMissing", &message, round).await?;
            }
            return Ok(retention::next(&change_set, false, round.now));
        };
        if preview::is_to_plan(&change_set) {
            return self.plan(&change_set, &environment, round).await;
        }
        // What is shown is shown, and only Setpoint asks about steps.
        if change_set.spec.mode == Mode::Preview || change_set.spec.steps.is_empty() {
            return Ok(retention::next(&change_set, true, round.now));
        }
        if wakeup::is_over(&change_set) {
            return self.keep(&change_set, round).await;
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

/// What a decision says to people: nothing of what is closed without having been done, and of what is done that it could be.
fn told(change_set: &ChangeSet, decision: &Decision, entries: &[Entry]) -> Decision {
    let judged: BTreeMap<&str, &Judged> = decision.steps.iter().map(|judged| (&*judged.digest, judged)).collect();
    let steps = change_set.spec.steps.iter().zip(entries).filter_map(|(step, entry)| match entry.state {
        EntryState::Done | EntryState::Running => {
            Some(Judged { step: step.id.clone(), digest: step.digest.clone(), verdict: Verdict::Run })
        }
        state if state.is_closed() => None,
        _ => judged.get(&*step.digest).map(|judged| (*judged).clone()),
    });
    Decision { steps: steps.collect(), ..decision.clone() }
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}
