//! OpenAPI v3: what kubectl reads to explain a kind, to merge on the client, and to see what the server can do.
//!
//! There is one document for each group and version, which follows from the resources it describes.

mod answer;
mod components;
mod custom;
mod operations;
mod parameters;
mod v2;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::built_in::definition_name;
use crate::schema::definitions_as_json;

pub use answer::{Documents, answer_document, answer_index};
pub use v2::answer_v2;

/// A group, a version and a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupVersionKind<'r> {
    /// Empty for the core group.
    pub group: &'r str,
    pub version: &'r str,
    pub kind: &'r str,
}

/// A resource as it is served.
#[derive(Debug, Clone, Copy)]
pub struct Resource<'r> {
    /// Such as `pods`.
    pub plural: &'r str,
    pub kind: &'r str,
    pub namespaced: bool,
    /// Whether it is defined by a CustomResourceDefinition.
    pub custom: bool,
    /// Such as `get` and `deletecollection`.
    pub verbs: &'r [&'r str],
    pub subresources: &'r [Subresource<'r>],
}

/// A part of a resource's objects with a path of its own.
#[derive(Debug, Clone, Copy)]
pub struct Subresource<'r> {
    /// Such as `status`.
    pub name: &'r str,
    /// What is read and written there.
    pub kind: GroupVersionKind<'r>,
    pub verbs: &'r [&'r str],
}

/// The document of a group and version.
pub fn document(group: &str, version: &str, resources: &[Resource<'_>]) -> Bytes {
    document_with(definitions_as_json(), group, version, resources)
}

/// The same, of kinds whose schemas are among these.
fn document_with(known: Map<String, Value>, group: &str, version: &str, resources: &[Resource<'_>]) -> Bytes {
    let mut paths = Map::new();
    let mut kinds = Vec::new();
    for resource in resources {
        let kind = GroupVersionKind { group, version, kind: resource.kind };
        kinds.push(kind);
        kinds.extend(resource.subresources.iter().map(|subresource| subresource.kind));
        operations::add_paths(&mut paths, kind, resource);
    }
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": components::schemas(known, &kinds)},
    });
    Bytes::from(document.to_string())
}

