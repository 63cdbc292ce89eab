//! Filling in what the writer of a custom object left out, as its schema says.

use serde_json::Value;

use super::structure::Structure;

/// Takes out nulls that may not be there, and puts in defaults. Idempotent.
pub fn default(value: &mut Value, schema: &Structure) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| {
                let below = schema.entry(name);
                !(field.is_null() && below.is_some_and(|below| !below.nullable && below.default.is_none()))
            });
            for (name, property) in schema.properties() {
                let Some(default) = &property.default else { continue };
                match fields.get_mut(name) {
                    Some(field) if field.is_null() && !property.nullable => *field = (**default).clone(),
                    Some(_) => {}
                    None => {
                        fields.insert(name.to_owned(), (**default).clone());
                    }
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(below) = schema.entry(name) {
                    fill(field, below);
                }
            }
        }
        Value::Array(items) => {
            let Some(element) = schema.items.as_deref() else { return };
            for item in items {
                fill(item, element);
            }
        }
        _ => {}
    }
}

fn fill(value: &mut Value, schema: &Structure) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = (**default).clone();
    }
    default(value, schema);
}
