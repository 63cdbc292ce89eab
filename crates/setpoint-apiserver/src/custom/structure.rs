//! A structural schema, compiled: what the values of a custom resource may be.
//!
//! There is one tree for each distinct schema of a definition; pruning, defaulting and validation all walk it. Descriptions
//! are not kept: OpenAPI reads them from the stored definition when somebody asks.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use compact_str::CompactString;
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
    properties: Box<[(CompactString, Arc<Structure>)]>,
    /// The values of a map.
    pub values: Option<Arc<Structure>>,
    pub items: Option<Arc<Structure>>,
    pub list: ListKind,
    pub checks: Checks,
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

/// What must hold of a value besides its type: only what its schema says, since most say little and there are many.
#[derive(Debug, Default)]
pub struct Checks(Box<[Check]>);

#[derive(Debug)]
enum Check {
    Format(Format),
    NumberFormat(&'static str),
    Minimum(Limit),
    Maximum(Limit),
    MultipleOf(f64),
    MinLength(u64),
    MaxLength(u64),
    Pattern(Box<Pattern>),
    MinItems(u64),
    MaxItems(u64),
    MinProperties(u64),
    MaxProperties(u64),
    Required(Box<[Box<str>]>),
    OneOfValues(Box<[Value]>),
    AllOf(Box<[Structure]>),
    AnyOf(Box<[Structure]>),
    OneOf(Box<[Structure]>),
    Not(Box<Structure>),
}

/// The end of a range of numbers.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    pub value: f64,
    /// Whether the end itself is outside.
    pub exclusive: bool,
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
        Structure::compile_with(schema, &mut Alike::default())
    }

    fn compile_with(schema: &Value, alike: &mut Alike) -> Structure {
        let flag = |name: &str| schema[name].as_bool().unwrap_or(false);
        let child = |name: &str| schema.get(name).filter(|child| child.is_object());
        let mut properties: Vec<(CompactString, Arc<Structure>)> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, property)| (name.as_str().into(), alike.compile(property)))
            .collect();
        properties.sort_by(|a, b| a.0.cmp(&b.0));
        let values = match &schema["additionalProperties"] {
            // A map of anything.
            Value::Bool(true) => Some(Arc::default()),
            values => values.is_object().then(|| alike.compile(values)),
        };
        let kind = match flag("x-kubernetes-int-or-string") {
            true => Kind::IntOrString,
            false => Kind::parse(schema["type"].as_str().unwrap_or_default()),
        };
        Structure {
            kind,
            nullable: flag("nullable"),
            preserves_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            atomic: schema["x-kubernetes-map-type"] == "atomic",
            default: schema.get("default").filter(|default| !default.is_null()).cloned().map(Box::new),
            properties: properties.into(),
            values,
            items: child("items").map(|items| alike.compile(items)),
            list: ListKind::compile(schema),
            checks: Checks::compile(schema),
        }
    }

    /// The fields that are specified, in the order of their names.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Structure)> {
        self.properties.iter().map(|(name, property)| (name.as_str(), &**property))
    }

    pub fn property(&self, name: &str) -> Option<&Structure> {
        let position = self.properties.binary_search_by(|(property, _)| property.as_str().cmp(name)).ok()?;
        Some(&self.properties[position].1)
    }

    /// The schema of what stands under a key, if there is one.
    pub fn entry(&self, key: &str) -> Option<&Structure> {
        self.property(key).or(self.values.as_deref())
    }
}

/// Most fields are like many others, but for their names and descriptions; what is alike is held once.
#[derive(Default)]
struct Alike(HashMap<String, Arc<Structure>>);

impl Alike {
    fn compile(&mut self, schema: &Value) -> Arc<Structure> {
        let Some(words) = words_of_small(schema) else { return Arc::new(Structure::compile_with(schema, self)) };
        if let Some(known) = self.0.get(&words) {
            return known.clone();
        }
        let structure = Arc::new(Structure::compile_with(schema, self));
        self.0.insert(words, structure.clone());
        structure
    }
}

