//! Replacing an object, and what updates and patches share.

use http::StatusCode;
use serde_json::Value;
use setpoint_store::{At, Commit, Entry};

use super::create::{create_by_update, insert};
use super::{Written, services, unchanged, write};
use crate::admission;
use crate::apply::{Managers, Writer};
use crate::audit;
use crate::deletion;
use crate::failure::{Failure, Result};
use crate::kind::Part;
use crate::negotiate;
use crate::object::{self, Stored};
use crate::object_size;
use crate::query::WriteOptions;
use crate::record;
use crate::registry::{Resource, text_at};
use crate::render::Renderer;
use crate::response::{self, Response};
use crate::server::{Call, Shared};
use crate::write::{self as pipeline, Decoded};
use setpoint_api::field::{Errors, Node, Path};

/// How often a write that names no revision is tried again when others write the same object.
const TRIES: usize = 32;

pub(super) async fn update(server: &Shared, call: Call) -> Result<Response> {
    let renderer = Renderer::new(call.resource.clone(), negotiate::form(&call.headers)?, &call.query, call.now)?;
    let options = WriteOptions::parse(&call.query, "UpdateOptions", call.resource.field_validation())?;
    let body = negotiate::body(&call.headers, &call.body)?;
    let decoded = pipeline::decode(&call.resource, body, options.field_validation)?;
    let change = |_: Option<&Current>| {
        Ok(Change::Update(Decoded { object: decoded.object.clone(), warnings: decoded.warnings.clone() }))
    };
    let changed = change_object(server, &call, &options, Source::Update, change).await?;
    Ok(changed.response(&renderer))
}

/// Where a changed object comes from. They differ in how a name or uid that does not fit is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Update,
    Patch,
    /// A patch that makes the object if there is none.
    Apply,
}

/// The object that is to be changed.
pub(super) struct Current {
    pub stored: Stored,
    /// In the form it is stored in, without the record of who owns its fields.
    pub object: Value,
}

/// What is to become of an object.
pub(super) enum Change {
    /// The writer owns what is different.
    Update(Decoded),
    /// It is settled who owns what.
    Recorded(Decoded, Vec<u8>),
    /// It stays as it is.
    Nothing { warnings: Vec<String> },
}

/// An object after a write.
pub(super) struct Changed {
    pub stored: Stored,
    pub created: bool,
    pub warnings: Vec<String>,
    /// What the audit log is told beyond that it was written.
    pub refused_review: Option<audit::RefusedReview>,
}

