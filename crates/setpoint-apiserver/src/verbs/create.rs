//! Making an object.

use std::borrow::Cow;

use http::StatusCode;
use setpoint_store::{At, Commit, Expected};

use super::{Written, read, services, write};
use crate::admission::{self, Change};
use crate::apply::Writer;
use crate::audit;
use crate::deletion::seconds;
use crate::failure::{Failure, Result};
use crate::kind::Part;
use crate::negotiate;
use crate::object::{self, Stored};
use crate::object_size::OBJECT_LIMIT;
use crate::query::WriteOptions;
use crate::record;
use crate::registry::{Resource, text_at};
use crate::render::Renderer;
use crate::response::{self, Response};
use crate::server::{Call, Shared};
use crate::write::{self, Stamp};
use setpoint_api::field::Node;

/// How often a generated name may meet an existing one.
const NAME_TRIES: usize = 8;

pub(super) async fn create(server: &Shared, call: Call) -> Result<Response> {
    let renderer = Renderer::new(call.resource.clone(), negotiate::form(&call.headers)?, &call.query, call.now)?;
    let options = WriteOptions::parse(&call.query, "CreateOptions", call.resource.field_validation())?;
    let body = negotiate::body(&call.headers, &call.body)?;
    let decoded = write::decode(&call.resource, body, options.field_validation)?;
    let (stored, warnings) = insert(server, &call, &options, decoded.object, None).await?;
    let mut response = renderer.object(StatusCode::CREATED, &stored);
    if server.audit.is_some() {
        response.extensions_mut().insert(made(&stored));
    }
    response::warn(&mut response, decoded.warnings.into_iter().chain(warnings));
    Ok(response)
}

/// What the audit log is told of a new object, whose name may have been generated.
fn made(stored: &Stored) -> audit::Object {
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct Named {
        name: String,
        uid: String,
    }
    let Named { name, uid } = stored.metadata_as();
    audit::Object { name, uid, revision: stored.revision() }
}

/// Stores a decoded object as a new one, with the record of who owns its fields if that is not simply its writer.
pub(super) async fn insert(
    server: &Shared,
    call: &Call,
    options: &WriteOptions,
    mut object: serde_json::Value,
    record: Option<Vec<u8>>,
) -> Result<(Stored, Vec<String>)> {
    let resource = &call.resource;
    if resource.custom.as_ref().is_some_and(|custom| custom.terminating) {
        return Err(Failure::definition_terminating());
    }
    write::place(resource, call.namespace(), &mut object)?;
    let generates = text_at(&object, &["metadata", "name"]).is_empty();
    if let Some(namespace) = call.namespace() {
        server.namespaces.admit(server, resource, namespace, text_at(&object, &["metadata", "name"])).await?;
    }
    let tries = if generates { NAME_TRIES } else { 1 };
    let mut name = String::new();
    for left in (0..tries).rev() {
        let stamp = Stamp { now: call.now, uid: server.surroundings.uid(), suffix: server.surroundings.suffix() };
        let mut candidate = if left == 0 { object.take() } else { object.clone() };
        write::begin_create(resource, &mut candidate, &stamp)?;
        let record = match &record {
            Some(record) => Cow::Borrowed(record),
            None => Cow::Owned(record_of_new(call, options, resource, &candidate)),
        };
        let claim = services::allocate(server, resource, &mut candidate, None)?;
        write::finish_create(resource, &mut candidate)?;
        admission::stamp(resource, &call.caller, None, &mut candidate);
        let record = match resource.is_definitions() && !options.dry_run {
            true => Cow::Owned(server.definitions.settle_new(server, &mut candidate, &record).await?),
            false => record,
        };
        name = text_at(&candidate, &["metadata", "name"]).to_owned();
        let change = Change {
            caller: &call.caller,
            verb: call.verb,
            resource,
            part: Part::Main,
            namespace: call.namespace(),
            path_name: call.name(),
            before: None,
            after: Some(&candidate),
        };
        admission::admit(server, &change).await?;
        let warnings = resource.behaviour.warnings(Node::root(&candidate), None);
        let bytes = object::encode(&candidate, &record, OBJECT_LIMIT)
            .map_err(|too_large| Failure::object_too_large(resource, &name, too_large))?;
        let key = resource.key(call.namespace(), &name);
        if options.dry_run {
            if server.store.get(&key, At::Now).await?.value.is_none() {
                return Ok((Stored::new(bytes, 0), warnings));
            }
            continue;
        }
        let commit = Commit { key: key.clone(), value: Some(bytes.clone()), expected: Expected::Absent };
        if let Written::Done(stored) = write(server, commit, |revision| Stored::new(bytes, revision)).await? {
            claim.keep();
            if let Some(namespace) = call.namespace() {
                server.namespaces.recheck(server, namespace).await;
            }
            server.definitions.recheck(server, resource, &key, stored.revision(), true).await?;
            return Ok((stored, warnings));
        }
    }
    let existing = read(server, resource, call.namespace(), &name).await;
    let being_deleted = existing.is_ok_and(|existing| existing.is_being_deleted());
    Err(Failure::already_exists(resource, &name, being_deleted))
}

/// The record of what a call makes: an object of the resource it is about, or of what a subresource takes.
pub(super) fn record_of_new(
    call: &Call,
    options: &WriteOptions,
    resource: &Resource,
    object: &serde_json::Value,
) -> Vec<u8> {
    let (manager, now) = (record::manager(&options.manager, &call.headers), seconds(call.now));
    let (api_version, subresource) = (resource.api_version(), call.path.subresource.as_deref().unwrap_or_default());
    let writer = Writer { manager: &manager, api_version: &api_version, subresource, now: &now };
    record::of_new(resource, object, &writer)
}

/// An object that an update found missing, made by that update. Only for kinds that allow it.
pub(super) async fn create_by_update(
    server: &Shared,
    call: &Call,
    options: &WriteOptions,
    object: serde_json::Value,
    part: Part,
) -> Result<(Stored, Vec<String>)> {
    if part != Part::Main || !call.resource.rules.creates_on_update {
        return Err(Failure::not_found(&call.resource, call.name()));
    }
    insert(server, call, options, object, None).await
}
