//! Serving the documents: an index with a hash in each address, so that clients fetch a document once and keep it.
//!
//! Documents are made when somebody first asks, off the threads that serve requests, and kept: most servers are never
//! asked, and a client that is explained one kind asks for many.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use super::{GroupVersionKind, Resource, Subresource, custom};
use crate::failure::{Failure, Result};
use crate::query::Query;
use crate::registry::{self, Registry};
use crate::response::{self, Response};
use crate::server::Shared;

/// The documents of a server, by the path below `/openapi/v3/`. Those of custom resources change with their definitions:
/// only their hashes are kept, for as long as what is served stays as it is.
#[derive(Debug, Default)]
pub struct Documents {
    built_in: OnceCell<BTreeMap<String, Document>>,
    custom: Mutex<Option<(Arc<Registry>, Hashes)>>,
}

type Hashes = Arc<BTreeMap<String, String>>;

#[derive(Debug)]
struct Document {
    hash: String,
    body: Bytes,
}

impl Documents {
    async fn built_in(&self, server: &Arc<Shared>) -> Result<&BTreeMap<String, Document>> {
        let make = || {
            let server = server.clone();
            tokio::task::spawn_blocking(move || documents(&server.registry()))
        };
        self.built_in.get_or_try_init(make).await.map_err(Failure::internal)
    }

    async fn custom(&self, server: &Arc<Shared>) -> Result<Hashes> {
        let registry = server.registry();
        let mut kept = self.custom.lock().await;
        if let Some((_, hashes)) = kept.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &registry)) {
            return Ok(hashes.clone());
        }
        let definitions = custom::definitions(server, "").await?;
        let made_of = registry.clone();
        let make = move || -> BTreeMap<String, String> {
            let versions = versions(&made_of).filter(|(group, _)| made_of.is_custom_group(group));
            let hash = |(group, version): (&str, &str)| {
                let body = custom_document(&made_of, &definitions, group, version);
                (super::root_path(group, version)[1..].to_owned(), super::hash(&body))
            };
            versions.map(hash).collect()
        };
        let hashes = Arc::new(tokio::task::spawn_blocking(make).await.map_err(Failure::internal)?);
        *kept = Some((registry, hashes.clone()));
        Ok(hashes)
    }
}

fn versions(registry: &Registry) -> impl Iterator<Item = (&str, &str)> {
    registry.groups().flat_map(|(group, versions)| versions.map(move |version| (group, version)))
}

fn custom_document(registry: &Registry, definitions: &[Value], group: &str, version: &str) -> Bytes {
    document_of(registry, group, version, |resources| {
        super::document_with(custom::schemas(definitions, group, version), group, version, resources)
    })
}

fn documents(registry: &Registry) -> BTreeMap<String, Document> {
    versions(registry)
        .filter(|(group, _)| !registry.is_custom_group(group))
        .map(|(group, version)| {
            let body = document_of(registry, group, version, |resources| super::document(group, version, resources));
            (super::root_path(group, version)[1..].to_owned(), Document { hash: super::hash(&body), body })
        })
        .collect()
}

/// `/openapi/v3`
pub async fn answer_index(server: &Arc<Shared>) -> Result<Response> {
    let built_in = server.documents.built_in(server).await?;
    let custom = server.documents.custom(server).await?;
    let built_in = built_in.iter().map(|(path, document)| (path.as_str(), document.hash.as_str()));
    let custom = custom.iter().map(|(path, hash)| (path.as_str(), hash.as_str()));
    let index = super::index(built_in.chain(custom));
    Ok(response::bytes(StatusCode::OK, "application/json", index))
}

/// `/openapi/v3/api/v1` or `/openapi/v3/apis/<group>/<version>`
pub async fn answer_document(server: &Arc<Shared>, path: &str, headers: &HeaderMap, query: &Query) -> Result<Response> {
    let built_in = server.documents.built_in(server).await?;
    let (hash, body) = match built_in.get(path) {
        Some(Document { hash, body }) => (hash.clone(), body.clone()),
        None => custom_answer(server, path).await?,
    };
    let etag = format!("\"{hash}\"");
    let known = headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == etag.as_bytes());
    let mut response = if known {
        let mut response = response::bytes(StatusCode::NOT_MODIFIED, "application/json", Bytes::new());
        response.headers_mut().remove(CONTENT_TYPE);
        response
    } else {
        response::bytes(StatusCode::OK, "application/json", body)
    };
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    if query.get("hash") == Some(hash.as_str()) {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    }
    Ok(response)
}

/// The document of a version of a group of custom resources, and its hash.
async fn custom_answer(server: &Arc<Shared>, path: &str) -> Result<(String, Bytes)> {
    let registry = server.registry();
    let found = versions(&registry).find(|(group, version)| super::root_path(group, version)[1..] == *path);
    let (group, version) = found.ok_or_else(Failure::page_not_found)?;
    let definitions = custom::definitions(server, group).await?;
    let body = custom_document(&registry, &definitions, group, version);
    Ok((super::hash(&body), body))
}

/// The document of one version of a group, made of the resources served.
fn document_of(registry: &Registry, group: &str, version: &str, make: impl FnOnce(&[Resource<'_>]) -> Bytes) -> Bytes {
    let served: Vec<&registry::Resource> =
        registry.version(group, version).into_iter().flatten().map(AsRef::as_ref).collect();
    let subresources: Vec<Vec<Subresource<'_>>> = served.iter().map(|resource| subresources(resource)).collect();
    let resources: Vec<Resource<'_>> = served
        .iter()
        .zip(&subresources)
        .map(|(resource, subresources)| Resource {
            plural: &resource.plural,
            kind: &resource.kind,
            namespaced: resource.namespaced,
            custom: resource.custom.is_some(),
            verbs: resource.verbs(),
            subresources,
        })
        .collect();
    make(&resources)
}

fn subresources(resource: &registry::Resource) -> Vec<Subresource<'_>> {
    let describe = |subresource: &registry::Subresource| {
        let (group, version, kind) = subresource.kind(resource);
        let kind = GroupVersionKind { group, version, kind };
        Subresource { name: subresource.name(), kind, verbs: subresource.verbs() }
    };
    resource.subresources.iter().map(describe).collect()
}
