//! OpenAPI 2, which clients from before Kubernetes 1.27 read: one document of everything, made of those of OpenAPI 3.
//!
//! It is written entry by entry, so that never more than a part of it is in memory. What version 2 cannot say is left out.
//! And what the clients of the time would misread is left out too: of an object with fields that are not specified they
//! refuse all but those that are, and they know no `null`.

use std::collections::HashSet;
use std::io::{Result, Write};

use serde_json::{Map, Value, json};

use super::components::{INT_OR_STRING, QUANTITY};
use super::messages::v2;
use super::protobuf::{self, Form, Message};
use crate::discovery::KUBERNETES_MINOR;

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

/// Writes the document of what documents of OpenAPI 3 have as paths and as schemas.
pub(super) fn write(
    out: &mut impl Write,
    encoding: Encoding,
    paths: impl Iterator<Item = Map<String, Value>>,
    schemas: impl Iterator<Item = Map<String, Value>>,
) -> Result<()> {
    let info = json!({"title": "Kubernetes", "version": format!("v1.{KUBERNETES_MINOR}")});
    match encoding {
        Encoding::Json => write!(out, r#"{{"swagger":"2.0","info":{info}"#)?,
        Encoding::Protobuf => {
            let mut head = Vec::new();
            let fields = [("swagger".to_owned(), json!("2.0")), ("info".to_owned(), info)];
            v2::DOCUMENT.write(&mut head, &Map::from_iter(fields));
            out.write_all(&head)?;
        }
    }
    let paths = paths.flatten().map(|(path, mut item)| {
        bring_path_to_v2(&mut item);
        (path, item)
    });
    PATHS.write(out, encoding, paths)?;
    let mut defined = HashSet::new();
    let definitions = schemas.flatten().filter(|(name, _)| defined.insert(name.clone()));
    let definitions = definitions.map(|(name, schema)| {
        let definition = definition(&name, schema);
        (name, definition)
    });
    DEFINITIONS.write(out, encoding, definitions)?;
    match encoding {
        Encoding::Json => out.write_all(b"}"),
        Encoding::Protobuf => Ok(()),
    }
}

/// A part of the document that holds named values.
struct Section {
    name: &'static str,
    number: u32,
    /// The field of one value in the message.
    entry: u32,
    form: &'static Message,
}

const PATHS: Section = Section { name: "paths", number: 8, entry: 2, form: &v2::PATH_ITEM };
const DEFINITIONS: Section = Section { name: "definitions", number: 9, entry: 1, form: &v2::SCHEMA };

impl Section {
    fn write(
        &self,
        out: &mut impl Write,
        encoding: Encoding,
        entries: impl Iterator<Item = (String, Value)>,
    ) -> Result<()> {
        match encoding {
            Encoding::Json => {
                write!(out, r#","{}":{{"#, self.name)?;
                for (position, (name, value)) in entries.enumerate() {
                    let comma = if position == 0 { "" } else { "," };
                    out.write_all(format!("{comma}{}:{value}", Value::from(name)).as_bytes())?;
                }
                out.write_all(b"}")
            }
            // A message may come in pieces, which are taken together.
            Encoding::Protobuf => entries.into_iter().try_for_each(|(name, value)| {
                let (mut entry, mut piece) = (Vec::new(), Vec::new());
                protobuf::entry(&mut entry, self.entry, &name, Form::Message(self.form), &value);
                protobuf::delimited(&mut piece, self.number, &entry);
                out.write_all(&piece)
            }),
        }
    }
}

/// A schema of OpenAPI 3 as a definition.
fn definition(name: &str, mut schema: Value) -> Value {
    if [QUANTITY, INT_OR_STRING].contains(&name) {
        schema["type"] = json!("string");
    }
    bring_to_v2(&mut schema);
    // Of a kind with fields that are not specified, not even those of all kinds are.
    if schema.get("type").is_none() && schema.get("x-kubernetes-group-version-kind").is_some() {
        schema["type"] = json!("object");
    }
    schema
}

fn entries(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(entries) => entries,
        _ => Map::new(),
    }
}

fn bring_path_to_v2(item: &mut Value) {
    for (name, part) in item.as_object_mut().into_iter().flatten() {
        if name == "parameters" {
            part.as_array_mut().into_iter().flatten().for_each(bring_parameter_to_v2);
        } else {
            bring_operation_to_v2(part);
        }
    }
}

/// What is said of a parameter's value stands beside its name.
fn bring_parameter_to_v2(parameter: &mut Value) {
    for (name, value) in entries(parameter["schema"].take()) {
        parameter[name] = value;
    }
    parameter.as_object_mut().map(|members| members.remove("schema"));
}

/// A body is a parameter, and media types stand by the operation.
fn bring_operation_to_v2(operation: &mut Value) {
    let mut parameters = operation["parameters"].take();
    let mut parameters: Vec<Value> = parameters.as_array_mut().map(std::mem::take).unwrap_or_default();
    parameters.iter_mut().for_each(bring_parameter_to_v2);
    let mut request = operation["requestBody"].take();
    operation.as_object_mut().map(|members| members.remove("requestBody"));
    operation["consumes"] = json!(["*/*"]);
    if let Some((media_types, schema)) = content(&mut request) {
        operation["consumes"] = media_types;
        let required = request["required"] == true;
        let mut body = json!({"name": "body", "in": "body", "schema": schema});
        if required {
            body["required"] = json!(true);
        }
        parameters.insert(0, body);
    }
    operation["parameters"] = parameters.into();
    operation["schemes"] = json!(["https"]);
    let mut produces = Value::Null;
    for (_, response) in operation["responses"].as_object_mut().into_iter().flatten() {
        if let Some((media_types, schema)) = content(response) {
            produces = media_types;
            response["schema"] = schema;
        }
    }
    operation["produces"] = produces;
}

/// Takes the content out of a body: its media types, and the schema that they share.
fn content(body: &mut Value) -> Option<(Value, Value)> {
    let content = entries(body.as_object_mut()?.remove("content")?);
    let media_types: Value = content.keys().cloned().collect();
    let mut schema = content.into_iter().next().map(|(_, mut media)| media["schema"].take())?;
    bring_to_v2(&mut schema);
    Some((media_types, schema))
}

/// Brings a schema to version 2, with all that is within.
fn bring_to_v2(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    let referred = members.remove("allOf").and_then(|all| all.get(0)?.get("$ref").cloned());
    if let Some(Value::String(target)) = referred.or_else(|| members.remove("$ref")) {
        let target = target.replace("#/components/schemas/", "#/definitions/");
        members.insert("$ref".to_owned(), target.into());
        return;
    }
    for unsaid in ["anyOf", "oneOf", "not"] {
        members.remove(unsaid);
    }
    let nullable = members.remove("nullable") == Some(Value::Bool(true));
    let open = members.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    if nullable || open {
        for unsaid in ["properties", "items", "required"] {
            members.remove(unsaid);
        }
        if nullable || members.get("type").is_some_and(|name| name == "object") {
            members.remove("type");
        }
    }
    if members.get("type").is_some_and(|name| name == "array") && !members.contains_key("items") {
        members.remove("type");
    }
    forget_required_nulls(members);
    let properties = members.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    properties.for_each(|(_, property)| bring_to_v2(property));
    for part in ["items", "additionalProperties"] {
        if let Some(part) = members.get_mut(part) {
            bring_to_v2(part);
        }
    }
}

/// A field that may be null is not required: to these clients, null is no value.
fn forget_required_nulls(members: &mut Map<String, Value>) {
    let Some(Value::Array(mut required)) = members.remove("required") else { return };
    let properties = members.get("properties");
    let may_be_null = |field: &Value| {
        let property = field.as_str().and_then(|field| properties?.get(field));
        property.is_some_and(|property| property["nullable"] == true)
    };
    required.retain(|field| !may_be_null(field));
    if !required.is_empty() {
        members.insert("required".to_owned(), required.into());
    }
}
