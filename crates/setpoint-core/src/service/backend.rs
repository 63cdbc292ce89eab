//! A Pod behind a Service: whether it is one, where it is reached, and how it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, ObjectReference, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions};

use super::{Facts, publishes_not_ready};
use crate::pod::ports;
use crate::workload::pod_state;

/// A Pod that is behind a Service at one address. It borrows everything: a Service may have many thousands, and most of
/// them are already told of as they are.
#[derive(Debug, Clone)]
pub struct Backend<'a> {
    pub pod: &'a Pod,
    pub address: &'a str,
    pub is_ready: bool,
    pub is_serving: bool,
    pub is_terminating: bool,
    hostname: Option<&'a str>,
    zone: Option<Arc<str>>,
}

/// Whether a Service selects an object with these labels.
pub fn selects(service: &Service, labels: Option<&BTreeMap<String, String>>) -> bool {
    let Some(selector) = service.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else { return false };
    let is_met = |(key, value): (&String, &String)| labels.and_then(|labels| labels.get(key)) == Some(value);
    !selector.is_empty() && selector.iter().all(is_met)
}

/// Whether a change of a Pod says nothing new to any Service that selects it. Heartbeats, restarts and the like do not.
pub fn is_as_before(before: &Pod, after: &Pod) -> bool {
    let seen =
        |pod: &Pod| can_be_reached(pod).then(|| (pod_state::is_ready(pod), pod.metadata.deletion_timestamp.is_some()));
    let (before_seen, after_seen) = (seen(before), seen(after));
    before.metadata.uid == after.metadata.uid
        && before.metadata.labels == after.metadata.labels
        && before_seen == after_seen
        && (after_seen.is_none()
            || (addresses(before).eq(addresses(after))
                && node(before) == node(after)
                && ports::annotation(before) == ports::annotation(after)))
}

/// Whether a Pod can be behind a Service at all: it has an address and has not ended.
pub fn can_be_reached(pod: &Pod) -> bool {
    !pod_state::is_finished(pod) && addresses(pod).next().is_some()
}

impl<'a> Backend<'a> {
    /// The Pod at its address of this family, if it has one.
    pub fn of(facts: &Facts<'a>, pod: &'a Pod, family: &str) -> Option<Backend<'a>> {
        if !can_be_reached(pod) {
            return None;
        }
        let address = addresses(pod).find(|address| family_of(address) == family)?;
        let (is_serving, is_terminating) = (pod_state::is_ready(pod), pod.metadata.deletion_timestamp.is_some());
        Some(Backend {
            pod,
            address,
            is_ready: publishes_not_ready(facts.service) || (is_serving && !is_terminating),
            is_serving,
            is_terminating,
            hostname: hostname(pod, facts.service),
            zone: node(pod).and_then(|node| (facts.zone)(node)),
        })
    }

    pub fn uid(&self) -> &'a str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Whether an endpoint tells exactly this.
    pub fn is_told_by(&self, endpoint: &Endpoint) -> bool {
        let conditions = endpoint.conditions.as_ref();
        let is = |value: fn(&EndpointConditions) -> Option<bool>| conditions.and_then(value);
        endpoint.addresses.len() == 1
            && endpoint.addresses[0] == self.address
            && is(|conditions| conditions.ready) == Some(self.is_ready)
            && is(|conditions| conditions.serving) == Some(self.is_serving)
            && is(|conditions| conditions.terminating) == Some(self.is_terminating)
            && endpoint.node_name.as_deref() == node(self.pod)
            && endpoint.hostname.as_deref() == self.hostname
            && endpoint.zone.as_deref() == self.zone.as_deref()
            && endpoint.target_ref.as_ref().and_then(|target| target.name.as_ref()) == self.pod.metadata.name.as_ref()
    }

    /// As an EndpointSlice tells it.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            addresses: vec![self.address.to_owned()],
            conditions: Some(EndpointConditions {
                ready: Some(self.is_ready),
                serving: Some(self.is_serving),
                terminating: Some(self.is_terminating),
            }),
            hostname: self.hostname.map(str::to_owned),
            node_name: node(self.pod).map(str::to_owned),
            target_ref: Some(self.reference()),
            zone: self.zone.as_deref().map(str::to_owned),
            ..Endpoint::default()
        }
    }

    /// As Endpoints tell it.
    pub fn address(&self) -> EndpointAddress {
        EndpointAddress {
            ip: self.address.to_owned(),
            hostname: self.hostname.map(str::to_owned),
            node_name: node(self.pod).map(str::to_owned),
            target_ref: Some(self.reference()),
        }
    }

    fn reference(&self) -> ObjectReference {
        ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: self.pod.metadata.namespace.clone(),
            name: self.pod.metadata.name.clone(),
            uid: self.pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }
    }
}

/// A Pod has a name of its own below that of a headless Service if it says both.
fn hostname<'a>(pod: &'a Pod, service: &Service) -> Option<&'a str> {
    let spec = pod.spec.as_ref()?;
    let is_below = spec.subdomain.is_some() && spec.subdomain == service.metadata.name;
    spec.hostname.as_deref().filter(|hostname| is_below && !hostname.is_empty())
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

fn addresses(pod: &Pod) -> impl Iterator<Item = &str> {
    let all = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten()).map(|ip| ip.ip.as_str());
    all.filter(|ip| !ip.is_empty())
}

fn family_of(address: &str) -> &'static str {
    if address.contains(':') { "IPv6" } else { "IPv4" }
}
