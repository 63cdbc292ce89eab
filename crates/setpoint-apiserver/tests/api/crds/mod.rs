//! Custom resources: definitions, and the objects they let in.

mod definitions;
mod lives;
mod object_refusals;
mod objects;
mod own;
mod refusals;
mod versions;

use serde_json::{Value, json};

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A version that is served and stored, with these fields in `spec`.
pub(crate) fn version(name: &str, fields: Value) -> Value {
    let spec = json!({"type": "object", "properties": fields});
    json!({
        "name": name, "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    })
}

/// The definition of widgets in these versions.
pub(crate) fn definition(versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": versions,
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
        },
    })
}

/// Widgets with these fields in `spec`.
pub(crate) fn widgets(fields: Value) -> Value {
    definition(json!([version("v1", fields)]))
}

pub(crate) fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}
