//! The objects and paths that tests write about.

use serde_json::{Value, json};

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const SECRETS: &str = "/api/v1/namespaces/default/secrets";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const SERVICES: &str = "/api/v1/namespaces/default/services";
pub const NAMESPACES: &str = "/api/v1/namespaces";
pub const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"colour": "green"}})
}

pub fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"key": "b3Blbg=="}})
}

pub fn pod(name: &str) -> Value {
    let containers = json!([{"name": "main", "image": "example.com/app:1"}]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}})
}

pub fn service(name: &str) -> Value {
    let spec = json!({"selector": {"app": name}, "ports": [{"port": 8080}]});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

pub fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]},
            },
        },
    })
}

pub fn lease(name: &str, holder: &str) -> Value {
    let spec = json!({"holderIdentity": holder});
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec})
}

/// The object with something in its metadata.
pub fn with(mut object: Value, field: &str, value: Value) -> Value {
    object["metadata"][field] = value;
    object
}

pub fn labelled(object: Value, label: &str, value: &str) -> Value {
    with(object, "labels", json!({ label: value }))
}
