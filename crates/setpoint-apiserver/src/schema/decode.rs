//! One walk over a value that checks it against a schema and leaves only what the schema knows.
//!
//! The walk reads from any serde source, so that text is decoded and pruned in one pass, in the order it was written,
//! and unknown and repeated fields are noticed where they stand. It does what decoding into Kubernetes' Go types and
//! writing those again does: null is absent, empty is left out where Go would leave it out, numbers must fit, times and
//! quantities take their canonical form.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use thiserror::Error;

use super::{Definition, Schema, Shape, scalar};
use crate::object_size::{SURELY_TOO_LARGE, least_text_len};
use setpoint_api::field::Path;

/// How deep objects and lists may be nested, an object itself counted. What is stored is read again by a parser that
/// goes 127 deep, also from within a list, a table or a watch event: there is room for all of them.
pub const MAX_DEPTH: usize = 100;

/// Kubernetes tells at most this many.
const MAX_REMARKS: usize = 100;

/// A value as the schema has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub object: Value,
    /// What was not taken over, in the order it was met: `unknown field "spec.x"`, `duplicate field "data.k"`.
    pub remarks: Vec<String>,
}

/// Why a text or value is no object of a schema.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("{0}")]
    Syntax(String),
    #[error("{field}: expected {expected}, found {found}")]
    Type { field: String, expected: &'static str, found: String },
    #[error("{field}: objects may be nested {MAX_DEPTH} deep")]
    TooDeep { field: String },
}

impl Schema {
    /// Checks and prunes a value that is already parsed, such as a patched object.
    pub fn decode(&self, value: &Value) -> Result<Decoded, DecodeError> {
        self.decode_at(value, Path::ROOT)
    }

    /// The same for a value that stands within another.
    pub fn decode_at(&self, value: &Value, path: Path<'_>) -> Result<Decoded, DecodeError> {
        walk_at(&self.definitions, &self.root, path, |seed| seed.deserialize(value))
    }
}

/// Runs the walk on what `source` reads from.
pub(super) fn walk<E: fmt::Display>(
    definitions: &[Definition],
    shape: &Shape,
    source: impl FnOnce(Seed<'_, '_, '_>) -> Result<Value, E>,
) -> Result<Decoded, DecodeError> {
    walk_at(definitions, shape, Path::ROOT, source)
}

fn walk_at<E: fmt::Display>(
    definitions: &[Definition],
    shape: &Shape,
    path: Path<'_>,
    source: impl FnOnce(Seed<'_, '_, '_>) -> Result<Value, E>,
) -> Result<Decoded, DecodeError> {
    let mut walk = Walk { definitions, remarks: Vec::new(), fault: None, added_bytes: 0 };
    let result = source(Seed { walk: &mut walk, shape, path, depth: 0 });
    match (result, walk.fault) {
        (Ok(value), _) => {
            let object = if value.is_null() { shape.zero(definitions) } else { value };
            Ok(Decoded { object, remarks: walk.remarks })
        }
        (Err(_), Some(fault)) => Err(fault),
        (Err(error), None) => Err(DecodeError::Syntax(error.to_string())),
    }
}

/// What the walk knows at every step.
struct Walk<'s> {
    definitions: &'s [Definition],
    remarks: Vec<String>,
    /// Set when the walk itself refuses a value; any other error is the source's.
    fault: Option<DecodeError>,
    /// How many bytes of text stand for what was not given and is always written.
    added_bytes: usize,
}

impl Walk<'_> {
    /// Whether what is always written is written. Beyond what any object may have it is not, so that a short text cannot
    /// become a huge value; an object so large is refused.
    fn adds(&self) -> bool {
        self.added_bytes <= SURELY_TOO_LARGE
    }

    /// Null stands for the type's zero value.
    fn or_zero(&mut self, value: Value, shape: &Shape) -> Value {
        if !value.is_null() || !self.adds() {
            return value;
        }
        let zero = shape.zero(self.definitions);
        if zero.is_object() {
            self.added_bytes += least_text_len(&zero) + 1;
        }
        zero
    }

    fn remark(&mut self, what: &str, path: &Path<'_>) {
        if self.remarks.len() < MAX_REMARKS {
            let remark = format!("{what} field \"{path}\"");
            if !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
    }
}

/// Reads one value of a shape.
pub(super) struct Seed<'w, 's, 'p> {
    walk: &'w mut Walk<'s>,
    shape: &'s Shape,
    path: Path<'p>,
    depth: usize,
}

