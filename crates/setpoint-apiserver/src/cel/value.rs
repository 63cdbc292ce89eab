//! What expressions compute with. Data of the object is never copied: a list or map of it is a reference and its type.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use setpoint_api::quantity::Quantity;

use super::data_type::{DataKind, DataType};
use super::functions::format::Format;
use super::functions::network::Cidr;
use super::functions::semver::Semver;
use super::functions::url::Url;
use super::list::List;
use super::map::Map;
use super::number;
use super::time::{self, Instant};

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The budget is used up. Nothing catches this one.
    Exhausted,
    /// No function takes arguments of these types.
    Overload(Box<str>),
    Failed(Box<str>),
}

impl Fault {
    pub(super) fn no_such_overload() -> Fault {
        Fault::Overload("no such overload".into())
    }

    pub(super) fn failed(message: impl Into<Box<str>>) -> Fault {
        Fault::Failed(message.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Exhausted => f.write_str("operation cancelled: actual cost limit exceeded"),
            Fault::Overload(message) | Fault::Failed(message) => f.write_str(message),
        }
    }
}

/// What an element costs that is put into a list.
const ITEM_COST: u64 = 3;
/// What reading a text that means something else costs, besides its length.
const READ_COST: u64 = 5;
/// What a failure costs that does not end the evaluation.
const FAILURE_COST: u64 = 10;

/// What is left of a rule's budget, in CEL's units of cost.
#[derive(Debug)]
pub(super) struct Meter {
    left: u64,
}

impl Meter {
    pub(super) fn new(limit: u64) -> Meter {
        Meter { left: limit }
    }

    pub(super) fn charge(&mut self, cost: u64) -> Result<(), Fault> {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Fault::Exhausted)
            }
        }
    }

    /// For walking or copying a text: a tenth of its bytes.
    pub(super) fn charge_text(&mut self, bytes: usize) -> Result<(), Fault> {
        self.charge((bytes as u64).div_ceil(10))
    }

    /// For finding a key among so many entries: nothing much, unless there are many or the key is long.
    pub(super) fn charge_lookup(&mut self, key_bytes: usize, entries: usize) -> Result<(), Fault> {
        let comparisons = u64::from(entries.max(1).ilog2()) + 1;
        self.charge(comparisons / 2 + (key_bytes as u64 / 10).saturating_mul(comparisons))
    }

    /// For a failure that did not decide: making it is more than a step.
    pub(super) fn charge_failure(&mut self) -> Result<(), Fault> {
        self.charge(FAILURE_COST)
    }

    /// For reading a text that means something else, and for saying what is wrong with it.
    pub(super) fn charge_reading(&mut self, text: &str) -> Result<(), Fault> {
        self.charge(READ_COST + text.len() as u64 / 5)
    }

    /// For gathering the elements of a list or a map.
    pub(super) fn charge_items(&mut self, count: usize) -> Result<(), Fault> {
        self.charge(ITEM_COST.saturating_mul(count as u64))
    }

    pub(super) fn left(&self) -> u64 {
        self.left
    }
}

