//! OpenAPI: what clients read to explain a kind, to validate and merge by themselves, and to see what the server can do.
//!
//! OpenAPI 3 has one document for each group and version ([`document`]), which follows from the resources served. OpenAPI
//! 2, for older clients, has one for everything: [`swagger`] makes it of the others. Both are written as JSON, or as
//! protobuf by the tables of [`messages`]. [`documents`] keeps what was made, and [`answer`] serves it.

mod answer;
mod components;
mod custom;
mod documents;
mod messages;
mod operations;
mod parameters;
mod protobuf;
mod streams;
mod swagger;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::built_in::definition_name;

pub use answer::{answer_document, answer_index, answer_v2};
pub use documents::Documents;

use self::components::Known;

/// A kind of object: its group, its version and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind<'r> {
    /// Empty for the core group.
    group: &'r str,
    version: &'r str,
    name: &'r str,
    /// Whether a client defined it.
    custom: bool,
}

/// A resource as it is served.
#[derive(Debug, Clone, Copy)]
struct Resource<'r> {
    kind: Kind<'r>,
    /// The name of the kind of its lists.
    list_kind: &'r str,
    /// Such as `pods`.
    plural: &'r str,
    namespaced: bool,
    /// Such as `get` and `deletecollection`.
    verbs: &'r [&'r str],
    subresources: &'r [Subresource<'r>],
}

/// A part of a resource's objects with a path of its own.
#[derive(Debug, Clone, Copy)]
struct Subresource<'r> {
    /// Such as `status`.
    name: &'r str,
    /// What is read and written there.
    kind: Kind<'r>,
    verbs: &'r [&'r str],
}

/// The document of a version of a group: these are all its resources.
fn document(known: &Known<'_>, resources: &[Resource<'_>]) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": operations::paths(resources),
        "components": {"schemas": components::schemas(known, resources)},
    })
}

/// Changes exactly when what was digested does.
fn hash(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The body of `/openapi/v3`: where each document is, given as path and hash.
fn index<'d>(documents: impl IntoIterator<Item = (&'d str, &'d str)>) -> Value {
    let paths: BTreeMap<&str, Value> =
        documents.into_iter().map(|(path, hash)| (path, json!({"serverRelativeURL": address(path, hash)}))).collect();
    json!({ "paths": paths })
}

/// Where a document is that never changes.
fn address(path: &str, hash: &str) -> String {
    format!("/openapi/v3/{path}?hash={hash}")
}

/// Where the resources of a group and version are: `/api/v1` or `/apis/apps/v1`.
fn root_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

impl Kind<'_> {
    /// The name of its definition: `io.k8s.api.core.v1.Pod`, or `com.example.v1.Widget` for a custom one.
    fn definition(&self) -> String {
        if !self.custom {
            return definition_name(self.group, self.version, self.name);
        }
        let reversed: Vec<&str> = self.group.rsplit('.').collect();
        format!("{}.{}.{}", reversed.join("."), self.version, self.name)
    }

    fn as_json(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.name})
    }
}

fn reference(definition: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{definition}")})
}
