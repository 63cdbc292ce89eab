//! Where the owner that a reference names must be, and what is known of it without looking there.
//!
//! A uid alone proves nothing: a reference may have the uid of some object and the kind or the name of another. Whoever
//! is remembered is so by key, and must have gone, or wait, where the reference says.

use super::facts::{Facts, Reference};
use super::graph::{Graph, Key};
use super::verdict::Owner;

/// How the objects of a kind are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Ends in a slash.
    pub directory: String,
    pub namespaced: bool,
}

impl Kept {
    /// The key of the owner by this name that an object in this namespace, or in none, can have; `None` if it can have
    /// none of this kind.
    pub fn key(&self, namespace: Option<&str>, name: &str) -> Option<Key> {
        let directory = &self.directory;
        match namespace {
            _ if !self.namespaced => Some(format!("{directory}{name}").into()),
            Some(namespace) => Some(format!("{directory}{namespace}/{name}").into()),
            None => None,
        }
    }

    /// Whether this is the key of an object by this name, in whatever namespace.
    fn has(&self, key: &str, name: &str) -> bool {
        key.strip_prefix(&self.directory).is_some_and(|rest| rest.rsplit('/').next() == Some(name))
    }
}

/// What is known of the kind that a reference names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Served(Kept),
    /// It was served once.
    Lapsed(Kept),
    Unknown,
}

/// How far a search comes without reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    /// The owner is at this key, or nowhere.
    At(Key),
    Over(Owner),
}

/// Searches for the owner that a reference names, in an object of this namespace or of none.
pub fn search(graph: &Graph, kind: &Kind, namespace: Option<&str>, reference: &Reference) -> Search {
    let Reference { name, uid, .. } = reference;
    // An owner that waits to be forgotten waits for all who have its uid, and whoever cannot look it up forgets it too.
    let unless_orphaned = |owner| if graph.orphaning(uid).is_some() { Owner::Orphaning } else { owner };
    let (kept, is_served) = match kind {
        Kind::Served(kept) => (kept, true),
        Kind::Lapsed(kept) => (kept, false),
        Kind::Unknown => return Search::Over(unless_orphaned(Owner::Unserved)),
    };
    if graph.orphaning(uid).is_some_and(|key| kept.has(key, name)) {
        return Search::Over(Owner::Orphaning);
    }
    match kept.key(namespace, name) {
        // Also if its kind went with it.
        Some(key) if graph.is_gone(uid, &key) => Search::Over(Owner::Absent),
        _ if !is_served => Search::Over(unless_orphaned(Owner::Unserved)),
        Some(key) => Search::At(key),
        None => Search::Over(unless_orphaned(Owner::OutOfReach)),
    }
}

/// What is known of the owner after what was found at its key.
pub fn found(graph: &Graph, object: Option<&Facts>, reference: &Reference) -> Owner {
    match object.filter(|object| object.uid == reference.uid) {
        Some(owner) => owner.order().map_or(Owner::Alive, Owner::from),
        // The reference is wrong, but who has the uid waits for it to go.
        None if graph.orphaning(&reference.uid).is_some() => Owner::Orphaning,
        None => Owner::Absent,
    }
}
