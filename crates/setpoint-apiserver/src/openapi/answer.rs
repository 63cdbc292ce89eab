//! Serving the documents: an index with a hash in each address, so that clients fetch a document once and keep it.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::{GroupVersionKind, Resource, Subresource};
use crate::failure::{Failure, Result};
use crate::query::Query;
use crate::registry::{self, Registry};
use crate::response::{self, Response};

/// `/openapi/v3`
pub fn answer_index(registry: &Registry) -> Response {
    let documents = registry.groups().flat_map(|(group, versions)| versions.map(move |version| (group, version)));
    let documents = documents
        .map(|(group, version)| (group, version, described(registry, group, version, super::hash).unwrap_or_default()));
    response::bytes(StatusCode::OK, "application/json", super::index(documents))
}

/// `/openapi/v3/api/v1` or `/openapi/v3/apis/<group>/<version>`
pub fn answer_document(registry: &Registry, path: &str, headers: &HeaderMap, query: &Query) -> Result<Response> {
    let (group, version) = match *path.split('/').collect::<Vec<_>>() {
        ["api", version] => ("", version),
        ["apis", group, version] => (group, version),
        _ => return Err(Failure::page_not_found()),
    };
    let hash = described(registry, group, version, super::hash).ok_or_else(Failure::page_not_found)?;
    let etag = format!("\"{hash}\"");
    let known = headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == etag.as_bytes());
    let mut response = if known {
        let mut response = response::bytes(StatusCode::NOT_MODIFIED, "application/json", Bytes::new());
        response.headers_mut().remove(http::header::CONTENT_TYPE);
        response
    } else {
        let document = described(registry, group, version, super::document).unwrap_or_default();
        response::bytes(StatusCode::OK, "application/json", document)
    };
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    if query.get("hash") == Some(&hash) {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    }
    Ok(response)
}

/// Hands the resources of one version to `describe`; `None` if that version is not served.
fn described<T>(
    registry: &Registry,
    group: &str,
    version: &str,
    describe: impl Fn(&str, &str, &[Resource<'_>]) -> T,
) -> Option<T> {
    let served: Vec<&registry::Resource> = registry.version(group, version)?.map(AsRef::as_ref).collect();
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
    Some(describe(group, version, &resources))
}

fn subresources(resource: &registry::Resource) -> Vec<Subresource<'_>> {
    let describe = |subresource: &registry::Subresource| {
        let (group, version, kind) = subresource.kind(resource);
        let kind = GroupVersionKind { group, version, kind };
        Subresource { name: subresource.name(), kind, verbs: subresource.verbs() }
    };
    resource.subresources.iter().map(describe).collect()
}
