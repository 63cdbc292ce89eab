//! Who a pod is and runs as: its names, its service account, its node, its classes, its deadline.

use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

use super::{named, network, one_of_if_set, validate_tolerations};

/// Checks the names and numbers that stand directly in a spec.
pub(super) fn validate(spec: Node<'_, '_>, errors: &mut Errors) {
    let if_set = |field: &str, rule: fn(&str) -> Vec<String>, errors: &mut Errors| {
        let text = spec.field(field);
        if !text.str().is_empty() {
            named(text, rule, errors);
        }
    };
    if_set("serviceAccountName", names::dns1123_subdomain, errors);
    if_set("nodeName", names::dns1123_subdomain, errors);
    let deadline = spec.field("activeDeadlineSeconds");
    if let Some(seconds) = deadline.i64() {
        for message in names::in_range(seconds, 1, i64::from(i32::MAX)) {
            errors.invalid(&deadline.path, seconds, &message);
        }
    }
    if_set("hostname", names::dns1123_label, errors);
    if_set("subdomain", names::dns1123_label, errors);
    validate_tolerations(spec.field("tolerations"), errors);
    network::validate_host_aliases(spec.field("hostAliases"), errors);
    if_set("priorityClassName", names::dns1123_subdomain, errors);
    let runtime_class = spec.field("runtimeClassName");
    if runtime_class.is_set() {
        named(runtime_class, names::dns1123_subdomain, errors);
    }
    one_of_if_set(spec.field("preemptionPolicy"), &["PreemptLowerPriority", "Never"], errors);
}
