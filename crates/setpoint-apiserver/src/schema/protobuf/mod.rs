//! Bodies in protobuf, which typed clients such as `kubectl create` send: read into the value their JSON would give.
//!
//! An envelope says what the object is and holds a message in which fields have numbers instead of names. The names
//! come from a table, the types from the schema; fields that neither knows are skipped. Nothing is left out or filled
//! in here: the value goes through the same walk as any other.

#[cfg(test)]
mod encoder;
mod numbers;
#[cfg(test)]
mod tests;
mod wire;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

#[cfg(test)]
pub(super) use self::encoder::encode;
use self::numbers::{Member, Numbers};
use self::wire::{Content, Fields, Malformed};
use super::{DecodeError, Definition, MAX_DEPTH, Schema, Shape, TypeMeta};
use setpoint_api::field::Path;

const MAGIC: &[u8] = b"k8s\0";
const NOT_BUILT_IN: &str = "only objects of built-in types are read as protobuf";

/// Reads what the envelope says is in it.
pub(super) fn type_meta(body: &[u8]) -> Result<TypeMeta, DecodeError> {
    let envelope = Envelope::open(body)?;
    Ok(TypeMeta { api_version: envelope.api_version.to_owned(), kind: envelope.kind.to_owned() })
}

/// Reads an object of a built-in type.
pub(super) fn value(body: &[u8], schema: &Schema) -> Result<Value, DecodeError> {
    let envelope = Envelope::open(body)?;
    let decoder = Decoder { definitions: &schema.definitions, numbers: Numbers::built_in() };
    let Shape::Object(index) = schema.root else {
        return Err(Place::BODY.refuse(NOT_BUILT_IN));
    };
    let definition = &schema.definitions[index];
    let mut object = Map::new();
    decoder.message(&definition.name, definition, envelope.message, &mut object, Place::BODY)?;
    for (name, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if !text.is_empty() {
            object.insert(name.to_owned(), text.into());
        }
    }
    Ok(Value::Object(object))
}

/// A message and the name of its type.
struct Envelope<'b> {
    api_version: &'b str,
    kind: &'b str,
    message: &'b [u8],
}

impl<'b> Envelope<'b> {
    fn open(body: &'b [u8]) -> Result<Envelope<'b>, DecodeError> {
        let no_magic = || Place::BODY.refuse("a protobuf object starts with the bytes `k8s` and zero");
        let envelope = body.strip_prefix(MAGIC).ok_or_else(no_magic)?;
        let read = || {
            let type_meta = wire::bytes(envelope, 1)?;
            Ok(Envelope {
                api_version: wire::text(type_meta, 1)?,
                kind: wire::text(type_meta, 2)?,
                message: wire::bytes(envelope, 2)?,
            })
        };
        read().map_err(|error: Malformed| Place::BODY.refuse(error))
    }
}

/// Where in the object a value stands.
#[derive(Clone, Copy)]
struct Place<'p> {
    path: Path<'p>,
    depth: usize,
}

impl Place<'_> {
    const BODY: Place<'static> = Place { path: Path::ROOT, depth: 0 };

    fn field<'n>(&'n self, name: &'n str) -> Place<'n> {
        Place { path: self.path.field(name), depth: self.depth + 1 }
    }

    fn index(&self, index: usize) -> Place<'_> {
        Place { path: self.path.index(index), depth: self.depth + 1 }
    }

    fn refuse(&self, why: impl fmt::Display) -> DecodeError {
        let path = if self.depth == 0 { "the body".to_owned() } else { self.path.to_string() };
        DecodeError::Syntax(format!("{path}: {why}"))
    }
}

struct Decoder<'s> {
    definitions: &'s [Definition],
    numbers: &'s Numbers<'static>,
}

