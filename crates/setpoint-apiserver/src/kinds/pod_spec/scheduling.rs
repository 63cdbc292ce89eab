//! Where and when a pod may run: gates, spreading over topologies, groups.

use std::collections::{HashMap, HashSet};

use setpoint_api::field::{Errors, Node};
use setpoint_api::labels;
use setpoint_api::names;

use super::named;

/// Checks readiness gates and scheduling gates.
pub(super) fn validate_gates(spec: Node<'_, '_>, errors: &mut Errors) {
    for gate in spec.field("readinessGates").items() {
        named(gate.field("conditionType"), names::qualified_name, errors);
    }
    let mut seen = HashSet::new();
    for gate in spec.field("schedulingGates").items() {
        let name = gate.field("name").str();
        for message in names::qualified_name(name) {
            errors.invalid(&gate.path, name, &message);
        }
        if !seen.insert(name) {
            errors.duplicate(&gate.path, name);
        }
    }
}

pub(super) fn validate_topology_spread(constraints: Node<'_, '_>, errors: &mut Errors) {
    // Of two that are the same, Kubernetes reports the first.
    let mut later: HashMap<(&str, &str), usize> = HashMap::new();
    for constraint in constraints.items() {
        *later.entry(spread_identity(constraint)).or_default() += 1;
    }
    for constraint in constraints.items() {
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
        let left = later.entry(spread_identity(constraint)).or_default();
        *left = left.saturating_sub(1);
        if *left > 0 {
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

fn spread_identity<'v>(constraint: Node<'v, '_>) -> (&'v str, &'v str) {
    (constraint.field("topologyKey").str(), constraint.field("whenUnsatisfiable").str())
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
    let mut seen: HashSet<&str> = selector.field("matchLabels").entries().map(|(key, _)| key).collect();
    let places: HashMap<&str, usize> =
        matching.items().enumerate().map(|(index, listed)| (listed.str(), index)).rev().collect();
    for expression in selector.field("matchExpressions").items() {
        let key = expression.field("key").str();
        let repeated = !seen.insert(key);
        if let Some(index) = places.get(key).filter(|_| repeated) {
            errors.invalid(&term.path.index(*index), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
    let differing: HashSet<&str> = differing.items().map(|key| key.str()).collect();
    for key in matching.items().filter(|key| differing.contains(key.str())) {
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
