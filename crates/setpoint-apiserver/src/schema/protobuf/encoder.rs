//! Writes protobuf bodies for the tests of those that read them.

use base64::Engine;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::numbers::{Member, Numbers};
use super::{BASE64, MAGIC};
use crate::schema::{Schema, Shape, Type};

/// Writes an object as a client would, but only the fields that it has.
pub(in crate::schema) fn encode(schema: &Schema, object: &Value) -> Vec<u8> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().as_bytes().to_vec();
    let type_meta = [delimited(1, &text("apiVersion")), delimited(2, &text("kind"))].concat();
    [MAGIC, &delimited(1, &type_meta), &delimited(2, &encode_value(schema.root(), object))].concat()
}

fn encode_message(type_name: &str, type_of: Type<'_>, object: &Map<String, Value>) -> Vec<u8> {
    let members = Numbers::built_in().members(type_name).expect(type_name);
    let encoded = members.iter().map(|(number, member)| match member {
        Member::Inlined(inlined) => delimited(*number, &encode_message(inlined, type_of, object)),
        Member::Field(name) => {
            object.get(*name).map(|value| encode_field(*number, type_of.entry(name), value)).unwrap_or_default()
        }
    });
    encoded.collect::<Vec<_>>().concat()
}

fn encode_field(number: u64, type_of: Type<'_>, value: &Value) -> Vec<u8> {
    match (type_of.shape, value) {
        (Shape::List(_), Value::Array(items)) => {
            items.iter().flat_map(|item| encode_field(number, type_of.element(), item)).collect()
        }
        (Shape::Map(_), Value::Object(entries)) => {
            let entry = |(key, value): (&String, &Value)| {
                let value = match type_of.entry(key).shape {
                    // A message around what would be repeated.
                    Shape::List(_) => delimited(2, &encode_field(1, type_of.entry(key), value)),
                    _ => encode_field(2, type_of.entry(key), value),
                };
                delimited(number, &[delimited(1, key.as_bytes()), value].concat())
            };
            entries.iter().flat_map(entry).collect()
        }
        (Shape::Boolean | Shape::Int32 | Shape::Int64, value) => {
            let integer = value.as_bool().map(i64::from).or(value.as_i64()).expect("an integer or a boolean");
            numeric(number, integer)
        }
        _ => delimited(number, &encode_value(type_of, value)),
    }
}

/// What stands in a field after its length.
fn encode_value(type_of: Type<'_>, value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    match type_of.shape {
        Shape::Object(index) => {
            encode_message(&type_of.definitions[*index].name, type_of, value.as_object().expect("an object"))
        }
        Shape::String => text.into(),
        Shape::Bytes => BASE64.decode(text).expect("base64"),
        Shape::Time | Shape::MicroTime => {
            let nanos: i128 = text.parse::<Timestamp>().expect("a time").as_nanosecond();
            let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).expect("a time");
            let rest = i64::try_from(nanos.rem_euclid(1_000_000_000)).expect("a time");
            [numeric(1, seconds), numeric(2, rest)].concat()
        }
        Shape::Quantity => delimited(1, text.as_bytes()),
        Shape::IntOrString => match value.as_i64() {
            Some(integer) => [numeric(1, 0), numeric(2, integer), delimited(3, b"")].concat(),
            None => [numeric(1, 1), numeric(2, 0), delimited(3, text.as_bytes())].concat(),
        },
        Shape::Any => delimited(1, value.to_string().as_bytes()),
        other => panic!("{other:?} has no length"),
    }
}

/// A field with a length.
pub(super) fn delimited(number: u64, bytes: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2), &varint(bytes.len() as u64), bytes].concat()
}

fn numeric(number: u64, integer: i64) -> Vec<u8> {
    [varint(number << 3), varint(integer.cast_unsigned())].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