/// A text of the object or the rule, or one that was made.
#[derive(Debug, Clone)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Made(Rc<str>),
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Made(text) => text,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Rc<[u8]>),
    /// In nanoseconds.
    Duration(i64),
    Timestamp(Instant),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Rc<Value<'a>>>),
    /// A type, by its name.
    Type(&'static str),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Rc<Url>),
    Quantity(Rc<Quantity>),
    Semver(Rc<Semver>),
    Format(&'static Format),
    /// Data without a type.
    Preserved(&'a Json),
}

impl<'a> Value<'a> {
    pub(super) fn text(text: impl Into<Rc<str>>) -> Value<'a> {
        Value::String(Text::Made(text.into()))
    }

    pub(super) fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List::Made(Rc::new(items)))
    }

    pub(super) fn map(entries: BTreeMap<super::map::Key<'a>, Value<'a>>) -> Value<'a> {
        Value::Map(Map::Made(Rc::new(entries)))
    }

    pub(super) fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Rc::new(value)))
    }

    /// A number of things; more than fit do not fit into memory either.
    pub(super) fn count(count: usize) -> Value<'a> {
        Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// The value that stands in an object. Texts that mean something else are read each time, and cost accordingly.
    pub(super) fn of_data(json: &'a Json, data: &'a DataType, meter: &mut Meter) -> Result<Value<'a>, Fault> {
        if json.is_null() && data.kind != DataKind::Preserved {
            let fault = || Fault::failed("invalid data, got null for schema with nullable=false");
            return if data.nullable { Ok(Value::Null) } else { Err(fault()) };
        }
        let unexpected = |expected: &str| Fault::failed(format!("invalid data, expected {expected}"));
        let text = || json.as_str().ok_or_else(|| unexpected("string"));
        let mut read = |what: &str, value: fn(&str) -> Option<Value<'a>>| {
            let text = text()?;
            meter.charge_reading(text)?;
            value(text).ok_or_else(|| Fault::failed(format!("Invalid {what} {text}")))
        };
        match &data.kind {
            DataKind::Bool => json.as_bool().map(Value::Bool).ok_or_else(|| unexpected("bool")),
            DataKind::Int => json.as_i64().map(Value::Int).ok_or_else(|| unexpected("int")),
            DataKind::Double => json.as_f64().map(Value::Double).ok_or_else(|| unexpected("float")),
            DataKind::String => Ok(Value::String(Text::Borrowed(text()?))),
            DataKind::Bytes => {
                read("byte formatted string", |text| Some(Value::Bytes(STANDARD.decode(text).ok()?.into())))
            }
            DataKind::Duration => read("duration", |text| time::data_duration(text).map(Value::Duration)),
            DataKind::Date => read("date formatted string", |text| time::date(text).map(Value::Timestamp)),
            DataKind::DateTime => {
                read("date-time formatted string", |text| time::date_time(text).map(Value::Timestamp))
            }
            DataKind::IntOrString => match json {
                Json::String(text) => Ok(Value::String(Text::Borrowed(text))),
                _ => json
                    .as_i64()
                    .map(Value::Int)
                    .ok_or_else(|| unexpected("XIntOrString value to be either a string or integer")),
            },
            DataKind::List { items, identity } => {
                let elements =
                    json.as_array().ok_or_else(|| unexpected("an array for the provided schema with type=array"))?;
                Ok(Value::List(List::Data { elements, items, identity }))
            }
            DataKind::Map(_) | DataKind::Object(_) => {
                let entries =
                    json.as_object().ok_or_else(|| unexpected("a map for the provided schema with type=object"))?;
                Ok(Value::Map(Map::Data { entries, data }))
            }
            DataKind::Preserved => Ok(Value::Preserved(json)),
        }
    }

    /// The name of its type, as `type()` answers it.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Url(_) => "kubernetes.URL",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Semver(_) => "kubernetes.Semver",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::Preserved(_) => "unknown",
        }
    }

    /// As it is shown in a message.
    pub(super) fn shown(&self) -> String {
        match self {
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Uint(value) => value.to_string(),
            Value::Double(value) => number::show(*value),
            Value::String(value) => value.to_string(),
            other => other.type_name().to_owned(),
        }
    }

    /// Whether it is what an unset field of its type would hold.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Int(value) => *value == 0,
            Value::Uint(value) => *value == 0,
            Value::Double(value) => *value == 0.0,
            Value::String(value) => value.is_empty(),
            Value::Bytes(value) => value.is_empty(),
            Value::Duration(value) => *value == 0,
            Value::List(value) => value.len() == 0,
            Value::Map(value) => value.len() == 0,
            Value::Optional(value) => value.is_none(),
            _ => false,
        }
    }
}
