//! What a document says that its kind does not know.
//!
//! A misspelt field must not pass in silence: what was meant to limit something would not. Kinds of ours are strict;
//! PlanSpec's documents are published by others and apply unchanged, with a warning for what is not known.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{GROUP, crds};

/// What becomes of fields that a kind does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    /// The document is refused.
    Strict,
    /// They are said, and left out.
    Warn,
}

/// A field that a kind does not know. It prints the way an API server warns of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// Where it stands, such as `spec.env[0].valeu`.
    pub path: String,
    /// A field beside it that may have been meant.
    pub suggestion: Option<String>,
}

/// A document of a kind of ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub api_version: String,
    pub kind: String,
    pub object: Value,
    /// Fields that its kind does not know; in a strict kind there are none.
    pub unknown: Vec<UnknownField>,
}

/// Why a document cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DocumentError {
    #[error("must be an object with apiVersion and kind")]
    NotAnObject,
    #[error("{0} must be set")]
    Missing(&'static str),
    #[error("no kind {kind:?} in {api_version:?}{}", hint(.suggestion.as_ref()))]
    UnknownKind { api_version: String, kind: String, suggestion: Option<String> },
    #[error("{}", lines(.0))]
    UnknownFields(Vec<UnknownField>),
}

impl FieldValidation {
    /// How strict the command line is with kinds of a group.
    pub fn of_group(group: &str) -> FieldValidation {
        if group == GROUP { FieldValidation::Strict } else { FieldValidation::Warn }
    }
}

/// Checks a document against what its kind knows.
pub fn decode(object: Value) -> Result<Document, DocumentError> {
    let members = object.as_object().ok_or(DocumentError::NotAnObject)?;
    let text = |name: &'static str| {
        members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).ok_or(DocumentError::Missing(name))
    };
    let (api_version, kind) = (text("apiVersion")?.to_owned(), text("kind")?.to_owned());
    let schema = SCHEMAS.get(&(api_version.clone(), kind.clone())).ok_or_else(|| {
        let kinds = SCHEMAS.keys().filter(|(known, _)| *known == api_version).map(|(_, kind)| kind.as_str());
        let suggestion = nearest(&kind, kinds);
        DocumentError::UnknownKind { api_version: api_version.clone(), kind: kind.clone(), suggestion }
    })?;
    let unknown = unknown_fields(&object, schema);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if !unknown.is_empty() && FieldValidation::of_group(group) == FieldValidation::Strict {
        return Err(DocumentError::UnknownFields(unknown));
    }
    Ok(Document { api_version, kind, object, unknown })
}

impl Document {
    /// The object as a Rust type.
    pub fn into_kind<K: DeserializeOwned>(self) -> Result<K, serde_json::Error> {
        serde_json::from_value(self.object)
    }
}

/// The schemas of all kinds by apiVersion and kind.
static SCHEMAS: LazyLock<BTreeMap<(String, String), Value>> = LazyLock::new(|| {
    let mut schemas = BTreeMap::new();
    for crd in crds::all() {
        for version in crd.spec.versions {
            let api_version = format!("{}/{}", crd.spec.group, version.name);
            let schema = version.schema.and_then(|schema| schema.open_api_v3_schema);
            let schema = serde_json::to_value(schema).expect("a schema is JSON");
            schemas.insert((api_version, crd.spec.names.kind.clone()), schema);
        }
    }
    schemas
});

/// The fields of `metadata`, which no schema of a custom resource lists.
const METADATA: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

fn unknown_fields(object: &Value, schema: &Value) -> Vec<UnknownField> {
    let mut unknown = Vec::new();
    if let Some(metadata) = object.get("metadata").and_then(Value::as_object) {
        for name in metadata.keys().filter(|name| !METADATA.contains(&name.as_str())) {
            let suggestion = nearest(name, METADATA.iter().copied());
            unknown.push(UnknownField { path: format!("metadata.{name}"), suggestion });
        }
    }
    collect(object, schema, "", &mut unknown);
    unknown
}

fn collect(value: &Value, schema: &Value, path: &str, unknown: &mut Vec<UnknownField>) {
    match value {
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter().enumerate() {
                collect(item, schema, &format!("{path}[{index}]"), unknown);
            }
        }
        Value::Object(members) => collect_members(members, schema, path, unknown),
        _ => {}
    }
}

fn collect_members(members: &Map<String, Value>, schema: &Value, path: &str, unknown: &mut Vec<UnknownField>) {
    let is_whole_object = path.is_empty() || schema["x-kubernetes-embedded-resource"] == true;
    let keeps_all = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let no_properties = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&no_properties);
    for (name, value) in members {
        let separator = if path.is_empty() { "" } else { "." };
        let is_standard = is_whole_object && ["apiVersion", "kind", "metadata"].contains(&name.as_str());
        if let Some(schema) = properties.get(name) {
            // What an object says of itself is the same in every kind, and was checked apart.
            if !(is_whole_object && name == "metadata") {
                collect(value, schema, &format!("{path}{separator}{name}"), unknown);
            }
        } else if let Some(schema) = schema.get("additionalProperties").filter(|schema| schema.is_object()) {
            collect(value, schema, &format!("{path}[{name}]"), unknown);
        } else if !keeps_all && !is_standard {
            let suggestion = nearest(name, properties.keys().map(String::as_str));
            unknown.push(UnknownField { path: format!("{path}{separator}{name}"), suggestion });
        }
    }
}

/// The name that was probably meant: the one that differs least, and by no more than a third.
fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<String> {
    let limit = (name.chars().count() / 3).max(1);
    known
        .map(|known| (distance(&name.to_lowercase(), &known.to_lowercase()), known))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, known)| known.to_owned())
}

/// How many letters must be put in, taken out, replaced or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().take(64).collect(), other.chars().take(64).collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for row in 1..=one.len() {
        let mut here = vec![row];
        for column in 1..=other.len() {
            let replaced = above[column - 1] + usize::from(one[row - 1] != other[column - 1]);
            let mut least = replaced.min(above[column] + 1).min(here[column - 1] + 1);
            let is_swap =
                row > 1 && column > 1 && one[row - 1] == other[column - 2] && one[row - 2] == other[column - 1];
            if is_swap {
                least = least.min(before[column - 2] + 1);
            }
            here.push(least);
        }
        before = std::mem::replace(&mut above, here);
    }
    above[other.len()]
}

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown field {:?}{}", self.path, hint(self.suggestion.as_ref()))
    }
}

fn hint(suggestion: Option<&String>) -> String {
    suggestion.map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default()
}

fn lines(fields: &[UnknownField]) -> String {
    fields.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