impl Decoder<'_> {
    /// Reads a message into an object of this definition. The message's type is another than the definition's where
    /// its fields are inlined.
    fn message(
        &self,
        type_name: &str,
        definition: &Definition,
        message: &[u8],
        object: &mut Map<String, Value>,
        place: Place<'_>,
    ) -> Result<(), DecodeError> {
        if place.depth >= MAX_DEPTH {
            return Err(DecodeError::TooDeep { field: place.path.to_string() });
        }
        let unknown = || place.refuse(NOT_BUILT_IN);
        let members = self.numbers.members(type_name).ok_or_else(unknown)?;
        for field in Fields::of(message) {
            let (number, content) = field.map_err(|error| place.refuse(error))?;
            match members.iter().find(|(known, _)| *known == number) {
                Some((_, Member::Inlined(type_name))) => {
                    let message = content.bytes().map_err(|error| place.refuse(error))?;
                    self.message(type_name, definition, message, object, place)?;
                }
                Some((_, Member::Field(name))) => {
                    if let Some(position) = definition.position(name) {
                        let slot = object.entry(*name).or_insert(Value::Null);
                        self.merge(slot, &definition.fields[position].shape, content, place.field(name))?;
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Adds what a field holds to what earlier fields of its number held: a list grows, an object gains fields, and of
    /// anything else the last counts.
    fn merge(
        &self,
        slot: &mut Value,
        shape: &Shape,
        content: Content<'_>,
        place: Place<'_>,
    ) -> Result<(), DecodeError> {
        let refuse = |error: Malformed| place.refuse(error);
        *slot = match (shape, slot.take()) {
            (Shape::Object(index), held) => {
                let mut object = if let Value::Object(object) = held { object } else { Map::new() };
                let definition = &self.definitions[*index];
                self.message(&definition.name, definition, content.bytes().map_err(refuse)?, &mut object, place)?;
                Value::Object(object)
            }
            (Shape::Map(values), held) => {
                let mut map = if let Value::Object(map) = held { map } else { Map::new() };
                let entry = content.bytes().map_err(refuse)?;
                let key = wire::text(entry, 1).map_err(refuse)?;
                // Maps hold texts, bytes and messages: what is not written is empty.
                let content = wire::last(entry, 2).map_err(refuse)?.unwrap_or(Content::Bytes(&[]));
                let mut value = Value::Null;
                if let Shape::List(_) = **values {
                    // What cannot be repeated within an entry stands in a message of its own.
                    for field in Fields::of(content.bytes().map_err(refuse)?) {
                        let (_, item) = field.map_err(refuse)?;
                        self.merge(&mut value, values, item, place.field(key))?;
                    }
                } else {
                    self.merge(&mut value, values, content, place.field(key))?;
                }
                map.insert(key.to_owned(), value);
                Value::Object(map)
            }
            (Shape::List(list), held) => {
                let mut items = if let Value::Array(items) = held { items } else { Vec::new() };
                match (&list.element, content) {
                    (Shape::Int32 | Shape::Int64, Content::Bytes(packed)) => {
                        for number in wire::packed(packed) {
                            let number = number.map(Content::Varint).map_err(refuse)?;
                            items.push(scalar(&list.element, number).map_err(refuse)?);
                        }
                    }
                    _ => {
                        let mut item = Value::Null;
                        self.merge(&mut item, &list.element, content, place.index(items.len()))?;
                        items.push(item);
                    }
                }
                Value::Array(items)
            }
            _ => scalar(shape, content).map_err(refuse)?,
        };
        Ok(())
    }
}

/// Reads what is one value in JSON, be it a message or not.
fn scalar(shape: &Shape, content: Content<'_>) -> Result<Value, Malformed> {
    Ok(match shape {
        Shape::Boolean => (content.varint()? != 0).into(),
        // Of an integer that is too large, protobuf takes the low bits.
        Shape::Int32 => (content.varint()? as i32).into(),
        Shape::Int64 => content.varint()?.cast_signed().into(),
        Shape::Number => match content {
            Content::Fixed64(bits) => f64::from_le_bytes(bits).into(),
            _ => return Err(Malformed::OtherWireType),
        },
        Shape::String => content.text()?.into(),
        Shape::Bytes => BASE64.encode(content.bytes()?).into(),
        Shape::Time | Shape::MicroTime => time(shape, content.bytes()?)?,
        Shape::Quantity => match wire::last(content.bytes()?, 1)? {
            Some(text) => text.text()?.into(),
            None => "0".into(),
        },
        Shape::IntOrString => int_or_string(content.bytes()?)?,
        Shape::Any => raw(content.bytes()?)?,
        Shape::List(_) | Shape::Map(_) | Shape::Object(_) => return Err(Malformed::OtherWireType),
    })
}

/// Seconds and nanoseconds since 1970; the zero time, which is null in JSON, has no fields at all.
fn time(shape: &Shape, message: &[u8]) -> Result<Value, Malformed> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let time = Timestamp::from_second(wire::varint(message, 1)?.cast_signed()).map_err(|_| Malformed::NoTime)?;
    if *shape == Shape::Time {
        return Ok(format!("{time:.0}").into());
    }
    let micros = i64::from(wire::varint(message, 2)? as i32 / 1000);
    let time = time.checked_add(SignedDuration::from_micros(micros)).map_err(|_| Malformed::NoTime)?;
    Ok(format!("{time:.6}").into())
}

fn int_or_string(message: &[u8]) -> Result<Value, Malformed> {
    Ok(match wire::varint(message, 1)? {
        0 => (wire::varint(message, 2)? as i32).into(),
        _ => wire::text(message, 3)?.into(),
    })
}

/// A message around JSON.
fn raw(message: &[u8]) -> Result<Value, Malformed> {
    match wire::bytes(message, 1)? {
        [] => Ok(Value::Null),
        json => serde_json::from_slice(json).map_err(|_| Malformed::NotJson),
    }
}
