//! Fields that keep the value they were created with.

use serde_json::Value;

use setpoint_api::field::{Errors, Node};

/// Checks that a field still has its old value.
pub(super) fn validate_immutable(field: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    if field.value != old {
        errors.invalid(&field.path, field.value, "field is immutable");
    }
}
