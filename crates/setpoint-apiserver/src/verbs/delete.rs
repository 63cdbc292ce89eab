//! Taking objects away, one or a whole collection.

use futures::future::join_all;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;
use setpoint_store::Commit;

use super::list::{Listed, Start, select};
use super::{Written, read, services, unchanged, write};
use crate::admission::{self, Change};
use crate::authentication::Caller;
use crate::deletion::{self, Deletion};
use crate::failure::{self, Failure, Result};
use crate::kinds::{custom_resource_definition, namespace};
use crate::negotiate;
use crate::object::{self, Stored};
use crate::object_size;
use crate::query::{DeleteOptions, ListOptions};
use crate::registry::{Resource, text_at};
use crate::render::Renderer;
use crate::response::{self, Response};
use crate::server::{Call, Shared};

/// How many objects of a collection are deleted at the same time.
const AT_ONCE: usize = 64;

const ORPHAN_WARNING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

pub(super) async fn delete(server: &Shared, call: Call) -> Result<Response> {
    let renderer = Renderer::new(call.resource.clone(), negotiate::form(&call.headers)?, &call.query, call.now)?;
    let options = options(server, &call)?;
    let deleted =
        delete_object(server, &call.caller, &call.resource, call.namespace(), call.name(), &options, call.now).await?;
    let mut response = match deleted {
        Deleted::Gone { uid, .. } if !call.resource.rules.returns_deleted => {
            response::json(StatusCode::OK, &failure::deleted(&call.resource, call.name(), &uid))
        }
        Deleted::Gone { last, .. } | Deleted::Going(last) => renderer.object(StatusCode::OK, &last),
    };
    if call.resource.rules.orphans_by_default && options.propagation.is_none() {
        response::warn(&mut response, [ORPHAN_WARNING]);
    }
    Ok(response)
}

/// Deletes every object that the selectors match, and answers with them as they were.
pub(super) async fn delete_collection(server: &Shared, call: Call) -> Result<Response> {
    let renderer = Renderer::new(call.resource.clone(), negotiate::form(&call.headers)?, &call.query, call.now)?;
    let delete_options = options(server, &call)?;
    let list_options = ListOptions::parse(&call.query, false)?;
    let start = Start::of(server, &call, &list_options).await?;
    let Listed { meta, items } =
        select(server, &call.resource, call.namespace(), &list_options, start, &mut None).await?;
    // All or nothing, as far as it can be known beforehand.
    for item in &items {
        let object = call.resource.value(item);
        let name = text_at(&object, &["metadata", "name"]);
        let change = Change::deletion(&call.caller, &call.resource, call.namespace(), name, &object);
        admission::admit(server, &change).await?;
    }
    let left =
        delete_all(server, &call.caller, &call.resource, call.namespace(), &items, &delete_options, call.now).await?;
    match left.protected.into_iter().next() {
        Some(refusal) => Err(refusal),
        None => Ok(renderer.list(&meta, items)),
    }
}

