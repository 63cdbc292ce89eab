//! The CustomResourceDefinitions of all kinds of ours.
//!
//! What the derives make is brought into the form that a Kubernetes API server takes without a complaint: no title, no
//! `nullable` (a null is then as good as absent), no format that is unknown there, no default that says nothing, and no
//! descriptions below a pod template, which alone would be some hundred kilobytes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde_json::{Map, Value};

use crate::app::App;
use crate::change_set::ChangeSet;
use crate::environment::Environment;
use crate::machine::Machine;
use crate::planspec::{Gate, Goal, Plan};
use crate::review::Review;
use crate::revision::Revision;
use crate::traffic_split::TrafficSplit;

/// One line a kind.
#[rustfmt::skip]
const KINDS: &[fn() -> CustomResourceDefinition] = &[
    App::crd,
    ChangeSet::crd,
    Environment::crd,
    Gate::crd,
    Goal::crd,
    Machine::crd,
    Plan::crd,
    Review::crd,
    Revision::crd,
    TrafficSplit::crd,
];

/// The formats that a Kubernetes API server checks; it warns of others.
const FORMATS: &[&str] = &["date-time", "double", "float", "int32", "int64"];

/// The definitions of all kinds, by name. The same bytes every time.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut all: Vec<_> = KINDS.iter().map(|crd| tidied(&crd())).collect();
    all.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    all
}

fn tidied(crd: &CustomResourceDefinition) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(crd).expect("a definition is JSON");
    let versions = value.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            tidy(schema, false);
        }
    }
    serde_json::from_value(value).expect("a definition without some of its words is still one")
}

fn tidy(schema: &mut Value, below_template: bool) {
    let Value::Object(schema) = schema else { return };
    for keyword in ["title", "nullable"] {
        schema.remove(keyword);
    }
    if below_template {
        schema.remove("description");
    }
    bound_unsigned(schema);
    drop_if(schema, "format", |format| !FORMATS.iter().any(|known| format == known));
    drop_if(schema, "default", |default| default.is_null() || default.as_array().is_some_and(Vec::is_empty));
    for keyword in ["items", "additionalProperties", "not"] {
        if let Some(child) = schema.get_mut(keyword) {
            tidy(child, below_template);
        }
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let children = schema.get_mut(keyword).and_then(Value::as_array_mut);
        children.into_iter().flatten().for_each(|child| tidy(child, below_template));
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, child) in properties.into_iter().flatten() {
        tidy(child, below_template || name == "template");
    }
}

/// Kubernetes knows signed integers only. Without a bound, a number would be stored that no controller can read.
fn bound_unsigned(schema: &mut Map<String, Value>) {
    let largest = match schema.get("format").and_then(Value::as_str) {
        Some("uint8") => u32::from(u8::MAX),
        Some("uint16") => u32::from(u16::MAX),
        Some("uint32") => u32::MAX,
        _ => return,
    };
    schema.entry("maximum").or_insert_with(|| largest.into());
}

fn drop_if(schema: &mut Map<String, Value>, keyword: &str, is_idle: impl Fn(&Value) -> bool) {
    if schema.get(keyword).is_some_and(is_idle) {
        schema.remove(keyword);
    }
}
