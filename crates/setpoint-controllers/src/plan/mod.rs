//! Plans: each says whether it can be carried out.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`outline`] | a Plan as it is kept, with the verdict on it |
//!
//! What is wrong with a plan is decided in [`setpoint_core::resolve::first_error`].

pub mod outline;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use setpoint_core::resolve::plan_status;

pub use self::outline::Outline;
use crate::ownership::unless_moved;
use crate::queue::Queue;
use crate::runtime::{Caches, Change, Configuration, Context, Controller, Error, Name, Next, Round};

/// How soon a write is tried again that met a change of somebody else's.
const MOVED: Duration = Duration::from_millis(20);

pub struct Plans {
    client: Client,
    caches: Caches,
}

impl std::fmt::Debug for Plans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plans").finish_non_exhaustive()
    }
}

impl Plans {
    pub fn new(context: &Context, caches: &Caches) -> Plans {
        Plans { client: context.client.clone(), caches: caches.clone() }
    }
}

impl Controller for Plans {
    type Key = Name;

    const NAME: &'static str = "plan";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Name>>) {
        let queue = queue.clone();
        caches.plans.listen(move |change| {
            if concerns_validity(change) {
                queue.add(Name::of(&**change.latest()));
            }
        });
    }

    async fn reconcile(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        let Some(plan) = self.caches.plans.get(key) else { return Ok(Next::Idle) };
        let meta = plan.meta();
        let status = plan_status(plan.status(), meta.generation, plan.node_count(), plan.error(), round.second());
        let Some(status) = status else { return Ok(Next::Idle) };
        let seen = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
        let patch = Patch::Merge(json!({"metadata": seen, "status": status}));
        let plans: Api<Outline> = Api::namespaced(self.client.clone(), &key.namespace);
        let written = plans.patch_status(&key.name, &PatchParams::default(), &patch).await;
        let Some(written) = unless_moved(written)? else { return Ok(Next::After(MOVED)) };
        round.wrote(&self.caches.plans, &written);
        Ok(Next::Idle)
    }

    fn about(&self, key: &Name) -> Option<ObjectReference> {
        self.caches.plans.get(key).map(|plan| plan.object_ref(&()))
    }

    fn keys(&self) -> Vec<Name> {
        self.caches.plans.names()
    }

    fn configuration() -> Configuration {
        Configuration::of_workloads()
    }
}

/// Whether there is more to judge than labels, or what is said of the plan, which is our own doing.
fn concerns_validity(change: &Change<Outline>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return change.after.is_some() };
    let (before, after) = (before.meta(), after.meta());
    (&before.uid, before.generation) != (&after.uid, after.generation)
}
