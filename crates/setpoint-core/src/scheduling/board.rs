//! What there is: nodes, and what is placed on each.
//!
//! A Pod is placed when it is decided where it goes, before the server has been told; when the server tells of it, nothing
//! changes. So decisions can be made one after the other while what they led to is still under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Node, Pod, Taint};

use super::resources::{self, Amounts};
use super::terms::{Tallies, Term};
use crate::workload::selection;

/// What of a node decides whether a Pod fits. Its heartbeat does not.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeState {
    pub name: Arc<str>,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub is_unschedulable: bool,
    pub allocatable: Amounts,
}

/// A port of the node's own that a Pod takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostPort {
    ip: String,
    protocol: String,
    port: i32,
}

/// What is placed on a node.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) amounts: Amounts,
    ports: BTreeMap<HostPort, usize>,
}

#[derive(Debug, Default)]
pub struct Board {
    nodes: BTreeMap<Arc<str>, NodeState>,
    /// Also of nodes that are not known, or not any more.
    usage: BTreeMap<Arc<str>, Usage>,
    placed: BTreeMap<Arc<str>, Placed>,
    /// How many Pods of each controller are on each node.
    siblings: BTreeMap<Arc<str>, BTreeMap<Arc<str>, usize>>,
    pub(super) tallies: Tallies,
}

/// A Pod that takes up room.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) pod: Arc<Pod>,
    pub(super) node: Arc<str>,
}

impl NodeState {
    pub fn of(node: &Node) -> NodeState {
        let (spec, status) = (node.spec.as_ref(), node.status.as_ref());
        NodeState {
            name: node.metadata.name.as_deref().unwrap_or_default().into(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            is_unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
            allocatable: Amounts::read(status.and_then(|status| status.allocatable.as_ref())),
        }
    }
}

impl Board {
    /// Takes in a node as it is now. Whether anything changed that decides.
    pub fn set_node(&mut self, node: NodeState) -> bool {
        match self.nodes.get_mut(&node.name) {
            Some(known) if *known == node => false,
            Some(known) => {
                *known = node;
                true
            }
            None => {
                self.nodes.insert(node.name.clone(), node);
                true
            }
        }
    }

    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &NodeState> {
        self.nodes.values()
    }

    pub fn node(&self, name: &str) -> Option<&NodeState> {
        self.nodes.get(name)
    }

    /// The node on which a Pod takes up room, if it does.
    pub fn node_of(&self, uid: &str) -> Option<&Arc<str>> {
        self.placed.get(uid).map(|placed| &placed.node)
    }

    /// Has a Pod take up room on a node, and nowhere else. Whether it took up other room before, which may be free now.
    pub fn place(&mut self, pod: &Arc<Pod>, node: &str) -> bool {
        let uid: Arc<str> = pod.metadata.uid.as_deref().unwrap_or_default().into();
        if let Some(placed) = self.placed.get_mut(&uid)
            && *placed.node == *node
            && takes_the_same(&placed.pod, pod)
        {
            placed.pod = pod.clone();
            return false;
        }
        let has_moved = self.remove(&uid);
        let node = self.usage.get_key_value(node).map_or_else(|| node.into(), |(node, _)| node.clone());
        let usage = self.usage.entry(node.clone()).or_default();
        usage.amounts.add(&resources::requests(pod));
        for port in host_ports(pod) {
            *usage.ports.entry(port).or_default() += 1;
        }
        if let Some(owner) = selection::controller_of(&pod.metadata) {
            let owner = self.siblings.entry(owner.uid.as_str().into()).or_default();
            *owner.entry(node.clone()).or_default() += 1;
        }
        self.tallies.count(pod, &node, true);
        self.placed.insert(uid, Placed { pod: pod.clone(), node });
        has_moved
    }

    /// Takes back the room that a Pod took up. Whether it did.
    pub fn remove(&mut self, uid: &str) -> bool {
        let Some(Placed { pod, node }) = self.placed.remove(uid) else { return false };
        if let Some(usage) = self.usage.get_mut(&node) {
            usage.amounts.take(&resources::requests(&pod));
            for port in host_ports(&pod) {
                decrease(&mut usage.ports, &port);
            }
        }
        if let Some(owner) = selection::controller_of(&pod.metadata) {
            let uid: Arc<str> = owner.uid.as_str().into();
            if let Some(owner) = self.siblings.get_mut(&uid) {
                decrease(owner, &node);
                if owner.is_empty() {
                    self.siblings.remove(&uid);
                }
            }
        }
        self.tallies.count(&pod, &node, false);
        true
    }

    pub(super) fn usage(&self, node: &str) -> Option<&Usage> {
        self.usage.get(node)
    }

    /// How many Pods of the same controller are on a node.
    pub(super) fn siblings(&self, pod: &Pod, node: &str) -> usize {
        let owner = selection::controller_of(&pod.metadata).and_then(|owner| self.siblings.get(owner.uid.as_str()));
        owner.and_then(|owner| owner.get(node)).copied().unwrap_or_default()
    }

    /// Has the terms be tallied that a Pod asks for.
    pub(super) fn tally(&mut self, asked: &BTreeSet<&Term>) {
        self.tallies.begin(asked, self.placed.values());
    }
}

impl Usage {
    /// Whether a port that a Pod wants is taken.
    pub(super) fn has_conflict(&self, wanted: &[HostPort]) -> bool {
        wanted.iter().any(|wanted| self.ports.keys().any(|taken| taken.conflicts(wanted)))
    }
}

impl HostPort {
    fn conflicts(&self, other: &HostPort) -> bool {
        const ANY: &str = "0.0.0.0";
        let same_ip = self.ip == other.ip || self.ip == ANY || other.ip == ANY;
        same_ip && self.port == other.port && self.protocol == other.protocol
    }
}

pub(super) fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let spec = pod.spec.iter();
    let containers = spec.flat_map(|spec| {
        let goes_on = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
        spec.init_containers.iter().flatten().filter(goes_on).chain(&spec.containers)
    });
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let port = |port: &k8s_openapi::api::core::v1::ContainerPort| {
        let text = |text: &Option<String>, default: &str| text.clone().unwrap_or_else(|| default.to_owned());
        let (ip, protocol) = (text(&port.host_ip, "0.0.0.0"), text(&port.protocol, "TCP"));
        Some(HostPort { ip, protocol, port: port.host_port.filter(|port| *port > 0)? })
    };
    ports.filter_map(port).collect()
}

/// A Pod's spec and labels change rarely: then its generation does, or they differ.
fn takes_the_same(one: &Pod, other: &Pod) -> bool {
    let owner = |pod: &Pod| selection::controller_of(&pod.metadata).map(|owner| owner.uid.clone());
    one.metadata.generation == other.metadata.generation
        && one.metadata.labels == other.metadata.labels
        && owner(one) == owner(other)
}

pub(super) fn decrease<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
