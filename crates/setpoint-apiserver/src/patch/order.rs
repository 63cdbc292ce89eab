//! The order of a list's elements before and after a strategic merge.
//!
//! Elements are told apart by a merge key, or by their whole value. Those that the patch names come in the patch's order;
//! the others keep theirs, and stay before what they stood before.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{GoText, PatchError};
use crate::schema::sort_of;

/// Where each element of a list stands, found by what tells it apart.
#[derive(Debug, Default)]
pub(super) struct Order(HashMap<String, usize>);

impl Order {
    /// The first place of each element of `list`.
    pub(super) fn of(list: &[Value], merge_key: Option<&str>) -> Result<Order, PatchError> {
        let mut places = HashMap::with_capacity(list.len());
        for (place, element) in list.iter().enumerate() {
            places.entry(identity(element, merge_key)?).or_insert(place);
        }
        Ok(Order(places))
    }

    pub(super) fn push(&mut self, element: &Value, merge_key: Option<&str>) -> Result<(), PatchError> {
        let place = self.0.len();
        self.0.entry(identity(element, merge_key)?).or_insert(place);
        Ok(())
    }

    pub(super) fn position(&self, element: &Value, merge_key: Option<&str>) -> Option<usize> {
        self.0.get(&identity(element, merge_key).ok()?).copied()
    }

    pub(super) fn contains(&self, element: &Value, merge_key: Option<&str>) -> bool {
        self.position(element, merge_key).is_some()
    }

    /// The list without repetitions.
    pub(super) fn distinct(list: Vec<Value>) -> Vec<Value> {
        let mut seen = Order::default();
        list.into_iter()
            .filter(|element| {
                let new = !seen.contains(element, None);
                seen.0.insert(element.to_string(), 0);
                new
            })
            .collect()
    }

    /// Refuses a list that has elements in another order than this, or elements this order does not have.
    pub(super) fn check<'v>(
        &self,
        list: impl Iterator<Item = &'v Value>,
        merge_key: Option<&str>,
    ) -> Result<(), PatchError> {
        let mut last = None;
        for element in list {
            let place = self.0.get(&identity(element, merge_key)?).copied();
            if place.is_none() || place <= last {
                return Err(PatchError::Malformed("an element is not where $setElementOrder has it".to_owned()));
            }
            last = place;
        }
        Ok(())
    }

    /// Arranges a merged list: the elements of this order as it has them, the others as `old` has them.
    pub(super) fn arrange(
        &self,
        list: Vec<Value>,
        old: &Order,
        merge_key: Option<&str>,
    ) -> Result<Vec<Value>, PatchError> {
        let mut named: Vec<(usize, Option<usize>, Value)> = Vec::new();
        let mut others: Vec<(Option<usize>, Value)> = Vec::new();
        for element in list {
            let identity = identity(&element, merge_key)?;
            let was = old.0.get(&identity).copied();
            match self.0.get(&identity) {
                Some(place) => named.push((*place, was, element)),
                None => others.push((was, element)),
            }
        }
        named.sort_by_key(|(place, _, _)| *place);
        others.sort_by_key(|(was, _)| *was);
        let mut arranged = Vec::with_capacity(named.len() + others.len());
        let mut others = others.into_iter().peekable();
        for (_, was, element) in named {
            // An element without a place of its own before lets no other pass.
            while let Some((_, other)) = others.next_if(|(other, _)| was.is_some() && *other < was) {
                arranged.push(other);
            }
            arranged.push(element);
        }
        arranged.extend(others.map(|(_, element)| element));
        Ok(arranged)
    }
}

/// What tells an element apart.
fn identity(element: &Value, merge_key: Option<&str>) -> Result<String, PatchError> {
    match (merge_key, element) {
        (None, Value::Object(_) | Value::Array(_)) => {
            let received = sort_of(element);
            Err(PatchError::Malformed(format!("expected a plain value in the list, but received {received}")))
        }
        (None, plain) => Ok(plain.to_string()),
        (Some(merge_key), Value::Object(object)) => by_key(object, merge_key),
        (Some(_), other) => {
            let received = sort_of(other);
            Err(PatchError::Malformed(format!("expected an object in the list, but received {received}")))
        }
    }
}

pub(super) fn by_key(object: &Map<String, Value>, merge_key: &str) -> Result<String, PatchError> {
    object.get(merge_key).map(Value::to_string).ok_or_else(|| {
        let object = Value::Object(object.clone());
        let message = format!("map: {} does not contain declared merge key: {merge_key}", GoText(&object));
        PatchError::Malformed(message)
    })
}
