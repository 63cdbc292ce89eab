//! How large an object may be when it is stored, and how large a value is as JSON text.
//!
//! There is one limit, and [`object::encode`](crate::object::encode) applies it to every text that is stored. What could
//! make much more of what a client sent stops before: defaults at [`SURELY_TOO_LARGE`], after which [`check`] refuses the
//! object, and patches once they have copied as much as an object may have.

use std::io;

use serde_json::Value;
use thiserror::Error;

/// The most bytes that a stored object may have, the record of who owns its fields included: as much as etcd takes.
pub const OBJECT_LIMIT: usize = 1_572_864;

/// What an object may have beyond while it is deleted, so that none is too large to go, and for what the server itself
/// writes into an object.
pub const SPARE_BYTES: usize = 64 * 1024;

/// No object may have so many bytes, whatever becomes of it until it is stored.
pub const SURELY_TOO_LARGE: usize = OBJECT_LIMIT + SPARE_BYTES;

/// An object has more bytes than may be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{size} bytes, and at most {limit} are stored")]
pub struct TooLarge {
    pub size: usize,
    pub limit: usize,
}

/// The most bytes that a write may make of an object. One that is larger already, because it was stored before there was a
/// limit, may stay so but not grow.
pub fn limit(stored_size: Option<usize>, is_being_deleted: bool) -> usize {
    let spare = if is_being_deleted { SPARE_BYTES } else { 0 };
    (OBJECT_LIMIT + spare).max(stored_size.unwrap_or_default())
}

/// The same for what the server itself writes into an object, such as a condition or the mark of a deletion. That is short,
/// takes the place of what it wrote before, and must not fail.
pub fn limit_for_server(stored_size: usize) -> usize {
    stored_size.max(OBJECT_LIMIT) + SPARE_BYTES
}

/// Refuses an object that is surely too large, before more is done with it. `stored_size` is how large it is now.
pub fn check(object: &Value, stored_size: Option<usize>) -> Result<(), TooLarge> {
    let most = SURELY_TOO_LARGE.max(stored_size.unwrap_or_default());
    // Most are small, which is found out without writing them.
    if least_text_len(object) <= most / MOST_PER_LEAST {
        return Ok(());
    }
    match text_len(object) {
        size if size > most => Err(TooLarge { size, limit: limit(stored_size, false) }),
        _ => Ok(()),
    }
}

/// How many times longer a text may be than it is at least: a character may be written as six, a number as two dozen.
const MOST_PER_LEAST: usize = 32;

/// How many bytes a value has as text.
pub fn text_len(value: &Value) -> usize {
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("counting cannot fail");
    count.0
}

/// How many bytes a value has as text at least. Numbers count as one digit and nothing is escaped, so this is found out
/// without writing the text.
pub fn least_text_len(value: &Value) -> usize {
    match value {
        Value::Null => 4,
        Value::Bool(_) => 4,
        Value::Number(_) => 1,
        Value::String(text) => text.len() + 2,
        // Each element has a comma but the last; an empty list has two brackets.
        Value::Array(items) => items.iter().map(|item| least_text_len(item) + 1).sum::<usize>().max(1) + 1,
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| least_field_len(name, field)).sum::<usize>().max(1) + 1
        }
    }
}

/// The same for a field and the comma or brace after it.
pub fn least_field_len(name: &str, value: &Value) -> usize {
    name.len() + r#""":,"#.len() + least_text_len(value)
}

/// A writer that keeps nothing.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0 += text.len();
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_at_least_as_long_as_its_shortest_text() {
        let rows = [
            ("nothing", json!(null), true),
            ("a boolean", json!(true), true),
            ("a digit", json!(7), true),
            ("a longer number", json!(-1.25), false),
            ("a text", json!("text"), true),
            ("a text with a quote", json!("te\"xt"), false),
            ("an empty list", json!([]), true),
            ("a list", json!([1, "a", null]), true),
            ("an empty object", json!({}), true),
            ("an object", json!({"a": {"b": [{}, {}]}, "c": 1}), true),
        ];
        for (row, value, is_exact) in rows {
            let (least, exact) = (least_text_len(&value), value.to_string().len());
            assert_eq!(text_len(&value), exact, "{row}");
            assert!(least <= exact, "{row}: {least} and {exact}");
            assert_eq!(least == exact, is_exact, "{row}: {least} and {exact}");
        }
    }

    #[test]
    fn a_value_is_refused_by_the_length_of_its_text() {
        let text = |length: usize| Value::from("x".repeat(length - 2));
        let rows = [
            ("as large as an object may be", text(OBJECT_LIMIT), None),
            ("what may be left out when it is stored", text(SURELY_TOO_LARGE), None),
            ("one byte more", text(SURELY_TOO_LARGE + 1), Some(SURELY_TOO_LARGE + 1)),
            ("large only when it is escaped", Value::from("\0".repeat(300_000)), Some(1_800_002)),
            ("many long numbers", vec![-1.5e300; 300_000].into(), Some(300_000 * 10 + 1)),
        ];
        for (row, value, size) in rows {
            let refused = check(&value, None).err();
            assert_eq!(refused, size.map(|size| TooLarge { size, limit: OBJECT_LIMIT }), "{row}");
            assert_eq!(check(&value, Some(4 * OBJECT_LIMIT)), Ok(()), "{row}, which was larger before");
        }
    }

    #[test]
    fn only_what_was_larger_before_or_goes_may_be_larger() {
        let large = 10 * OBJECT_LIMIT;
        let rows = [
            ("a new object", None, false, OBJECT_LIMIT),
            ("a small one", Some(100), false, OBJECT_LIMIT),
            ("one from before there was a limit", Some(large), false, large),
            ("one that is deleted", Some(OBJECT_LIMIT), true, OBJECT_LIMIT + SPARE_BYTES),
            ("one that is deleted does not grow by each write", Some(large), true, large),
        ];
        for (row, stored_size, is_being_deleted, expected) in rows {
            assert_eq!(limit(stored_size, is_being_deleted), expected, "{row}");
        }
    }
}
