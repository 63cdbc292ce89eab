//! Endpoints and EndpointSlices name exactly the Pods that are behind a Service.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Service};

use crate::dev::simulate::ledger::Books;
use crate::dev::simulate::rules::{is_available, title, uid};

pub(super) fn service(books: &Books, service: &Service, unmet: &mut Vec<String>) {
    let title = title(&service.metadata);
    let Some(selector) = service.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else { return };
    let selects = |pod: &Pod| selector.iter().all(|(key, value)| {
        pod.metadata.labels.as_ref().and_then(|labels| labels.get(key)) == Some(value)
    });
    let has_address = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some());
    let pods = books.pods.values().filter(|pod| selects(pod) && is_available(pod) && has_address(pod));
    let behind: BTreeSet<&str> = pods.map(|pod| uid(&pod.metadata)).collect();

    let is_its_own = |labels: Option<&std::collections::BTreeMap<String, String>>| {
        labels.and_then(|labels| labels.get("kubernetes.io/service-name")) == service.metadata.name.as_ref()
    };
    let slices = books.endpoint_slices.values().filter(|slice| is_its_own(slice.metadata.labels.as_ref()));
    let endpoints = slices.flat_map(|slice| slice.endpoints.iter().flatten());
    let ready = endpoints.filter(|endpoint| endpoint.conditions.as_ref().is_some_and(|it| it.ready == Some(true)));
    let told = ready.filter_map(|endpoint| endpoint.target_ref.as_ref()?.uid.as_deref()).collect::<BTreeSet<_>>();
    if told != behind {
        unmet.push(format!("the EndpointSlices of {title} name {told:?}, and it is {behind:?}"));
    }
    let subsets = books.endpoints.get(&title).into_iter().flat_map(|endpoints| endpoints.subsets.iter().flatten());
    let addresses = subsets.flat_map(|subset| subset.addresses.iter().flatten());
    let told = addresses.filter_map(|address| address.target_ref.as_ref()?.uid.as_deref()).collect::<BTreeSet<_>>();
    if told != behind {
        unmet.push(format!("the Endpoints of {title} name {told:?}, and it is {behind:?}"));
    }
}

/// What was told of Services that are gone.
pub(super) fn leftovers(books: &Books, unmet: &mut Vec<String>) {
    let slices = books.endpoint_slices.iter().map(|(name, slice)| (name, slice.metadata.owner_references.as_ref()));
    for (name, _) in slices.filter(|(_, owners)| {
        owners.is_some_and(|owners| owners.iter().all(|owner| !is_there(books, &owner.uid)))
    }) {
        unmet.push(format!("the EndpointSlice {name} is of a Service that is gone"));
    }
    for name in books.endpoints.keys().filter(|name| !books.services.contains_key(*name)) {
        unmet.push(format!("the Endpoints {name} are of a Service that is gone"));
    }
}

fn is_there(books: &Books, service: &str) -> bool {
    books.services.values().any(|it| uid(&it.metadata) == service)
}
