//! Which Deployments a change concerns.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use setpoint_core::workload::selection::{self, Claim, Owner};
use setpoint_core::workload::{deployment, pod_state};

use crate::queue::Queue;
use crate::runtime::caches::{DEPLOYMENTS_BY_SELECTOR, selected_by};
use crate::runtime::{Cache, Caches, Change, Name};

pub(super) fn wire(caches: &Caches, queue: &Arc<Queue<Name>>) {
    let own = queue.clone();
    caches.deployments.listen(move |change| {
        if concerns_itself(change) {
            own.add(Name::of(&**change.latest()));
        }
    });
    let (sets_queue, deployments) = (queue.clone(), caches.deployments.clone());
    caches.replica_sets.listen(move |change| change.both().for_each(|set| wake(set, &deployments, &sets_queue)));
    let (queue, deployments, sets) = (queue.clone(), caches.deployments.clone(), caches.replica_sets.clone());
    caches.pods.listen(move |change| {
        if has_ended(change)
            && let Some(name) = deployment_of(change.latest(), &sets)
            && deployments.get(&name).is_some_and(|deployment| deployment::looks_at_pods(&deployment))
        {
            queue.add(name);
        }
    });
}

/// Whether more of a Deployment changed than what is said of it, which is our own doing.
fn concerns_itself(change: &Change<Deployment>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let (before, after) = (&before.metadata, &after.metadata);
    before.uid != after.uid
        || before.generation != after.generation
        || before.deletion_timestamp.is_some() != after.deletion_timestamp.is_some()
        || before.annotations != after.annotations
}

/// Wakes the ReplicaSet's owner; or those who might become it, if it has none.
fn wake(set: &ReplicaSet, deployments: &Cache<Deployment>, queue: &Queue<Name>) {
    if let Some(name) = owner(set) {
        return queue.add(name);
    }
    let selecting = selected_by(&set.metadata).flat_map(|value| deployments.by(&DEPLOYMENTS_BY_SELECTOR, &value));
    for deployment in selecting.filter(|it| Owner::from(&**it).claim(&set.metadata) == Claim::Adopt) {
        queue.add(Name::of(&*deployment));
    }
}

fn owner(set: &ReplicaSet) -> Option<Name> {
    let owner = selection::controller_of(&set.metadata).filter(|owner| owner.kind == "Deployment")?;
    Some(Name::new(set.metadata.namespace.as_deref().unwrap_or_default(), &owner.name))
}

/// Whether a Pod is gone, or has ended just now.
fn has_ended(change: &Change<Pod>) -> bool {
    match (&change.before, &change.after) {
        (_, None) => true,
        (before, Some(after)) => {
            pod_state::is_finished(after) && !before.as_ref().is_some_and(|before| pod_state::is_finished(before))
        }
    }
}

fn deployment_of(pod: &Pod, sets: &Cache<ReplicaSet>) -> Option<Name> {
    let set = selection::controller_of(&pod.metadata).filter(|owner| owner.kind == "ReplicaSet")?;
    owner(&*sets.get(&Name::new(pod.metadata.namespace.as_deref().unwrap_or_default(), &set.name))?)
}
