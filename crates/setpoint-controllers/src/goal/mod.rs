//! Goals: each is resolved to the Plan that serves it, and says why no other does.
//!
//! | module | what it does |
//! | --- | --- |
//! | `wakeup` | which Goals a change concerns |
//!
//! Which plan serves a goal is decided in [`setpoint_core::resolve`]; that its plans are valid was found out when they were
//! heard of (see [`crate::plan::Outline`]). So a round costs as much as the goal has plans, however large they are and
//! whatever else there is.

#[cfg(test)]
mod tests;
mod wakeup;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_api::planspec::{Goal, GoalStatus};
use setpoint_core::resolve::{CheckedPlan, goal_status, resolve};

use crate::ownership::unless_moved;
use crate::plan::Outline;
use crate::queue::Queue;
use crate::runtime::caches::PLANS_BY_GOAL;
use crate::runtime::{Caches, Configuration, Context, Controller, Error, Name, Next, Round};

/// How soon a write is tried again that met a change of somebody else's.
const MOVED: Duration = Duration::from_millis(20);

pub struct Goals {
    client: Client,
    caches: Caches,
    decided: Arc<Decided>,
}

/// What was last decided that each Goal should say. One that says something else was written by somebody else.
#[derive(Debug, Default)]
struct Decided(Mutex<BTreeMap<Name, Option<GoalStatus>>>);

impl Decided {
    fn note(&self, key: &Name, status: Option<GoalStatus>) {
        self.0.lock().insert(key.clone(), status);
    }

    fn forget(&self, key: &Name) {
        self.0.lock().remove(key);
    }

    fn differs_from(&self, goal: &Goal) -> bool {
        self.0.lock().get(&Name::of(goal)).is_some_and(|decided| *decided != goal.status)
    }
}

impl std::fmt::Debug for Goals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Goals").finish_non_exhaustive()
    }
}

impl Goals {
    pub fn new(context: &Context, caches: &Caches) -> Goals {
        Goals { client: context.client.clone(), caches: caches.clone(), decided: Arc::default() }
    }
}

impl Controller for Goals {
    type Key = Name;

    const NAME: &'static str = "goal";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Name>>) {
        wakeup::wire(caches, queue, &self.decided);
    }

    async fn reconcile(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        let Some(goal) = self.caches.goals.get(key) else {
            self.decided.forget(key);
            return Ok(Next::Idle);
        };
        let plans = self.caches.plans.by(&PLANS_BY_GOAL, &key.to_string());
        let checked: Vec<CheckedPlan<'_>> = plans.iter().map(|plan| Outline::checked(plan)).collect();
        let resolution = resolve(&goal, &checked);
        let status = goal_status(goal.status.as_ref(), goal.metadata.generation, &resolution, round.second());
        self.decided.note(key, status.clone().or_else(|| goal.status.clone()));
        let Some(status) = status else { return Ok(Next::Idle) };
        let goals: Api<Goal> = Api::namespaced(self.client.clone(), &key.namespace);
        let patch = Patch::Merge(patch(&goal, &status));
        let written = goals.patch_status(&key.name, &PatchParams::default(), &patch).await;
        // Whoever was faster may have said that the goal is over.
        let Some(written) = unless_moved(written)? else { return Ok(Next::After(MOVED)) };
        round.wrote(&self.caches.goals, &written);
        Ok(Next::Idle)
    }

    fn about(&self, key: &Name) -> Option<ObjectReference> {
        self.caches.goals.get(key).map(|goal| goal.object_ref(&()))
    }

    fn keys(&self) -> Vec<Name> {
        self.caches.goals.names()
    }

    fn configuration() -> Configuration {
        Configuration::of_workloads()
    }
}

/// The patch that makes the status of this very goal, as it was seen, say so. What it no longer says is taken out.
fn patch(goal: &Goal, status: &GoalStatus) -> Value {
    let meta = &goal.metadata;
    let mut said = json!(status);
    if status.active_plan_ref.is_none() {
        said["activePlanRef"] = Value::Null;
    }
    if status.candidates.is_empty() {
        said["candidates"] = Value::Null;
    }
    json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": said})
}
