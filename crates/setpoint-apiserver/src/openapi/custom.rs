//! The schemas of custom resources, as their definitions have them and Kubernetes publishes them.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use setpoint_store::{At, Entry, Range};

use super::components::{OBJECT_META, SELECTABLE};
use super::{Kind, reference};
use crate::failure::Result;
use crate::object::Stored;
use crate::registry::{DEFINITIONS, Resource};
use crate::server::Shared;

/// The definitions that are stored. They are long, and are parsed when they are needed.
#[derive(Debug)]
pub(super) struct Definitions {
    resource: Arc<Resource>,
    entries: Vec<Entry>,
}

impl Definitions {
    pub(super) async fn read(server: &Shared) -> Result<Definitions> {
        let resource = server.registry().built_in(DEFINITIONS.0, "v1", DEFINITIONS.1);
        let scope = resource.directory(None);
        let page = server.store.range(Range { scope: &scope, after: None, limit: 0, at: At::Now }).await?;
        Ok(Definitions { resource, entries: page.entries })
    }

    /// The schemas of a group's kinds in a version, by the names of their definitions.
    pub(super) fn schemas(&self, group: &str, version: &str) -> Map<String, Value> {
        let suffix = format!(".{group}");
        let of_group = self.entries.iter().filter(|entry| entry.key.ends_with(&suffix));
        let definitions = of_group.map(|entry| self.resource.value(&Stored::from(entry)));
        definitions.filter_map(|definition| schema_of(&definition, group, version)).collect()
    }
}

fn schema_of(definition: &Value, group: &str, version: &str) -> Option<(String, Value)> {
    let spec = definition.get("spec").filter(|spec| spec["group"] == group)?;
    let version_of = spec["versions"].as_array()?.iter().find(|found| found["name"] == version)?;
    let kind = Kind { group, version, name: spec["names"]["kind"].as_str()?, custom: true };
    Some((kind.definition(), published(version_of)))
}

/// The schema of a version, with what is not said of a custom resource because it holds of all.
fn published(version: &Value) -> Value {
    let Some(mut schema) = version["schema"].get("openAPIV3Schema").cloned() else {
        // Known fields would be taken for the only ones.
        return json!({"type": "object"});
    };
    unfold(&mut schema);
    add_object_fields(&mut schema);
    if let Some(selectable) = version["selectableFields"].as_array() {
        let path = |field: &Value| field["jsonPath"].as_str().unwrap_or_default().trim_start_matches('.').to_owned();
        schema[SELECTABLE] = selectable.iter().map(|field| json!({"fieldPath": path(field)})).collect();
    }
    schema
}

/// Says in OpenAPI's terms what is said in Kubernetes' own, here and in all that is within.
fn unfold(schema: &mut Value) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    properties.for_each(|(_, property)| unfold(property));
    for part in ["items", "additionalProperties"] {
        if let Some(part) = schema.get_mut(part) {
            unfold(part);
        }
    }
    if schema["x-kubernetes-int-or-string"] == true {
        unfold_int_or_string(schema);
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        add_object_fields(schema);
        let mut required: Vec<Value> = schema["required"].as_array().cloned().unwrap_or_default();
        for field in ["kind", "apiVersion"].map(Value::from) {
            if !required.contains(&field) {
                required.push(field);
            }
        }
        schema["required"] = required.into();
    }
}

fn unfold_int_or_string(schema: &mut Value) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    if schema["anyOf"] == either || schema["allOf"][0]["anyOf"] == either {
        return;
    }
    if schema["anyOf"].is_null() {
        schema["anyOf"] = either;
    } else {
        let rest = schema["allOf"].as_array().cloned().unwrap_or_default();
        schema["allOf"] = [json!({ "anyOf": either })].into_iter().chain(rest).collect();
    }
}

/// Adds the fields that make an object of an API.
fn add_object_fields(schema: &mut Value) {
    let text = |description: &str| json!({"type": "string", "description": description});
    schema["properties"]["apiVersion"] = text("The version of the schema that this object is written in.");
    schema["properties"]["kind"] = text("What this object is.");
    schema["properties"]["metadata"] = json!({
        "allOf": [reference(OBJECT_META)],
        "description": "What every object has: its name, its labels, who owns it.",
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(schema: Value) -> Value {
        published(&json!({"name": "v1", "schema": {"openAPIV3Schema": schema}}))
    }

    #[test]
    fn an_object_has_what_all_objects_have() {
        let schema = publish(json!({"type": "object", "properties": {"metadata": {"type": "object"}}}));
        assert_eq!(schema["properties"]["kind"]["type"], "string");
        assert_eq!(schema["properties"]["apiVersion"]["type"], "string");
        assert_eq!(schema["properties"]["metadata"]["allOf"], json!([reference(OBJECT_META)]));
        assert_eq!(schema["required"], Value::Null);
    }

    #[test]
    fn of_an_object_without_a_schema_no_field_is_said() {
        assert_eq!(published(&json!({"name": "v1"})), json!({"type": "object"}));
    }

    #[test]
    fn an_integer_or_a_string_is_said_in_terms_of_openapi() {
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let large = json!([{"minimum": 5}]);
        let rows = [
            ("alone", json!({}), json!({"anyOf": either})),
            ("said already", json!({"anyOf": either}), json!({"anyOf": either})),
            ("said already, below", json!({"allOf": [{"anyOf": either}]}), json!({"allOf": [{"anyOf": either}]})),
            ("with a choice", json!({"anyOf": large}), json!({"anyOf": large, "allOf": [{"anyOf": either}]})),
            (
                "with a choice and more",
                json!({"anyOf": large, "allOf": large}),
                json!({"anyOf": large, "allOf": [{"anyOf": either}, {"minimum": 5}]}),
            ),
        ];
        for (row, mut given, mut expected) in rows {
            given["x-kubernetes-int-or-string"] = json!(true);
            expected["x-kubernetes-int-or-string"] = json!(true);
            let port = json!({"type": "object", "additionalProperties": {"type": "array", "items": given}});
            let schema = publish(json!({"type": "object", "properties": {"ports": port}}));
            assert_eq!(schema["properties"]["ports"]["additionalProperties"]["items"], expected, "{row}");
        }
    }

    #[test]
    fn an_embedded_object_has_what_all_objects_have() {
        let template = json!({
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "required": ["spec", "kind"],
            "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        });
        let schema = publish(json!({"type": "object", "properties": {"template": template}}));
        let template = &schema["properties"]["template"];
        assert_eq!(template["properties"]["metadata"]["allOf"], json!([reference(OBJECT_META)]));
        assert_eq!(template["required"], json!(["spec", "kind", "apiVersion"]));
        assert_eq!(template["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"], true);
    }

    #[test]
    fn fields_that_can_be_selected_by_are_named() {
        let fields = json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]);
        let version = json!({"schema": {"openAPIV3Schema": {"type": "object"}}, "selectableFields": fields});
        assert_eq!(published(&version)[SELECTABLE], json!([{"fieldPath": "spec.color"}, {"fieldPath": "spec.size"}]));
    }
}
