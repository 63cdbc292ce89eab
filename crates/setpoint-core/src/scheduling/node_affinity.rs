//! Which nodes a Pod asks for by their labels.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

use super::board::NodeState;

/// Whether the node is one that the Pod can be on: by its selector, and by one of the terms that it requires.
pub fn is_wanted(spec: &PodSpec, node: &NodeState) -> bool {
    let mut selector = spec.node_selector.iter().flatten();
    let required =
        affinity(spec).and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    selector.all(|(label, value)| node.labels.get(label) == Some(value))
        && required.is_none_or(|required| required.node_selector_terms.iter().any(|term| fits(term, node)))
}

/// How much the Pod would like the node.
pub fn liking(spec: &PodSpec, node: &NodeState) -> i64 {
    let preferred =
        affinity(spec).and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    let fitting = preferred.into_iter().flatten().filter(|preferred| fits(&preferred.preference, node));
    fitting.map(|preferred| i64::from(preferred.weight)).sum()
}

fn affinity(spec: &PodSpec) -> Option<&NodeAffinity> {
    spec.affinity.as_ref()?.node_affinity.as_ref()
}

/// A term that asks for nothing fits nowhere.
fn fits(term: &NodeSelectorTerm, node: &NodeState) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let name = BTreeMap::from([("metadata.name".to_owned(), node.name.to_string())]);
    !(labels.is_empty() && fields.is_empty())
        && labels.iter().all(|wanted| is_met(wanted, &node.labels))
        && fields.iter().all(|wanted| is_met(wanted, &name))
}

fn is_met(wanted: &NodeSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&wanted.key);
    let values = wanted.values.as_deref().unwrap_or_default();
    let compared = || Some((value?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match wanted.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(|(own, bound)| own > bound),
        "Lt" => compared().is_some_and(|(own, bound)| own < bound),
        _ => false,
    }
}
