//! A structural schema, compiled: what the values of a custom resource may be.
//!
//! There is one tree for each distinct schema of a definition; pruning, defaulting and validation all walk it. Descriptions
//! are not kept: OpenAPI reads them from the stored definition when somebody asks.

use std::sync::OnceLock;

use regex::Regex;
use serde_json::Value;

use super::format::Format;
use crate::go_regex::GoRegex;

/// The schema of a value.
#[derive(Debug, Default)]
pub struct Structure {
    pub kind: Kind,
    pub nullable: bool,
    /// Fields that are not specified stay.
    pub preserves_unknown: bool,
    /// The value is a whole object, with `apiVersion`, `kind` and `metadata`.
    pub embedded: bool,
    /// An apply sees it as one value, though it is an object.
    pub atomic: bool,
    pub default: Option<Box<Value>>,
    /// In the order of their names.
    properties: Box<[(Box<str>, Structure)]>,
    /// The values of a map.
    pub values: Option<Box<Structure>>,
    pub items: Option<Box<Structure>>,
    pub list: ListKind,
    /// What else must hold; most fields have only a type.
    pub checks: Option<Box<Checks>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// Of any type.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

/// What tells the elements of a list apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListKind {
    #[default]
    Atomic,
    Set,
    Map(Box<[Box<str>]>),
}

/// The limits of a value.
#[derive(Debug, Default)]
pub struct Checks {
    pub format: Option<Format>,
    /// The format's name, where it is one of numbers.
    pub number_format: Box<str>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub pattern: Option<Pattern>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub required: Box<[Box<str>]>,
    pub one_of_values: Box<[Value]>,
    pub all_of: Box<[Structure]>,
    pub any_of: Box<[Structure]>,
    pub one_of: Box<[Structure]>,
    pub not: Option<Box<Structure>>,
}

/// A regular expression, compiled when it is first needed: it is much larger than its text.
#[derive(Debug)]
pub struct Pattern {
    pub text: Box<str>,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    pub fn matches(&self, text: &str) -> bool {
        let compile = || GoRegex::new(&self.text).ok().map(|pattern| pattern.regex().clone());
        self.compiled.get_or_init(compile).as_ref().is_none_or(|pattern| pattern.is_match(text))
    }
}

impl Kind {
    /// The name of the type in schemas and messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Any => "",
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::IntOrString => "integer,string",
        }
    }

    fn parse(name: &str) -> Kind {
        [Kind::Object, Kind::Array, Kind::String, Kind::Integer, Kind::Number, Kind::Boolean]
            .into_iter()
            .find(|kind| kind.name() == name)
            .unwrap_or_default()
    }
}

impl Structure {
    /// Compiles an `openAPIV3Schema`, or a part of one.
    pub fn compile(schema: &Value) -> Structure {
        let flag = |name: &str| schema[name].as_bool().unwrap_or(false);
        let child = |name: &str| schema.get(name).filter(|child| child.is_object());
        let mut properties: Vec<(Box<str>, Structure)> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, property)| (name.as_str().into(), Structure::compile(property)))
            .collect();
        properties.sort_by(|a, b| a.0.cmp(&b.0));
        let values = match &schema["additionalProperties"] {
            // A map of anything.
            Value::Bool(true) => Some(Box::default()),
            values => values.is_object().then(|| Box::new(Structure::compile(values))),
        };
        let kind = match flag("x-kubernetes-int-or-string") {
            true => Kind::IntOrString,
            false => Kind::parse(schema["type"].as_str().unwrap_or_default()),
        };
        let checks = Checks::compile(schema);
        Structure {
            kind,
            nullable: flag("nullable"),
            preserves_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            atomic: schema["x-kubernetes-map-type"] == "atomic",
            default: schema.get("default").filter(|default| !default.is_null()).cloned().map(Box::new),
            properties: properties.into(),
            values,
            items: child("items").map(|items| Box::new(Structure::compile(items))),
            list: ListKind::compile(schema),
            checks: checks.is_some().then(|| Box::new(checks)),
        }
    }

    /// The fields that are specified, in the order of their names.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Structure)> {
        self.properties.iter().map(|(name, property)| (&**name, property))
    }

    pub fn property(&self, name: &str) -> Option<&Structure> {
        let position = self.properties.binary_search_by(|(property, _)| (**property).cmp(name)).ok()?;
        Some(&self.properties[position].1)
    }

    /// The schema of what stands under a key, if there is one.
    pub fn entry(&self, key: &str) -> Option<&Structure> {
        self.property(key).or(self.values.as_deref())
    }
}

impl ListKind {
    fn compile(schema: &Value) -> ListKind {
        match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => ListKind::Set,
            Some("map") => ListKind::Map(texts(&schema["x-kubernetes-list-map-keys"])),
            _ => ListKind::Atomic,
        }
    }
}

impl Checks {
    fn compile(schema: &Value) -> Checks {
        let all = |name: &str| -> Box<[Structure]> {
            schema[name].as_array().into_iter().flatten().map(Structure::compile).collect()
        };
        let count = |name: &str| schema[name].as_u64();
        let format = schema["format"].as_str().unwrap_or_default();
        let pattern = schema["pattern"].as_str().filter(|pattern| !pattern.is_empty());
        Checks {
            format: Format::find(format),
            number_format: if matches!(format, "int32" | "int64" | "float" | "double") { format } else { "" }.into(),
            minimum: schema["minimum"].as_f64(),
            exclusive_minimum: schema["exclusiveMinimum"] == true,
            maximum: schema["maximum"].as_f64(),
            exclusive_maximum: schema["exclusiveMaximum"] == true,
            multiple_of: schema["multipleOf"].as_f64(),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: pattern.map(|text| Pattern { text: text.into(), compiled: OnceLock::new() }),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            required: texts(&schema["required"]),
            one_of_values: schema["enum"].as_array().map(|values| values.as_slice().into()).unwrap_or_default(),
            all_of: all("allOf"),
            any_of: all("anyOf"),
            one_of: all("oneOf"),
            not: schema.get("not").filter(|not| not.is_object()).map(|not| Box::new(Structure::compile(not))),
        }
    }

    /// Whether it limits anything.
    fn is_some(&self) -> bool {
        let limits = [self.minimum, self.maximum, self.multiple_of];
        let counts = [
            self.min_length,
            self.max_length,
            self.min_items,
            self.max_items,
            self.min_properties,
            self.max_properties,
        ];
        let alternatives = [&self.all_of, &self.any_of, &self.one_of];
        limits.iter().any(Option::is_some)
            || counts.iter().any(Option::is_some)
            || alternatives.iter().any(|alternatives| !alternatives.is_empty())
            || self.not.is_some()
            || self.format.is_some()
            || self.pattern.is_some()
            || !self.number_format.is_empty()
            || !self.required.is_empty()
            || !self.one_of_values.is_empty()
    }
}

fn texts(list: &Value) -> Box<[Box<str>]> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}
