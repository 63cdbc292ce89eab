//! Strategic merge patch: a merge patch that knows which lists are merged by key, and takes directives.
//!
//! The directives: `$patch` (`replace` or `delete`) in an object or in an element of a merged list, `$retainKeys` (drop all
//! other fields first), `$deleteFromPrimitiveList/FIELD` and `$setElementOrder/FIELD`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::PatchError;
use super::order::{Order, by_key};
use crate::schema::{Schema, Type, sort_of};
use crate::schema_facts::Patch;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// The object, changed by the patch as the schema of its kind says.
pub fn strategic_merge(object: Value, patch: Value, schema: &Schema) -> Result<Value, PatchError> {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => merge_objects(object, patch, schema.root()).map(Value::Object),
        _ => Err(malformed("a strategic merge patch is an object")),
    }
}

fn merge_objects(
    mut object: Map<String, Value>,
    mut patch: Map<String, Value>,
    object_type: Type<'_>,
) -> Result<Map<String, Value>, PatchError> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => {
            patch.remove(DIRECTIVE);
            return Ok(patch);
        }
        Some(Value::String(directive)) if directive == "delete" => return Ok(Map::new()),
        Some(directive) => return Err(unknown_directive(directive)),
    }
    retain_keys(&mut object, &mut patch)?;
    set_element_orders(&mut object, &mut patch, object_type)?;
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            delete_from_list(&mut object, list, value)?;
            continue;
        }
        let merged = match (object.remove(&key), value) {
            (_, Value::Null) => None,
            (Some(Value::Object(old)), Value::Object(new)) if !is_replaced(object_type, &key) => {
                Some(Value::Object(merge_objects(old, new, object_type.entry(&key))?))
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                Some(Value::Array(merge_field(old, new, object_type, &key)?))
            }
            (_, new) => without_directives(without_nulls(new)),
        };
        if let Some(merged) = merged {
            object.insert(key, merged);
        }
    }
    Ok(object)
}

/// Whether the object in a field is not merged with the patch's.
fn is_replaced(object_type: Type<'_>, field: &str) -> bool {
    object_type.field(field).is_some_and(|field| field.patch.replace)
}

/// Drops the fields that `$retainKeys` does not name.
fn retain_keys(object: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || malformed("invalid patch format of retainKeys");
    let retained: HashSet<&str> = retained.as_array().ok_or_else(bad)?.iter().filter_map(Value::as_str).collect();
    let given =
        |(key, value): (&String, &Value)| !value.is_null() && !key.starts_with('$') && !retained.contains(key.as_str());
    if patch.iter().any(given) {
        return Err(bad());
    }
    object.retain(|key, _| retained.contains(key.as_str()));
    Ok(())
}

/// Merges the lists for which the patch gives an order, and takes them out of it.
fn set_element_orders(
    object: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    object_type: Type<'_>,
) -> Result<(), PatchError> {
    let bad = || malformed("invalid patch format of setElementOrder list");
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(Value::Array(order)) = patch.remove(&directive) else { return Err(bad()) };
        let list = &directive[ELEMENT_ORDER.len()..];
        let facts = object_type.field(list).map_or(Patch::default(), |field| field.patch);
        let order = Order::of(&order, facts.merge_key)?;
        let new = match patch.remove(list) {
            None => None,
            Some(Value::Array(new)) => Some(new),
            Some(_) => return Err(bad()),
        };
        if let Some(new) = &new {
            order.check(new.iter().filter(|item| item.get(DIRECTIVE).is_none()), facts.merge_key)?;
        }
        let (old, new) = match (object.remove(list), new) {
            (None | Some(Value::Null), None) => continue,
            (None | Some(Value::Null), Some(new)) => (Vec::new(), new),
            (Some(Value::Array(old)), new) => (old, new.unwrap_or_default()),
            (Some(_), _) => return Err(bad()),
        };
        let old_order = Order::of(&old, facts.merge_key)?;
        let merged = merge_field(old, new, object_type, list)?;
        object.insert(list.to_owned(), Value::Array(order.arrange(merged, &old_order, facts.merge_key)?));
    }
    Ok(())
}

fn delete_from_list(object: &mut Map<String, Value>, list: &str, deleted: Value) -> Result<(), PatchError> {
    let Value::Array(deleted) = deleted else { return Err(malformed("invalid patch format of primitive list")) };
    if let Some(Value::Array(items)) = object.get_mut(list) {
        let deleted = Order::of(&deleted, None)?;
        items.retain(|item| !deleted.contains(item, None));
    }
    Ok(())
}

