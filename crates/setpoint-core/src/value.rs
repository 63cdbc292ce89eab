//! The value of a field, and a set of fields.
//!
//! Amounts are in base units (bytes, cores); a field's unit says how they are compared and shown. A text that came from
//! a Secret is a [`Value::Secret`] and shows itself to nobody. An environment may have a hundred thousand instances:
//! short texts are kept in place, and names and values in one sorted piece of memory.

use std::cmp::Ordering;
use std::fmt;

use compact_str::CompactString;
use serde_json::json;

/// What stands for a value that must not be shown.
pub const SENSITIVE: &str = "(sensitive)";

/// A text from outside, as it can be shown without harm: nothing in it moves the cursor or hides what follows.
#[derive(Debug, Clone, Copy)]
pub struct Printable<'t>(pub &'t str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\n' => f.write_str("⏎")?,
                control if control.is_control() => write!(f, "{}", control.escape_default())?,
                active if is_active(active) => write!(f, "{}", active.escape_unicode())?,
                other => fmt::Write::write_char(f, other)?,
            }
        }
        Ok(())
    }
}

/// Whether a character is a command to who shows it, such as one that ends a line or changes the direction of others, or is
/// not seen at all: it could make two texts look the same that are not.
pub fn is_active(character: char) -> bool {
    let is_unseen = matches!(
        character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    );
    is_unseen || character.is_control()
}

/// The value of a field.
#[derive(Clone)]
pub enum Value {
    Bool(bool),
    Integer(i64),
    Text(CompactString),
    /// A text that must not be shown. It equals a text of the same content: a provider gives back what it was given.
    Secret(Box<str>),
    List(Vec<Value>),
    Map(Map),
}

impl Value {
    pub fn secret(text: &str) -> Value {
        Value::Secret(text.into())
    }

    /// The text, secret or not.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::Secret(text) => Some(text),
            _ => None,
        }
    }

    /// Whether a secret stands in it, at any depth.
    pub fn is_sensitive(&self) -> bool {
        match self {
            Value::Secret(_) => true,
            Value::List(items) => items.iter().any(Value::is_sensitive),
            Value::Map(entries) => entries.iter().any(|(_, value)| value.is_sensitive()),
            Value::Bool(_) | Value::Integer(_) | Value::Text(_) => false,
        }
    }

    /// For digests, which are keyed: the value as JSON, secrets and all.
    pub(crate) fn reveal(&self) -> serde_json::Value {
        match self {
            Value::Bool(value) => json!(value),
            Value::Integer(value) => json!(value),
            Value::Text(text) => json!(text.as_str()),
            Value::Secret(text) => json!(text),
            Value::List(items) => items.iter().map(Value::reveal).collect(),
            Value::Map(entries) => entries.iter().map(|(name, value)| (name.to_owned(), value.reveal())).collect(),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Integer(a), Value::Integer(b)) => a == b,
            (Value::List(a), Value::List(b)) => a == b,
            (Value::Map(a), Value::Map(b)) => a == b,
            _ => self.as_text().is_some() && self.as_text() == other.as_text(),
        }
    }
}

impl Eq for Value {}

/// By kind, then by content: any total order will do to compare lists whose order does not count.
impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        let rank = |value: &Value| match value {
            Value::Bool(_) => 0,
            Value::Integer(_) => 1,
            Value::Text(_) | Value::Secret(_) => 2,
            Value::List(_) => 3,
            Value::Map(_) => 4,
        };
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
            (Value::List(a), Value::List(b)) => a.cmp(b),
            (Value::Map(a), Value::Map(b)) => a.cmp(b),
            _ => rank(self).cmp(&rank(other)).then_with(|| self.as_text().cmp(&other.as_text())),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// As a person reads it; a secret is `(sensitive)`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => value.fmt(f),
            Value::Integer(value) => value.fmt(f),
            Value::Text(text) if text.is_empty() => f.write_str("\"\""),
            Value::Text(text) => Printable(text).fmt(f),
            Value::Secret(_) => f.write_str(SENSITIVE),
            Value::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Value::Map(entries) => {
                f.write_str("{")?;
                for (index, (name, value)) in entries.iter().enumerate() {
                    write!(f, "{}{}: {value}", if index == 0 { "" } else { ", " }, Printable(name))?;
                }
                f.write_str("}")
            }
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => fmt::Debug::fmt(text, f),
            _ => fmt::Display::fmt(self, f),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Integer(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl<V: Into<Value>> From<Vec<V>> for Value {
    fn from(items: Vec<V>) -> Value {
        Value::List(items.into_iter().map(Into::into).collect())
    }
}

impl<V: Into<Value>, const N: usize> From<[(&str, V); N]> for Value {
    fn from(entries: [(&str, V); N]) -> Value {
        Value::Map(entries.into_iter().collect())
    }
}

/// Fields with their values. Names come from a deployer's registry and are not copied.
pub type Fields = Entries<&'static str>;

/// The value of a field that has keys.
pub type Map = Entries<CompactString>;

/// Names with their values, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entries<N>(Vec<(N, Value)>);

impl<N> Default for Entries<N> {
    fn default() -> Entries<N> {
        Entries(Vec::new())
    }
}

impl<N: AsRef<str>> Entries<N> {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.position(name).ok().map(|at| &self.0[at].1)
    }

    pub fn set(&mut self, name: impl Into<N>, value: impl Into<Value>) {
        let name = name.into();
        match self.position(name.as_ref()) {
            Ok(at) => self.0[at].1 = value.into(),
            Err(at) => self.0.insert(at, (name, value.into())),
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.position(name).ok().map(|at| self.0.remove(at).1)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.as_ref().cmp(name))
    }
}

impl<N: AsRef<str>, M: Into<N>, V: Into<Value>> FromIterator<(M, V)> for Entries<N> {
    fn from_iter<I: IntoIterator<Item = (M, V)>>(entries: I) -> Entries<N> {
        let entries = entries.into_iter();
        let mut all = Entries(Vec::with_capacity(entries.size_hint().0));
        for (name, value) in entries {
            all.set(name, value);
        }
        all
    }
}
