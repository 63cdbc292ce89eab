//! The three ways to change an object by a patch: a JSON patch, a merge patch, a strategic merge patch.
//!
//! All are pure: an object and a patch in, a new object or an error out. Whether the result is a good object is for the
//! schema and the rules of its kind to say.

mod json;
mod merge;
mod order;
mod strategic;
#[cfg(test)]
mod strategic_tests;

use std::fmt;

use serde_json::Value;
use thiserror::Error;

pub use json::JsonPatch;
pub use merge::merge;
pub use strategic::strategic_merge;

/// Why a patch was not applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatchError {
    /// The patch is not written as one of its type has to be.
    #[error("{0}")]
    Malformed(String),
    /// The patch does not fit the object: a path is not there, a test fails.
    #[error("{0}")]
    Inapplicable(String),
    /// The patch would take too much work or room.
    #[error("{0}")]
    TooLarge(String),
}

/// A value the way Go prints it, which Kubernetes' messages about patches show: `map[a:[1 x] b:<nil>]`.
#[derive(Debug, Clone, Copy)]
pub struct GoText<'v>(pub &'v Value);

impl fmt::Display for GoText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::String(text) => f.write_str(text),
            Value::Bool(value) => value.fmt(f),
            Value::Number(number) => number.fmt(f),
            Value::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{}", if index > 0 { " " } else { "" }, GoText(item))?;
                }
                f.write_str("]")
            }
            Value::Object(entries) => {
                f.write_str("map[")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key}:{}", if index > 0 { " " } else { "" }, GoText(value))?;
                }
                f.write_str("]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::GoText;

    #[test]
    fn values_are_shown_as_go_shows_them() {
        let value = json!({"b": [1, "x y", null], "a": {"t": true}, "c": {}});
        assert_eq!(GoText(&value).to_string(), "map[a:map[t:true] b:[1 x y <nil>] c:map[]]");
    }
}
