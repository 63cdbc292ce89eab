//! The paths that a version names: of its scale, its columns and what its objects can be selected by.

use serde_json::Value;

use crate::custom::structure::{Kind, Structure};
use setpoint_api::field::{Errors, Node};

const MAX_SELECTABLE_FIELDS: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

pub(super) fn validate_scale(subresources: Node<'_, '_>, errors: &mut Errors) {
    let scale = subresources.field("scale");
    if !scale.value.is_object() {
        return;
    }
    for (field, place, required) in [
        ("specReplicasPath", ".spec.", true),
        ("statusReplicasPath", ".status.", true),
        ("labelSelectorPath", "", false),
    ] {
        let node = scale.field(field);
        let path = node.str();
        if path.is_empty() {
            if required {
                errors.required(&node.path, "");
            }
        } else if !path.starts_with('.') {
            errors.invalid(&node.path, path, "must be a simple json path starting with .");
        } else if required && !path.starts_with(place) {
            let place = place.trim_end_matches('.');
            errors.invalid(&node.path, path, &format!("should be a json path under {place}"));
        } else if !required && !path.starts_with(".spec.") && !path.starts_with(".status.") {
            errors.invalid(&node.path, path, "should be a json path under either .spec or .status");
        }
    }
}

pub(super) fn validate_columns(columns: Node<'_, '_>, errors: &mut Errors) {
    for column in columns.items() {
        let (name, kind, format) = (column.field("name"), column.field("type"), column.field("format"));
        if name.str().is_empty() {
            errors.required(&name.path, "");
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        if kind.str().is_empty() {
            errors.required(&kind.path, &types);
        } else if !COLUMN_TYPES.contains(&kind.str()) {
            errors.invalid(&kind.path, kind.str(), &types);
        }
        if !format.str().is_empty() && !COLUMN_FORMATS.contains(&format.str()) {
            errors.invalid(&format.path, format.str(), &format!("must be one of {}", COLUMN_FORMATS.join(",")));
        }
        let (path, at) = (column.field("jsonPath").str().to_owned(), column.path.field("JSONPath"));
        if path.is_empty() {
            errors.required(&at, "");
        } else if !path.starts_with('.') {
            errors.invalid(&at, path, "must be a simple json path starting with .");
        }
    }
}

pub(super) fn validate_selectable(fields: Node<'_, '_>, schema: &Value, errors: &mut Errors) {
    let structure = Structure::compile(schema);
    let mut seen: Vec<String> = Vec::new();
    for field in fields.items() {
        let path = field.field("jsonPath");
        if path.str().is_empty() {
            errors.required(&path.path, "");
            continue;
        }
        let names: Vec<&str> = path.str().strip_prefix('.').map(|names| names.split('.').collect()).unwrap_or_default();
        let found = names.iter().try_fold(&structure, |structure, name| structure.property(name));
        if names.first() == Some(&"metadata") {
            errors.invalid(&path.path, path.str(), "must not point to fields in metadata");
            continue;
        }
        let Some(found) = found.filter(|_| !names.is_empty()) else {
            let detail = match path.str().starts_with('.') {
                true => "is an invalid path: does not refer to a valid field",
                false => "is an invalid path: expected [ or . but got: other",
            };
            errors.invalid(&path.path, path.str(), detail);
            continue;
        };
        if !matches!(found.kind, Kind::String | Kind::Boolean | Kind::Integer) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.invalid(&path.path, path.str(), detail);
        }
        match seen.iter().any(|known| known == path.str()) {
            true => errors.duplicate(&path.path, path.str()),
            false => seen.push(path.str().to_owned()),
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.too_many(&fields.path, seen.len(), MAX_SELECTABLE_FIELDS);
    }
}
