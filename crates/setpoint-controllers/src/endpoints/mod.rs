//! Services: the EndpointSlices and Endpoints that tell who is behind them.
//!
//! | module | what it does |
//! | --- | --- |
//! | `wakeup` | which Services a change concerns |
//! | `writes` | writes slices and Endpoints |
//!
//! What to write is decided in [`setpoint_core::service`]. Each round looks at all Pods of a Service, borrowed from the
//! cache and compared in place, and writes the slices of those that changed.

mod wakeup;
mod writes;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Client, Resource};
use setpoint_core::service::{self, Facts};

use crate::queue::Queue;
use crate::runtime::caches::{PODS_BY_LABEL, SLICES_BY_SERVICE, label_value};
use crate::runtime::{Caches, Configuration, Context, Controller, Error, Name, Next, Round};

/// The label of a Node that says where it is.
const ZONE: &str = "topology.kubernetes.io/zone";

pub struct ServiceEndpoints {
    client: Client,
    caches: Caches,
}

impl std::fmt::Debug for ServiceEndpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceEndpoints").finish_non_exhaustive()
    }
}

impl Controller for ServiceEndpoints {
    type Key = Name;

    const NAME: &'static str = "endpointslice";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Name>>) {
        wakeup::wire(caches, queue);
    }

    async fn reconcile(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        let Some(service) = self.caches.services.get(key) else { return self.clear(key, round).await };
        if !service::is_ours(&service) {
            return Ok(Next::Idle);
        }
        let plan = {
            let pods = self.pods(&service);
            let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
            let slices = self.caches.endpoint_slices.by(&SLICES_BY_SERVICE, &key.to_string());
            let slices: Vec<&EndpointSlice> = slices.iter().map(|slice| &**slice).collect();
            let endpoints = self.caches.endpoints.get(key);
            let zones = RefCell::new(BTreeMap::<String, Option<Arc<str>>>::new());
            service::plan(&Facts {
                service: &service,
                pods: &pods,
                slices: &slices,
                endpoints: endpoints.as_deref(),
                zone: &|node| match zones.borrow_mut().entry(node.to_owned()) {
                    Entry::Occupied(known) => known.get().clone(),
                    Entry::Vacant(new) => new.insert(self.zone(node)).clone(),
                },
                is_taken: &|name| self.caches.endpoint_slices.get(&Name::new(&key.namespace, name)).is_some(),
            })
        };
        self.write(key, plan, round).await
    }

    fn about(&self, key: &Name) -> Option<ObjectReference> {
        self.caches.services.get(key).map(|service| service.object_ref(&()))
    }

    fn keys(&self) -> Vec<Name> {
        let left_over =
            self.caches.endpoints.names().into_iter().filter(|name| self.caches.services.get(name).is_none());
        left_over.chain(self.caches.services.names()).collect()
    }

    fn configuration() -> Configuration {
        Configuration::of_workloads()
    }
}

impl ServiceEndpoints {
    pub fn new(context: &Context, caches: &Caches) -> ServiceEndpoints {
        ServiceEndpoints { client: context.client.clone(), caches: caches.clone() }
    }

    /// The Pods that a Service selects: found by whichever of its pairs the fewest have.
    fn pods(&self, service: &Service) -> Vec<Arc<Pod>> {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let pairs = service.spec.iter().flat_map(|spec| spec.selector.iter().flatten());
        let values = pairs.map(|(key, value)| label_value(namespace, key, value));
        let rarest = values.min_by_key(|value| self.caches.pods.count_by(&PODS_BY_LABEL, value));
        let mut pods = rarest.map(|value| self.caches.pods.by(&PODS_BY_LABEL, &value)).unwrap_or_default();
        pods.retain(|pod| service::selects(service, pod.metadata.labels.as_ref()));
        pods
    }

    fn zone(&self, node: &str) -> Option<Arc<str>> {
        let node = self.caches.nodes.get(&Name::new("", node))?;
        node.metadata.labels.as_ref()?.get(ZONE).map(|zone| zone.as_str().into())
    }
}
