//! The `scale` of what runs in several replicas: an `autoscaling/v1` Scale, read from an object and written to it.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::custom::scale::ScalePaths;
use crate::kind::{Behaviour, Column};
use crate::registry::Resource;
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

/// Where an object has what its Scale shows.
#[derive(Debug, Clone, Copy)]
pub enum Replicas<'r> {
    /// Where Deployments and ReplicaSets have it.
    BuiltIn,
    /// Where a definition says.
    Custom(&'r ScalePaths),
}

impl<'r> Replicas<'r> {
    pub fn of(resource: &'r Resource) -> Replicas<'r> {
        let custom = resource.custom.as_ref().and_then(|custom| custom.scale.as_ref());
        custom.map_or(Replicas::BuiltIn, Replicas::Custom)
    }

    /// The path of the replicas that are asked for.
    pub fn path(self) -> Vec<&'r str> {
        match self {
            Replicas::BuiltIn => vec!["spec", "replicas"],
            Replicas::Custom(paths) => paths.spec_replicas.fields().collect(),
        }
    }
}

/// The Scale of an object; why there is none where a custom object does not say how many replicas it wants.
pub fn scale_of(object: &Value, replicas: Replicas<'_>) -> Result<Value, String> {
    let metadata: serde_json::Map<String, Value> = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), object["metadata"].get(field)?.clone())))
        .collect();
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {},
        "status": {},
    });
    let (wanted, found, selector) = match replicas {
        Replicas::BuiltIn => {
            let selector = columns::label_selector(&object["spec"]["selector"]);
            let (wanted, found) = (object["spec"]["replicas"].as_i64(), object["status"]["replicas"].as_i64());
            (wanted.unwrap_or(0), found, Some(selector).filter(|selector| selector != columns::NONE))
        }
        Replicas::Custom(paths) => {
            let wanted = paths.spec_replicas.find(object).and_then(Value::as_i64);
            let missing = || format!("the spec replicas field {:?} does not exist", paths.spec_replicas.text);
            let selector = paths.selector.as_ref().and_then(|path| path.find(object)).and_then(Value::as_str);
            let found = paths.status_replicas.find(object).and_then(Value::as_i64);
            (wanted.ok_or_else(missing)?, found, selector.map(str::to_owned))
        }
    };
    scale["status"]["replicas"] = found.unwrap_or(0).into();
    if wanted != 0 {
        scale["spec"]["replicas"] = wanted.into();
    }
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        scale["status"]["selector"] = selector.into();
    }
    Ok(scale)
}

/// Writes the replicas a Scale asks for to the object it came from.
pub fn set_scale(object: &mut Value, scale: &Value, replicas: Replicas<'_>) {
    let wanted: Value = scale["spec"]["replicas"].as_i64().unwrap_or(0).into();
    match replicas {
        Replicas::BuiltIn => section(object, "spec")["replicas"] = wanted,
        Replicas::Custom(paths) => paths.spec_replicas.set(object, wanted),
    }
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
        let scale = scale_of(&object, Replicas::BuiltIn).expect("a Scale");
        assert_eq!(scale["metadata"], json!({"name": "web", "namespace": "default", "uid": "u"}));
        assert_eq!(scale["spec"], json!({"replicas": 3}));
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "app=web"}));
        set_scale(&mut object, &json!({"spec": {}}), Replicas::BuiltIn);
        assert_eq!(object["spec"]["replicas"], 0, "a Scale that says nothing asks for none");
        assert_eq!(scale_of(&object, Replicas::BuiltIn).expect("a Scale")["spec"], json!({}));
    }
}
