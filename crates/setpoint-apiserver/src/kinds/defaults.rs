//! Filling in what the writer of an object left out.

use serde_json::{Map, Value};

/// The object under a field, made if there is none. A field of another type is replaced: the schema has refused such
/// an object before.
pub(super) fn section<'v>(object: &'v mut Value, field: &str) -> &'v mut Value {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let section = &mut object[field];
    if !section.is_object() {
        *section = Value::Object(Map::new());
    }
    section
}

/// Sets a field that is absent or null.
pub(super) fn fill(object: &mut Value, field: &str, value: impl Into<Value>) {
    if object[field].is_null() {
        object[field] = value.into();
    }
}

/// Sets a field of text that is absent or empty.
pub(super) fn fill_text(object: &mut Value, field: &str, value: &str) {
    if object[field].as_str().unwrap_or_default().is_empty() {
        object[field] = Value::from(value);
    }
}

/// Shows a field that has no value, where Kubernetes' types show it as `null`.
pub(super) fn show_null(object: &mut Value, field: &str) {
    if let Value::Object(fields) = object {
        fields.entry(field).or_insert(Value::Null);
    }
}

/// Removes a field.
pub(super) fn remove(object: &mut Value, field: &str) {
    if let Value::Object(fields) = object {
        fields.remove(field);
    }
}

/// The elements of a list; none if there is no list.
pub(super) fn items<'v>(object: &'v mut Value, field: &str) -> impl Iterator<Item = &'v mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}
