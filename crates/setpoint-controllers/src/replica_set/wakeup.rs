//! Which ReplicaSets a change concerns.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use setpoint_core::workload::pod_state;
use setpoint_core::workload::selection::{self, Claim, Owner};

use crate::queue::Queue;
use crate::runtime::caches::{REPLICA_SETS_BY_SELECTOR, selected_by};
use crate::runtime::{Cache, Caches, Change, Name};

pub(super) fn wire(caches: &Caches, queue: &Arc<Queue<Name>>) {
    let own = queue.clone();
    caches.replica_sets.listen(move |change| {
        if concerns_itself(change) {
            own.add(Name::of(&**change.latest()));
        }
    });
    let (queue, sets) = (queue.clone(), caches.replica_sets.clone());
    caches.pods.listen(move |change| {
        let is_of_no_concern = matches!((&change.before, &change.after), (Some(before), Some(after))
            if !pod_state::concerns_owner(before, after));
        if !is_of_no_concern {
            change.both().for_each(|pod| wake(pod, &sets, &queue));
        }
    });
}

/// Whether more of a ReplicaSet changed than what is said of it, which is our own doing.
fn concerns_itself(change: &Change<ReplicaSet>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let what_counts = |set: &ReplicaSet| {
        (set.metadata.uid.clone(), set.metadata.generation, set.metadata.deletion_timestamp.is_some())
    };
    what_counts(before) != what_counts(after)
}

/// Wakes the Pod's owner; or those who might become it, if it has none.
fn wake(pod: &Pod, sets: &Cache<ReplicaSet>, queue: &Queue<Name>) {
    if let Some(owner) = selection::controller_of(&pod.metadata) {
        if owner.kind == "ReplicaSet" {
            queue.add(Name::new(pod.metadata.namespace.as_deref().unwrap_or_default(), &owner.name));
        }
        return;
    }
    let selecting = selected_by(&pod.metadata).flat_map(|value| sets.by(&REPLICA_SETS_BY_SELECTOR, &value));
    for set in selecting.filter(|set| Owner::from(&**set).claim_pod(pod) == Claim::Adopt) {
        queue.add(Name::of(&*set));
    }
}
