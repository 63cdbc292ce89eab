//! What the server says of itself: versions, groups and resources.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Result};
use crate::negotiate;
use crate::registry::{Registry, Resource, Subresource};
use crate::response::{self, Response};

/// The Kubernetes version whose API this is.
pub const KUBERNETES_MINOR: &str = "36";

/// `/`: the paths there are.
pub fn index(registry: &Registry) -> Response {
    let mut paths: Vec<String> =
        ["/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
            .map(str::to_owned)
            .into();
    for (group, versions) in registry.groups() {
        for version in versions {
            paths.push(if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") });
        }
        if !group.is_empty() {
            paths.push(format!("/apis/{group}"));
        }
    }
    paths.sort();
    response::json(StatusCode::OK, &json!({"paths": paths}))
}

/// `/version`
pub fn version() -> Response {
    let git = format!("v1.{KUBERNETES_MINOR}.0+setpoint-{}", env!("CARGO_PKG_VERSION"));
    let body = json!({
        "major": "1",
        "minor": KUBERNETES_MINOR,
        "gitVersion": git,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    });
    response::json(StatusCode::OK, &body)
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `/api`
pub fn core_versions(registry: &Registry, headers: &HeaderMap) -> Response {
    if let Some(version) = negotiate::aggregated_discovery(headers) {
        return aggregated(registry, version, |group| group.is_empty());
    }
    response::json(
        StatusCode::OK,
        &json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
    )
}

/// `/apis`
pub fn groups(registry: &Registry, headers: &HeaderMap) -> Response {
    if let Some(version) = negotiate::aggregated_discovery(headers) {
        return aggregated(registry, version, |group| !group.is_empty());
    }
    let groups: Vec<Value> = registry
        .groups()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| group_facts(group, versions))
        .collect();
    response::json(StatusCode::OK, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

/// `/apis/<group>`
pub fn group(registry: &Registry, name: &str) -> Result<Response> {
    let (group, versions) =
        registry.groups().find(|(group, _)| *group == name && !group.is_empty()).ok_or_else(Failure::page_not_found)?;
    let mut body = group_facts(group, versions);
    body["kind"] = "APIGroup".into();
    body["apiVersion"] = "v1".into();
    Ok(response::json(StatusCode::OK, &body))
}

fn group_facts<'r>(group: &str, versions: impl Iterator<Item = &'r str>) -> Value {
    let versions: Vec<Value> =
        versions.map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version})).collect();
    json!({"name": group, "preferredVersion": versions.first(), "versions": versions})
}

/// `/api/v1` or `/apis/<group>/<version>`
pub fn resources(registry: &Registry, group: &str, version: &str) -> Result<Response> {
    let Some(resources) = registry.version(group, version) else {
        let known = registry.groups().any(|(known, _)| known == group);
        let custom = registry.is_custom_group(group);
        return Err(if known && !custom { Failure::no_such_resource() } else { Failure::page_not_found() });
    };
    let mut listed = Vec::new();
    for resource in resources {
        listed.push(resource_facts(resource));
        let mut subresources = resource.subresources.clone();
        if resource.custom.is_none() {
            subresources.sort_by_key(|subresource| subresource.name());
        }
        listed.extend(subresources.into_iter().map(|subresource| subresource_facts(resource, subresource)));
    }
    let mut body = json!({"kind": "APIResourceList", "resources": listed});
    if group.is_empty() {
        body["groupVersion"] = version.into();
    } else {
        body["apiVersion"] = "v1".into();
        body["groupVersion"] = format!("{group}/{version}").into();
    }
    Ok(response::json(StatusCode::OK, &body))
}

fn resource_facts(resource: &Resource) -> Value {
    let mut facts = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs(),
    });
    if resource.review.is_none() {
        facts["storageVersionHash"] = storage_hash(resource).into();
    }
    if !resource.short_names.is_empty() {
        facts["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        facts["categories"] = json!(resource.categories);
    }
    facts
}

fn subresource_facts(resource: &Resource, subresource: Subresource) -> Value {
    let (group, version, kind) = subresource.kind(resource);
    let mut facts = json!({
        "name": format!("{}/{}", resource.plural, subresource.name()),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": subresource.verbs(),
    });
    if group != resource.group {
        facts["group"] = group.into();
        facts["version"] = version.into();
    }
    facts
}

/// Changes when the stored form does.
fn storage_hash(resource: &Resource) -> String {
    let group = resource.stored_in.as_ref().unwrap_or(&resource.group);
    // Kubernetes keeps definitions in an older version, and clients that know its hashes know this one.
    let version = if resource.is_definitions() { "v1beta1" } else { resource.storage_version() };
    let digest = Sha256::digest(format!("{group}/{version}/{}", resource.kind));
    STANDARD.encode(&digest[..8])
}

/// Everything in one answer, which is what newer clients ask for.
fn aggregated(registry: &Registry, api: &'static str, wanted: impl Fn(&str) -> bool) -> Response {
    let items: Vec<Value> = registry
        .groups()
        .filter(|(group, _)| wanted(group))
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .map(|version| {
                    let resources = registry.version(group, version).into_iter().flatten();
                    let resources: Vec<Value> = resources.map(|resource| aggregated_facts(resource)).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{api}"),
        "metadata": {},
        "items": items,
    });
    let mut response = response::json(StatusCode::OK, &body);
    let media_type = match api {
        "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

fn aggregated_facts(resource: &Resource) -> Value {
    let kind = |(group, version, kind): (&str, &str, &str)| json!({"group": group, "version": version, "kind": kind});
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|subresource| {
            json!({
                "subresource": subresource.name(),
                "responseKind": kind(subresource.kind(resource)),
                "verbs": subresource.verbs(),
            })
        })
        .collect();
    let mut facts = json!({
        "resource": resource.plural,
        "responseKind": kind((&resource.group, &resource.version, &resource.kind)),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs(),
    });
    for (field, value) in [
        ("shortNames", json!(resource.short_names)),
        ("categories", json!(resource.categories)),
        ("subresources", json!(subresources)),
    ] {
        if value.as_array().is_some_and(|list| !list.is_empty()) {
            facts[field] = value;
        }
    }
    facts
}
