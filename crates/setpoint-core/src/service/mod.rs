//! Which Pods are behind a Service, and what EndpointSlices and Endpoints say of them, as Kubernetes 1.36 has it.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`backend`] | whether a Pod is behind a Service, where it is reached, and how it is |
//! | [`ports`] | which ports of a Pod the ports of a Service are |
//! | [`slices`] | how the EndpointSlices that are there become those that should be, with few writes |
//! | [`mirror`] | the Endpoints that old clients read |
//!
//! Ports stand in a slice, not with an address: Pods that are reached at different ports are in different slices. So it is
//! with named ports that are not the same everywhere, and with Pods that share an address and were each given a port.

pub mod backend;
pub mod mirror;
pub mod ports;
#[cfg(test)]
mod properties;
pub mod slices;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

pub use backend::{is_as_before, selects};
pub use mirror::Mirror;

/// The label that says of which Service a slice is.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that says who looks after a slice, and its value where that is us.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
/// The label of what belongs to a Service without an address of its own.
pub const HEADLESS: &str = "service.kubernetes.io/headless";

/// Everything that is known around a Service.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub service: &'a Service,
    /// The Pods that it selects.
    pub pods: &'a [&'a Pod],
    /// The slices that name it, whoever looks after them.
    pub slices: &'a [&'a EndpointSlice],
    /// The Endpoints of its name.
    pub endpoints: Option<&'a Endpoints>,
    /// The zone that a node is in.
    pub zone: &'a dyn Fn(&str) -> Option<Arc<str>>,
    /// Whether there is a slice of this name, whosever it is.
    pub is_taken: &'a dyn Fn(&str) -> bool,
}

/// What to write. Everything is independent of everything else.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub create: Vec<EndpointSlice>,
    /// As they should be; each with the version that it was made from.
    pub update: Vec<EndpointSlice>,
    /// Those that hold nothing any more.
    pub delete: Vec<EndpointSlice>,
    pub mirror: Option<Mirror>,
}

impl fmt::Debug for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts")
            .field("pods", &self.pods.len())
            .field("slices", &self.slices.len())
            .finish_non_exhaustive()
    }
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.slice_writes() == 0 && self.mirror.is_none()
    }

    /// How many slices are written.
    pub fn slice_writes(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }
}

/// What to write so that slices and Endpoints tell what is.
pub fn plan(facts: &Facts<'_>) -> Plan {
    if !is_ours(facts.service) {
        return Plan::default();
    }
    let mut plan = slices::plan(facts);
    plan.mirror = mirror::plan(facts);
    plan
}

/// Whether we are to find out who is behind a Service. Where it has no selector, whoever made it says that.
pub fn is_ours(service: &Service) -> bool {
    let Some(spec) = &service.spec else { return false };
    let is_elsewhere = spec.type_.as_deref() == Some("ExternalName");
    let selects = spec.selector.as_ref().is_some_and(|selector| !selector.is_empty());
    !is_elsewhere && selects && service.metadata.deletion_timestamp.is_none()
}

fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().is_some_and(|spec| spec.cluster_ip.as_deref() == Some("None"))
}

fn publishes_not_ready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false)
}

/// The families of addresses that a Service is reached at, the first one first.
fn families(service: &Service) -> Vec<&str> {
    let families = service.spec.iter().flat_map(|spec| spec.ip_families.iter().flatten());
    let families: Vec<&str> = families.map(String::as_str).collect();
    if families.is_empty() { vec!["IPv4"] } else { families }
}

fn name(service: &Service) -> &str {
    service.metadata.name.as_deref().unwrap_or_default()
}

fn owner(service: &Service) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: name(service).to_owned(),
        uid: service.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
