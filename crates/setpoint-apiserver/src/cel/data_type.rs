//! The type that a structural schema gives to data, as rules see it.
//!
//! Data without a type (preserved unknown fields) is kept for comparison only: a rule cannot reach into it, nor into a
//! list or map of it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct DataType {
    pub kind: DataKind,
    pub nullable: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum DataKind {
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    IntOrString,
    List { items: Box<DataType>, identity: Identity },
    Map(Box<DataType>),
    Object(BTreeMap<Box<str>, DataType>),
    Preserved,
}

/// What makes two elements of a list the same element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Identity {
    Position,
    Value,
    Keys(Vec<Box<str>>),
}

impl DataType {
    fn of(kind: DataKind) -> DataType {
        DataType { kind, nullable: false }
    }

    /// The type of the object that a schema describes: as the schema says, and with the fields every object has.
    pub(super) fn of_resource(schema: &Value) -> DataType {
        let mut root = DataType::from_schema(schema);
        root.add_type_and_object_meta();
        root
    }

    pub(super) fn from_schema(schema: &Value) -> DataType {
        let nullable = schema["nullable"] == true;
        let mut data = DataType { kind: kind_of(schema), nullable };
        if schema["x-kubernetes-embedded-resource"] == true {
            data.add_type_and_object_meta();
        }
        data
    }

    fn add_type_and_object_meta(&mut self) {
        let DataKind::Object(fields) = &mut self.kind else { return };
        let is_string = |data: Option<&DataType>| data.is_some_and(|data| data.kind == DataKind::String);
        let metadata_known = match fields.get("metadata").map(|metadata| &metadata.kind) {
            Some(DataKind::Object(fields)) => is_string(fields.get("name")) && is_string(fields.get("generateName")),
            _ => false,
        };
        if metadata_known && is_string(fields.get("kind")) && is_string(fields.get("apiVersion")) {
            return;
        }
        let text = || DataType::of(DataKind::String);
        let names = BTreeMap::from([("name".into(), text()), ("generateName".into(), text())]);
        fields.insert("kind".into(), text());
        fields.insert("apiVersion".into(), text());
        fields.insert("metadata".into(), DataType::of(DataKind::Object(names)));
    }

    /// Whether rules can see it.
    pub(super) fn is_exposed(&self) -> bool {
        match &self.kind {
            DataKind::Preserved => false,
            DataKind::List { items: inner, .. } | DataKind::Map(inner) => inner.is_exposed(),
            _ => true,
        }
    }

    /// The `type` of its schema, which stands for the value in some messages.
    pub(super) fn schema_type(&self) -> &'static str {
        match &self.kind {
            DataKind::Bool => "boolean",
            DataKind::Int => "integer",
            DataKind::Double => "number",
            DataKind::String | DataKind::Bytes | DataKind::Duration | DataKind::Date | DataKind::DateTime => "string",
            DataKind::List { .. } => "array",
            DataKind::Map(_) | DataKind::Object(_) => "object",
            DataKind::IntOrString | DataKind::Preserved => "",
        }
    }
}

fn kind_of(schema: &Value) -> DataKind {
    if schema["x-kubernetes-int-or-string"] == true {
        return DataKind::IntOrString;
    }
    match schema["type"].as_str() {
        Some("boolean") => DataKind::Bool,
        Some("integer") => DataKind::Int,
        Some("number") => DataKind::Double,
        Some("string") => match schema["format"].as_str() {
            Some("byte") => DataKind::Bytes,
            Some("duration") => DataKind::Duration,
            Some("date") => DataKind::Date,
            Some("date-time") => DataKind::DateTime,
            _ => DataKind::String,
        },
        Some("array") if schema["items"].is_object() => {
            DataKind::List { items: Box::new(DataType::from_schema(&schema["items"])), identity: identity_of(schema) }
        }
        Some("object") => match (schema["properties"].as_object(), &schema["additionalProperties"]) {
            (None, values @ Value::Object(_)) => DataKind::Map(Box::new(DataType::from_schema(values))),
            (properties, _) => DataKind::Object(fields_of(properties)),
        },
        _ => DataKind::Preserved,
    }
}

fn fields_of(properties: Option<&Map<String, Value>>) -> BTreeMap<Box<str>, DataType> {
    let properties = properties.into_iter().flatten();
    properties.map(|(name, schema)| (name.as_str().into(), DataType::from_schema(schema))).collect()
}

fn identity_of(schema: &Value) -> Identity {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Identity::Value,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            Identity::Keys(keys.filter_map(Value::as_str).map(Into::into).collect())
        }
        _ => Identity::Position,
    }
}
