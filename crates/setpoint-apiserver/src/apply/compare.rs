//! What differs between two objects, field by field.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::path_element::{PathElement, same};
use super::view::{self, View};
use crate::schema::{List, Type};

/// The fields that a change touches. No field is in two of the sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    pub removed: FieldSet,
    pub modified: FieldSet,
    pub added: FieldSet,
}

impl Comparison {
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Adds what became of one element. Most changes are of one sort, so the element is rarely needed more than once.
    fn add(&mut self, element: PathElement, change: Option<Change>, below: Comparison) {
        let sorts = [
            (&mut self.removed, change == Some(Change::Removed), below.removed),
            (&mut self.modified, change == Some(Change::Modified), below.modified),
            (&mut self.added, change == Some(Change::Added), below.added),
        ];
        let mut element = Some(element);
        let mut left = sorts.iter().filter(|(_, member, below)| *member || !below.is_empty()).count();
        for (set, member, below) in sorts {
            if !member && below.is_empty() {
                continue;
            }
            left -= 1;
            let own = if left == 0 { element.take() } else { element.clone() };
            set.add(own.expect("it is taken by the last that needs it"), member, below);
        }
    }
}

/// What became of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Removed,
    Modified,
    Added,
}

pub fn compare(old: &Value, new: &Value, object_type: Type<'_>) -> Comparison {
    walk(Some(old), Some(new), object_type).1
}

fn walk(old: Option<&Value>, new: Option<&Value>, value_type: Type<'_>) -> (Option<Change>, Comparison) {
    let view_of = |value: Option<&Value>| value.map(|value| View::of(value, value_type));
    let (mut below, mut leaf) = (Comparison::default(), false);
    match (view_of(old), view_of(new)) {
        (Some(View::List(list)), _) | (_, Some(View::List(list))) => {
            let (old, new) = (items(old), items(new));
            if old.is_empty() && new.is_empty() {
                leaf = true;
            } else {
                walk_items(old, new, list, value_type.element(), &mut below);
            }
        }
        (Some(View::Map), _) | (_, Some(View::Map)) => {
            let (before, after) = (entries(old), entries(new));
            let is_map = |value: Option<&Value>| value.is_none_or(|value| value.is_object() || value.is_null());
            leaf = before.is_none() && after.is_none() || !is_map(old) || !is_map(new);
            walk_entries(before, after, value_type, &mut below);
        }
        _ => leaf = true,
    }
    let change = match (old, new) {
        (None, _) => Some(Change::Added),
        (_, None) => Some(Change::Removed),
        (Some(old), Some(new)) if leaf && !same(old, new) => Some(Change::Modified),
        _ => None,
    };
    (change, below)
}

/// The entries of a map that has some.
fn entries(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object).filter(|entries| !entries.is_empty())
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn walk_entries(
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    value_type: Type<'_>,
    into: &mut Comparison,
) {
    let mut entry = |key: &str, old: Option<&Value>, new: Option<&Value>| {
        let (change, below) = walk(old, new, value_type.entry(key));
        if change.is_some() || !below.is_empty() {
            into.add(PathElement::field(key), change, below);
        }
    };
    let gone =
        old.into_iter().flatten().map(|(key, _)| key).filter(|key| new.is_none_or(|new| !new.contains_key(*key)));
    let mut keys: Vec<&String> = gone.collect();
    let sorted = keys.is_empty();
    keys.extend(new.into_iter().flatten().map(|(key, _)| key));
    if !sorted {
        // So that every set grows at its end.
        keys.sort_unstable();
    }
    for key in keys {
        entry(key, old.and_then(|old| old.get(key)), new.and_then(|new| new.get(key)));
    }
}

/// What a list has under one name, before and after. More than one value is a fault that a list may have been stored
/// with; they count as one.
#[derive(Default)]
struct Named<'v> {
    old: Vec<&'v Value>,
    new: Vec<&'v Value>,
}

fn walk_items(old: &[Value], new: &[Value], list: &List, element_type: Type<'_>, into: &mut Comparison) {
    let mut named: BTreeMap<PathElement, Named<'_>> = BTreeMap::new();
    for item in old {
        if let Ok(element) = view::element(item, list, element_type) {
            named.entry(element).or_default().old.push(item);
        }
    }
    for item in new {
        if let Ok(element) = view::element(item, list, element_type) {
            named.entry(element).or_default().new.push(item);
        }
    }
    for (element, Named { old, new }) in named {
        let (change, below) = match (old.as_slice(), new.as_slice()) {
            ([] | [_], [] | [_]) => walk(old.first().copied(), new.first().copied(), element_type),
            ([_, _, ..], [_, _, ..]) => {
                let equal = old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| same(old, new));
                ((!equal).then_some(Change::Modified), Comparison::default())
            }
            ([_, _, ..], rest) => {
                let (_, below) = rest.first().map(|new| walk(None, Some(new), element_type)).unwrap_or_default();
                (Some(Change::Removed), below)
            }
            (rest, _) => {
                let (_, below) = rest.first().map(|old| walk(Some(old), None, element_type)).unwrap_or_default();
                (Some(Change::Added), below)
            }
        };
        if change.is_some() || !below.is_empty() {
            into.add(element, change, below);
        }
    }
}
