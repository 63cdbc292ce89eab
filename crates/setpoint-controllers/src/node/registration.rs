//! What the Node says that stands for a place where Pods run, and the Lease that says it is alive.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use setpoint_core::pod::NodeFacts;

const LEASE_SECONDS: i32 = 40;
const READY: &str = "Ready";

/// A node as it is registered.
#[derive(Debug, Clone)]
pub struct Registration {
    pub facts: NodeFacts,
    pub system: NodeSystemInfo,
    /// What the provider calls the place.
    pub provider_id: String,
    /// What it goes with, if it does.
    pub owner: Option<OwnerReference>,
    /// What keeps Pods away from it, from its first moment.
    pub taints: Vec<Taint>,
}

impl Registration {
    /// The Node as it is made.
    pub(super) fn node(&self, now: Timestamp) -> Node {
        Node {
            metadata: ObjectMeta {
                name: Some(self.facts.name.clone()),
                labels: Some(self.facts.labels.clone()),
                owner_references: self.owner.clone().map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                provider_id: Some(self.provider_id.clone()),
                taints: (!self.taints.is_empty()).then(|| self.taints.clone()),
                ..NodeSpec::default()
            }),
            status: Some(self.status(&NodeStatus::default(), now)),
        }
    }

    /// What the Node's status should be. Conditions that others write stay.
    pub(super) fn status(&self, old: &NodeStatus, now: Timestamp) -> NodeStatus {
        let facts = &self.facts;
        let amounts: BTreeMap<String, Quantity> = [
            ("cpu", format!("{}m", facts.cpu_millicores)),
            ("memory", format!("{}Ki", facts.memory_bytes / 1024)),
            ("ephemeral-storage", format!("{}Ki", facts.ephemeral_storage_bytes / 1024)),
            ("pods", facts.pods.to_string()),
        ]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount)))
        .into();
        let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
        let internal = facts.addresses.iter().map(|ip| address("InternalIP", ip.to_string()));
        NodeStatus {
            addresses: Some(internal.chain([address("Hostname", facts.name.clone())]).collect()),
            allocatable: Some(amounts.clone()),
            capacity: Some(amounts),
            conditions: Some(conditions(old, now)),
            node_info: Some(self.system.clone()),
            ..NodeStatus::default()
        }
    }
}

fn conditions(old: &NodeStatus, now: Timestamp) -> Vec<NodeCondition> {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let old = || old.conditions.iter().flatten();
    let was_ready = old().find(|condition| condition.type_ == READY && condition.status == "True");
    let since = was_ready.and_then(|condition| condition.last_transition_time.clone());
    let ready = NodeCondition {
        type_: READY.to_owned(),
        status: "True".to_owned(),
        reason: Some("KubeletReady".to_owned()),
        message: Some("setpoint is posting ready status".to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: since.or(Some(Time(now))),
    };
    old().filter(|condition| condition.type_ != READY).cloned().chain([ready]).collect()
}

/// The Lease by which a Node says that it is alive.
pub(super) fn lease(node: &str, uid: &str, now: Timestamp) -> Lease {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    };
    Lease {
        metadata: ObjectMeta {
            name: Some(node.to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(node.to_owned()),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}