/// Changes exactly when the document does.
pub fn hash(document: &[u8]) -> String {
    Sha256::digest(document).iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The body of `/openapi/v3`: where each document is, given as path and hash.
pub fn index<'d>(documents: impl IntoIterator<Item = (&'d str, &'d str)>) -> Bytes {
    let paths: BTreeMap<&str, Value> = documents
        .into_iter()
        .map(|(path, hash)| (path, json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")})))
        .collect();
    Bytes::from(json!({ "paths": paths }).to_string())
}

/// Where the resources of a group and version are: `/api/v1` or `/apis/apps/v1`.
fn root_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

impl GroupVersionKind<'_> {
    /// The group's short name: `core`, `apps`, `discovery`, …
    fn package(&self) -> &str {
        if self.group.is_empty() { "core" } else { self.group.split('.').next().unwrap_or_default() }
    }

    /// The name of its definition, such as `io.k8s.api.core.v1.Pod`.
    fn definition(&self) -> String {
        definition_name(self.group, self.version, self.kind)
    }

    fn as_json(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }
}

fn reference(definition: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{definition}")})
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD_STATUS: GroupVersionKind<'_> = GroupVersionKind { group: "", version: "v1", kind: "Pod" };
    const SCALE: GroupVersionKind<'_> = GroupVersionKind { group: "autoscaling", version: "v1", kind: "Scale" };
    const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    const READ_AND_WRITE: &[&str] = &["get", "patch", "update"];

    const PODS: Resource<'_> = Resource {
        plural: "pods",
        kind: "Pod",
        namespaced: true,
        custom: false,
        verbs: ALL,
        subresources: &[Subresource { name: "status", kind: POD_STATUS, verbs: READ_AND_WRITE }],
    };
    const NODES: Resource<'_> = Resource {
        plural: "nodes",
        kind: "Node",
        namespaced: false,
        custom: false,
        verbs: &["get", "list"],
        subresources: &[],
    };
    const DEPLOYMENTS: Resource<'_> = Resource {
        plural: "deployments",
        kind: "Deployment",
        namespaced: true,
        custom: false,
        verbs: ALL,
        subresources: &[Subresource { name: "scale", kind: SCALE, verbs: READ_AND_WRITE }],
    };

    fn core() -> Value {
        serde_json::from_slice(&document("", "v1", &[PODS, NODES])).expect("a document is JSON")
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(Value::as_str).map(String::from));
                    members.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let apps = serde_json::from_slice(&document("apps", "v1", &[DEPLOYMENTS])).expect("a document is JSON");
        for document in [core(), apps] {
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(found.len() > 100);
            for reference in found {
                let pointer = reference.strip_prefix('#').expect("references are local");
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
        }
    }

    #[test]
    fn paths_follow_scope_verbs_and_subresources() {
        let document = core();
        let operations = |path: &str| -> Vec<&str> {
            let item = document["paths"][path].as_object();
            item.into_iter().flatten().map(|(method, _)| method.as_str()).filter(|name| *name != "parameters").collect()
        };
        assert_eq!(operations("/api/v1/namespaces/{namespace}/pods"), ["delete", "get", "post"]);
        assert_eq!(operations("/api/v1/namespaces/{namespace}/pods/{name}"), ["delete", "get", "patch", "put"]);
        assert_eq!(operations("/api/v1/namespaces/{namespace}/pods/{name}/status"), ["get", "patch", "put"]);
        assert_eq!(operations("/api/v1/pods"), ["get"]);
        assert_eq!(operations("/api/v1/nodes"), ["get"]);
        assert_eq!(operations("/api/v1/nodes/{name}"), ["get"]);
        let ids: Vec<&Value> = document["paths"]
            .as_object()
            .into_iter()
            .flatten()
            .flat_map(|(_, item)| item.as_object().into_iter().flatten())
            .filter_map(|(_, operation)| operation.get("operationId"))
            .collect();
        let distinct: std::collections::BTreeSet<String> = ids.iter().map(ToString::to_string).collect();
        assert_eq!(distinct.len(), ids.len());
        assert!(distinct.contains("\"patchCoreV1NamespacedPodStatus\""), "{distinct:?}");
    }

    #[test]
    fn a_patch_says_what_kubectl_looks_for() {
        let document: Value = serde_json::from_slice(&document("apps", "v1", &[DEPLOYMENTS])).expect("JSON");
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(
            patch["x-kubernetes-group-version-kind"],
            json!({"group": "apps", "version": "v1", "kind": "Deployment"})
        );
        assert_eq!(patch["x-kubernetes-action"], "patch");
        let parameters: Vec<&str> =
            patch["parameters"].as_array().into_iter().flatten().filter_map(|p| p["name"].as_str()).collect();
        assert_eq!(parameters, ["dryRun", "fieldManager", "fieldValidation", "force"]);
        let types: Vec<&String> =
            patch["requestBody"]["content"].as_object().into_iter().flatten().map(|(t, _)| t).collect();
        assert_eq!(
            types,
            [
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
            ]
        );
        let custom = super::document("apps", "v1", &[Resource { custom: true, ..DEPLOYMENTS }]);
        assert!(!String::from_utf8_lossy(&custom).contains("strategic-merge-patch"), "a custom resource takes none");
        let scale = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["get"];
        assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Scale");
    }

    #[test]
    fn schemas_have_what_explain_and_merges_need() {
        let document = core();
        let schemas = &document["components"]["schemas"];
        let pod = &schemas["io.k8s.api.core.v1.Pod"];
        assert_eq!(pod["x-kubernetes-group-version-kind"], json!([{"group": "", "version": "v1", "kind": "Pod"}]));
        assert!(pod["description"].as_str().is_some_and(|text| text.starts_with("Pod is")));
        assert_eq!(pod["required"], Value::Null);
        assert_eq!(
            pod["properties"]["spec"]["allOf"],
            json!([{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}])
        );
        assert!(pod["properties"]["spec"]["description"].is_string());
        let spec = &schemas["io.k8s.api.core.v1.PodSpec"];
        assert_eq!(spec["required"], json!(["containers"]));
        let containers = &spec["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-list-type"], "map");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
        assert_eq!(spec["properties"]["tolerations"]["x-kubernetes-list-type"], "atomic");
        assert_eq!(spec["properties"]["nodeSelector"]["x-kubernetes-map-type"], "atomic");
        assert_eq!(schemas["io.k8s.api.core.v1.LocalObjectReference"]["x-kubernetes-map-type"], "atomic");
        let list = &schemas["io.k8s.api.core.v1.PodList"];
        assert_eq!(list["x-kubernetes-group-version-kind"][0]["kind"], "PodList");
        assert_eq!(list["required"], json!(["items"]));
        for name in ["Status", "DeleteOptions", "Patch", "WatchEvent"] {
            assert!(schemas[format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")].is_object(), "{name}");
        }
        assert!(schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["oneOf"].is_array());
        assert_eq!(schemas["io.k8s.api.apps.v1.Deployment"], Value::Null, "other groups' kinds are elsewhere");
    }

    #[test]
    fn the_index_names_each_document_by_its_hash() {
        let hash = |resource| super::hash(&document("apps", "v1", &[resource]));
        assert_eq!(hash(DEPLOYMENTS), hash(DEPLOYMENTS));
        assert_ne!(hash(DEPLOYMENTS), hash(PODS));
        let index = index([("api/v1", "A"), ("apis/apps/v1", "B")]);
        assert_eq!(
            serde_json::from_slice::<Value>(&index).expect("JSON"),
            json!({"paths": {
                "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=A"},
                "apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=B"},
            }})
        );
    }
}
