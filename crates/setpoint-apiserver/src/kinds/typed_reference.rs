//! References to an object of any kind, by the group, the kind and the name.

use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

use super::endpoints::report;

pub(super) fn validate(reference: Node<'_, '_>, errors: &mut Errors) {
    let group = reference.field("apiGroup");
    if group.is_set() {
        report(group, names::dns1123_subdomain, errors);
    }
    validate_name(reference, errors);
}

/// Checks the kind and the name alone.
pub(super) fn validate_name(reference: Node<'_, '_>, errors: &mut Errors) {
    for field in ["kind", "name"] {
        let text = reference.field(field);
        if text.str().is_empty() {
            errors.required(&text.path, "");
        } else {
            report(text, names::path_segment, errors);
        }
    }
}
