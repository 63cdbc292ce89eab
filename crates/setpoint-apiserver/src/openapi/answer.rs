//! Serving the documents: an index with a hash in each address, so that clients fetch a document once and keep it.
//!
//! Documents are made when somebody first asks, off the threads that serve requests, and kept: most servers are never
//! asked, and a client that is explained one kind asks for many.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::OnceCell;

use super::{GroupVersionKind, Resource, Subresource};
use crate::failure::{Failure, Result};
use crate::query::Query;
use crate::registry::{self, Registry};
use crate::response::{self, Response};
use crate::server::Shared;

/// The documents of a server, by the path below `/openapi/v3/`.
#[derive(Debug, Default)]
pub struct Documents(OnceCell<BTreeMap<String, Document>>);

#[derive(Debug)]
struct Document {
    hash: String,
    body: Bytes,
}

impl Documents {
    async fn get(&self, server: &Arc<Shared>) -> Result<&BTreeMap<String, Document>> {
        let make = || {
            let server = server.clone();
            tokio::task::spawn_blocking(move || documents(&server.registry))
        };
        self.0.get_or_try_init(make).await.map_err(Failure::internal)
    }
}

fn documents(registry: &Registry) -> BTreeMap<String, Document> {
    let versions = registry.groups().flat_map(|(group, versions)| versions.map(move |version| (group, version)));
    versions
        .map(|(group, version)| {
            let body = document_of(registry, group, version);
            (super::root_path(group, version)[1..].to_owned(), Document { hash: super::hash(&body), body })
        })
        .collect()
}

/// `/openapi/v3`
pub async fn answer_index(server: &Arc<Shared>) -> Result<Response> {
    let documents = server.documents.get(server).await?;
    let index = super::index(documents.iter().map(|(path, document)| (path.as_str(), document.hash.as_str())));
    Ok(response::bytes(StatusCode::OK, "application/json", index))
}

/// `/openapi/v3/api/v1` or `/openapi/v3/apis/<group>/<version>`
pub async fn answer_document(server: &Arc<Shared>, path: &str, headers: &HeaderMap, query: &Query) -> Result<Response> {
    let documents = server.documents.get(server).await?;
    let Document { hash, body } = documents.get(path).ok_or_else(Failure::page_not_found)?;
    let etag = format!("\"{hash}\"");
    let known = headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == etag.as_bytes());
    let mut response = if known {
        let mut response = response::bytes(StatusCode::NOT_MODIFIED, "application/json", Bytes::new());
        response.headers_mut().remove(CONTENT_TYPE);
        response
    } else {
        response::bytes(StatusCode::OK, "application/json", body.clone())
    };
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    if query.get("hash") == Some(hash) {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    }
    Ok(response)
}

/// The document of one version of a group.
fn document_of(registry: &Registry, group: &str, version: &str) -> Bytes {
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
            verbs: resource.verbs(),
            subresources,
        })
        .collect();
    super::document(group, version, &resources)
}

fn subresources(resource: &registry::Resource) -> Vec<Subresource<'_>> {
    let describe = |subresource: &registry::Subresource| {
        let (group, version, kind) = subresource.kind(resource);
        let kind = GroupVersionKind { group, version, kind };
        Subresource { name: subresource.name(), kind, verbs: subresource.verbs() }
    };
    resource.subresources.iter().map(describe).collect()
}
