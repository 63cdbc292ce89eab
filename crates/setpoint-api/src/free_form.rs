//! Schemas of values whose shape is their author's business. They are kept as they are written.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::field::{Errors, Path};

/// An object with any fields. A pod template is one, too: its whole schema is hundreds of kilobytes, and it is checked by
/// the rules of Pods in any case.
pub(crate) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Any value.
pub(crate) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// Says so where a value that should be an object is none. (The server's schema refuses it too; this is for documents
/// that never met a server.)
pub(crate) fn validate_object(value: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(value) = value.filter(|value| !value.is_object() && !value.is_null()) {
        errors.invalid(path, value, "must be an object");
    }
}
