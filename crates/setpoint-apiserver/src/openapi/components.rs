//! The schemas of a document: what k8s-openapi knows of a type and what the table of facts adds, or what a definition of
//! custom resources says.

use serde_json::{Map, Value, json};

use super::{Kind, Resource, reference};
use crate::schema_facts::{self, List};

pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
pub(super) const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// Types whose values need not be objects.
const ANY_VALUE: [&str; 4] = [
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
];

/// Types that refer to something by name and may leave it out, which k8s-openapi's cannot.
const NAME_IS_OPTIONAL: [&str; 8] = [
    "core.v1.ConfigMapEnvSource",
    "core.v1.ConfigMapKeySelector",
    "core.v1.ConfigMapProjection",
    "core.v1.ConfigMapVolumeSource",
    "core.v1.LocalObjectReference",
    "core.v1.SecretEnvSource",
    "core.v1.SecretKeySelector",
    "core.v1.SecretProjection",
];

/// `x-kubernetes-selectable-fields`, which a list has from its kind.
pub(super) const SELECTABLE: &str = "x-kubernetes-selectable-fields";

/// Where schemas come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'k> {
    /// As k8s-openapi has them.
    pub built_in: &'k Map<String, Value>,
    /// Those of custom kinds, as they are published.
    pub custom: &'k Map<String, Value>,
}

impl Known<'_> {
    /// A schema in OpenAPI's form. What it refers to is added to what is wanted.
    fn schema(&self, name: &str, wanted: &mut Vec<String>) -> Option<Value> {
        if let Some(schema) = self.custom.get(name) {
            wanted.push(OBJECT_META.to_owned());
            return Some(schema.clone());
        }
        let mut schema = match (self.built_in.get(name), name) {
            (Some(schema), _) => schema.clone(),
            (None, WATCH_EVENT) => watch_event(),
            (None, PATCH) => json!({"type": "object", "description": "A patch of one of the supported types."}),
            (None, RAW_EXTENSION) => json!({"type": "object", "description": "An object of any kind."}),
            (None, _) => return None,
        };
        finish(name, &mut schema, wanted);
        Some(schema)
    }
}

/// The schemas of these resources' kinds, their lists, what operations need, and all that these refer to.
pub(super) fn schemas(known: &Known<'_>, resources: &[Resource<'_>]) -> Map<String, Value> {
    let core = |name| Kind { group: "", version: "v1", name, custom: false };
    let needed = [(STATUS, core("Status")), (DELETE_OPTIONS, core("DeleteOptions")), (WATCH_EVENT, core("WatchEvent"))];
    let parts = resources.iter().flat_map(|resource| resource.subresources).map(|part| part.kind);
    let kinds = resources.iter().map(|resource| resource.kind).chain(parts);
    let marked: Vec<(String, Kind<'_>)> =
        kinds.map(|kind| (kind.definition(), kind)).chain(needed.map(|(name, kind)| (name.to_owned(), kind))).collect();

    let mut wanted: Vec<String> = marked.iter().map(|(name, _)| name.clone()).collect();
    wanted.extend([PATCH, LIST_META].map(str::to_owned));
    let mut schemas = Map::new();
    while let Some(name) = wanted.pop() {
        if !schemas.contains_key(&name)
            && let Some(schema) = known.schema(&name, &mut wanted)
        {
            schemas.insert(name, schema);
        }
    }
    for (name, kind) in &marked {
        if let Some(schema) = schemas.get_mut(name) {
            mark(schema, *kind);
        }
    }
    for resource in resources.iter().filter(|resource| resource.verbs.contains(&"list")) {
        let list_kind = Kind { name: resource.list_kind, ..resource.kind };
        if let Some(schema) = schemas.get(&resource.kind.definition()) {
            let list = list(resource, list_kind, schema);
            schemas.insert(list_kind.definition(), list);
        }
    }
    schemas
}

fn list(resource: &Resource<'_>, list_kind: Kind<'_>, of: &Value) -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let mut list = json!({
        "description": format!("{} is a list of {} objects.", list_kind.name, resource.kind.name),
        "type": "object",
        "properties": {
            "apiVersion": text("The version of the schema that this list is written in."),
            "kind": text("What this list is."),
            "metadata": {"allOf": [reference(LIST_META)], "description": "What holds for the list as a whole."},
            "items": {"type": "array", "items": reference(&resource.kind.definition()), "description": "The objects."},
        },
        "required": ["items"],
    });
    if let Some(selectable) = of.get(SELECTABLE) {
        list[SELECTABLE] = selectable.clone();
    }
    mark(&mut list, list_kind);
    list
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

fn mark(schema: &mut Value, kind: Kind<'_>) {
    schema["x-kubernetes-group-version-kind"] = json!([kind.as_json()]);
}

/// Brings a definition to OpenAPI's form, adds the facts, and notes what it refers to.
fn finish(name: &str, schema: &mut Value, wanted: &mut Vec<String>) {
    match name {
        QUANTITY => {
            *schema = json!({"description": schema["description"], "oneOf": [{"type": "string"}, {"type": "number"}]});
        }
        INT_OR_STRING => {
            *schema = json!({
                "description": schema["description"],
                "format": "int-or-string",
                "oneOf": [{"type": "integer"}, {"type": "string"}],
            });
        }
        _ if ANY_VALUE.contains(&name) => *schema = json!({"description": schema["description"]}),
        _ => {}
    }
    let type_name = schema_facts::short_name(name);
    if schema_facts::is_atomic_type(type_name) {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    relax_required(type_name, schema);
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    for (field, property) in properties {
        add_facts(type_name, field, property);
        refer(property, wanted);
    }
}

/// k8s-openapi requires what its types cannot be without, such as the metadata of every object. On the wire it is not.
fn relax_required(type_name: &str, schema: &mut Value) {
    let is_object = schema["properties"].get("kind").is_some();
    let Some(Value::Array(required)) = schema.get_mut("required") else { return };
    required.retain(|field| match field.as_str() {
        Some("metadata") => !is_object,
        Some("name") => !NAME_IS_OPTIONAL.contains(&type_name),
        _ => true,
    });
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