/// What stands beside the name of the shortest field that is always written.
const SHORTEST_FIELD: usize = r#""":0,"#.len();

/// Below this, whole numbers of floating point are integers of 64 bits.
const WHOLE: f64 = 9.2e18;

impl<'s> Seed<'_, 's, '_> {
    /// Refuses a value. What was found is told only where it is of the right sort and nobody keeps a secret: a time, a
    /// quantity, an integer that is too large. Of anything else its sort is enough.
    fn refuse<T, E: serde::de::Error>(self, found: impl Into<String>) -> Result<T, E> {
        let field = self.path.to_string();
        let field = if field.is_empty() { "the body".to_owned() } else { field };
        self.walk.fault = Some(DecodeError::Type { field, expected: self.shape.name(), found: found.into() });
        Err(E::custom("wrong type"))
    }

    /// Reads a number, given as each type that it can be.
    fn number<E: serde::de::Error>(self, integer: Option<i64>, number: Number) -> Result<Value, E> {
        match (self.shape, integer) {
            (Shape::Any | Shape::Number, _) => Ok(Value::Number(number)),
            (Shape::Int64, Some(value)) => Ok(value.into()),
            (Shape::Int32 | Shape::IntOrString, Some(value)) if i32::try_from(value).is_ok() => Ok(value.into()),
            (Shape::Quantity, _) => match scalar::quantity(&number.to_string()) {
                Some(text) => Ok(Value::String(text)),
                None => self.refuse(format!("the number {number}")),
            },
            (Shape::Int32 | Shape::Int64 | Shape::IntOrString, _) => self.refuse(format!("the number {number}")),
            _ => self.refuse("a number"),
        }
    }

    fn text<E: serde::de::Error>(self, text: Cow<'_, str>) -> Result<Value, E> {
        let canonical = match self.shape {
            Shape::Any | Shape::String | Shape::IntOrString => return Ok(Value::String(text.into_owned())),
            Shape::Bytes => scalar::bytes(&text),
            Shape::Time => scalar::time(&text),
            Shape::MicroTime => scalar::micro_time(&text),
            Shape::Quantity => scalar::quantity(&text),
            _ => None,
        };
        match (canonical, self.shape) {
            (Some(text), _) => Ok(Value::String(text)),
            (None, Shape::Time | Shape::MicroTime | Shape::Quantity) => self.refuse(format!("{:?}", shortened(&text))),
            (None, Shape::Bytes) => self.refuse("a string that is none"),
            (None, _) => self.refuse("a string"),
        }
    }

    fn object<'de, A: MapAccess<'de>>(self, index: usize, mut entries: A) -> Result<Value, A::Error> {
        let Seed { walk, path, depth, .. } = self;
        let definitions = walk.definitions;
        let fields = &definitions[index].fields;
        let mut values: Vec<Option<Value>> = vec![None; fields.len()];
        while let Some(key) = entries.next_key_seed(Key)? {
            let here = path.field(&key);
            let Some(position) = definitions[index].position(&key) else {
                walk.remark("unknown", &here);
                // Read all the same, since the limit of depth holds for what is thrown away too.
                entries.next_value_seed(Seed { walk: &mut *walk, shape: &Shape::Any, path: here, depth })?;
                continue;
            };
            if values[position].is_some() {
                walk.remark("duplicate", &here);
            }
            let seed = Seed { walk: &mut *walk, shape: &fields[position].shape, path: here, depth };
            values[position] = Some(entries.next_value_seed(seed)?);
        }
        let mut object = Map::new();
        for (field, value) in fields.iter().zip(values) {
            let (is_given, given) = (value.as_ref().is_some_and(|value| !value.is_null()), object.len());
            if is_given || walk.adds() {
                field.finish(value, &mut object, definitions);
                if !is_given && object.len() > given {
                    walk.added_bytes += field.name.len() + SHORTEST_FIELD;
                }
            }
        }
        Ok(Value::Object(object))
    }

