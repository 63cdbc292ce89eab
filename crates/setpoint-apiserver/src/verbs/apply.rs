//! Applying a configuration: making an object, or changing it, so that it is as somebody wants it.

use http::StatusCode;
use serde_json::Value;
use setpoint_store::At;

use super::update::{Change, Current, Source, change_found};
use crate::apply::{self, Applied, Managers, Refusal, Subject, Writer, keep_last_applied};
use crate::deletion::seconds;
use crate::failure::{Failure, Result};
use crate::kind::Part;
use crate::object::Stored;
use crate::query::{FieldValidation, WriteOptions};
use crate::record;
use crate::registry::{Resource, text_at};
use crate::render::Renderer;
use crate::response::Response;
use crate::schema::Body;
use crate::server::{Call, Shared};
use crate::settled::Attempt;
use crate::write::{self, Decoded};
use setpoint_api::field::Node;

/// What somebody wants an object to be, as far as they care.
#[derive(Debug)]
pub(super) struct Configuration {
    pub value: Value,
    pub warnings: Vec<String>,
    /// There is something to remark on it, whether or not its writer wants to be told.
    pub remarkable: bool,
}

impl Configuration {
    /// Reads the configuration of an object of this resource.
    pub(super) fn read(call: &Call, resource: &Resource, validation: FieldValidation) -> Result<Configuration> {
        let decoded = decode(&call.body)?;
        let remarkable = !decoded.warnings.is_empty();
        let warnings = match validation {
            FieldValidation::Ignore => Vec::new(),
            FieldValidation::Strict if remarkable => {
                let faults = decoded.warnings.join(", ");
                return Err(Failure::bad_request(format!("error strict decoding patch: {faults}")));
            }
            _ => decoded.warnings,
        };
        let value = decoded.object;
        let (version, kind) = (text_at(&value, &["apiVersion"]), text_at(&value, &["kind"]));
        if kind != resource.kind || version != resource.api_version() {
            return Err(Failure::bad_request(format!("invalid object type: {}", shown_type(version, kind))));
        }
        if value["metadata"].get("managedFields").is_some_and(|record| !record.is_null()) {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        Ok(Configuration { value, warnings, remarkable })
    }

    /// Applies it to an object as it is served. `record` is who owns what of it.
    pub(super) fn apply(
        &self,
        live: &Value,
        record: &[u8],
        subject: &Subject<'_>,
        writer: &Writer<'_>,
        force: bool,
    ) -> Result<Applied> {
        let run = |force| apply::apply(live, &self.value, record, subject, writer, force);
        let applied = match run(force) {
            Err(Refusal::Conflicts(conflicts)) => {
                let left =
                    apply::without_conflicts_of_last_applied(writer.manager, conflicts, live, subject.object_type);
                if left.is_empty() { run(true) } else { Err(Refusal::Conflicts(left)) }
            }
            applied => applied,
        };
        applied.map_err(|refusal| match refusal {
            Refusal::Conflicts(conflicts) => Failure::owned_by_others(&conflicts),
            Refusal::Malformed(fault) => Failure::bad_request(format!(
                "failed to create typed patch object ({}/{}; {}): {fault}",
                text_at(&self.value, &["metadata", "namespace"]),
                text_at(&self.value, &["metadata", "name"]),
                shown_type(text_at(&self.value, &["apiVersion"]), text_at(&self.value, &["kind"])),
            )),
        })
    }
}

/// A configuration is YAML; one that is JSON is read as such, which is faster.
fn decode(body: &[u8]) -> Result<Decoded> {
    let malformed = |why: &str| Failure::bad_request(format!("error decoding YAML: {why}"));
    let json = body.trim_ascii_start().starts_with(b"{").then(|| Body::json(body).decode_any());
    let decoded = match json {
        Some(Ok(decoded)) => decoded,
        _ => Body::yaml(body).decode_any().map_err(|error| malformed(&error.to_string()))?,
    };
    if !decoded.object.is_object() {
        return Err(malformed("an object is needed"));
    }
    Ok(Decoded { object: decoded.object, warnings: decoded.remarks })
}

/// A kind as messages about configurations have it: `apps/v1, Kind=Deployment`.
fn shown_type(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

pub(super) async fn apply(
    server: &Shared,
    call: &Call,
    options: &WriteOptions,
    renderer: &Renderer,
) -> Result<Response> {
    let resource = call.resource.as_ref();
    let subresource = call.path.subresource.as_deref().and_then(|name| resource.subresource(name));
    let part = subresource.map_or(Part::Main, |subresource| subresource.part());
    let key = resource.key(call.namespace(), call.name());
    let attempt = Attempt::new(&call.resource, &key, &options.manager, record::subresource(part), &call.body);
    let found = server.store.get(&key, At::Now).await?.value;
    if let Some(entry) = found.as_ref().filter(|entry| server.settled.knows(&attempt, entry.revision)) {
        return Ok(renderer.object(StatusCode::OK, &Stored::from(entry)));
    }
    let config = Configuration::read(call, resource, options.field_validation)?;
    let subject = record::subject(resource, part);
    let (api_version, now) = (resource.api_version(), seconds(call.now));
    let writer = Writer {
        manager: &options.manager,
        api_version: &api_version,
        subresource: record::subresource(part),
        now: &now,
    };
    let change = |current: Option<&Current>| {
        let mut warnings = config.warnings.clone();
        let Some(Current { stored, object: old }) = current else {
            return create(call, &config, &subject, &writer)
                .map(|(object, record)| Change::Recorded(Decoded { object, warnings }, record));
        };
        let live = record::served(resource, old);
        let Applied { object, managers } = config.apply(&live, stored.record(), &subject, &writer, options.force)?;
        let Some(mut managers) = managers else {
            warnings.extend(resource.behaviour.warnings(Node::root(old), Some(old)));
            // What is known to change nothing is answered without a word.
            if warnings.is_empty() && !config.remarkable {
                server.settled.learn(&attempt, stored.revision());
            }
            return Ok(Change::Nothing { warnings });
        };
        let object = match object {
            Some(object) => merged(resource, object, &config, &options.manager)?,
            None => old.clone(),
        };
        Ok(Change::Recorded(Decoded { object, warnings }, managers.text()))
    };
    let changed = change_found(server, call, options, Source::Apply, found, change).await?;
    Ok(changed.response(renderer))
}

/// The object that a configuration makes where there is none, and who owns what of it.
fn create(call: &Call, config: &Configuration, subject: &Subject<'_>, writer: &Writer<'_>) -> Result<(Value, Vec<u8>)> {
    let resource = &call.resource;
    let Applied { object, managers } = config.apply(subject.empty, b"", subject, writer, false)?;
    let object = object.unwrap_or_else(|| config.value.clone());
    let mut object = merged(resource, object, config, writer.manager)?;
    if let Some(uid) = object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
        let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
        return Err(Failure::conflict(resource, call.name(), &why));
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    Ok((object, managers.unwrap_or_else(Managers::default).text()))
}

/// A merged object in the form it is stored in.
fn merged(resource: &Resource, mut object: Value, config: &Configuration, manager: &str) -> Result<Value> {
    keep_last_applied(manager, &mut object, &config.value);
    write::decode_patched(resource, &object, FieldValidation::Ignore).map(|decoded| decoded.object)
}
