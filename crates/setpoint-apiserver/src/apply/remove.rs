//! Taking fields out of an object.

use serde_json::Value;

use super::compare::compare;
use super::extract::fields;
use super::field_set::FieldSet;
use super::path_element::PathElement;
use super::view::{self, View};
use crate::schema::Type;

/// Removes the fields and elements of a set. What becomes empty by that is null.
pub fn remove(value: &mut Value, gone: &FieldSet, value_type: Type<'_>) {
    let view = View::of(value, value_type);
    match (view, &mut *value) {
        (View::Map, Value::Object(entries)) => {
            entries.retain(|key, entry| {
                let element = PathElement::field(key);
                if gone.has_member(&element) {
                    return false;
                }
                if let Some(gone) = gone.below(&element) {
                    remove(entry, gone, value_type.entry(key));
                }
                true
            });
            if entries.is_empty() {
                *value = Value::Null;
            }
        }
        (View::List(list), Value::Array(items)) => {
            let element_type = value_type.element();
            items.retain_mut(|item| {
                let Ok(element) = view::element(item, list, element_type) else { return true };
                if gone.has_member(&element) {
                    return false;
                }
                if let Some(gone) = gone.below(&element) {
                    remove(item, gone, element_type);
                }
                true
            });
            if items.is_empty() {
                *value = Value::Null;
            }
        }
        _ => {}
    }
}

/// Removes from a merged object what its applier had applied before (`last`) and does not any more, unless somebody else
/// owns it. `owned` is what anybody owns now, the applier included.
pub fn prune(merged: &mut Value, last: &FieldSet, owned: &FieldSet, object_type: Type<'_>) {
    let last = last.with_named_fields(object_type);
    let whole = fields(merged, object_type).with_named_fields(object_type);
    let left = |gone: &FieldSet| {
        let mut pruned = merged.clone();
        remove(&mut pruned, gone, object_type);
        fields(&pruned, object_type).with_named_fields(object_type)
    };
    // First without all that was applied before; then with what is owned back in it, together with what it lies in; and
    // of what is then missing, only that goes which was the applier's.
    let kept = left(&last).union(owned.with_named_fields(object_type));
    let kept = left(&whole.clone().difference(&kept));
    let gone = whole.difference(&kept).intersection(&last);
    remove(merged, &gone, object_type);
}

/// The fields of a configuration that an object still has as the configuration says.
pub(super) fn still_as_applied(config: &Value, live: &Value, object_type: Type<'_>) -> FieldSet {
    let changes = compare(config, live, object_type);
    fields(config, object_type).difference(&changes.modified).difference(&changes.added).difference(&changes.removed)
}