/// Deletes objects as they were listed, many at a time, so that they share durable transactions. An object that is gone
/// by now, or is another one by the same name, is left alone. What fails does not keep the others of its batch: each is
/// seen through to its end, since what it held must be freed.
pub async fn delete_all(
    server: &Shared,
    caller: &Caller,
    resource: &Resource,
    namespace: Option<&str>,
    items: &[Stored],
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<Left> {
    let mut left = Left::default();
    for batch in items.chunks(AT_ONCE) {
        let deletions = batch.iter().map(|item| delete_listed(server, caller, resource, namespace, item, options, now));
        for outcome in join_all(deletions.collect::<Vec<_>>()).await {
            match outcome {
                Ok(Deleted::Gone { .. }) => {}
                Ok(Deleted::Going(object)) => left.going.push(object),
                Err(failure) if failure.code == StatusCode::NOT_FOUND => {}
                Err(failure) if failure.code == StatusCode::CONFLICT && options.uid.is_none() => {}
                Err(failure) if failure.is_protection() => left.protected.push(failure),
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(left)
}

async fn delete_listed(
    server: &Shared,
    caller: &Caller,
    resource: &Resource,
    namespace: Option<&str>,
    item: &Stored,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<Deleted> {
    let metadata = item.metadata();
    let uid = options.uid.clone().unwrap_or_else(|| text_at(&metadata, &["uid"]).to_owned());
    let this_one = DeleteOptions { uid: Some(uid), ..options.clone() };
    delete_object(server, caller, resource, namespace, text_at(&metadata, &["name"]), &this_one, now).await
}

fn options(server: &Shared, call: &Call) -> Result<DeleteOptions> {
    if call.body.is_empty() {
        return DeleteOptions::parse(&call.query, None);
    }
    let body = call.decode(server, "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")?;
    DeleteOptions::parse(&call.query, Some(&body))
}

/// What became of a deleted object.
#[derive(Debug)]
pub enum Deleted {
    Gone {
        uid: String,
        last: Stored,
    },
    /// Something still holds it.
    Going(Stored),
}

/// What is left of objects that were deleted together.
#[derive(Debug, Default)]
pub struct Left {
    /// Something still holds these.
    pub going: Vec<Stored>,
    /// Why others are not deleted while they are marked.
    pub protected: Vec<Failure>,
}

/// Deletes one object, or marks it for deletion where something still holds it.
pub async fn delete_object(
    server: &Shared,
    caller: &Caller,
    resource: &Resource,
    namespace: Option<&str>,
    name: &str,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<Deleted> {
    loop {
        let current = read(server, resource, namespace, name).await?;
        let old = resource.value(&current);
        check_preconditions(resource, name, &old, &current, options)?;
        admission::admit(server, &Change::deletion(caller, resource, namespace, name, &old)).await?;
        let decision = if resource.is_namespaces() {
            decide_namespace(resource, name, &old, now)?
        } else if resource.is_definitions() {
            custom_resource_definition::decide_deletion(&old, now)
        } else {
            deletion::decide(resource.behaviour.as_ref(), resource.rules, &old, options, now)
        };
        let (value, answer, gone) = match decision {
            Deletion::Keep => {
                if resource.is_namespaces() {
                    server.namespaces.empty(name);
                }
                return Ok(Deleted::Going(current));
            }
            Deletion::Remove(last) => (None, object::encode_answer(&last, current.record()), true),
            Deletion::Mark(mut marked) => {
                admission::stamp(resource, caller, Some(&old), &mut marked);
                let limit = object_size::limit_for_server(current.size());
                let bytes = object::encode(&marked, current.record(), limit)
                    .map_err(|too_large| Failure::object_too_large(resource, name, too_large))?;
                (Some(bytes.clone()), bytes, false)
            }
        };
        let uid = text_at(&old, &["metadata", "uid"]).to_owned();
        let finish = |last| if gone { Deleted::Gone { uid, last } } else { Deleted::Going(last) };
        if options.dry_run {
            return Ok(finish(Stored::new(answer, current.revision())));
        }
        let commit = Commit { key: resource.key(namespace, name), value, expected: unchanged(&current) };
        if let Written::Done(last) = write(server, commit, |revision| Stored::new(answer, revision)).await? {
            if gone {
                removed(server, resource, namespace, &old);
            } else if resource.is_namespaces() {
                server.namespaces.empty(name);
            }
            return Ok(finish(last));
        }
    }
}

/// What is freed, and who is told, when an object is gone.
pub(super) fn removed(server: &Shared, resource: &Resource, namespace: Option<&str>, old: &Value) {
    services::release(server, resource, old);
    server.definitions.object_removed(server, resource);
    if let Some(namespace) = namespace {
        server.namespaces.object_removed(namespace);
    }
}

/// A namespace stays until it is empty; a few stay for ever.
fn decide_namespace(resource: &Resource, name: &str, old: &Value, now: Timestamp) -> Result<Deletion> {
    if let Some(why) = namespace::deletion_refusal(name) {
        return Err(Failure::forbidden(resource, name, why));
    }
    let mut marked = old.clone();
    deletion::mark_namespace(&mut marked, now);
    Ok(if deletion::is_released(&marked) {
        Deletion::Remove(marked)
    } else if marked == *old {
        Deletion::Keep
    } else {
        Deletion::Mark(marked)
    })
}

fn check_preconditions(
    resource: &Resource,
    name: &str,
    old: &Value,
    current: &Stored,
    options: &DeleteOptions,
) -> Result<()> {
    let uid = text_at(old, &["metadata", "uid"]);
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        );
        return Err(Failure::precondition(resource, name, &why));
    }
    let revision = current.revision().to_string();
    if let Some(wanted) = options.revision.as_deref().filter(|wanted| *wanted != revision) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
        );
        return Err(Failure::precondition(resource, name, &why));
    }
    Ok(())
}
