//! Lists: of the object, or made by an expression.
//!
//! A list of the object may be a set or a map in disguise (`x-kubernetes-list-type`). Then the order of its elements
//! does not matter to `==`, and `+` merges.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::compare::equal;
use super::data_type::{DataType, Identity};
use super::map::Map;
use super::value::{Fault, Meter, Value};

#[derive(Debug, Clone)]
pub(super) enum List<'a> {
    Data { elements: &'a [Json], items: &'a DataType, identity: &'a Identity },
    Made(Rc<Vec<Value<'a>>>),
}

impl<'a> List<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            List::Data { elements, .. } => elements.len(),
            List::Made(items) => items.len(),
        }
    }

    /// The element at an index that exists.
    pub(super) fn get(&self, index: usize, meter: &mut Meter) -> Option<Result<Value<'a>, Fault>> {
        match self {
            List::Data { elements, items, .. } => Some(Value::of_data(elements.get(index)?, items, meter)),
            List::Made(made) => made.get(index).cloned().map(Ok),
        }
    }

    /// All elements. Costs as much as there are.
    pub(super) fn values(&self, meter: &mut Meter) -> Result<Vec<Value<'a>>, Fault> {
        meter.charge_items(self.len())?;
        match self {
            List::Data { elements, items, .. } => {
                elements.iter().map(|element| Value::of_data(element, items, meter)).collect()
            }
            List::Made(made) => Ok(made.as_ref().clone()),
        }
    }

    pub(super) fn contains(&self, sought: &Value<'a>, meter: &mut Meter) -> Result<bool, Fault> {
        Ok(self.position(sought, 0..self.len(), meter)?.is_some())
    }

    /// The first of the given indexes whose element equals a value.
    pub(super) fn position(
        &self,
        sought: &Value<'a>,
        indexes: impl Iterator<Item = usize>,
        meter: &mut Meter,
    ) -> Result<Option<usize>, Fault> {
        for index in indexes {
            let Some(element) = self.get(index, meter) else { break };
            if equal(&element?, sought, meter)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn identity(&self) -> &'a Identity {
        match self {
            List::Data { identity, .. } => identity,
            List::Made(_) => &Identity::Position,
        }
    }

    pub(super) fn equal(&self, other: &List<'a>, meter: &mut Meter) -> Result<bool, Fault> {
        if self.len() != other.len() {
            return Ok(false);
        }
        let mut in_order = true;
        for index in 0..self.len() {
            let (Some(left), Some(right)) = (self.get(index, meter), other.get(index, meter)) else { break };
            if !equal(&left?, &right?, meter)? {
                in_order = false;
                break;
            }
        }
        match self.identity() {
            _ if in_order => Ok(true),
            Identity::Position => Ok(false),
            identity => {
                let mine = by_name(self, identity, meter)?;
                let theirs = by_name(other, identity, meter)?;
                if mine.len() != theirs.len() {
                    return Ok(false);
                }
                for ((name, left), (other_name, right)) in mine.iter().zip(&theirs) {
                    if name != other_name || !equal(left, right, meter)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// `self + other`.
    pub(super) fn add(&self, other: &List<'a>, meter: &mut Meter) -> Result<Value<'a>, Fault> {
        let mut sum = self.values(meter)?;
        let added = other.values(meter)?;
        let identity = self.identity();
        if *identity == Identity::Position {
            sum.extend(added);
            return Ok(Value::list(sum));
        }
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (place, value) in sum.iter().enumerate() {
            places.insert(name(value, identity, meter)?, place);
        }
        for value in added {
            match places.get(&name(&value, identity, meter)?) {
                Some(place) => sum[*place] = value,
                None => {
                    places.insert(name(&value, identity, meter)?, sum.len());
                    sum.push(value);
                }
            }
        }
        Ok(Value::list(sum))
    }
}

/// The elements under what identifies them.
fn by_name<'a>(list: &List<'a>, identity: &Identity, meter: &mut Meter) -> Result<BTreeMap<String, Value<'a>>, Fault> {
    let values = list.values(meter)?;
    values.into_iter().map(|value| Ok((name(&value, identity, meter)?, value))).collect()
}

/// A text that two elements share if they are the same element of a set or a map.
fn name(value: &Value<'_>, identity: &Identity, meter: &mut Meter) -> Result<String, Fault> {
    let name = match (identity, value) {
        (Identity::Keys(keys), Value::Map(Map::Data { entries, .. })) => {
            keys.iter().map(|key| format!("{}\n", entries.get(&**key).unwrap_or(&Json::Null))).collect()
        }
        _ => written(value, meter)?,
    };
    meter.charge_text(4 * name.len())?;
    Ok(name)
}

/// A value as a text that equal values share.
fn written(value: &Value<'_>, meter: &mut Meter) -> Result<String, Fault> {
    Ok(match value {
        Value::String(text) => format!("{:?}", &**text),
        Value::Int(number) => (*number as f64).to_string(),
        Value::Uint(number) => (*number as f64).to_string(),
        Value::Double(number) => number.to_string(),
        Value::List(list) => {
            let mut text = String::from("[");
            for item in list.values(meter)? {
                meter.charge(1)?;
                text.push_str(&written(&item, meter)?);
                text.push(',');
            }
            text.push(']');
            meter.charge_text(text.len())?;
            text
        }
        Value::Map(map) => {
            let mut text = String::from("{");
            for key in map.keys(meter)? {
                let value = map.get(&key, meter)?.unwrap_or(Value::Null);
                text.push_str(&written(&key, meter)?);
                text.push_str(&written(&value, meter)?);
                text.push(',');
            }
            text.push('}');
            meter.charge_text(text.len())?;
            text
        }
        Value::Optional(Some(inner)) => format!("?{}", written(inner, meter)?),
        leaf => format!("{leaf:?}"),
    })
}
