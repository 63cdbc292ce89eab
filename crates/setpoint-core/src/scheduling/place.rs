//! The node for a Pod: of those that it fits on, the best.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::board::{Board, HostPort, NodeState, Usage, host_ports};
use super::refusal::Refusal;
use super::resources::{self, Amounts, CPU, PODS};
use super::spread::{self, Spread};
use super::terms::{self, Term, Wishes};
use super::{node_affinity, tolerations};

/// A node with this label runs the commands of containers and no images.
pub const NEEDS_COMMAND: &str = "setpoint.dev/needs-command";

/// The node that a Pod should be put on; or why there is none. It is not placed yet.
///
/// Of the nodes that it fits on it gets the one that fewest of its taints speak against, then the one that it would like
/// most, then the one with fewest of its kind, then the one with the most room, then the first by name.
pub fn place(pod: &Pod, board: &mut Board) -> Result<Arc<str>, Refusal> {
    let nothing = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&nothing);
    let question = Question::of(pod, spec, board);
    let mut refusal = Refusal::default();
    let mut best: Option<(Rank, &NodeState)> = None;
    for node in board.nodes() {
        let reasons = question.reasons_against(node, board);
        if !reasons.is_empty() {
            refusal.note(reasons);
            continue;
        }
        let rank = question.rank(node, board);
        if best.as_ref().is_none_or(|(best, _)| rank < *best) {
            best = Some((rank, node));
        }
    }
    best.map(|(_, node)| node.name.clone()).ok_or(refusal)
}

/// Lower is better.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    deterrents: usize,
    liking: Reverse<i64>,
    crowd: i64,
    siblings: usize,
    /// In ten thousandths of what is there, of what is scarcest.
    used: i64,
}

/// What a Pod asks for, worked out once for all nodes.
struct Question<'p> {
    pod: &'p Pod,
    spec: &'p PodSpec,
    requests: Amounts,
    ports: Vec<HostPort>,
    has_commands: bool,
    wishes: Wishes,
    spreads: Vec<Spread>,
    /// Labels, and the nodes whose Pods want nothing of this kind where the label has their value.
    repelled: Vec<(String, Vec<Arc<str>>)>,
}

