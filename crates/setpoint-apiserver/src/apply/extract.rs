//! The set of the fields that a value has.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::field_set::FieldSet;
use super::path_element::PathElement;
use super::view::{self, View};
use crate::schema::{Type, sort_of};

/// What is wrong with a configuration that somebody applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Such as `.spec.ports[port=80]`.
    pub path: String,
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// The fields of an applied configuration, or the first thing that is wrong with it.
pub fn applied_fields(config: &Value, object_type: Type<'_>) -> Result<FieldSet, Fault> {
    let mut walk = Walk { strict: true, path: Vec::new() };
    walk.below(config, object_type).map(|below| below.set)
}

/// The fields of a stored object. What occurs twice counts as one.
pub fn fields(object: &Value, object_type: Type<'_>) -> FieldSet {
    let mut walk = Walk { strict: false, path: Vec::new() };
    walk.below(object, object_type).map(|below| below.set).unwrap_or_default()
}

struct Walk {
    strict: bool,
    path: Vec<PathElement>,
}

struct Below {
    /// The value counts as one.
    leaf: bool,
    set: FieldSet,
}

impl Walk {
    fn below(&mut self, value: &Value, value_type: Type<'_>) -> Result<Below, Fault> {
        let mut set = FieldSet::default();
        match (View::of(value, value_type), value) {
            (View::Leaf, _) => {
                if self.strict && !view::fits(value, value_type) {
                    return Err(self.fault(format!(
                        "expected {}, found {}",
                        value_type.shape().name(),
                        sort_of(value)
                    )));
                }
                return Ok(Below { leaf: true, set });
            }
            (View::Map, Value::Object(entries)) => {
                for (key, entry) in entries {
                    self.path.push(PathElement::field(key));
                    if self.strict && !value_type.allows(key) {
                        return Err(self.fault("field not declared in schema"));
                    }
                    let below = self.below(entry, value_type.entry(key))?;
                    let nothing = entry.is_null() || entry.as_object().is_some_and(serde_json::Map::is_empty);
                    let member = below.leaf || nothing || value_type.field(key).is_none();
                    set.add(self.path.pop().expect("pushed above"), member, below.set);
                }
            }
            (View::List(list), Value::Array(items)) => {
                let element_type = value_type.element();
                let (mut seen, mut elements) = (BTreeSet::new(), Vec::new());
                for (index, item) in items.iter().enumerate() {
                    let element = match view::element(item, list, element_type) {
                        Ok(element) => element,
                        Err(why) if self.strict => return Err(self.fault(format!("element {index}: {why}"))),
                        Err(_) => continue,
                    };
                    if !seen.insert(element.clone()) {
                        if self.strict {
                            return Err(self.fault(format!("duplicate entries for key {element}")));
                        }
                        continue;
                    }
                    self.path.push(element);
                    let below = self.below(item, element_type)?;
                    elements.push((self.path.pop().expect("pushed above"), true, below.set));
                }
                set = FieldSet::of_elements(elements);
            }
            (_, Value::Null) => {}
            (_, value) if self.strict => {
                return Err(self.fault(format!("expected {}, found {}", value_type.shape().name(), sort_of(value))));
            }
            _ => {}
        }
        Ok(Below { leaf: false, set })
    }

    fn fault(&self, message: impl Into<String>) -> Fault {
        let path = self.path.iter().map(ToString::to_string).collect();
        Fault { path, message: message.into() }
    }
}
