//! From JSON Schema, as k8s-openapi describes its types, to [`Definition`]s.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::emission::emission;
use super::{Definition, Field, List, ListType, Shape};
use crate::schema_facts::{self, Patch};

/// Compiles all definitions, and says at which index each name went.
pub(super) fn compile(schemas: &Map<String, Value>) -> (Vec<Definition>, HashMap<Box<str>, usize>) {
    let objects: Vec<(&String, &Value)> =
        schemas.iter().filter(|(_, schema)| schema.get("properties").is_some()).collect();
    let names: HashMap<Box<str>, usize> =
        objects.iter().enumerate().map(|(index, (name, _))| (name.as_str().into(), index)).collect();
    let definitions = objects.iter().map(|(name, schema)| definition(name, schema, &names)).collect();
    (definitions, names)
}

fn definition(name: &str, schema: &Value, names: &HashMap<Box<str>, usize>) -> Definition {
    let type_name = schema_facts::short_name(name);
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let of_kind = ["apiVersion", "kind", "metadata"].iter().all(|part| schema["properties"].get(part).is_some());
    let mut fields: Vec<Field> = properties
        .map(|(name, property)| {
            let fact = schema_facts::fact(type_name, name);
            let mut shape = shape(property, names);
            if let (Shape::List(list), Some(fact)) = (&mut shape, fact) {
                list.list_type = list_type(fact.list);
            }
            let required = required.iter().any(|field| field == name);
            Field {
                name: name.as_str().into(),
                emission: emission(type_name, name, &shape, required, of_kind),
                shape,
                patch: fact.map_or(Patch::default(), |fact| fact.patch),
                atomic: schema_facts::is_atomic_map(type_name, name),
                key_default: schema_facts::key_default(type_name, name).map(|default| Box::new(Value::from(default))),
            }
        })
        .collect();
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    Definition { name: type_name.into(), fields, atomic: schema_facts::is_atomic_type(type_name), open: false }
}

fn shape(schema: &Value, names: &HashMap<Box<str>, usize>) -> Shape {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return referred(reference.rsplit('/').next().unwrap_or_default(), names);
    }
    let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
    match (text("type"), text("format")) {
        ("boolean", _) => Shape::Boolean,
        ("integer", "int64") => Shape::Int64,
        ("integer", _) => Shape::Int32,
        ("number", _) => Shape::Number,
        ("string", "byte") => Shape::Bytes,
        ("string", _) => Shape::String,
        ("array", _) => {
            let element = schema.get("items").map_or(Shape::Any, |items| shape(items, names));
            Shape::List(Box::new(List { element, list_type: ListType::Atomic }))
        }
        ("object", _) => match schema.get("additionalProperties") {
            Some(values) => Shape::Map(Box::new(shape(values, names))),
            None => Shape::Any,
        },
        _ => Shape::Any,
    }
}

/// The shape of a named type: one of the few that are no objects with fields, or a definition.
fn referred(name: &str, names: &HashMap<Box<str>, usize>) -> Shape {
    match schema_facts::short_name(name) {
        "meta.v1.Time" => Shape::Time,
        "meta.v1.MicroTime" => Shape::MicroTime,
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Shape::Quantity,
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Shape::IntOrString,
        _ => names.get(name).map_or(Shape::Any, |index| Shape::Object(*index)),
    }
}

fn list_type(fact: schema_facts::List) -> ListType {
    match fact {
        schema_facts::List::Atomic => ListType::Atomic,
        schema_facts::List::Set => ListType::Set,
        schema_facts::List::Map(keys) => ListType::Map(keys.iter().map(|key| (*key).into()).collect()),
    }
}
