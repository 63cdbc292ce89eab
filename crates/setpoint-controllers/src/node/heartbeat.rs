//! Keeps a Node and its Lease true, as long as the place behind it answers.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeStatus, ObjectReference, Taint};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use setpoint_deployer::Provider;
use setpoint_deployer::provider::Scope;

use super::registration::{self, Registration};
use crate::events::is_code;
use crate::queue::Queue;
use crate::runtime::{Caches, Configuration, Controller, Error, Name, Next, Round};

/// Where Nodes' Leases are.
pub const LEASES: &str = "kube-node-lease";
const RENEWAL: Duration = Duration::from_secs(10);
/// How often a status is written in which nothing changed.
const HEARTBEAT: SignedDuration = SignedDuration::from_secs(300);
/// What keeps Pods from a new Node.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// What nobody owns: to look for it shows whether the place answers, and finds nothing.
const NOBODY: &str = "nobody";

/// Hears whether the place answers, or why not.
pub type Report = Arc<dyn Fn(Result<(), String>) + Send + Sync>;

/// Says that a node is alive. A place that does not answer is not said to be: its Lease runs out.
pub struct Heartbeat {
    client: Client,
    registration: Registration,
    provider: Arc<dyn Provider>,
    caches: Caches,
    report: Option<Report>,
}

impl std::fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heartbeat").field("node", &self.registration.facts.name).finish_non_exhaustive()
    }
}

impl Heartbeat {
    pub(super) fn new(
        client: Client,
        registration: Registration,
        provider: Arc<dyn Provider>,
        caches: Caches,
        report: Option<Report>,
    ) -> Heartbeat {
        Heartbeat { client, registration, provider, caches, report }
    }

    async fn is_reachable(&self) -> bool {
        let answer = self.provider.observe(&Scope::Owner(NOBODY.into())).await;
        if let Err(error) = &answer {
            tracing::warn!(node = self.registration.facts.name, %error, "the place behind this node does not answer");
        }
        let is_reachable = answer.is_ok();
        if let Some(report) = &self.report {
            report(answer.map(drop).map_err(|error| error.to_string()));
        }
        is_reachable
    }

    /// Makes the Node, or gives the one that is there its labels.
    async fn register(&self, round: &mut Round) -> Result<Node, Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let facts = &self.registration.facts;
        let node = match nodes.create(&PostParams::default(), &self.registration.node(round.now)).await {
            Err(error) if is_code(&error, 409) => {
                let labels = json!({"metadata": {"labels": facts.labels}});
                nodes.patch(&facts.name, &PatchParams::default(), &Patch::Merge(labels)).await?
            }
            answer => answer?,
        };
        tracing::info!(node = facts.name, "the node is registered");
        round.wrote(&self.caches.nodes, &node);
        Ok(node)
    }

    /// Writes the status where it says something else, and from time to time where it does not.
    async fn write_status(&self, node: Node, round: &mut Round) -> Result<Node, Error> {
        let old = node.status.clone().unwrap_or_default();
        let status = self.registration.status(&old, round.now);
        if !is_due(&old, &status, round.now) {
            return Ok(node);
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = Patch::Strategic(json!({"metadata": {"uid": node.metadata.uid}, "status": status}));
        let written = nodes.patch_status(&self.registration.facts.name, &PatchParams::default(), &patch).await?;
        round.wrote(&self.caches.nodes, &written);
        Ok(written)
    }

    /// A new Node is kept from Pods until it says that it is ready, and it is.
    async fn lift_taint(&self, node: &Node, round: &mut Round) -> Result<(), Error> {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let (lifted, kept): (Vec<&Taint>, Vec<&Taint>) = taints.partition(|taint| taint.key == NOT_READY);
        if lifted.is_empty() {
            return Ok(());
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        let only = json!({"resourceVersion": node.metadata.resource_version});
        let patch = Patch::Merge(json!({"metadata": only, "spec": {"taints": kept}}));
        let written = nodes.patch(&self.registration.facts.name, &PatchParams::default(), &patch).await?;
        round.wrote(&self.caches.nodes, &written);
        Ok(())
    }

    /// The Lease belongs to the Node and goes with it.
    async fn renew_lease(&self, node: &Node, now: Timestamp) -> Result<(), Error> {
        let name = &self.registration.facts.name;
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let lease = registration::lease(name, node.metadata.uid.as_deref().unwrap_or_default(), now);
        match leases.patch(name, &PatchParams::default(), &Patch::Merge(&lease)).await {
            Err(error) if is_code(&error, 404) => {
                leases.create(&PostParams::default(), &lease).await.map(drop).map_err(Error::from)
            }
            answer => answer.map(drop).map_err(Error::from),
        }
    }
}

impl Controller for Heartbeat {
    type Key = Name;
    const NAME: &'static str = "node-heartbeat";

    fn wire(self: &Arc<Self>, _: &Caches, queue: &Arc<Queue<Name>>) {
        self.keys().into_iter().for_each(|key| queue.add(key));
    }

    async fn reconcile(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        if self.is_reachable().await {
            let node = match self.caches.nodes.get(key) {
                Some(node) => (*node).clone(),
                None => self.register(round).await?,
            };
            let node = self.write_status(node, round).await?;
            self.lift_taint(&node, round).await?;
            self.renew_lease(&node, round.now).await?;
        }
        Ok(Next::After(RENEWAL))
    }

    fn about(&self, key: &Name) -> Option<ObjectReference> {
        let (kind, name) = (Some("Node".to_owned()), Some(key.name.to_string()));
        Some(ObjectReference { api_version: Some("v1".to_owned()), kind, name, ..ObjectReference::default() })
    }

    fn keys(&self) -> Vec<Name> {
        vec![Name::new("", &self.registration.facts.name)]
    }

    /// It comes by itself, with every renewal.
    fn configuration() -> Configuration {
        Configuration { sweep: None, ..Configuration::default() }
    }
}

/// Whether a status has to be written: it says something else, or what it says was not confirmed for long.
fn is_due(old: &NodeStatus, new: &NodeStatus, now: Timestamp) -> bool {
    let confirmed = old.conditions.iter().flatten().filter_map(|condition| condition.last_heartbeat_time.as_ref());
    let is_stale = confirmed.max().is_none_or(|at| now.duration_since(at.0) >= HEARTBEAT);
    is_stale || without_heartbeat(old) != without_heartbeat(new)
}

/// What a status says, but for when: and of what others may add to it, nothing.
fn without_heartbeat(status: &NodeStatus) -> NodeStatus {
    let mut status = status.clone();
    for condition in status.conditions.iter_mut().flatten() {
        condition.last_heartbeat_time = None;
    }
    NodeStatus {
        addresses: status.addresses,
        allocatable: status.allocatable,
        capacity: status.capacity,
        conditions: status.conditions,
        node_info: status.node_info,
        ..NodeStatus::default()
    }
}
