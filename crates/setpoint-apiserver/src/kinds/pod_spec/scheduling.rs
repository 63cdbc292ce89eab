//! Where and when a pod may run: gates, spreading over topologies, groups.

use crate::field::{Errors, Node};
use crate::labels;
use crate::names;

use super::named;

/// Checks readiness gates and scheduling gates.
pub(super) fn validate_gates(spec: Node<'_, '_>, errors: &mut Errors) {
    for gate in spec.field("readinessGates").items() {
        named(gate.field("conditionType"), names::qualified_name, errors);
    }
    let mut seen = Vec::new();
    for gate in spec.field("schedulingGates").items() {
        let name = gate.field("name").str();
        for message in names::qualified_name(name) {
            errors.invalid(&gate.path, name, &message);
        }
        if seen.contains(&name) {
            errors.duplicate(&gate.path, name);
        }
        seen.push(name);
    }
}

pub(super) fn validate_topology_spread(constraints: Node<'_, '_>, errors: &mut Errors) {
    for (index, constraint) in constraints.items().enumerate() {
        let skew = constraint.field("maxSkew");
        must_be_positive(skew.i64().unwrap_or(0), skew, errors);
        let key = constraint.field("topologyKey");
        if key.str().is_empty() {
            errors.required(&key.path, "can not be empty");
        }
        let action = constraint.field("whenUnsatisfiable");
        const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
        if !ACTIONS.contains(&action.str()) {
            errors.unsupported(&action.path, action.str(), &ACTIONS);
        }
        let same = |other: &Node<'_, '_>| {
            other.field("topologyKey").str() == key.str() && other.field("whenUnsatisfiable").str() == action.str()
        };
        if constraints.items().skip(index + 1).any(|other| same(&other)) {
            let pair = format!("{{{}, {}}}", key.str(), action.str());
            errors.duplicate(&constraint.path.field("{topologyKey, whenUnsatisfiable}"), pair);
        }
        let domains = constraint.field("minDomains");
        if let Some(count) = domains.i64() {
            must_be_positive(count, domains, errors);
            if action.str() != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", action.str());
                errors.invalid(&domains.path, count, &detail);
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            super::one_of_if_set(constraint.field(policy), &["Honor", "Ignore"], errors);
        }
        validate_label_keys(constraint, errors);
        labels::validate_label_selector(constraint.field("labelSelector"), errors);
    }
}

fn must_be_positive(value: i64, number: Node<'_, '_>, errors: &mut Errors) {
    if value <= 0 {
        errors.invalid(&number.path, value, "must be greater than zero");
    }
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys`, which add to a term's `labelSelector`.
pub(super) fn validate_label_keys(term: Node<'_, '_>, errors: &mut Errors) {
    let selector = term.field("labelSelector");
    let (matching, differing) = (term.field("matchLabelKeys"), term.field("mismatchLabelKeys"));
    for keys in [matching, differing] {
        if !keys.is_empty() && !selector.is_set() {
            errors.forbidden(&keys.path, "must not be specified when labelSelector is not set");
            continue;
        }
        for key in keys.items() {
            labels::validate_label_key(key.str(), &key.path, errors);
        }
    }
    // What `matchLabelKeys` added to the selector is the key's first expression; a second one is the writer's own.
    let mut seen: Vec<&str> = selector.field("matchLabels").entries().map(|(key, _)| key).collect();
    for expression in selector.field("matchExpressions").items() {
        let key = expression.field("key").str();
        if let Some(index) = matching.items().position(|listed| listed.str() == key)
            && seen.contains(&key)
        {
            errors.invalid(&term.path.index(index), key, "exists in both matchLabelKeys and labelSelector");
        }
        seen.push(key);
    }
    for key in matching.items().filter(|key| differing.items().any(|other| other.str() == key.str())) {
        errors.invalid(&key.path, key.str(), "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

pub(super) fn validate_group(group: Node<'_, '_>, errors: &mut Errors) {
    if !group.is_set() {
        return;
    }
    let name = group.field("podGroupName");
    if name.is_set() {
        named(name, names::dns1123_subdomain, errors);
    } else {
        errors.invalid(&name.path, serde_json::Value::Null, "must specify one of: `podGroupName`");
    }
}
