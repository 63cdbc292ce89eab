//! Filling in what the writer of an object left out.

use serde_json::{Map, Value};

use crate::object_size::{SURELY_TOO_LARGE, least_text_len};

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

/// A list up to this length is not measured.
const SHORT_LIST: usize = 32;

/// Gives each element of a list its defaults, if there is a list. Stops once the elements are larger than any object may
/// be, so a short text cannot become a huge value; an object so large is refused.
pub(super) fn each(object: &mut Value, field: &str, mut fill: impl FnMut(&mut Value)) {
    let Some(items) = object.get_mut(field).and_then(Value::as_array_mut) else { return };
    let is_long = items.len() > SHORT_LIST;
    let mut bytes = 0;
    for item in items {
        if bytes > SURELY_TOO_LARGE {
            return;
        }
        fill(item);
        if is_long {
            bytes += least_text_len(item) + 1;
        }
    }
}

/// The elements of a list; none if there is no list.
pub(super) fn items<'v>(object: &'v mut Value, field: &str) -> impl Iterator<Item = &'v mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_gets_its_defaults_as_long_as_it_can_be_stored() {
        let fill_all = |count: usize| {
            let mut object = json!({"list": vec![json!({}); count]});
            let mut filled = 0;
            each(&mut object, "list", |item| {
                filled += 1;
                fill(item, "field", "x".repeat(1_000));
            });
            (filled, object)
        };
        for count in [0, 1, SHORT_LIST, SHORT_LIST + 1, 1_500] {
            assert_eq!(fill_all(count).0, count);
        }
        let (filled, object) = fill_all(1_000_000);
        assert!((1_500..1_700).contains(&filled), "{filled} elements were filled");
        assert!(crate::object_size::check(&object, None).is_err(), "what is left out is not stored");
    }
}
