//! How an apply looks at a value: as one, as a map of entries, or as a list of elements that have names.

use serde_json::Value;

use super::path_element::PathElement;
use crate::schema::{List, ListType, Shape, Type};

#[derive(Debug, Clone, Copy)]
pub(super) enum View<'s> {
    Leaf,
    Map,
    List(&'s List),
}

impl<'s> View<'s> {
    /// What is of a type that nothing is known of shows by itself what it is; a list is then one value.
    pub(super) fn of(value: &Value, value_type: Type<'s>) -> View<'s> {
        if value_type.is_atomic() {
            return View::Leaf;
        }
        match value_type.shape() {
            Shape::Any if value.is_object() || value.is_null() => View::Map,
            Shape::Object(_) | Shape::Map(_) => View::Map,
            Shape::List(list) => View::List(list),
            _ => View::Leaf,
        }
    }
}

/// Whether a value that counts as one is of the right sort. Its exact form is for the schema to judge, once it is merged.
pub(super) fn fits(value: &Value, value_type: Type<'_>) -> bool {
    match value_type.shape() {
        Shape::Boolean => matches!(value, Value::Bool(_) | Value::Null),
        Shape::Int32 | Shape::Int64 | Shape::Number => matches!(value, Value::Number(_) | Value::Null),
        Shape::String | Shape::Bytes => matches!(value, Value::String(_) | Value::Null),
        Shape::Time | Shape::MicroTime | Shape::Quantity | Shape::IntOrString => {
            !matches!(value, Value::Object(_) | Value::Array(_))
        }
        Shape::List(_) => matches!(value, Value::Array(_) | Value::Null),
        Shape::Map(_) | Shape::Object(_) => matches!(value, Value::Object(_) | Value::Null),
        Shape::Any => true,
    }
}

/// What tells an element of a list from the others; an error where it is no element of such a list.
pub(super) fn element(item: &Value, list: &List, element_type: Type<'_>) -> Result<PathElement, String> {
    match &list.list_type {
        ListType::Map(keys) => keyed(item, keys, element_type),
        ListType::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
            value => Ok(PathElement::Value(value.clone())),
        },
        ListType::Atomic => Err("invalid indexing of non-associative list".to_owned()),
    }
}

fn keyed(item: &Value, keys: &[Box<str>], element_type: Type<'_>) -> Result<PathElement, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let found = keys.iter().filter_map(|key| {
        let value = fields.get(&**key).cloned().or_else(|| element_type.key_default(key));
        value.map(|value| (key.clone(), value))
    });
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        let names: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values \
             for any key fields)",
            names.join(" ")
        ));
    }
    Ok(PathElement::key(found))
}
