//! The `scale` subresource: an object's replica count in a shape that all scalable kinds share.

use http::StatusCode;
use serde_json::{Value, json};

use super::apply::Configuration;
use super::get;
use super::patch::{Patch, is_apply};
use super::update::{Change, Current, Source, change_object};
use crate::apply::{Applied, Ignored, Managers, Subject, Writer, from_scale, to_scale, update};
use crate::custom;
use crate::deletion::seconds;
use crate::failure::{Failure, Result};
use crate::kinds::scale::{Replicas, scale_of, set_scale, validate_scale};
use crate::negotiate;
use crate::query::WriteOptions;
use crate::record;
use crate::registry::text_at;
use crate::request::Verb;
use crate::response::{self, Response};
use crate::server::{Call, Shared};
use crate::write::{self, Decoded};
use setpoint_api::field::{Errors, Node};

/// The version of the Scale that is read and written.
const VERSION: &str = "autoscaling/v1";

pub(super) async fn get(server: &Shared, call: Call) -> Result<Response> {
    let form = negotiate::form(&call.headers)?;
    let at = get::state(server, &call).await?;
    let resource = custom::resource_at(server, &call.resource, at).await?;
    let stored = get::read(server, &call, at).await?;
    let scale = scale_of(&resource.value(&stored), Replicas::of(&resource)).map_err(Failure::bad_request)?;
    Ok(response::encoded(StatusCode::OK, form.encoding, scale.to_string().into_bytes()))
}

pub(super) async fn write(server: &Shared, call: Call) -> Result<Response> {
    let form = negotiate::form(&call.headers)?;
    let applies = call.verb == Verb::Patch && is_apply(&call);
    let options = match call.verb {
        Verb::Patch => WriteOptions::of_patch(&call.query, applies, call.resource.field_validation())?,
        _ => WriteOptions::parse(&call.query, "UpdateOptions", call.resource.field_validation())?,
    };
    let resource = &server.scale;
    let replicas = Replicas::of(&call.resource);
    let path = replicas.path();
    let input = match call.verb {
        Verb::Patch if applies => Input::Apply(Configuration::read(&call, resource, options.field_validation)?),
        Verb::Patch => Input::Patch(Patch::read(&call)?),
        _ => {
            let body = negotiate::body(&call.headers, &call.body)?;
            Input::Object(write::decode(resource, body, options.field_validation)?.object)
        }
    };
    let (manager, now) = (record::manager(&options.manager, &call.headers), seconds(call.now));
    let writer = Writer { manager: &manager, api_version: VERSION, subresource: "scale", now: &now };
    let change = |current: Option<&Current>| {
        let Some(Current { stored, object: old }) = current else {
            return Err(Failure::not_found(&call.resource, call.name()));
        };
        let current = scale_of(old, replicas).map_err(Failure::bad_request)?;
        let managers = Managers::parse(stored.record());
        let mut owners = to_scale(&managers, &path, VERSION);
        let subject = Subject {
            object_type: resource.schema.root(),
            empty: &resource.empty,
            ignored: Ignored::NOTHING,
            version_bound: false,
        };
        let scale = match &input {
            Input::Object(scale) => scale.clone(),
            Input::Patch(patch) => patch.apply(resource, &current, options.field_validation)?.object,
            Input::Apply(config) => {
                let applied = config.apply(&current, &owners.text(), &subject, &writer, options.force)?;
                let Applied { object, managers } = applied;
                owners = managers.unwrap_or(owners);
                let merged = object.unwrap_or_else(|| current.clone());
                write::decode_patched(resource, &merged, options.field_validation)?.object
            }
        };
        if !applies && !owners.0.is_empty() {
            update(&mut owners, subject.compare(&current, &scale), &subject, &writer);
        }
        check_identity(&call, &scale, &current)?;
        let mut errors = Errors::default();
        // A custom object is checked as a whole.
        if matches!(replicas, Replicas::BuiltIn) {
            validate_scale(Node::root(&scale), &mut errors);
        }
        if !errors.is_empty() {
            return Err(Failure::invalid(resource, call.name(), errors));
        }
        let mut object = old.clone();
        set_scale(&mut object, &scale, replicas);
        object["metadata"]["resourceVersion"] = scale["metadata"]["resourceVersion"].clone();
        let mut managers = from_scale(managers, owners, &path, &call.resource.api_version());
        Ok(Change::Recorded(Decoded { object, warnings: Vec::new() }, managers.text()))
    };
    let source = if call.verb == Verb::Patch { Source::Patch } else { Source::Update };
    let changed = change_object(server, &call, &options, source, change).await?;
    let scale = scale_of(&call.resource.value(&changed.stored), replicas).map_err(Failure::bad_request)?;
    Ok(response::encoded(StatusCode::OK, form.encoding, scale.to_string().into_bytes()))
}

enum Input {
    Object(Value),
    Patch(Patch),
    Apply(Configuration),
}

fn check_identity(call: &Call, scale: &Value, current: &Value) -> Result<()> {
    let name = text_at(scale, &["metadata", "name"]);
    if !name.is_empty() && name != call.name() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name()
        )));
    }
    let (given, found) = (&scale["metadata"]["uid"], &current["metadata"]["uid"]);
    if !given.is_null() && *given != json!("") && given != found {
        let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {found}");
        return Err(Failure::conflict(&call.resource, call.name(), &why));
    }
    Ok(())
}
