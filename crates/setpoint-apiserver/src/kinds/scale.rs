//! The `scale` of what runs in several replicas: an `autoscaling/v1` Scale, read from an object and written to it.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::kind::{Behaviour, Column};
use setpoint_api::field::{Errors, Node};

use super::defaults::section;
use super::pod_spec::not_negative;

/// A Scale has no rules beside [`validate_scale`]: it is a view of another object and never stored.
#[derive(Debug)]
pub struct Scale;

impl Behaviour for Scale {
    fn columns(&self) -> &[Column] {
        &[columns::NAME]
    }

    fn cells(&self, object: &Value, _: Timestamp) -> Vec<Value> {
        vec![object["metadata"]["name"].clone()]
    }
}

/// The Scale of a Deployment or ReplicaSet.
pub fn scale_of(object: &Value) -> Value {
    let metadata: serde_json::Map<String, Value> = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), object["metadata"].get(field)?.clone())))
        .collect();
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {},
        "status": {"replicas": object["status"]["replicas"].as_i64().unwrap_or(0)},
    });
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas != 0 {
        scale["spec"]["replicas"] = replicas.into();
    }
    let selector = columns::label_selector(&object["spec"]["selector"]);
    if selector != columns::NONE {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// Writes the replicas a Scale asks for to the object it came from.
pub fn set_scale(object: &mut Value, scale: &Value) {
    section(object, "spec")["replicas"] = scale["spec"]["replicas"].as_i64().unwrap_or(0).into();
}

/// Everything that must hold of a Scale that a client sent, metadata aside.
pub fn validate_scale(scale: Node<'_, '_>, errors: &mut Errors) {
    let spec = scale.field("spec");
    let replicas = spec.field("replicas");
    not_negative(replicas.i64().unwrap_or(0), &replicas.path, errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_read_from_an_object_and_written_back() {
        let mut object = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "labels": {"a": "b"}, "generation": 4},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"replicas": 2},
        });
        let scale = scale_of(&object);
        assert_eq!(scale["metadata"], json!({"name": "web", "namespace": "default", "uid": "u"}));
        assert_eq!(scale["spec"], json!({"replicas": 3}));
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "app=web"}));
        set_scale(&mut object, &json!({"spec": {}}));
        assert_eq!(object["spec"]["replicas"], 0, "a Scale that says nothing asks for none");
        assert_eq!(scale_of(&object)["spec"], json!({}));
    }
}