impl<'p> Question<'p> {
    fn of(pod: &'p Pod, spec: &'p PodSpec, board: &mut Board) -> Question<'p> {
        let wishes = Wishes::of(pod);
        let constraints = spread::constraints(pod, spec);
        board.tally(&wishes.terms().chain(constraints.iter().map(|(term, _)| term)).collect());
        let spreads = constraints.iter().map(|constraint| Spread::of(pod, spec, constraint, board)).collect();
        let repelling = board.tallies.repelling(pod).into_iter();
        let repelled = repelling.map(|(key, nodes)| (key.to_owned(), nodes.into_iter().cloned().collect())).collect();
        let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        Question {
            pod,
            spec,
            requests: resources::requests(pod),
            ports: host_ports(pod),
            has_commands: containers.all(|container| container.command.as_ref().is_some_and(|it| !it.is_empty())),
            wishes,
            spreads,
            repelled,
        }
    }

    /// Why the Pod does not fit on a node. The first kind of reason is told; of what there is too little, everything.
    fn reasons_against(&self, node: &NodeState, board: &Board) -> Vec<String> {
        let spec = self.spec;
        let one = |reason: &str| vec![reason.to_owned()];
        if node.is_unschedulable && !tolerates_cordon(spec) {
            return one("node(s) were unschedulable");
        }
        if let Some(taint) = tolerations::untolerated(spec, &node.taints) {
            let value = taint.value.as_deref().unwrap_or_default();
            return vec![format!("node(s) had untolerated taint {{{}: {value}}}", taint.key)];
        }
        if !node_affinity::is_wanted(spec, node) {
            return one("node(s) didn't match Pod's node affinity/selector");
        }
        if !self.has_commands && node.labels.get(NEEDS_COMMAND).is_some_and(|value| value == "true") {
            return one("node(s) run processes, and a container has no command");
        }
        let usage = board.usage(&node.name);
        if usage.is_some_and(|usage| usage.has_conflict(&self.ports)) {
            return one("node(s) didn't have free ports for the requested pod ports");
        }
        let lacking = self.lacking(node, usage);
        if !lacking.is_empty() {
            return lacking;
        }
        let spreads = self.spreads.iter().filter(|spread| spread.is_required);
        let crowded = spreads.into_iter().find_map(|spread| spread.refusal(node));
        crowded.or_else(|| self.company_against(node, board)).map(one).unwrap_or_default()
    }

    /// What there is too little of.
    fn lacking(&self, node: &NodeState, usage: Option<&Usage>) -> Vec<String> {
        let is_lacking = |name: &str, amount: i64| {
            let used = usage.map_or(0, |usage| usage.amounts.get(name));
            amount > 0 && used.saturating_add(amount) > node.allocatable.get(name)
        };
        let lacking = self.requests.iter().filter(|(name, amount)| is_lacking(name, *amount));
        let word = |name: &str| if name == PODS { "Too many pods".to_owned() } else { format!("Insufficient {name}") };
        lacking.map(|(name, _)| word(name)).collect()
    }

    /// Why the Pod may not be on a node for the sake of other Pods.
    fn company_against(&self, node: &NodeState, board: &Board) -> Option<&'static str> {
        let is_at = |nodes: &mut dyn Iterator<Item = &Arc<str>>, key: &str| {
            nodes.filter_map(|name| board.node(name)).any(|other| terms::is_near(node, other, key))
        };
        let has = |(term, key): &(Term, String)| is_at(&mut board.tallies.nodes_of(term), key);
        // The first of a group that wants to be together has nobody to be with.
        let is_first = || {
            let wanted = self.wishes.near.iter();
            wanted.into_iter().all(|(term, _)| term.is_of(self.pod) && board.tallies.nodes_of(term).next().is_none())
        };
        let near = &self.wishes.near;
        let has_labels = near.iter().all(|(_, key)| node.labels.contains_key(key));
        if !near.is_empty() && !(has_labels && (near.iter().all(has) || is_first())) {
            return Some("node(s) didn't match pod affinity rules");
        }
        if self.wishes.away.iter().any(has) {
            return Some("node(s) didn't match pod anti-affinity rules");
        }
        let is_repelled = |(key, nodes): &(String, Vec<Arc<str>>)| is_at(&mut nodes.iter(), key);
        self.repelled.iter().any(is_repelled).then_some("node(s) didn't satisfy existing pods anti-affinity rules")
    }

    fn rank(&self, node: &NodeState, board: &Board) -> Rank {
        let company = self.wishes.liked.iter().map(|(term, key, weight)| {
            let near = board.tallies.nodes_of(term).filter_map(|name| board.node(name));
            let is_there = near.into_iter().any(|other| terms::is_near(node, other, key));
            if is_there { *weight } else { 0 }
        });
        let optional = self.spreads.iter().filter(|spread| !spread.is_required);
        Rank {
            deterrents: tolerations::deterrents(self.spec, &node.taints),
            liking: Reverse(node_affinity::liking(self.spec, node) + company.sum::<i64>()),
            crowd: optional.map(|spread| spread.crowd(node)).sum(),
            siblings: board.siblings(self.pod, &node.name),
            used: self.used(node, board.usage(&node.name)),
        }
    }

    fn used(&self, node: &NodeState, usage: Option<&Usage>) -> i64 {
        let share = |name: &str| {
            let used = usage.map_or(0, |usage| usage.amounts.get(name)).saturating_add(self.requests.get(name));
            let there = node.allocatable.get(name).max(1);
            i64::try_from(i128::from(used) * 10_000 / i128::from(there)).unwrap_or(i64::MAX)
        };
        [CPU, "memory", PODS].map(share).into_iter().max().unwrap_or_default()
    }
}

/// Whether a Pod puts up with a node that takes no new ones.
fn tolerates_cordon(spec: &PodSpec) -> bool {
    let taint = k8s_openapi::api::core::v1::Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: tolerations::NO_SCHEDULE.to_owned(),
        ..Default::default()
    };
    tolerations::is_tolerated(spec, &taint)
}
