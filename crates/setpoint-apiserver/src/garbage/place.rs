//! Where an object is: its resource, namespace and name, found from its key or from a reference to it.

use std::collections::HashMap;
use std::sync::Arc;

use super::facts::Reference;
use super::search::{Kept, Kind};
use crate::registry::{Registry, Resource};

#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) resource: Arc<Resource>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl Place {
    /// The place of a stored object; `None` if its resource is not served.
    pub(super) fn of_key(registry: &Registry, key: &str) -> Option<Place> {
        let directory = directory(key);
        let mut segments = directory.split('/').skip(1);
        let (group, plural) = (segments.next()?, segments.next()?);
        let resource = registry.kept_as(if group == "core" { "" } else { group }, plural)?.clone();
        let rest = &key[directory.len()..];
        let (namespace, name) = match rest.split_once('/') {
            Some((namespace, name)) if resource.namespaced => (Some(namespace.to_owned()), name),
            _ => (None, rest),
        };
        Some(Place { name: name.to_owned(), resource, namespace })
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

/// How the kinds of owners were last served. An owner may go together with its kind, and only who knows where such
/// objects were kept can tell that it was this one.
#[derive(Debug, Default)]
pub(super) struct Kinds(HashMap<String, Kept>);

impl Kinds {
    pub(super) fn find(&mut self, registry: &Registry, reference: &Reference) -> Kind {
        let name = format!("{}/{}", reference.api_version, reference.kind);
        let Some(resource) = owner_resource(registry, reference) else {
            return self.0.get(&name).cloned().map_or(Kind::Unknown, Kind::Lapsed);
        };
        let kept = Kept { directory: resource.directory(None), namespaced: resource.namespaced };
        if self.0.get(&name) != Some(&kept) {
            self.0.insert(name, kept.clone());
        }
        Kind::Served(kept)
    }
}

/// The directory of a key's resource: its first two segments.
pub(super) fn directory(key: &str) -> &str {
    let end = key.match_indices('/').nth(2).map_or(key.len(), |(slash, _)| slash + 1);
    &key[..end]
}

/// The resource of the owner that a reference names; `None` if it is not served.
pub(super) fn owner_resource(registry: &Registry, reference: &Reference) -> Option<Arc<Resource>> {
    let (group, version) = reference.api_version.split_once('/').unwrap_or(("", &reference.api_version));
    registry.version(group, version)?.find(|resource| resource.kind == reference.kind).cloned()
}