    fn map<'de, A: MapAccess<'de>>(self, shape: &'s Shape, mut entries: A) -> Result<Value, A::Error> {
        let Seed { walk, path, depth, .. } = self;
        let mut map = Map::new();
        while let Some(key) = entries.next_key_seed(Key)? {
            let here = path.field(&key);
            if map.contains_key(&key) {
                walk.remark("duplicate", &here);
            }
            let value = entries.next_value_seed(Seed { walk: &mut *walk, shape, path: here, depth })?;
            let value = walk.or_zero(value, shape);
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }

    fn list<'de, A: SeqAccess<'de>>(self, shape: &'s Shape, mut elements: A) -> Result<Value, A::Error> {
        let Seed { walk, path, depth, .. } = self;
        let mut list = Vec::new();
        loop {
            let path = path.index(list.len());
            match elements.next_element_seed(Seed { walk: &mut *walk, shape, path, depth })? {
                Some(value) => list.push(walk.or_zero(value, shape)),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    /// The same seed one level further down.
    fn deeper<E: serde::de::Error>(mut self) -> Result<Self, E> {
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            return Ok(self);
        }
        self.walk.fault = Some(DecodeError::TooDeep { field: self.path.to_string() });
        Err(E::custom("too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shape.name())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        match self.shape {
            Shape::Any | Shape::Boolean => Ok(Value::Bool(value)),
            _ => self.refuse("a boolean"),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.number(Some(value), value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.number(i64::try_from(value).ok(), value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // A whole number is kept as one however it was written: clients that expect an integer cannot read 1.0.
        if matches!(self.shape, Shape::Any | Shape::Number) && value.fract() == 0.0 && value.abs() < WHOLE {
            return Ok((value as i64).into());
        }
        match Number::from_f64(value) {
            Some(number) => self.number(None, number),
            None => self.refuse("a number that is not finite"),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.text(Cow::Borrowed(text))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Value, E> {
        self.text(Cow::Owned(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Value, A::Error> {
        match self.shape {
            Shape::Any => self.deeper()?.list(&Shape::Any, elements),
            Shape::List(list) => self.deeper()?.list(&list.element, elements),
            _ => self.refuse("a list"),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Value, A::Error> {
        match self.shape {
            Shape::Any => self.deeper()?.map(&Shape::Any, entries),
            Shape::Map(values) => self.deeper()?.map(values, entries),
            Shape::Object(index) => self.deeper()?.object(*index, entries),
            _ => self.refuse("an object"),
        }
    }
}

/// Reads a key. YAML has keys that are no texts; they become the text JSON would have.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<String, E> {
        Ok(key.to_owned())
    }

    fn visit_string<E: serde::de::Error>(self, key: String) -> Result<String, E> {
        Ok(key)
    }

    fn visit_bool<E: serde::de::Error>(self, key: bool) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, key: i64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, key: u64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, key: f64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<String, E> {
        Ok("null".to_owned())
    }
}

impl Shape {
    /// What a reader of an error message calls it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Shape::Any => "a value",
            Shape::Boolean => "a boolean",
            Shape::Int32 => "an integer of 32 bits",
            Shape::Int64 => "an integer of 64 bits",
            Shape::Number => "a number",
            Shape::String => "a string",
            Shape::Bytes => "base64",
            Shape::Time => "a time such as 2006-01-02T15:04:05Z",
            Shape::MicroTime => "a time such as 2006-01-02T15:04:05.000000Z",
            Shape::Quantity => "a quantity such as 100m or 1Gi",
            Shape::IntOrString => "a string or an integer of 32 bits",
            Shape::List(_) => "a list",
            Shape::Map(_) | Shape::Object(_) => "an object",
        }
    }
}

/// What a reader of an error message calls a value, which may be a secret.
pub fn sort_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// As much of a text as an error message needs.
fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(64) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
