//! Writes JSON as protobuf, by tables of which field has which number.
//!
//! The messages of OpenAPI documents follow their JSON closely. Where they do not, they wrap a value in a message of its
//! own, or turn an object into a list of named values: [`Form`] says how.

use serde_json::{Map, Value};

/// A message, made of an object.
#[derive(Debug)]
pub(super) struct Message {
    /// What is not among them is left out.
    pub fields: &'static [(&'static str, u32, Form)],
    /// The field for what begins with `x-`.
    pub extensions: u32,
}

/// What a value is written as.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    Text,
    Boolean,
    Integer,
    Double,
    /// Any value, as a text of YAML.
    Any,
    Message(&'static Message),
    /// The field again for each element of a list.
    Each(&'static Form),
    /// This field of a message that has no other.
    Within(u32, &'static Form),
    /// This field of a message, again for each entry of an object: a message of the name and the value.
    Entries(u32, &'static Form),
    /// What the value's own look decides.
    Either(fn(&Value) -> &'static Form),
}

const VARINT: u32 = 0;
const FIXED_64: u32 = 1;
const DELIMITED: u32 = 2;

/// Writes a value as a field. One of another type than the form's is left out.
pub(super) fn write(out: &mut Vec<u8>, number: u32, form: Form, value: &Value) {
    match form {
        Form::Text => value.as_str().into_iter().for_each(|text| delimited(out, number, text.as_bytes())),
        Form::Boolean => value.as_bool().into_iter().for_each(|truth| varint_field(out, number, truth.into())),
        Form::Integer => {
            value.as_i64().into_iter().for_each(|integer| varint_field(out, number, integer.cast_unsigned()));
        }
        Form::Double => value.as_f64().into_iter().for_each(|double| {
            varint(out, u64::from(number << 3 | FIXED_64));
            out.extend_from_slice(&double.to_le_bytes());
        }),
        // JSON is YAML.
        Form::Any => nested(out, number, |out| delimited(out, 2, value.to_string().as_bytes())),
        Form::Message(message) => {
            value.as_object().into_iter().for_each(|object| nested(out, number, |out| message.write(out, object)));
        }
        Form::Each(form) => {
            value.as_array().into_iter().flatten().for_each(|element| write(out, number, *form, element));
        }
        Form::Within(inner, form) => nested(out, number, |out| write(out, inner, *form, value)),
        Form::Entries(inner, form) => {
            let entries = value.as_object().into_iter().flatten();
            nested(out, number, |out| entries.for_each(|(name, value)| entry(out, inner, name, *form, value)));
        }
        Form::Either(choose) => write(out, number, *choose(value), value),
    }
}

/// Writes a named value.
pub(super) fn entry(out: &mut Vec<u8>, number: u32, name: &str, form: Form, value: &Value) {
    nested(out, number, |out| {
        delimited(out, 1, name.as_bytes());
        write(out, 2, form, value);
    });
}

/// Writes a field that has a length.
pub(super) fn delimited(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(out, u64::from(number << 3 | DELIMITED));
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

impl Message {
    /// Writes what stands in the message.
    pub(super) fn write(&self, out: &mut Vec<u8>, object: &Map<String, Value>) {
        for (name, number, form) in self.fields {
            if let Some(value) = object.get(*name) {
                write(out, *number, *form, value);
            }
        }
        for (name, value) in object.iter().filter(|(name, _)| name.starts_with("x-")) {
            entry(out, self.extensions, name, Form::Any, value);
        }
    }
}

fn nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut message = Vec::new();
    write(&mut message);
    delimited(out, number, &message);
}

fn varint_field(out: &mut Vec<u8>, number: u32, value: u64) {
    varint(out, u64::from(number << 3 | VARINT));
    varint(out, value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    static ITEM: Message = Message { fields: &[("a", 1, Form::Text), ("b", 2, Form::Boolean)], extensions: 3 };

    #[test]
    fn each_form_is_written_as_protobuf_has_it() {
        let choose = |value: &Value| if value.is_boolean() { &Form::Within(2, &Form::Boolean) } else { &Form::Text };
        let rows: [(&str, Form, Value, &[u8]); 14] = [
            ("a text", Form::Text, json!("hi"), b"\x0a\x02hi"),
            ("a truth", Form::Boolean, json!(true), b"\x08\x01"),
            ("an integer of two bytes", Form::Integer, json!(150), b"\x08\x96\x01"),
            ("minus one", Form::Integer, json!(-1), b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            ("a number", Form::Double, json!(1), b"\x09\0\0\0\0\0\0\xf0\x3f"),
            ("anything", Form::Any, json!([1]), b"\x0a\x05\x12\x03[1]"),
            ("an object", Form::Message(&ITEM), json!({"b": true, "a": "x"}), b"\x0a\x05\x0a\x01x\x10\x01"),
            ("an unknown field", Form::Message(&ITEM), json!({"c": 1}), b"\x0a\x00"),
            ("an extension", Form::Message(&ITEM), json!({"x-k": 1}), b"\x0a\x0c\x1a\x0a\x0a\x03x-k\x12\x03\x12\x011"),
            ("a list", Form::Each(&Form::Text), json!(["a", "b"]), b"\x0a\x01a\x0a\x01b"),
            ("a wrapped value", Form::Within(2, &Form::Text), json!("a"), b"\x0a\x03\x12\x01a"),
            ("named values", Form::Entries(1, &Form::Text), json!({"k": "v"}), b"\x0a\x08\x0a\x06\x0a\x01k\x12\x01v"),
            ("one of two forms", Form::Either(choose), json!(true), b"\x0a\x02\x10\x01"),
            ("a value of another type", Form::Integer, json!("1"), b""),
        ];
        for (row, form, value, bytes) in rows {
            let mut out = Vec::new();
            write(&mut out, 1, form, &value);
            assert_eq!(out, bytes, "{row}");
        }
    }

    #[test]
    fn a_length_can_take_several_bytes() {
        let mut out = Vec::new();
        delimited(&mut out, 16, &[7; 300]);
        assert_eq!(out[..4], [0x82, 0x01, 0xac, 0x02]);
        assert_eq!(out.len(), 304);
    }
}
