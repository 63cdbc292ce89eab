//! The schemas of a document: what k8s-openapi knows of a type, and what the table of facts adds.

use serde_json::{Map, Value, json};

use super::{GroupVersionKind, reference};
use crate::schema_facts::{self, List};

pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// The schemas of these kinds, their lists, what operations need, and all that these refer to.
pub(super) fn schemas(mut known: Map<String, Value>, kinds: &[GroupVersionKind<'_>]) -> Map<String, Value> {
    for kind in kinds {
        add_kind(&mut known, *kind);
    }
    for (name, kind) in [(STATUS, "Status"), (DELETE_OPTIONS, "DeleteOptions"), (WATCH_EVENT, "WatchEvent")] {
        let schema = known.entry(name).or_insert_with(watch_event);
        mark(schema, GroupVersionKind { group: "", version: "v1", kind });
    }
    known.insert(PATCH.to_owned(), json!({"type": "object", "description": "A patch of one of the supported types."}));
    known.entry(RAW_EXTENSION).or_insert_with(|| json!({"type": "object", "description": "An object of any kind."}));

    let lists = kinds.iter().map(|kind| format!("{}List", kind.definition()));
    let mut wanted: Vec<String> = kinds.iter().map(GroupVersionKind::definition).chain(lists).collect();
    wanted.extend([STATUS, DELETE_OPTIONS, PATCH, WATCH_EVENT].map(String::from));
    let mut schemas = Map::new();
    while let Some(name) = wanted.pop() {
        let Some(mut schema) = known.remove(&name) else { continue };
        finish(&name, &mut schema, &mut wanted);
        schemas.insert(name, schema);
    }
    schemas
}

/// Marks a kind as one, and makes its list.
fn add_kind(known: &mut Map<String, Value>, kind: GroupVersionKind<'_>) {
    let name = kind.definition();
    let Some(schema) = known.get_mut(&name) else { return };
    mark(schema, kind);
    let (api_version, kind_field) = (schema["properties"]["apiVersion"].clone(), schema["properties"]["kind"].clone());
    let list_kind = format!("{}List", kind.kind);
    let mut list = json!({
        "description": format!("{list_kind} is a list of {} objects.", kind.kind),
        "type": "object",
        "properties": {
            "apiVersion": api_version,
            "kind": kind_field,
            "metadata": {"$ref": format!("/{LIST_META}"), "description": "What holds for the list as a whole."},
            "items": {"type": "array", "items": {"$ref": format!("/{name}")}, "description": "The objects."},
        },
        "required": ["items"],
    });
    mark(&mut list, GroupVersionKind { kind: &list_kind, ..kind });
    known.insert(format!("{name}List"), list);
}

fn watch_event() -> Value {
    json!({
        "description": "WatchEvent is one change in a watch.",
        "type": "object",
        "properties": {
            "type": {"type": "string", "description": "ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."},
            "object": {"$ref": format!("/{RAW_EXTENSION}"), "description": "The object after the change, or a Status."},
        },
        "required": ["type", "object"],
    })
}

fn mark(schema: &mut Value, kind: GroupVersionKind<'_>) {
    schema["x-kubernetes-group-version-kind"] = json!([kind.as_json()]);
}

/// Brings a definition to OpenAPI's form, adds the facts, and notes what it refers to.
fn finish(name: &str, schema: &mut Value, wanted: &mut Vec<String>) {
    match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            *schema = json!({"description": schema["description"], "oneOf": [{"type": "string"}, {"type": "number"}]});
        }
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
            *schema = json!({
                "description": schema["description"],
                "format": "int-or-string",
                "oneOf": [{"type": "integer"}, {"type": "string"}],
            });
        }
        _ => {}
    }
    let type_name = schema_facts::short_name(name);
    if schema_facts::is_atomic_type(type_name) {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    drop_required_metadata(schema);
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    for (field, property) in properties {
        add_facts(type_name, field, property);
        refer(property, wanted);
    }
}

/// k8s-openapi's types cannot be without metadata; objects on the wire can.
fn drop_required_metadata(schema: &mut Value) {
    if schema["properties"].get("kind").is_none() {
        return;
    }
    let Some(Value::Array(required)) = schema.get_mut("required") else { return };
    required.retain(|field| field != "metadata");
    if required.is_empty() {
        schema.as_object_mut().map(|schema| schema.remove("required"));
    }
}

fn add_facts(type_name: &str, field: &str, property: &mut Value) {
    let fact = schema_facts::fact(type_name, field);
    if property["type"] == "array" {
        let (list_type, keys) = match fact.map_or(List::Atomic, |fact| fact.list) {
            List::Atomic => ("atomic", None),
            List::Set => ("set", None),
            List::Map(keys) => ("map", Some(keys)),
        };
        property["x-kubernetes-list-type"] = json!(list_type);
        if let Some(keys) = keys {
            property["x-kubernetes-list-map-keys"] = json!(keys);
        }
    }
    if let Some(patch) = fact.map(|fact| fact.patch) {
        if let Some(strategy) = patch.strategy() {
            property["x-kubernetes-patch-strategy"] = json!(strategy);
        }
        if let Some(merge_key) = patch.merge_key {
            property["x-kubernetes-patch-merge-key"] = json!(merge_key);
        }
    }
    if schema_facts::is_atomic_map(type_name, field) {
        property["x-kubernetes-map-type"] = json!("atomic");
    }
}

/// Makes references those of OpenAPI. In OpenAPI 3.0 nothing may stand beside one, so it moves into an `allOf`.
fn refer(schema: &mut Value, wanted: &mut Vec<String>) {
    let Some(members) = schema.as_object_mut() else { return };
    if let Some(Value::String(target)) = members.remove("$ref") {
        let name = target.rsplit('/').next().unwrap_or_default();
        wanted.push(name.to_owned());
        if members.is_empty() {
            *schema = reference(name);
        } else {
            members.insert("allOf".to_owned(), json!([reference(name)]));
        }
        return;
    }
    for part in ["items", "additionalProperties"] {
        if let Some(part) = members.get_mut(part) {
            refer(part, wanted);
        }
    }
}
