//! Which Services a change concerns.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use setpoint_core::service::{self, backend, mirror};

use super::ZONE;
use crate::queue::Queue;
use crate::runtime::caches::{PODS_BY_NODE, SERVICES_BY_SELECTOR, selected_by};
use crate::runtime::{Cache, Caches, Change, Name};

pub(super) fn wire(caches: &Caches, queue: &Arc<Queue<Name>>) {
    let own = queue.clone();
    caches.services.listen(move |change| {
        if concerns_itself(change) {
            own.add(Name::of(&**change.latest()));
        }
    });
    let (own, services) = (queue.clone(), caches.services.clone());
    caches.pods.listen(move |change| {
        let is_as_before = matches!((&change.before, &change.after), (Some(before), Some(after))
            if service::is_as_before(before, after));
        if !is_as_before {
            change.both().for_each(|pod| wake(pod, &services, &own));
        }
    });
    let own = queue.clone();
    caches.endpoint_slices.listen(move |change| {
        for slice in change.both() {
            let labels = slice.metadata.labels.as_ref();
            let is_ours =
                labels.and_then(|labels| labels.get(service::MANAGED_BY)).is_some_and(|by| by == service::MANAGER);
            let of = labels.and_then(|labels| labels.get(service::SERVICE_NAME)).filter(|_| is_ours);
            of.into_iter()
                .for_each(|of| own.add(Name::new(slice.metadata.namespace.as_deref().unwrap_or_default(), of)));
        }
    });
    let own = queue.clone();
    caches.endpoints.listen(move |change| {
        if change.both().any(|endpoints| mirror::is_left_over(endpoints)) {
            own.add(Name::of(&**change.latest()));
        }
    });
    let (own, services, pods) = (queue.clone(), caches.services.clone(), caches.pods.clone());
    caches.nodes.listen(move |change| {
        if change.before.as_deref().and_then(zone) != change.after.as_deref().and_then(zone) {
            let node = change.latest().metadata.name.as_deref().unwrap_or_default();
            pods.by(&PODS_BY_NODE, node).iter().for_each(|pod| wake(pod, &services, &own));
        }
    });
}

/// Whether more of a Service changed than its status.
fn concerns_itself(change: &Change<Service>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let (old, new) = (&before.metadata, &after.metadata);
    old.uid != new.uid
        || old.labels != new.labels
        || old.deletion_timestamp.is_some() != new.deletion_timestamp.is_some()
        || before.spec != after.spec
}

/// Wakes the Services that select a Pod, if it is to be reached at all.
fn wake(pod: &Pod, services: &Cache<Service>, queue: &Queue<Name>) {
    if !backend::can_be_reached(pod) {
        return;
    }
    let found = selected_by(&pod.metadata).flat_map(|value| services.by(&SERVICES_BY_SELECTOR, &value));
    for service in found.filter(|service| service::selects(service, pod.metadata.labels.as_ref())) {
        queue.add(Name::of(&*service));
    }
}

fn zone(node: &Node) -> Option<&String> {
    node.metadata.labels.as_ref()?.get(ZONE)
}
