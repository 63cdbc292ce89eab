//! Schemas of values whose shape is their author's business. They are kept as they are written.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::field::{Errors, Path};

/// An object with any fields.
pub(super) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true})
}

/// Any value.
pub(super) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"nullable": true, "x-kubernetes-preserve-unknown-fields": true})
}

/// Says so where a value that should be an object is none. (The server's schema refuses it too; this is for documents
/// that never met a server.)
pub(super) fn validate_object(value: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(value) = value.filter(|value| !value.is_object() && !value.is_null()) {
        errors.invalid(path, value, "must be an object");
    }
}
