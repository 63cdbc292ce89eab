//! Affinity: the nodes and the neighbours a pod wants, or wants to avoid.

use setpoint_api::field::{Errors, Node};
use setpoint_api::labels;
use setpoint_api::names;

use super::{named, scheduling};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn validate(affinity: Node<'_, '_>, errors: &mut Errors) {
    validate_node_affinity(affinity.field("nodeAffinity"), errors);
    for sort in ["podAffinity", "podAntiAffinity"] {
        let affinity = affinity.field(sort);
        for term in affinity.field(REQUIRED).items() {
            validate_pod_term(term, errors);
        }
        for weighted in affinity.field(PREFERRED).items() {
            validate_weight(weighted, errors);
            validate_pod_term(weighted.field("podAffinityTerm"), errors);
        }
    }
}

fn validate_node_affinity(affinity: Node<'_, '_>, errors: &mut Errors) {
    let required = affinity.field(REQUIRED);
    if required.is_set() {
        let terms = required.field("nodeSelectorTerms");
        if terms.is_empty() {
            errors.required(&terms.path, "must have at least one node selector term");
        }
        for term in terms.items() {
            validate_node_term(term, true, errors);
        }
    }
    for preferred in affinity.field(PREFERRED).items() {
        validate_weight(preferred, errors);
        // A preference for a label that no node can have is harmless.
        validate_node_term(preferred.field("preference"), false, errors);
    }
}

fn validate_weight(term: Node<'_, '_>, errors: &mut Errors) {
    let weight = term.field("weight");
    let value = weight.i64().unwrap_or(0);
    if !(1..=100).contains(&value) {
        errors.invalid(&weight.path, value, "must be in the range 1-100");
    }
}

fn validate_node_term(term: Node<'_, '_>, check_values: bool, errors: &mut Errors) {
    for requirement in term.field("matchExpressions").items() {
        validate_label_requirement(requirement, check_values, errors);
    }
    for requirement in term.field("matchFields").items() {
        validate_field_requirement(requirement, errors);
    }
}

fn validate_label_requirement(requirement: Node<'_, '_>, check_values: bool, errors: &mut Errors) {
    let (operator, values) = (requirement.field("operator"), requirement.field("values"));
    match operator.str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&values.path, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&values.path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.required(&values.path, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(&operator.path, other, "not a valid selector operator"),
    }
    let key = requirement.field("key");
    labels::validate_label_key(key.str(), &key.path, errors);
    if check_values {
        for value in values.items() {
            named(value, names::label_value, errors);
        }
    }
}

/// The only field of a node that may be selected by is its name.
fn validate_field_requirement(requirement: Node<'_, '_>, errors: &mut Errors) {
    let (operator, values) = (requirement.field("operator"), requirement.field("values"));
    match operator.str() {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(&values.path, detail);
        }
        "In" | "NotIn" => {}
        other => errors.invalid(&operator.path, other, "not a valid selector operator"),
    }
    let key = requirement.field("key");
    if key.str() == "metadata.name" {
        for value in values.items() {
            named(value, names::dns1123_subdomain, errors);
        }
    } else {
        errors.invalid(&key.path, key.str(), "not a valid field selector key");
    }
}

fn validate_pod_term(term: Node<'_, '_>, errors: &mut Errors) {
    labels::validate_label_selector(term.field("labelSelector"), errors);
    labels::validate_label_selector(term.field("namespaceSelector"), errors);
    for namespace in term.field("namespaces").items() {
        for message in names::dns1123_label(namespace.str()) {
            errors.invalid(&term.path.field("namespace"), namespace.str(), &message);
        }
    }
    scheduling::validate_label_keys(term, errors);
    let key = term.field("topologyKey");
    if key.str().is_empty() {
        errors.required(&key.path, "can not be empty");
    }
    labels::validate_label_key(key.str(), &key.path, errors);
}
