//! Maps and objects: of the data, or made by an expression. Their entries always come in the order of their keys.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::compare::{equal, weight};
use super::data_type::{DataKind, DataType};
use super::identifier::{escape, unescape};
use super::value::{Fault, Meter, Text, Value};

#[derive(Debug, Clone)]
pub(super) enum Map<'a> {
    Data { entries: &'a serde_json::Map<String, Json>, data: &'a DataType },
    Made(Rc<BTreeMap<Key<'a>, Value<'a>>>),
}

/// A key of a map. `1` and `1u` are the same key.
#[derive(Debug, Clone)]
pub(super) enum Key<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Text<'a>),
}

impl<'a> Key<'a> {
    /// The key that a value is or finds; none if it can be no key.
    pub(super) fn of(value: &Value<'a>) -> Option<Key<'a>> {
        Some(match value {
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(value) => Key::Int(*value),
            Value::Uint(value) => Key::Uint(*value),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 9e15 => Key::Int(*value as i64),
            Value::String(value) => Key::String(value.clone()),
            _ => return None,
        })
    }

    pub(super) fn value(&self) -> Value<'a> {
        match self {
            Key::Bool(value) => Value::Bool(*value),
            Key::Int(value) => Value::Int(*value),
            Key::Uint(value) => Value::Uint(*value),
            Key::String(value) => Value::String(value.clone()),
        }
    }

    /// How long it is, if it is a text.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Key::String(value) => value.len(),
            _ => 0,
        }
    }

    fn rank(&self) -> (u8, i128, &str) {
        match self {
            Key::Bool(value) => (0, i128::from(*value), ""),
            Key::Int(value) => (1, i128::from(*value), ""),
            Key::Uint(value) => (1, i128::from(*value), ""),
            Key::String(value) => (2, 0, value),
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Key<'_> {}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// What it costs to find an entry in two maps, besides comparing it.
const ENTRY_COST: u64 = 3;

impl<'a> Map<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Map::Data { entries, .. } => entries.len(),
            Map::Made(entries) => entries.len(),
        }
    }

    /// The value under a key. In an object, a field that is null is absent.
    pub(super) fn get(&self, key: &Value<'a>, meter: &mut Meter) -> Result<Option<Value<'a>>, Fault> {
        match self {
            Map::Data { data, .. } => {
                let Value::String(key) = key else { return Err(Fault::no_such_overload()) };
                meter.charge_text(key.len().saturating_sub(10))?;
                let name = match &data.kind {
                    DataKind::Object(_) => unescape(key),
                    _ => Some(Cow::Borrowed(&**key)),
                };
                name.map_or(Ok(None), |name| self.field(&name, meter))
            }
            Map::Made(entries) => {
                let Some(key) = Key::of(key) else { return Ok(None) };
                meter.charge_lookup(key.bytes(), entries.len())?;
                Ok(entries.get(&key).cloned())
            }
        }
    }

    /// The value of a field by the name that stands in the data.
    pub(super) fn field(&self, name: &str, meter: &mut Meter) -> Result<Option<Value<'a>>, Fault> {
        meter.charge_lookup(name.len(), self.len())?;
        match self {
            Map::Data { entries, data } => {
                let (Some(value), Some((inner, is_object))) = (entries.get(name), type_of(data, name)) else {
                    return Ok(None);
                };
                if is_object && value.is_null() {
                    return Ok(None);
                }
                Value::of_data(value, inner, meter).map(Some)
            }
            Map::Made(entries) => Ok(entries.get(&Key::String(Text::Made(name.into()))).cloned()),
        }
    }

    /// The keys as rules see them.
    pub(super) fn keys(&self, meter: &mut Meter) -> Result<Vec<Value<'a>>, Fault> {
        meter.charge_items(self.len())?;
        Ok(match self {
            Map::Data { entries, data } => {
                let is_object = matches!(data.kind, DataKind::Object(_));
                let known = entries.keys().filter(|name| type_of(data, name).is_some());
                let key = |name: &'a String| match is_object.then(|| escape(name)).flatten() {
                    Some(Cow::Owned(escaped)) => Value::text(escaped),
                    _ => Value::String(Text::Borrowed(name)),
                };
                known.map(key).collect()
            }
            Map::Made(entries) => entries.keys().map(Key::value).collect(),
        })
    }

    pub(super) fn equal(&self, other: &Map<'a>, meter: &mut Meter) -> Result<bool, Fault> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match (self, other) {
            (Map::Data { entries, data }, Map::Data { entries: others, .. }) => {
                for (name, value) in *entries {
                    meter.charge(ENTRY_COST)?;
                    let same = if type_of(data, name).is_some() {
                        match (self.field(name, meter)?, other.field(name, meter)?) {
                            (Some(left), Some(right)) => equal(&left, &right, meter)?,
                            (left, right) => left.is_none() && right.is_none(),
                        }
                    } else {
                        meter.charge(weight(value))?;
                        others.get(name).is_none_or(|other| other == value)
                    };
                    if !same {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => {
                for key in self.keys(meter)? {
                    meter.charge(ENTRY_COST)?;
                    match (self.get(&key, meter)?, other.get(&key, meter)?) {
                        (Some(left), Some(right)) if equal(&left, &right, meter)? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
        }
    }
}

/// The type of the value under a name, and whether it is a field of an object.
fn type_of<'a>(data: &'a DataType, name: &str) -> Option<(&'a DataType, bool)> {
    match &data.kind {
        DataKind::Object(fields) => fields.get(name).map(|field| (field, true)),
        DataKind::Map(values) => Some((values, false)),
        _ => None,
    }
}
