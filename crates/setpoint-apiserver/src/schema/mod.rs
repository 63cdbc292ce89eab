//! What fields an object has, and of what types: enough to decode, prune and patch it.
//!
//! A [`Schema`] is an entry into a shared list of definitions, which refer to each other by index, so that a type used in
//! ten places (and one that contains itself) is held once. Descriptions are not kept: only OpenAPI shows them.

mod body;
mod built_in;
mod compile;
mod decode;
mod emission;
mod protobuf;
mod scalar;
mod structural;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use compact_str::CompactString;
use serde_json::{Map, Value, json};

use crate::schema_facts::Patch;

pub use body::{Body, Format, TypeMeta};
pub use built_in::Schemas;
pub(crate) use built_in::definitions_as_json;
pub use decode::{DecodeError, Decoded, MAX_DEPTH, sort_of};

/// The type of a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Anything, kept as it is.
    Any,
    Boolean,
    Int32,
    Int64,
    Number,
    String,
    /// Base64.
    Bytes,
    /// RFC 3339, kept to the second.
    Time,
    /// RFC 3339, with six digits of fraction.
    MicroTime,
    Quantity,
    IntOrString,
    List(Box<List>),
    /// Any keys, values of one type.
    Map(Box<Shape>),
    /// The definition at this index.
    Object(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    pub element: Shape,
    pub list_type: ListType,
}

/// How an apply sees the elements of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    /// As one value.
    Atomic,
    /// As values that may occur once.
    Set,
    /// As objects told apart by these fields.
    Map(Box<[Box<str>]>),
}

/// When a field is written although it was not given, and when it is not although it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emission {
    /// Left out when empty or zero.
    OmitZero,
    /// Written exactly when given.
    AsGiven,
    /// Always written; its zero value when not given.
    Always,
    /// Always written; null when not given.
    AlwaysOrNull,
}

/// One field of an object.
#[derive(Debug, Clone)]
pub struct Field {
    pub name: CompactString,
    pub shape: Shape,
    /// How a strategic merge patch treats it.
    pub patch: Patch,
    /// Whether an apply sees its value as one, though it is an object or a map.
    pub atomic: bool,
    /// What an apply takes it to be where it is the key of a list and was left out.
    pub key_default: Option<Box<Value>>,
    pub(crate) emission: Emission,
}

/// An object with known fields.
#[derive(Debug, Clone, Default)]
pub struct Definition {
    /// The type's name, such as `core.v1.PodSpec`.
    name: Box<str>,
    /// In the order of their names.
    fields: Vec<Field>,
    /// Whether an apply sees objects of this type as one value.
    atomic: bool,
    /// Whether an object may have other fields too.
    open: bool,
}

impl Definition {
    fn position(&self, name: &str) -> Option<usize> {
        self.fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok()
    }
}

/// The type of a whole object.
#[derive(Debug, Clone)]
pub struct Schema {
    definitions: Arc<[Definition]>,
    root: Shape,
}

impl Schema {
    pub fn root(&self) -> Type<'_> {
        Type { definitions: &self.definitions, shape: &self.root, atomic: false }
    }

    /// The object of which nothing was said: what is always written, at its zero value.
    pub fn empty_object(&self) -> Value {
        match &self.root {
            Shape::Any => json!({}),
            root => root.zero(&self.definitions),
        }
    }
}

/// The type of one value within an object, for those who walk along it.
#[derive(Debug, Clone, Copy)]
pub struct Type<'s> {
    definitions: &'s [Definition],
    shape: &'s Shape,
    /// What the field says of it, beside its shape.
    atomic: bool,
}

impl<'s> Type<'s> {
    /// The type of a value of which nothing is known.
    pub const ANY: Type<'static> = Type { definitions: &[], shape: &Shape::Any, atomic: false };

    pub fn shape(self) -> &'s Shape {
        self.shape
    }

    /// The field of this name, if it is an object with known fields.
    pub fn field(self, name: &str) -> Option<&'s Field> {
        let Shape::Object(index) = self.shape else { return None };
        let definition = &self.definitions[*index];
        definition.position(name).map(|position| &definition.fields[position])
    }

    /// All its fields, in the order of their names; none if it is no object with known fields.
    pub fn fields(self) -> &'s [Field] {
        match self.shape {
            Shape::Object(index) => &self.definitions[*index].fields,
            _ => &[],
        }
    }

    /// The type of what stands under a key, be it a field's name or the key of a map.
    pub fn entry(self, key: &str) -> Type<'s> {
        match self.shape {
            Shape::Map(values) => Type { shape: values, atomic: false, ..self },
            _ => self.field(key).map_or(Type::ANY, |field| Type { shape: &field.shape, atomic: field.atomic, ..self }),
        }
    }

    /// The type of a list's elements.
    pub fn element(self) -> Type<'s> {
        match self.shape {
            Shape::List(list) => Type { shape: &list.element, atomic: false, ..self },
            _ => Type::ANY,
        }
    }

    /// Whether an object of this type may have a field of this name.
    pub fn allows(self, name: &str) -> bool {
        match self.shape {
            Shape::Object(index) => self.definitions[*index].open || self.field(name).is_some(),
            _ => true,
        }
    }

    /// Whether an apply sees a value of this type as one: a scalar, or what is marked so. A value of which nothing is
    /// known is seen by what it is.
    pub fn is_atomic(self) -> bool {
        match self.shape {
            Shape::Any | Shape::Map(_) => self.atomic,
            Shape::Object(index) => self.atomic || self.definitions[*index].atomic,
            Shape::List(list) => list.list_type == ListType::Atomic,
            _ => true,
        }
    }

    /// What the key of a list of such objects is where it was left out; `None` if it is then no key.
    pub fn key_default(self, key: &str) -> Option<Value> {
        let field = self.field(key)?;
        let written = || (field.emission == Emission::Always).then(|| field.shape.zero(self.definitions));
        field.key_default.as_deref().cloned().or_else(written)
    }
}

impl Shape {
    /// The value that stands for nothing: what Go's zero value of this type is written as.
    fn zero(&self, definitions: &[Definition]) -> Value {
        match self {
            Shape::Boolean => json!(false),
            Shape::Int32 | Shape::Int64 | Shape::Number | Shape::IntOrString => json!(0),
            Shape::String => json!(""),
            Shape::Quantity => json!("0"),
            Shape::Any | Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::List(_) | Shape::Map(_) => Value::Null,
            Shape::Object(index) => {
                let mut object = Map::new();
                for field in &definitions[*index].fields {
                    field.finish(None, &mut object, definitions);
                }
                Value::Object(object)
            }
        }
    }
}

impl Field {
    /// Writes the field into its object, or leaves it out.
    fn finish(&self, value: Option<Value>, object: &mut Map<String, Value>, definitions: &[Definition]) {
        let value = value.filter(|value| !value.is_null());
        let written = match (self.emission, value) {
            (Emission::OmitZero | Emission::AsGiven, None) => return,
            (Emission::OmitZero, Some(value)) if is_zero(&value) => return,
            (Emission::Always, None) => self.shape.zero(definitions),
            (Emission::AlwaysOrNull, None) => Value::Null,
            // A list that is always written is null when it is empty: stored objects do not tell the two apart.
            (Emission::Always, Some(Value::Array(items))) if items.is_empty() => Value::Null,
            (_, Some(value)) => value,
        };
        object.insert(self.name.to_string(), written);
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}