impl Changed {
    pub(super) fn response(self, renderer: &Renderer) -> Response {
        let code = if self.created { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = renderer.object(code, &self.stored);
        if let Some(refused) = self.refused_review {
            response.extensions_mut().insert(refused);
        }
        response::warn(&mut response, self.warnings);
        response
    }
}

/// Reads the object, lets `change` make the new one from it, and stores that; again from the start if somebody else
/// wrote in between and the writer did not insist on a revision.
pub(super) async fn change_object(
    server: &Shared,
    call: &Call,
    options: &WriteOptions,
    source: Source,
    change: impl FnMut(Option<&Current>) -> Result<Change>,
) -> Result<Changed> {
    let key = call.resource.key(call.namespace(), call.name());
    let found = server.store.get(&key, At::Now).await?.value;
    change_found(server, call, options, source, found, change).await
}

/// The same for an object that this request has already read, or has not found.
pub(super) async fn change_found(
    server: &Shared,
    call: &Call,
    options: &WriteOptions,
    source: Source,
    found: Option<Entry>,
    mut change: impl FnMut(Option<&Current>) -> Result<Change>,
) -> Result<Changed> {
    let resource = &call.resource;
    let subresource = call.path.subresource.as_deref().and_then(|name| resource.subresource(name));
    let part = subresource.map_or(Part::Main, |subresource| subresource.part());
    let key = resource.key(call.namespace(), call.name());
    let mut first = Some(found);
    for _ in 0..TRIES {
        let found = match first.take() {
            Some(found) => found,
            None => server.store.get(&key, At::Now).await?.value,
        };
        let Some(entry) = found else {
            if source == Source::Patch || source == Source::Apply && part != Part::Main {
                return Err(Failure::not_found(resource, call.name()));
            }
            let (Decoded { object, mut warnings }, record) = match change(None)? {
                Change::Update(decoded) => (decoded, None),
                Change::Recorded(decoded, record) => (decoded, Some(record)),
                Change::Nothing { .. } => return Err(Failure::not_found(resource, call.name())),
            };
            check_name(call, &object)?;
            let created = match record {
                Some(record) => insert(server, call, options, object, Some(record)).await,
                None => create_by_update(server, call, options, object, part).await,
            };
            match created {
                // Somebody else was faster: there is an object to change now.
                Err(failure) if source == Source::Apply && failure.is_already_exists() => continue,
                Err(failure) => return Err(failure),
                Ok((stored, more)) => {
                    warnings.extend(more);
                    return Ok(Changed { stored, created: true, warnings, refused_review: None });
                }
            }
        };
        let stored = Stored::from(&entry);
        let current = Current { object: resource.value(&stored), stored };
        let Current { stored: current_text, object: old } = &current;
        let (Decoded { mut object, mut warnings }, record) = match change(Some(&current))? {
            Change::Update(decoded) => (decoded, None),
            Change::Recorded(decoded, record) => (decoded, Some(record)),
            Change::Nothing { warnings } => {
                return Ok(Changed { stored: current.stored, created: false, warnings, refused_review: None });
            }
        };
        check_name(call, &object)?;
        pipeline::place(resource, call.namespace(), &mut object)?;
        if source == Source::Update {
            check_uid(call, &object, old)?;
        }
        let insists = check_revision(call, &object, current_text, source)?;
        pipeline::complete(resource, &mut object, Some(current_text.size()))?;
        let record = match record {
            Some(record) => record,
            None => record_of_changed(call, options, &mut object, &current, part)?,
        };
        pipeline::begin_update(resource, &mut object, old, part);
        let claim = services::allocate(server, resource, &mut object, Some(old))?;
        warnings.extend(pipeline::finish_update(resource, &mut object, old, part)?);
        warnings.extend(resource.behaviour.warnings(Node::root(&object), Some(old)));
        admission::stamp(resource, &call.caller, Some(old), &mut object);
        let change = admission::Change {
            caller: &call.caller,
            verb: call.verb,
            resource,
            part,
            namespace: call.namespace(),
            path_name: call.name(),
            before: Some(old),
            after: Some(&object),
        };
        admission::admit(server, &change).await?;
        let refused_review = admission::refused_review(resource, old, &object);
        match save(server, call, options, &current, object, record).await? {
            Written::Done(stored) => {
                if !options.dry_run {
                    claim.keep();
                    server.definitions.recheck(server, resource, &key, stored.revision(), false).await?;
                }
                return Ok(Changed { stored, created: false, warnings, refused_review });
            }
            Written::Raced if insists => return Err(Failure::modified(resource, call.name())),
            Written::Raced => {}
        }
    }
    Err(Failure::modified(resource, call.name()))
}

/// Stores the new object, or removes it where the change took away the last thing that kept it.
async fn save(
    server: &Shared,
    call: &Call,
    options: &WriteOptions,
    current: &Current,
    object: Value,
    record: Vec<u8>,
) -> Result<Written> {
    let resource = &call.resource;
    let Current { stored: current, object: old } = current;
    let released = deletion::is_released(&object);
    let same = is_same_object(&object, old) && is_same_but_for_time(&record, current.record());
    if !released && same {
        return Ok(Written::Done(current.clone()));
    }
    let bytes = match released {
        true => object::encode_answer(&object, &record),
        false => {
            let is_being_deleted = object["metadata"]["deletionTimestamp"].is_string();
            object::encode(&object, &record, object_size::limit(Some(current.size()), is_being_deleted))
                .map_err(|too_large| Failure::object_too_large(resource, call.name(), too_large))?
        }
    };
    if !released && current.is(&bytes) {
        return Ok(Written::Done(current.clone()));
    }
    if options.dry_run {
        return Ok(Written::Done(Stored::new(bytes, current.revision())));
    }
    let value = (!released).then(|| bytes.clone());
    let commit = Commit { key: resource.key(call.namespace(), call.name()), value, expected: unchanged(current) };
    let written = write(server, commit, |revision| Stored::new(bytes, revision)).await?;
    if released && let Written::Done(_) = written {
        super::delete::removed(server, resource, call.namespace(), old);
    }
    Ok(written)
}

/// Whether two objects are the same, whatever revision they were read at.
fn is_same_object(a: &Value, b: &Value) -> bool {
    let contains = |a: &Value, b: &Value| {
        let all = |a: &Value, b: &Value, but: &str| {
            a.as_object().into_iter().flatten().all(|(key, value)| key == but || b.get(key) == Some(value))
        };
        all(a, b, "metadata") && all(&a["metadata"], &b["metadata"], "resourceVersion")
    };
    contains(a, b) && contains(b, a)
}

/// A record in which nothing but a time would change stays as it is.
fn is_same_but_for_time(a: &[u8], b: &[u8]) -> bool {
    a == b || Managers::parse(a).equals_but_for_time(&Managers::parse(b))
}

fn record_of_changed(
    call: &Call,
    options: &WriteOptions,
    object: &mut Value,
    current: &Current,
    part: Part,
) -> Result<Vec<u8>> {
    let (manager, now) = (record::manager(&options.manager, &call.headers), deletion::seconds(call.now));
    let (api_version, subresource) = (call.resource.api_version(), record::subresource(part));
    let writer = Writer { manager: &manager, api_version: &api_version, subresource, now: &now };
    record::of_changed(&call.resource, object, &current.object, current.stored.record(), part, &writer)
}

fn check_name(call: &Call, object: &Value) -> Result<()> {
    let name = text_at(object, &["metadata", "name"]);
    if name == call.name() {
        return Ok(());
    }
    if name.is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    Err(Failure::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({})",
        call.name()
    )))
}

