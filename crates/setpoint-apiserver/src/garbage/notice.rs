//! The Event that tells people of an owner in another namespace.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_store::{At, Range};

use super::facts::{Facts, Reference};
use super::look::{Known, send};
use super::place::Place;
use super::search::Kept;
use crate::deletion::seconds;
use crate::failure::Result;
use crate::object::Stored;
use crate::request::Verb;
use crate::server::Shared;

const REASON: &str = "OwnerRefInvalidNamespace";
const COMPONENT: &str = "garbage-collector-controller";

/// Writes an Event if the owner that a reference names exists, but in another namespace.
pub(super) async fn tell_of_owner_elsewhere(
    server: &Shared,
    known: &Known,
    dependent: &Place,
    facts: &Facts,
    reference: &Reference,
    owner: &Kept,
) -> Result<()> {
    let path = format!("{}{}", owner.directory, reference.name);
    let answer = known.graph.lock().elsewhere(&reference.uid, &path);
    if *answer.get_or_try_init(|| is_anywhere(server, reference, owner)).await? {
        write(server, dependent, facts, reference).await;
    }
    Ok(())
}

/// Asks every namespace for an owner, which is done once, and only for one that was never known to exist.
async fn is_anywhere(server: &Shared, reference: &Reference, owner: &Kept) -> Result<bool> {
    let namespaces = server.registry().built_in("", "v1", "namespaces").directory(None);
    let page = server.store.range(Range { scope: &namespaces, after: None, limit: 0, at: At::Now }).await?;
    for entry in &page.entries {
        let Some(key) = owner.key(Some(&entry.key[namespaces.len()..]), &reference.name) else { continue };
        let found = server.store.get(&key, At::Now).await?.value;
        if found.is_some_and(|entry| Facts::of(&Stored::from(&entry)).uid == reference.uid) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn write(server: &Shared, dependent: &Place, facts: &Facts, reference: &Reference) {
    let now = server.surroundings.now();
    let place = Place {
        resource: Arc::clone(&server.registry().built_in("", "v1", "events")),
        namespace: Some(dependent.namespace().unwrap_or("default").to_owned()),
        name: format!("{}.{:x}", dependent.name, now.as_nanosecond()),
    };
    let event = event(&place, dependent, facts, reference, now);
    // Only a notice: that it could not be given must not keep anybody from acting.
    if let Err(failure) = send(server, &place, Verb::Create, "application/json", &event).await {
        tracing::debug!(?failure, name = %dependent.name, "an Event could not be written");
    }
}

fn event(place: &Place, dependent: &Place, facts: &Facts, reference: &Reference, now: Timestamp) -> Value {
    let Reference { api_version, kind, name, uid, .. } = reference;
    let namespace = dependent.namespace().unwrap_or_default();
    let mut involved = json!({
        "apiVersion": dependent.resource.api_version(),
        "kind": dependent.resource.kind,
        "name": dependent.name,
        "uid": facts.uid,
    });
    if !namespace.is_empty() {
        involved["namespace"] = namespace.into();
    }
    let named = format!("[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]");
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": place.name, "namespace": place.namespace},
        "involvedObject": involved,
        "type": "Warning",
        "reason": REASON,
        "message": format!("ownerRef {named} does not exist in namespace {namespace:?}"),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": seconds(now),
        "lastTimestamp": seconds(now),
        "count": 1,
    })
}
