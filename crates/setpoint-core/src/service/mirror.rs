//! The Endpoints of a Service, for clients that do not read EndpointSlices.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::backend::Backend;
use super::ports::{self, Numbers};
use super::{Facts, HEADLESS, families, is_headless, publishes_not_ready};

/// How many addresses Endpoints hold; slices have them all.
pub const ADDRESSES_MAX: usize = 1000;
/// Says that there are more.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The label that says who looks after Endpoints, and its value where that is us.
pub const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub const MANAGER: &str = "endpoint-controller";

/// What to do about the Endpoints of a Service.
#[derive(Debug, Clone, PartialEq)]
pub enum Mirror {
    Create(Endpoints),
    /// As they should be, with the version that they were made from.
    Update(Endpoints),
}

/// What to do, if anything.
pub(super) fn plan(facts: &Facts<'_>) -> Option<Mirror> {
    let (subsets, is_truncated) = subsets(facts);
    let subsets = (!subsets.is_empty()).then_some(subsets);
    let labels = labels(facts.service);
    let Some(old) = facts.endpoints else {
        let metadata = ObjectMeta {
            name: facts.service.metadata.name.clone(),
            namespace: facts.service.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: truncated(None, is_truncated),
            ..ObjectMeta::default()
        };
        return Some(Mirror::Create(Endpoints { metadata, subsets }));
    };
    let annotations = truncated(old.metadata.annotations.clone(), is_truncated);
    let old_subsets = old.subsets.as_ref().filter(|subsets| !subsets.is_empty());
    if old_subsets == subsets.as_ref()
        && old.metadata.labels.as_ref() == Some(&labels)
        && old.metadata.annotations == annotations
    {
        return None;
    }
    let metadata = ObjectMeta { labels: Some(labels), annotations, ..old.metadata.clone() };
    Some(Mirror::Update(Endpoints { metadata, subsets }))
}

/// Whether Endpoints whose Service is gone are ours to delete.
pub fn is_left_over(endpoints: &Endpoints) -> bool {
    endpoints
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(MANAGED_BY))
        .is_some_and(|manager| manager == MANAGER)
}

#[derive(Default)]
struct Subset<'a> {
    ready: Vec<Backend<'a>>,
    not_ready: Vec<Backend<'a>>,
}

/// One for each set of ports; and whether some addresses had to be left out: first those that are not ready.
fn subsets(facts: &Facts<'_>) -> (Vec<EndpointSubset>, bool) {
    let family = families(facts.service)[0];
    let tolerates = publishes_not_ready(facts.service);
    let mut sets: BTreeMap<Numbers, Subset<'_>> = BTreeMap::new();
    for pod in facts.pods {
        let Some(backend) = Backend::of(facts, pod, family) else { continue };
        if backend.is_terminating && !tolerates {
            continue;
        }
        let set = sets.entry(ports::resolve(facts.service, pod)).or_default();
        if backend.is_ready { &mut set.ready } else { &mut set.not_ready }.push(backend);
    }
    let mut room = ADDRESSES_MAX;
    let mut take = |backends: &mut Vec<Backend<'_>>| {
        backends.sort_by_cached_key(|backend| (backend.address.parse::<IpAddr>().ok(), backend.uid()));
        let all = backends.len();
        let taken: Vec<EndpointAddress> = backends.iter().take(room).map(Backend::address).collect();
        room -= taken.len();
        let is_short = taken.len() < all;
        (Some(taken).filter(|taken| !taken.is_empty()), is_short)
    };
    let ready: Vec<_> = sets.values_mut().map(|set| take(&mut set.ready)).collect();
    let not_ready: Vec<_> = sets.values_mut().map(|set| take(&mut set.not_ready)).collect();
    let is_truncated = ready.iter().chain(&not_ready).any(|(_, is_short)| *is_short);
    let told = sets.keys().zip(ready.into_iter().zip(not_ready)).map(|(numbers, ((addresses, _), (not_ready, _)))| {
        let told = ports::of_mirror(facts.service, numbers);
        EndpointSubset { addresses, not_ready_addresses: not_ready, ports: (!told.is_empty()).then_some(told) }
    });
    let told = told.filter(|subset| subset.addresses.is_some() || subset.not_ready_addresses.is_some());
    (told.collect(), is_truncated)
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    labels
}

fn truncated(annotations: Option<BTreeMap<String, String>>, is_truncated: bool) -> Option<BTreeMap<String, String>> {
    let mut annotations = annotations.unwrap_or_default();
    if is_truncated {
        annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    } else {
        annotations.remove(OVER_CAPACITY);
    }
    (!annotations.is_empty()).then_some(annotations)
}
