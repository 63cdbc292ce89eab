//! A name for exactly this content: HMAC-SHA-256 over canonical JSON, under the key of the control plane.
//!
//! Canonical is our own: members sorted by name, no white space, strings escaped one way, integers only. It depends
//! neither on the order in which a library keeps members nor on how it writes numbers. What is named may hold secrets,
//! and digests are shown to everybody: without the key, a short secret could be guessed from them.

use std::fmt;
use std::fmt::Write as _;

use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;

/// The key of digests. It shows itself to nobody.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    pub fn new(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// The digest of a JSON value.
    pub fn digest(&self, value: &Value) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.update(canonical(value).as_bytes());
        format!("hmac-sha256:{}", hex(&mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The one text that stands for a JSON value.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(number, text),
        Value::String(string) => write_string(string, text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| name.as_str());
            text.push('{');
            for (index, (name, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_string(name, text);
                text.push(':');
                write_canonical(member, text);
            }
            text.push('}');
        }
    }
}

/// Integers as they are; a fraction by its bits, since decimal notation is a matter of taste. `2.0` is `2`.
fn write_number(number: &serde_json::Number, text: &mut String) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().unwrap_or_default();
    let written = if let Some(integer) = number.as_i64() {
        write!(text, "{integer}")
    } else if let Some(integer) = number.as_u64() {
        write!(text, "{integer}")
    } else if float.fract() == 0.0 && float.abs() <= EXACT {
        write!(text, "{}", float as i64)
    } else {
        write!(text, "f{:016x}", float.to_bits())
    };
    written.expect("writing to a String does not fail");
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            control if control.is_control() => {
                write!(text, "\\u{:04x}", control as u32).expect("writing to a String does not fail");
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String does not fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_text_stands_for_one_value() {
        for (name, value, expected) in [
            ("members are sorted by name", json!({"b": 1, "a": {"d": 2, "c": 3}}), r#"{"a":{"c":3,"d":2},"b":1}"#),
            ("lists keep their order", json!([2, 1, null, true, false]), "[2,1,null,true,false]"),
            ("a whole fraction is an integer", json!([2.0, -3.0]), "[2,-3]"),
            ("a fraction is written by its bits", json!(0.5), "f3fe0000000000000"),
            ("large integers stay exact", json!([u64::MAX, i64::MIN]), "[18446744073709551615,-9223372036854775808]"),
            ("strings are escaped one way", json!("a\"b\\c\n\u{7f}é"), r#""a\"b\\c\u000a\u007fé""#),
        ] {
            assert_eq!(canonical(&value), expected, "{name}");
        }
    }

    #[test]
    fn a_digest_names_its_content() {
        let key = Key::new([1; 32]);
        assert_eq!(key.digest(&json!({"a": 1, "b": 2})), key.digest(&json!({"b": 2, "a": 1})));
        assert_ne!(key.digest(&json!({"a": "1"})), key.digest(&json!({"a": 1})));
        assert_ne!(key.digest(&json!(["ab", "c"])), key.digest(&json!(["a", "bc"])));
        assert!(key.digest(&json!(null)).starts_with("hmac-sha256:"));
    }

    #[test]
    fn a_digest_cannot_be_guessed_without_its_key() {
        let (one, other) = (Key::new([1; 32]), Key::new([2; 32]));
        assert_ne!(one.digest(&json!("password")), other.digest(&json!("password")));
        assert_eq!(format!("{one:?}"), "Key(…)");
    }
}
