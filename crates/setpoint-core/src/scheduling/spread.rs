//! How evenly Pods are to be divided among places.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec, TopologySpreadConstraint};

use super::board::{Board, NodeState};
use super::node_affinity;
use super::terms::{self, Term};
use super::tolerations;

/// A constraint, with what is there counted.
#[derive(Debug)]
pub(super) struct Spread {
    key: String,
    max_skew: i64,
    /// Whether a node that would make it worse is refused, or only liked less.
    pub(super) is_required: bool,
    /// How many Pods there are by the value of the label, where there are nodes.
    counts: BTreeMap<String, i64>,
    least: i64,
    /// Whether the Pod itself is one of those that are counted.
    own: i64,
}

/// The constraints of a Pod, each with the Pods that it is about.
pub(super) fn constraints<'p>(pod: &Pod, spec: &'p PodSpec) -> Vec<(Term, &'p TopologySpreadConstraint)> {
    let about = |constraint: &TopologySpreadConstraint| {
        let mut selector = constraint.label_selector.clone().unwrap_or_default();
        terms::narrow(&mut selector, pod, constraint.match_label_keys.as_deref().unwrap_or_default());
        Term::new(Some(vec![pod.metadata.namespace.clone().unwrap_or_default()]), &selector)
    };
    let constraints = spec.topology_spread_constraints.iter().flatten();
    constraints.map(|constraint| (about(constraint), constraint)).collect()
}

impl Spread {
    /// What a constraint comes to now. The board has its term tallied.
    pub(super) fn of(
        pod: &Pod,
        spec: &PodSpec,
        (term, constraint): &(Term, &TopologySpreadConstraint),
        board: &Board,
    ) -> Spread {
        let key = constraint.topology_key.clone();
        let ignores = |policy: &Option<String>| policy.as_deref() == Some("Ignore");
        let honours_taints = constraint.node_taints_policy.as_deref() == Some("Honor");
        let counts_here = |node: &&NodeState| {
            (ignores(&constraint.node_affinity_policy) || node_affinity::is_wanted(spec, node))
                && (!honours_taints || tolerations::untolerated(spec, &node.taints).is_none())
        };
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for node in board.nodes().filter(counts_here) {
            if let Some(value) = node.labels.get(&key) {
                let there = i64::try_from(board.tallies.on(term, &node.name)).unwrap_or(i64::MAX);
                *counts.entry(value.clone()).or_default() += there;
            }
        }
        let places = i64::try_from(counts.len()).unwrap_or(i64::MAX);
        let has_enough = constraint.min_domains.is_none_or(|least| places >= i64::from(least));
        let least = if has_enough { counts.values().min().copied().unwrap_or_default() } else { 0 };
        let own = i64::from(term.is_of(pod));
        let is_required = constraint.when_unsatisfiable == "DoNotSchedule";
        Spread { key, max_skew: constraint.max_skew.into(), is_required, counts, least, own }
    }

    /// Why a node is refused, if it is.
    pub(super) fn refusal(&self, node: &NodeState) -> Option<&'static str> {
        let Some(value) = node.labels.get(&self.key) else {
            return Some("node(s) didn't match pod topology spread constraints (missing required label)");
        };
        let there = self.counts.get(value).copied().unwrap_or_default();
        (there + self.own - self.least > self.max_skew)
            .then_some("node(s) didn't match pod topology spread constraints")
    }

    /// How many there are already at a node's place.
    pub(super) fn crowd(&self, node: &NodeState) -> i64 {
        node.labels.get(&self.key).and_then(|value| self.counts.get(value)).copied().unwrap_or(i64::from(u16::MAX))
    }
}
