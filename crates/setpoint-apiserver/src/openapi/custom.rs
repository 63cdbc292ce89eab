//! The schemas of custom resources, as their definitions have them.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use setpoint_store::{At, Range};

use super::GroupVersionKind;
use crate::failure::Result;
use crate::object::Stored;
use crate::registry::DEFINITIONS;
use crate::schema::definitions_as_json;
use crate::server::Shared;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The definitions of a group's resources, or of all.
pub(super) async fn definitions(server: &Arc<Shared>, group: &str) -> Result<Vec<Value>> {
    let resource = server.registry().built_in(DEFINITIONS.0, "v1", DEFINITIONS.1);
    let scope = resource.directory(None);
    let page = server.store.range(Range { scope: &scope, after: None, limit: 0, at: At::Now }).await?;
    let of_group = page.entries.iter().filter(|entry| group.is_empty() || entry.key.ends_with(&format!(".{group}")));
    Ok(of_group
        .map(|entry| resource.value(&Stored::from(entry)))
        .filter(|d| group.is_empty() || d["spec"]["group"] == group)
        .collect())
}

/// What the document of a version needs: the schemas of its kinds, and those that all kinds share.
pub(super) fn schemas(definitions: &[Value], group: &str, version: &str) -> Map<String, Value> {
    let shared = |name: &str| name.starts_with("io.k8s.apimachinery.") || name.starts_with("io.k8s.api.autoscaling.");
    let mut schemas: Map<String, Value> = definitions_as_json().into_iter().filter(|(name, _)| shared(name)).collect();
    for definition in definitions.iter().filter(|definition| definition["spec"]["group"] == group) {
        let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
        let Some(found) = versions.into_iter().find(|found| found["name"] == version) else { continue };
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default();
        let name = GroupVersionKind { group, version, kind }.definition();
        schemas.insert(name, of_kind(&found["schema"]["openAPIV3Schema"]));
    }
    schemas
}

/// A schema with what is not said of a custom resource because it holds of all.
fn of_kind(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    schema["properties"]["apiVersion"] = json!({
        "type": "string",
        "description": "The version of the schema that this object is written in.",
    });
    schema["properties"]["kind"] = json!({"type": "string", "description": "What this object is."});
    schema["properties"]["metadata"] = json!({
        "$ref": format!("/{OBJECT_META}"),
        "description": "What every object has: its name, its labels, who owns it.",
    });
    schema
}