/// What a schema says that has no fields, nor elements with fields; `None` for others.
fn words_of_small(schema: &Value) -> Option<String> {
    fn has_parts(schema: &Value) -> bool {
        ["properties", "allOf", "anyOf", "oneOf", "not"].iter().any(|part| schema.get(part).is_some())
    }
    fn element(schema: &Value) -> Option<&Value> {
        let mut elements = ["items", "additionalProperties"].iter().filter_map(|part| schema.get(part));
        elements.find(|element| element.is_object())
    }
    let is_small = !has_parts(schema)
        && element(schema).is_none_or(|element_of| !has_parts(element_of) && element(element_of).is_none());
    let said = schema.as_object().filter(|_| is_small)?.iter().filter(|(word, _)| *word != "description");
    Some(said.fold(String::new(), |words, (word, value)| words + word + "=" + &value.to_string() + ";"))
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

/// The formats of numbers.
const NUMBER_FORMATS: [&str; 4] = ["int32", "int64", "float", "double"];

impl Checks {
    fn compile(schema: &Value) -> Checks {
        let count = |name: &str| schema[name].as_u64();
        let number = |name: &str| schema[name].as_f64();
        let limit = |name: &str, exclusive: &str| {
            number(name).map(|value| Limit { value, exclusive: schema[exclusive] == true })
        };
        let schemas = |name: &str| -> Option<Box<[Structure]>> {
            let schemas = schema[name].as_array().filter(|schemas| !schemas.is_empty())?;
            Some(schemas.iter().map(Structure::compile).collect())
        };
        let format = schema["format"].as_str().unwrap_or_default();
        let pattern = schema["pattern"].as_str().filter(|pattern| !pattern.is_empty());
        let pattern = pattern.map(|text| Box::new(Pattern { text: text.into(), compiled: OnceLock::new() }));
        let values = schema["enum"].as_array().filter(|values| !values.is_empty());
        let not = schema.get("not").filter(|not| not.is_object()).map(|not| Box::new(Structure::compile(not)));
        let checks = [
            Format::find(format).map(Check::Format),
            NUMBER_FORMATS.into_iter().find(|known| *known == format).map(Check::NumberFormat),
            limit("minimum", "exclusiveMinimum").map(Check::Minimum),
            limit("maximum", "exclusiveMaximum").map(Check::Maximum),
            number("multipleOf").map(Check::MultipleOf),
            count("minLength").map(Check::MinLength),
            count("maxLength").map(Check::MaxLength),
            pattern.map(Check::Pattern),
            count("minItems").map(Check::MinItems),
            count("maxItems").map(Check::MaxItems),
            count("minProperties").map(Check::MinProperties),
            count("maxProperties").map(Check::MaxProperties),
            Some(texts(&schema["required"])).filter(|names| !names.is_empty()).map(Check::Required),
            values.map(|values| Check::OneOfValues(values.as_slice().into())),
            schemas("allOf").map(Check::AllOf),
            schemas("anyOf").map(Check::AnyOf),
            schemas("oneOf").map(Check::OneOf),
            not.map(Check::Not),
        ];
        Checks(checks.into_iter().flatten().collect())
    }

    fn find<'c, T>(&'c self, wanted: impl Fn(&'c Check) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(wanted)
    }
}

/// Readers of single checks: the value if there is such a check.
macro_rules! readers {
    ($($name:ident: $check:ident($value:ident) -> $type:ty = $read:expr;)*) => {
        impl Checks {
            $(pub fn $name(&self) -> Option<$type> {
                self.find(|check| match check {
                    Check::$check($value) => Some($read),
                    _ => None,
                })
            })*
        }
    };
}

readers! {
    format: Format(format) -> Format = *format;
    number_format: NumberFormat(name) -> &'static str = *name;
    minimum: Minimum(limit) -> Limit = *limit;
    maximum: Maximum(limit) -> Limit = *limit;
    multiple_of: MultipleOf(factor) -> f64 = *factor;
    min_length: MinLength(length) -> u64 = *length;
    max_length: MaxLength(length) -> u64 = *length;
    pattern: Pattern(pattern) -> &Pattern = &**pattern;
    min_items: MinItems(count) -> u64 = *count;
    max_items: MaxItems(count) -> u64 = *count;
    min_properties: MinProperties(count) -> u64 = *count;
    max_properties: MaxProperties(count) -> u64 = *count;
    required: Required(names) -> &[Box<str>] = &**names;
    one_of_values: OneOfValues(values) -> &[Value] = &**values;
    all_of: AllOf(schemas) -> &[Structure] = &**schemas;
    any_of: AnyOf(schemas) -> &[Structure] = &**schemas;
    one_of: OneOf(schemas) -> &[Structure] = &**schemas;
    not: Not(schema) -> &Structure = &**schema;
}

fn texts(list: &Value) -> Box<[Box<str>]> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}
