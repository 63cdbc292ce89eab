//! A look at one object, and what is done about it.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_store::At;

use super::facts::{Facts, Reference};
use super::graph::Graph;
use super::notice;
use super::place::{self, Place};
use super::verdict::{self, Owner, Verdict};
use crate::failure::{Failure, Result};
use crate::object::Stored;
use crate::query::{DeleteOptions, Propagation, Query};
use crate::registry::Registry;
use crate::request::{ResourcePath, Verb};
use crate::server::{Call, Shared};
use crate::verbs;

/// Whom the record of an object's fields names for what the garbage collector writes.
const MANAGER: &str = "fieldManager=garbage-collector";

/// What came of a look.
#[derive(Debug)]
pub(super) enum Looked {
    Done,
    /// Something went wrong, or somebody else was faster.
    Again,
    Parked(Unserved),
}

/// Something that must be served before an object can be decided about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unserved {
    Kind {
        api_version: String,
        kind: String,
    },
    /// The object's own resource, by a key.
    Resource(String),
}

impl Unserved {
    pub(super) fn is_served(&self, registry: &Registry) -> bool {
        match self {
            Unserved::Kind { api_version, kind } => {
                let (api_version, kind) = (api_version.clone(), kind.clone());
                place::owner_resource(registry, &Reference { api_version, kind, ..Reference::default() }).is_some()
            }
            Unserved::Resource(directory) => Place::of_key(registry, directory).is_some(),
        }
    }
}

/// Looks at an object as it is now, and does what follows.
pub(super) async fn look(server: &Shared, graph: &Mutex<Graph>, key: &str) -> Looked {
    match try_look(server, graph, key).await {
        Ok(looked) => looked,
        Err(failure) if failure.code == StatusCode::NOT_FOUND => Looked::Done,
        Err(failure) if failure.code == StatusCode::CONFLICT => Looked::Again,
        Err(failure) => {
            tracing::warn!(key, ?failure, "garbage could not be collected yet");
            Looked::Again
        }
    }
}

async fn try_look(server: &Shared, graph: &Mutex<Graph>, key: &str) -> Result<Looked> {
    let Some(place) = Place::of_key(&server.registry(), key) else {
        return Ok(Looked::Parked(Unserved::Resource(place::directory(key).to_owned())));
    };
    let Some(entry) = server.store.get(key, At::Now).await?.value else { return Ok(Looked::Done) };
    let object = Stored::from(&entry);
    let facts = Facts::of(&object);
    let mut owners = Vec::with_capacity(facts.owner_references.len());
    for reference in &facts.owner_references {
        owners.push(find_owner(server, graph, &place, &facts, reference).await?);
    }
    let standing = graph.lock().standing(&facts.uid);
    match verdict::decide(&facts, standing, &owners) {
        Verdict::Keep => {}
        Verdict::Wait => {
            let unserved = facts.owner_references.iter().zip(&owners).find(|(_, owner)| **owner == Owner::Unserved);
            if let Some((Reference { api_version, kind, .. }, _)) = unserved {
                let (api_version, kind) = (api_version.clone(), kind.clone());
                return Ok(Looked::Parked(Unserved::Kind { api_version, kind }));
            }
        }
        Verdict::RemoveFinalizer(order) => {
            let finalizers = facts.finalizers.iter().filter(|finalizer| *finalizer != order.finalizer()).collect();
            patch(server, &place, &object, "finalizers", finalizers).await?;
        }
        Verdict::Unblock => {
            let mut references = references(&object);
            references.iter_mut().for_each(|reference| reference["blockOwnerDeletion"] = false.into());
            patch(server, &place, &object, "ownerReferences", references).await?;
        }
        Verdict::RemoveReferences(positions) => {
            let references = references(&object).into_iter().enumerate();
            let kept = references.filter(|(position, _)| !positions.contains(position)).map(|(_, kept)| kept).collect();
            patch::<Value>(server, &place, &object, "ownerReferences", kept).await?;
        }
        Verdict::Delete(propagation) => delete(server, &place, &object, &facts, propagation).await?,
    }
    Ok(Looked::Done)
}

/// What is known of the owner that a reference names: looked up where it must be, and compared by uid.
async fn find_owner(
    server: &Shared,
    graph: &Mutex<Graph>,
    dependent: &Place,
    facts: &Facts,
    reference: &Reference,
) -> Result<Owner> {
    // Also if its kind went with it.
    if graph.lock().is_gone(&reference.uid) {
        return Ok(Owner::Absent);
    }
    let Some(resource) = place::owner_resource(&server.registry(), reference) else { return Ok(Owner::Unserved) };
    if resource.namespaced && dependent.namespace.is_none() {
        notice::tell_of_owner_elsewhere(server, dependent, facts, reference, &resource).await?;
        return Ok(Owner::OutOfReach);
    }
    let namespace = dependent.namespace().filter(|_| resource.namespaced);
    let key = resource.key(namespace, &reference.name);
    let found = server.store.get(&key, At::Now).await?.value;
    match found.map(|entry| Facts::of(&Stored::from(&entry))).filter(|owner| owner.uid == reference.uid) {
        Some(owner) => Ok(owner.order().map_or(Owner::Alive, Owner::from)),
        None => {
            if resource.namespaced {
                notice::tell_of_owner_elsewhere(server, dependent, facts, reference, &resource).await?;
            }
            Ok(Owner::Absent)
        }
    }
}

fn references(object: &Stored) -> Vec<Value> {
    match object.metadata()["ownerReferences"].take() {
        Value::Array(references) => references,
        _ => Vec::new(),
    }
}

async fn delete(
    server: &Shared,
    place: &Place,
    object: &Stored,
    facts: &Facts,
    propagation: Propagation,
) -> Result<()> {
    let options = DeleteOptions {
        propagation: Some(propagation),
        uid: Some(facts.uid.clone()),
        revision: Some(object.revision().to_string()),
        ..DeleteOptions::default()
    };
    let (namespace, now) = (place.namespace(), Timestamp::now());
    verbs::delete_object(server, &place.resource, namespace, &place.name, &options, now).await.map(drop)
}

/// Replaces a list in an object's metadata, if the object is still the one that was looked at.
async fn patch<T: serde::Serialize>(
    server: &Shared,
    place: &Place,
    object: &Stored,
    field: &str,
    list: Vec<T>,
) -> Result<()> {
    let list = if list.is_empty() { Value::Null } else { json!(list) };
    let patch = json!({"metadata": {"resourceVersion": object.revision().to_string(), field: list}});
    send(server, place, Verb::Patch, "application/merge-patch+json", &patch).await
}

/// Sends a write the way that a client's writes go.
pub(super) async fn send(
    server: &Shared,
    place: &Place,
    verb: Verb,
    media_type: &'static str,
    body: &Value,
) -> Result<()> {
    let resource = place.resource.clone();
    let path = ResourcePath {
        group: resource.group.to_string(),
        version: resource.version.to_string(),
        resource: resource.plural.to_string(),
        namespace: place.namespace.clone(),
        name: (verb != Verb::Create).then(|| place.name.clone()),
        ..ResourcePath::default()
    };
    let call = Call {
        resource,
        verb,
        path,
        query: Query::parse(Some(MANAGER)),
        headers: HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))]),
        body: Bytes::from(body.to_string()),
        now: Timestamp::now(),
    };
    let answer: std::result::Result<_, Failure> = verbs::run(server, call).await;
    answer.map(drop)
}
