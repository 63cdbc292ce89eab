//! Filling in what the writer of a custom object left out, as its schema says.

use serde_json::Value;

use super::structure::Structure;
use crate::object_size::{SURELY_TOO_LARGE, least_field_len, least_text_len};

/// Takes out nulls that may not be there, and puts in defaults. Idempotent. Stops once the defaults alone are larger than
/// any object may be, so a short text cannot become a huge value; an object so large is refused.
pub fn default(value: &mut Value, schema: &Structure) {
    fill_in(value, schema, &mut Added(0));
}

/// How many bytes of text the defaults have.
struct Added(usize);

impl Added {
    fn is_too_much(&self) -> bool {
        self.0 > SURELY_TOO_LARGE
    }

    /// A copy of a default, of which the text is at least so long.
    fn copy(&mut self, default: &Value, bytes: usize) -> Value {
        self.0 += bytes;
        default.clone()
    }
}

fn fill_in(value: &mut Value, schema: &Structure, added: &mut Added) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| {
                let below = schema.entry(name);
                !(field.is_null() && below.is_some_and(|below| !below.nullable && below.default.is_none()))
            });
            for (name, property) in schema.properties() {
                let Some(default) = &property.default else { continue };
                if added.is_too_much() {
                    return;
                }
                let bytes = least_field_len(name, default);
                match fields.get_mut(name) {
                    Some(field) if field.is_null() && !property.nullable => *field = added.copy(default, bytes),
                    Some(_) => {}
                    None => {
                        fields.insert(name.to_owned(), added.copy(default, bytes));
                    }
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(below) = schema.entry(name) {
                    fill(field, below, added);
                }
            }
        }
        Value::Array(items) => {
            let Some(element) = schema.items.as_deref() else { return };
            for item in items {
                fill(item, element, added);
            }
        }
        _ => {}
    }
}

fn fill(value: &mut Value, schema: &Structure, added: &mut Added) {
    if added.is_too_much() {
        return;
    }
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = added.copy(default, least_text_len(default) + 1);
    }
    fill_in(value, schema, added);
}
