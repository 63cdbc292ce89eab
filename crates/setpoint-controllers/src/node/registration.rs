//! The Node that stands for a place where Pods run, and the Lease that says it is alive.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use setpoint_core::pod::NodeFacts;

use crate::events::is_code;

/// Where Nodes' Leases are.
const LEASES: &str = "kube-node-lease";
const RENEWAL: Duration = Duration::from_secs(10);
const LEASE_SECONDS: i32 = 40;
/// How often a status is written in which nothing changed.
const HEARTBEAT: Duration = Duration::from_secs(300);
/// What keeps Pods from a new Node.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// How many Pods a node takes.
const PODS: i64 = 1000;

/// A node as it is registered.
#[derive(Debug, Clone)]
pub struct Registration {
    pub facts: NodeFacts,
    pub system: NodeSystemInfo,
    /// What the provider calls the place.
    pub provider_id: String,
}

impl Registration {
    /// Registers the node and keeps it alive, for ever. What fails is tried again at the next renewal.
    pub async fn keep(&self, client: Client) {
        let mut written: Option<(NodeStatus, tokio::time::Instant)> = None;
        let mut owner: Option<String> = None;
        let mut renewals = tokio::time::interval(RENEWAL);
        renewals.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            renewals.tick().await;
            if let Err(error) = self.renew(&client, &mut owner, &mut written).await {
                tracing::warn!(node = self.facts.name, %error, "the node could not say that it is alive");
            }
        }
    }

    async fn renew(
        &self,
        client: &Client,
        owner: &mut Option<String>,
        written: &mut Option<(NodeStatus, tokio::time::Instant)>,
    ) -> kube::Result<()> {
        let uid = match owner {
            Some(uid) => uid.clone(),
            None => {
                let uid = self.register(client).await?;
                *written = None;
                owner.insert(uid).clone()
            }
        };
        let now = Timestamp::now();
        let since = written.as_ref().map_or(now, |(status, _)| ready_since(status).unwrap_or(now));
        let status = self.status(now, since);
        let is_due = written.as_ref().is_none_or(|(before, at)| {
            at.elapsed() >= HEARTBEAT || without_heartbeat(before) != without_heartbeat(&status)
        });
        if is_due {
            let nodes: Api<Node> = Api::all(client.clone());
            let patch = Patch::Strategic(json!({"status": status}));
            match nodes.patch_status(&self.facts.name, &PatchParams::default(), &patch).await {
                Ok(_) => *written = Some((status, tokio::time::Instant::now())),
                // Somebody deleted it: it comes again with the next renewal.
                Err(error) if is_code(&error, 404) => *owner = None,
                Err(error) => return Err(error),
            }
        }
        self.renew_lease(client, &uid, now).await
    }

    /// Makes the Node, or gives the one that is there its labels. Returns its uid.
    async fn register(&self, client: &Client) -> kube::Result<String> {
        let nodes: Api<Node> = Api::all(client.clone());
        let name = &self.facts.name;
        let node = match nodes.create(&PostParams::default(), &self.node()).await {
            Err(error) if is_code(&error, 409) => {
                let labels = json!({"metadata": {"labels": self.facts.labels}});
                nodes.patch(name, &PatchParams::default(), &Patch::Merge(labels)).await?
            }
            answer => answer?,
        };
        self.lift_taint(&nodes, &node).await?;
        tracing::info!(node = name, "the node is registered");
        Ok(node.metadata.uid.unwrap_or_default())
    }

    /// A new Node is kept from Pods until it says that it is ready, and it is.
    async fn lift_taint(&self, nodes: &Api<Node>, node: &Node) -> kube::Result<()> {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let (lifted, kept): (Vec<&Taint>, Vec<&Taint>) = taints.partition(|taint| taint.key == NOT_READY);
        if !lifted.is_empty() {
            let patch =
                json!({"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": kept}});
            nodes.patch(&self.facts.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(())
    }

    fn node(&self) -> Node {
        let now = Timestamp::now();
        Node {
            metadata: ObjectMeta {
                name: Some(self.facts.name.clone()),
                labels: Some(self.facts.labels.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec { provider_id: Some(self.provider_id.clone()), ..NodeSpec::default() }),
            status: Some(self.status(now, now)),
        }
    }

    fn status(&self, now: Timestamp, ready_since: Timestamp) -> NodeStatus {
        let facts = &self.facts;
        let amounts: BTreeMap<String, Quantity> = [
            ("cpu", format!("{}m", facts.cpu_millicores)),
            ("memory", format!("{}Ki", facts.memory_bytes / 1024)),
            ("ephemeral-storage", format!("{}Ki", facts.ephemeral_storage_bytes / 1024)),
            ("pods", PODS.to_string()),
        ]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount)))
        .into();
        let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
        let internal = facts.addresses.iter().map(|ip| address("InternalIP", ip.to_string()));
        NodeStatus {
            addresses: Some(internal.chain([address("Hostname", facts.name.clone())]).collect()),
            allocatable: Some(amounts.clone()),
            capacity: Some(amounts),
            conditions: Some(vec![NodeCondition {
                type_: "Ready".to_owned(),
                status: "True".to_owned(),
                reason: Some("KubeletReady".to_owned()),
                message: Some("setpoint is posting ready status".to_owned()),
                last_heartbeat_time: Some(Time(now)),
                last_transition_time: Some(Time(ready_since)),
            }]),
            node_info: Some(self.system.clone()),
            ..NodeStatus::default()
        }
    }

    /// The Lease belongs to the Node and goes with it.
    async fn renew_lease(&self, client: &Client, owner: &str, now: Timestamp) -> kube::Result<()> {
        let name = &self.facts.name;
        let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
        let lease = json!({
            "metadata": {
                "name": name,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": owner}],
            },
            "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": MicroTime(now)},
        });
        match leases.patch(name, &PatchParams::default(), &Patch::Merge(&lease)).await {
            Err(error) if is_code(&error, 404) => {
                let lease: Lease = serde_json::from_value(lease).map_err(kube::Error::SerdeError)?;
                leases.create(&PostParams::default(), &lease).await.map(drop)
            }
            answer => answer.map(drop),
        }
    }
}

fn ready_since(status: &NodeStatus) -> Option<Timestamp> {
    let condition = status.conditions.as_ref()?.first()?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

fn without_heartbeat(status: &NodeStatus) -> NodeStatus {
    let mut status = status.clone();
    for condition in status.conditions.iter_mut().flatten() {
        condition.last_heartbeat_time = None;
    }
    status
}
