//! Documents for tests, and what validation says of them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use setpoint_api::field::Errors;

/// An object of a kind of ours with this spec over its least.
pub(crate) fn object(kind: &str, least: &Value, spec: &Value) -> Value {
    let mut whole = least.clone();
    merge(&mut whole, spec);
    json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": kind, "metadata": {"name": "web"}, "spec": whole})
}

/// The object as its Rust type.
pub(crate) fn typed<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).expect("the document has the types of its kind")
}

/// The schema of a definition's one version.
pub(crate) fn schema(crd: &CustomResourceDefinition) -> Value {
    let schema = crd.spec.versions[0].schema.as_ref().expect("a version has a schema");
    serde_json::to_value(&schema.open_api_v3_schema).expect("a schema is JSON")
}

/// What validation says, a line each.
pub(crate) fn told(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// JSON merge patch: a null takes away.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let members = target.as_object_mut().expect("it was just made one");
    for (name, value) in patch {
        match value {
            Value::Null => drop(members.remove(name)),
            value => merge(members.entry(name.clone()).or_insert(Value::Null), value),
        }
    }
}