/// Merges or replaces the list in a field.
fn merge_field(old: Vec<Value>, new: Vec<Value>, object_type: Type<'_>, field: &str) -> Result<Vec<Value>, PatchError> {
    let facts = object_type.field(field).map_or(Patch::default(), |field| field.patch);
    match (facts.merge, facts.merge_key) {
        (false, _) => Ok(new),
        (true, None) => merge_values(old, new),
        (true, Some(merge_key)) => merge_elements(old, new, merge_key, object_type.entry(field).element()),
    }
}

/// Unites two lists of plain values.
fn merge_values(old: Vec<Value>, new: Vec<Value>) -> Result<Vec<Value>, PatchError> {
    let (old_order, order) = (Order::of(&old, None)?, Order::of(&new, None)?);
    let mut both = old;
    both.extend(new);
    order.arrange(Order::distinct(both), &old_order, None)
}

/// Merges the elements of the two lists that have the same key.
fn merge_elements(
    old: Vec<Value>,
    new: Vec<Value>,
    merge_key: &'static str,
    element_type: Type<'_>,
) -> Result<Vec<Value>, PatchError> {
    let (mut old, mut kept, mut deleted, mut replace) = (objects(old)?, Vec::new(), HashSet::new(), false);
    for element in objects(new)? {
        match element.get(DIRECTIVE).map(Value::as_str) {
            None => kept.push(element),
            Some(Some("delete")) => {
                deleted.insert(by_key(&element, merge_key)?);
            }
            Some(Some("replace")) => replace = true,
            Some(_) => return Err(unknown_directive(&element[DIRECTIVE])),
        }
    }
    if replace {
        return Ok(kept.into_iter().map(Value::Object).collect());
    }
    if !deleted.is_empty() {
        old.retain(|element| !by_key(element, merge_key).is_ok_and(|key| deleted.contains(&key)));
    }
    let old: Vec<Value> = old.into_iter().map(Value::Object).collect();
    let new: Vec<Value> = kept.into_iter().map(Value::Object).collect();
    let (old_order, order) = (Order::of(&old, Some(merge_key))?, Order::of(&new, Some(merge_key))?);

    let mut merged = old;
    let mut added: Vec<Value> = Vec::new();
    let mut added_order = Order::default();
    for element in new {
        let key = Some(merge_key);
        let place = match (old_order.position(&element, key), added_order.position(&element, key)) {
            (Some(place), _) => &mut merged[place],
            (None, Some(place)) => &mut added[place],
            (None, None) => {
                added_order.push(&element, key)?;
                added.push(element);
                continue;
            }
        };
        if let (Value::Object(old), Value::Object(new)) = (place.take(), element) {
            *place = Value::Object(merge_objects(old, new, element_type)?);
        }
    }
    merged.append(&mut added);
    order.arrange(merged, &old_order, Some(merge_key))
}

fn objects(list: Vec<Value>) -> Result<Vec<Map<String, Value>>, PatchError> {
    let object = |element| match element {
        Value::Object(object) => Ok(object),
        other => Err(malformed(&format!("expected an object in the list, but received {}", sort_of(&other)))),
    };
    list.into_iter().map(object).collect()
}

/// A value that is new to the object: nulls in it delete nothing.
fn without_nulls(mut value: Value) -> Value {
    fn discard(value: &mut Value) {
        match value {
            Value::Object(entries) => {
                entries.retain(|_, value| !value.is_null());
                entries.values_mut().for_each(discard);
            }
            Value::Array(items) => items.iter_mut().for_each(discard),
            _ => {}
        }
    }
    discard(&mut value);
    value
}

/// A value that is new to the object: what only directs a merge is no part of it.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(entries) if entries.contains_key(DIRECTIVE) => None,
        Value::Object(entries) => {
            let kept = entries.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

/// Of the map, which may hold secrets, only the directive is shown.
fn unknown_directive(directive: &Value) -> PatchError {
    malformed(&match directive {
        Value::String(directive) => format!("unknown patch type: {directive} in map: map[{DIRECTIVE}:{directive}]"),
        other => format!("unknown patch type: {}", sort_of(other)),
    })
}

fn malformed(message: &str) -> PatchError {
    PatchError::Malformed(message.to_owned())
}
