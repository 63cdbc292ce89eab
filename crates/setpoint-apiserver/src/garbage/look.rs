//! A look at one object, and what is done about it.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_store::At;

use super::facts::{Facts, Reference};
use super::graph::Graph;
use super::notice;
use super::parked::Unserved;
use super::place::{self, Kinds, Place};
use super::search::{self, Kind, Search};
use super::verdict::{self, Owner, Verdict};
use crate::authentication::Caller;
use crate::failure::{Failure, Result};
use crate::object::Stored;
use crate::query::{DeleteOptions, Propagation, Query};
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
    /// The object may not be deleted as it is.
    Refused,
    Parked(Unserved),
}

/// What is known from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) graph: Mutex<Graph>,
    pub(super) kinds: Mutex<Kinds>,
}

/// Looks at an object as it is now, and does what follows.
pub(super) async fn look(server: &Shared, known: &Known, key: &str) -> Looked {
    try_look(server, known, key).await.unwrap_or_else(|failure| after(&failure, key))
}

/// What comes after a look that failed.
fn after(failure: &Failure, key: &str) -> Looked {
    match failure.code {
        StatusCode::NOT_FOUND => Looked::Done,
        StatusCode::CONFLICT => Looked::Again,
        StatusCode::FORBIDDEN => {
            tracing::info!(key, ?failure, "garbage is kept");
            Looked::Refused
        }
        _ => {
            tracing::warn!(key, ?failure, "garbage could not be collected yet");
            Looked::Again
        }
    }
}

async fn try_look(server: &Shared, known: &Known, key: &str) -> Result<Looked> {
    let Some(place) = Place::of_key(&server.registry(), key) else {
        return Ok(Looked::Parked(Unserved::Resource(place::directory(key).to_owned())));
    };
    let Some(entry) = server.store.get(key, At::Now).await?.value else { return Ok(Looked::Done) };
    let object = Stored::from(&entry);
    let facts = Facts::of(&object);
    let mut owners = Vec::with_capacity(facts.owner_references.len());
    for reference in &facts.owner_references {
        owners.push(find_owner(server, known, &place, &facts, reference).await?);
    }
    let standing = known.graph.lock().standing(&facts.uid);
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
    known: &Known,
    dependent: &Place,
    facts: &Facts,
    reference: &Reference,
) -> Result<Owner> {
    let kind = known.kinds.lock().find(&server.registry(), reference);
    let search = search::search(&known.graph.lock(), &kind, dependent.namespace(), reference);
    let (owner, was_sought) = match search {
        Search::Over(owner) => (owner, false),
        Search::At(key) => {
            let entry = server.store.get(&key, At::Now).await?.value;
            let object = entry.map(|entry| Facts::of(&Stored::from(&entry)));
            (search::found(&known.graph.lock(), object.as_ref(), reference), true)
        }
    };
    if let Kind::Served(kept) = &kind
        && kept.namespaced
        && (owner == Owner::OutOfReach || (owner == Owner::Absent && was_sought))
    {
        notice::tell_of_owner_elsewhere(server, known, dependent, facts, reference, kept).await?;
    }
    Ok(owner)
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
    let (namespace, now) = (place.namespace(), server.surroundings.now());
    verbs::delete_object(server, &Caller::server(), &place.resource, namespace, &place.name, &options, now)
        .await
        .map(drop)
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
        caller: Caller::server(),
        resource,
        verb,
        path,
        query: Query::parse(Some(MANAGER)),
        headers: HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))]),
        body: Bytes::from(body.to_string()),
        now: server.surroundings.now(),
        place: None,
    };
    let answer: std::result::Result<_, Failure> = verbs::run(server, call).await;
    answer.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_not_tried_again_and_a_failure_is() {
        let refusal = |code: StatusCode| {
            let mut failure = Failure::internal("in a test");
            failure.code = code;
            failure
        };
        assert!(matches!(after(&refusal(StatusCode::FORBIDDEN), "/a"), Looked::Refused));
        assert!(matches!(after(&refusal(StatusCode::NOT_FOUND), "/a"), Looked::Done));
        for code in [StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY, StatusCode::INTERNAL_SERVER_ERROR] {
            assert!(matches!(after(&refusal(code), "/a"), Looked::Again), "{code}");
        }
    }
}
