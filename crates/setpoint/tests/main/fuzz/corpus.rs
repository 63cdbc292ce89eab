//! Sound requests to begin with: every kind of resource, verb and patch.

use anyhow::{Result, ensure};
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use setpoint_testkit::Client;

use super::case::Case;

/// The list of every kind, over all namespaces.
pub(super) const LISTS: &[&str] = &[
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/pods",
    "/api/v1/services",
    "/api/v1/endpoints",
    "/api/v1/events",
    "/api/v1/serviceaccounts",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/controllerrevisions",
    "/apis/batch/v1/jobs",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/discovery.k8s.io/v1/endpointslices",
];

/// Paths that are read only.
const ROOTS: &[&str] = &[
    "/",
    "/api",
    "/apis",
    "/api/v1",
    "/apis/apps/v1",
    "/version",
    "/healthz",
    "/livez",
    "/readyz",
    "/metrics",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/openapi/v3/apis/apps/v1",
    "/openapi/v2",
];

const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Creates one object of every kind, so that requests find something.
pub(super) async fn create(client: &mut Client) -> Result<()> {
    for path in LISTS {
        let answer = client.post(&collection(path), &object(path, "fuzz")).await?;
        // The controllers are at work: the Service's Endpoints may be there already.
        ensure!(answer.status == 201 || answer.status == 409, "{path}: {}", answer.text());
    }
    Ok(())
}

/// A sound request.
pub(super) fn any(random: &mut SmallRng) -> Case {
    let list = *LISTS.choose(random).expect("not empty");
    let one = format!("{}/fuzz", collection(list));
    let (method, path, kind, body) = match random.random_range(0..12) {
        0 => ("GET", (*ROOTS.choose(random).expect("not empty")).to_owned(), None, None),
        1 => ("GET", list.to_owned(), None, None),
        2 => ("GET", collection(list), None, None),
        3 => ("GET", one, None, None),
        4 => ("DELETE", one, Some("application/json"), Some(json!({"kind": "DeleteOptions", "apiVersion": "v1"}))),
        5 => ("DELETE", collection(list), None, None),
        6 | 7 => {
            let name = *["fuzz", "fuzz-2", "fuzz-3"].choose(random).expect("not empty");
            ("POST", collection(list), Some("application/json"), Some(object(list, name)))
        }
        8 => ("PUT", one, Some("application/json"), Some(object(list, "fuzz"))),
        9 => {
            let subresource = *["status", "scale", "finalize", "log", "binding"].choose(random).expect("not empty");
            ("PUT", format!("{one}/{subresource}"), Some("application/json"), Some(object(list, "fuzz")))
        }
        _ => {
            let kind = *PATCHES.choose(random).expect("not empty");
            let patch = match kind {
                "application/json-patch+json" => {
                    json!([{"op": "test", "path": "/kind", "value": "Pod"}, {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}])
                }
                _ => {
                    json!({"apiVersion": "v1", "metadata": {"labels": {"a": "b", "c": null}}, "spec": object(list, "fuzz")["spec"]})
                }
            };
            ("PATCH", one, Some(kind), Some(patch))
        }
    };
    Case {
        method: method.to_owned(),
        path,
        query: Vec::new(),
        headers: kind.map(|kind| ("content-type".to_owned(), kind.as_bytes().to_vec())).into_iter().collect(),
        body: body.map(|body| body.to_string().into_bytes()).unwrap_or_default(),
    }
}

/// Where objects of a list in the namespace `default` are created.
fn collection(list: &str) -> String {
    match list.rsplit_once('/') {
        Some((root, resource)) if !["namespaces", "nodes"].contains(&resource) => {
            format!("{root}/namespaces/default/{resource}")
        }
        _ => list.to_owned(),
    }
}

/// A sound object of the kind that a list holds.
fn object(list: &str, name: &str) -> Value {
    let labels = json!({"app": "fuzz"});
    let pod = json!({"containers": [{"name": "main", "image": "fuzz:1", "ports": [{"containerPort": 80, "name": "http"}],
        "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}}}]});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let selector = json!({"matchLabels": labels});
    let (kind, rest) = match list.rsplit('/').next().unwrap_or_default() {
        "namespaces" => ("Namespace", json!({})),
        "nodes" => ("Node", json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})),
        "configmaps" => ("ConfigMap", json!({"data": {"a": "b"}, "binaryData": {"c": "AAAA"}})),
        "secrets" => ("Secret", json!({"stringData": {"a": "b"}, "data": {"c": "AAAA"}})),
        "pods" => ("Pod", json!({"spec": pod})),
        "services" => ("Service", json!({"spec": {"selector": labels, "ports": [{"port": 80, "targetPort": "http"}]}})),
        "endpoints" => {
            ("Endpoints", json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}))
        }
        "events" => (
            "Event",
            json!({"involvedObject": {"kind": "Pod", "name": "fuzz", "namespace": "default"},
            "reason": "Fuzzed", "message": "m", "type": "Normal"}),
        ),
        "serviceaccounts" => ("ServiceAccount", json!({"secrets": [{"name": "a"}]})),
        "deployments" => ("Deployment", json!({"spec": {"replicas": 2, "selector": selector, "template": template}})),
        "replicasets" => ("ReplicaSet", json!({"spec": {"replicas": 2, "selector": selector, "template": template}})),
        "controllerrevisions" => ("ControllerRevision", json!({"revision": 1, "data": {"a": 1}})),
        "jobs" => {
            let mut template = json!({"spec": pod});
            template["spec"]["restartPolicy"] = "Never".into();
            ("Job", json!({"spec": {"template": template}}))
        }
        "leases" => (
            "Lease",
            json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15,
            "renewTime": "2024-01-01T00:00:00.000000Z"}}),
        ),
        _ => (
            "EndpointSlice",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}],
            "ports": [{"name": "http", "port": 80}]}),
        ),
    };
    let version = match list.trim_start_matches("/apis/").trim_start_matches("/api/").rsplit_once('/') {
        Some((version, _)) => version,
        None => "v1",
    };
    let mut object = rest;
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({"name": name, "labels": labels, "annotations": {"note": "n"}});
    object
}