/// An update that names another uid is meant for another object of the same name.
fn check_uid(call: &Call, object: &Value, old: &Value) -> Result<()> {
    let (given, found) = (text_at(object, &["metadata", "uid"]), text_at(old, &["metadata", "uid"]));
    if given.is_empty() || given == found {
        return Ok(());
    }
    let namespace = call.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{namespace}{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {given}, UID in object meta: {found}",
        call.resource.plural,
        call.name(),
    );
    Err(Failure::conflict(&call.resource, call.name(), &why))
}

/// Whether the writer insists on the revision it read; an error if that is not the current one.
fn check_revision(call: &Call, object: &Value, current: &Stored, source: Source) -> Result<bool> {
    let given = text_at(object, &["metadata", "resourceVersion"]);
    let now = current.revision().to_string();
    if given.is_empty() || given == "0" {
        // A Scale is a view of an object, and may be written without having been read.
        let scales = call.path.subresource.as_deref() == Some("scale");
        if call.resource.rules.needs_revision && source == Source::Update && !scales {
            let mut errors = Errors::default();
            errors.invalid(&Path::of("metadata.resourceVersion"), 0, "must be specified for an update");
            let Resource { group, plural, .. } = call.resource.as_ref();
            return Err(Failure::invalid_kind(group, plural, call.name(), errors));
        }
        return Ok(false);
    }
    if given != now {
        return Err(Failure::modified(&call.resource, call.name()));
    }
    // A patched object has the revision it was read at unless the patch names another, which was refused above; so a
    // patch never insists, and is applied again to what it lost against.
    Ok(source == Source::Update)
}
