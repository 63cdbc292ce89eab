//! Putting an applied configuration into an object: what it says holds, what it does not mention stays.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::path_element::{PathElement, same};
use super::view::{self, View};
use crate::schema::{List, Type};

/// The object with the configuration in it; `None` where that changes nothing. The configuration has been checked.
pub fn merge(live: &Value, config: &Value, object_type: Type<'_>) -> Option<Value> {
    match (View::of(config, object_type), live, config) {
        (View::Map, Value::Object(live), Value::Object(config)) if !config.is_empty() => {
            merge_entries(live, config, object_type).map(Value::Object)
        }
        (View::List(list), Value::Array(live), Value::Array(config)) if !config.is_empty() && !live.is_empty() => {
            merge_items(live, config, list, object_type.element()).map(Value::Array)
        }
        // To say nothing of what is in a map or list takes nothing from it.
        (View::Map, Value::Object(live), Value::Object(_) | Value::Null) if !live.is_empty() => None,
        (View::List(_), Value::Array(live), Value::Array(_) | Value::Null) if !live.is_empty() => None,
        _ => (!same(live, config)).then(|| config.clone()),
    }
}

fn merge_entries(
    live: &Map<String, Value>,
    config: &Map<String, Value>,
    object_type: Type<'_>,
) -> Option<Map<String, Value>> {
    let mut merged: Option<Map<String, Value>> = None;
    for (key, value) in config {
        let changed = match live.get(key) {
            Some(live) => merge(live, value, object_type.entry(key)),
            None => Some(value.clone()),
        };
        if let Some(changed) = changed {
            merged.get_or_insert_with(|| live.clone()).insert(key.clone(), changed);
        }
    }
    merged
}

/// Where an element of a merged list comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Origin {
    live: Option<usize>,
    config: Option<usize>,
}

fn merge_items(live: &[Value], config: &[Value], list: &List, element_type: Type<'_>) -> Option<Vec<Value>> {
    let name = |item: &Value| view::element(item, list, element_type).ok();
    let live_names: Vec<Option<PathElement>> = live.iter().map(name).collect();
    let config_names: Vec<PathElement> = config.iter().filter_map(name).collect();
    let origins = order(&live_names, &config_names);
    let merged: Vec<Option<Value>> = origins
        .iter()
        .map(|origin| match (origin.live, origin.config) {
            (Some(from), Some(with)) => merge(&live[from], &config[with], element_type),
            (None, Some(with)) => Some(config[with].clone()),
            (_, None) => None,
        })
        .collect();
    let in_place = origins.iter().map(|origin| origin.live).eq((0..live.len()).map(Some));
    if in_place && merged.iter().all(Option::is_none) {
        return None;
    }
    let items = origins
        .iter()
        .zip(merged)
        .filter_map(|(origin, changed)| changed.or_else(|| origin.live.map(|from| live[from].clone())));
    Some(items.collect())
}

/// The elements of both lists, each once: those of the configuration in its order, and between them, where they were,
/// those that only the object has.
fn order(live: &[Option<PathElement>], config: &[PathElement]) -> Vec<Origin> {
    let places: BTreeMap<&PathElement, usize> = config.iter().enumerate().map(|(place, name)| (name, place)).collect();
    let place_of = |name: &Option<PathElement>| name.as_ref().and_then(|name| places.get(name)).copied();
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, name) in live.iter().enumerate() {
        if let Some(place) = place_of(name) {
            found.entry(place).or_default().push(index);
        }
    }
    // An element that stands in the object twice is not merged but replaced.
    let origin = |place: usize| match found.get(&place).map(Vec::as_slice) {
        Some([index]) => Origin { live: Some(*index), config: Some(place) },
        _ => Origin { live: None, config: Some(place) },
    };
    let mut shared = (0..config.len()).filter(|place| found.contains_key(place)).peekable();
    let (mut origins, mut index, mut place) = (Vec::with_capacity(live.len().max(config.len())), 0, 0);
    while index < live.len() || place < config.len() {
        match live.get(index).map(place_of) {
            Some(None) => {
                origins.push(Origin { live: Some(index), config: None });
                index += 1;
            }
            Some(Some(at)) if place < config.len() && shared.peek().is_some_and(|next| *next != at) => index += 1,
            Some(Some(at)) if at < place => {
                index += 1;
                if place < config.len() {
                    origins.push(origin(place));
                    place += 1;
                }
            }
            at => {
                origins.push(origin(place));
                shared.next_if_eq(&place);
                if at == Some(Some(place)) {
                    index += 1;
                }
                place += 1;
            }
        }
    }
    origins
}
