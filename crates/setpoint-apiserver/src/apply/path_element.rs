//! One step on the way to a field, as `managedFields` names it.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Number, Value};

/// A field's name, an element of a list by its keys, an element of a set by its value, or an element by its place.
#[derive(Debug, Clone)]
pub enum PathElement {
    Field(Box<str>),
    /// In the order of the names.
    Key(Box<[(Box<str>, Value)]>),
    Value(Value),
    Index(i64),
}

/// Why a text is no path element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no field of FieldsV1")]
pub struct PathElementError(String);

impl PathElement {
    pub fn field(name: &str) -> PathElement {
        PathElement::Field(name.into())
    }

    pub fn key(mut fields: Vec<(Box<str>, Value)>) -> PathElement {
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        PathElement::Key(fields.into())
    }

    /// Reads `f:name`, `k:{…}`, `v:…` or `i:…`; `None` for a kind of element that later versions may know.
    pub fn parse(text: &str) -> Result<Option<PathElement>, PathElementError> {
        let malformed = || PathElementError(text.to_owned());
        let (kind, content) = text.split_once(':').filter(|(kind, _)| kind.len() == 1).ok_or_else(malformed)?;
        Ok(Some(match kind {
            "f" => PathElement::field(content),
            "k" => {
                let fields: Map<String, Value> = serde_json::from_str(content).map_err(|_| malformed())?;
                PathElement::key(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
            }
            "v" => PathElement::Value(serde_json::from_str(content).map_err(|_| malformed())?),
            "i" => PathElement::Index(content.parse().map_err(|_| malformed())?),
            _ => return Ok(None),
        }))
    }

    /// The element as `managedFields` writes it.
    pub fn encoded(&self) -> impl fmt::Display {
        Encoded(self)
    }
}

struct Encoded<'e>(&'e PathElement);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            PathElement::Field(name) => write!(f, "f:{name}"),
            PathElement::Key(fields) => {
                f.write_str("k:{")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{}:{value}", if index > 0 { "," } else { "" }, Value::from(&**name))?;
                }
                f.write_str("}")
            }
            PathElement::Value(value) => write!(f, "v:{value}"),
            PathElement::Index(index) => write!(f, "i:{index}"),
        }
    }
}

/// The element as messages show it: `.name`, `[name="c"]`, `[="x"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(fields) => {
                f.write_str("[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}={value}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            PathElement::Value(value) => write!(f, "[={value}]"),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// The order in which a set holds its elements, and so shows them.
impl Ord for PathElement {
    fn cmp(&self, other: &PathElement) -> Ordering {
        match (self, other) {
            (PathElement::Field(a), PathElement::Field(b)) => a.cmp(b),
            (PathElement::Key(a), PathElement::Key(b)) => {
                let fields = a.iter().zip(b).map(|((a, x), (b, y))| a.cmp(b).then_with(|| compare(x, y)));
                fields.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            (PathElement::Value(a), PathElement::Value(b)) => compare(a, b),
            (PathElement::Index(a), PathElement::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PathElement {
    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &PathElement) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &PathElement) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// Whether two values are the same, where a whole number may be written as a fraction.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let elements = a.iter().zip(b).map(|(a, b)| compare(a, b));
            elements.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let entries = a.iter().zip(b).map(|((a, x), (b, y))| a.cmp(b).then_with(|| compare(x, y)));
            entries.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_written_read_and_shown() {
        let port = PathElement::key(vec![("protocol".into(), json!("TCP")), ("port".into(), json!(80))]);
        let rows = [
            ("a field", PathElement::field("a.b/c"), "f:a.b/c", ".a.b/c"),
            ("keys in order", port, r#"k:{"port":80,"protocol":"TCP"}"#, r#"[port=80,protocol="TCP"]"#),
            ("a value", PathElement::Value(json!("x\"y")), r#"v:"x\"y""#, r#"[="x\"y"]"#),
            ("a place", PathElement::Index(3), "i:3", "[3]"),
            ("a field without a name", PathElement::field(""), "f:", "."),
        ];
        for (row, element, encoded, shown) in rows {
            assert_eq!(element.encoded().to_string(), encoded, "{row}");
            assert_eq!(element.to_string(), shown, "{row}");
            assert_eq!(PathElement::parse(encoded), Ok(Some(element)), "{row}");
        }
        assert_eq!(PathElement::parse("z:later"), Ok(None), "what is not known yet is left out");
        for text in ["", "f", "name", "k:{", "k:[]", "v:", "i:x", "ff:x"] {
            assert!(PathElement::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn elements_have_one_order() {
        let texts = [
            "f:a",
            "f:b",
            r#"k:{"port":80}"#,
            r#"k:{"port":443}"#,
            r#"k:{"port":443,"protocol":"TCP"}"#,
            "v:1",
            "v:1.5",
            "v:2",
            r#"v:"a""#,
            "v:false",
            "v:true",
            "i:2",
            "i:10",
        ];
        let elements: Vec<PathElement> =
            texts.iter().map(|text| PathElement::parse(text).expect(text).expect(text)).collect();
        assert!(elements.windows(2).all(|pair| pair[0] < pair[1]), "{elements:?}");
        assert_eq!(PathElement::Value(json!(1)), PathElement::Value(json!(1.0)));
    }
}
