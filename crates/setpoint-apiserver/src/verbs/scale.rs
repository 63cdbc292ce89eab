//! The `scale` subresource: an object's replica count in a shape that all scalable kinds share.

use http::StatusCode;
use serde_json::{Value, json};

use super::patch::Patch;
use super::read;
use super::update::{Source, apply};
use crate::failure::{Failure, Result};
use crate::kinds::scale::{scale_of, set_scale, validate_scale};
use crate::negotiate;
use crate::query::WriteOptions;
use crate::registry::text_at;
use crate::request::Verb;
use crate::response::{self, Response};
use crate::server::{Call, Shared};
use crate::write::{self, Decoded};
use setpoint_api::field::{Errors, Node};

pub(super) async fn get(server: &Shared, call: Call) -> Result<Response> {
    let form = negotiate::form(&call.headers)?;
    let stored = read(server, &call.resource, call.namespace(), call.name()).await?;
    let scale = scale_of(&call.resource.value(&stored));
    Ok(response::encoded(StatusCode::OK, form.encoding, scale.to_string().into_bytes()))
}

pub(super) async fn write(server: &Shared, call: Call) -> Result<Response> {
    let form = negotiate::form(&call.headers)?;
    let kind = if call.verb == Verb::Patch { "PatchOptions" } else { "UpdateOptions" };
    let options = WriteOptions::parse(&call.query, kind)?;
    let resource = &server.scale;
    let input = match call.verb {
        Verb::Patch => Input::Patch(Patch::read(&call)?),
        _ => {
            let body = negotiate::body(&call.headers, &call.body)?;
            Input::Object(write::decode(resource, body, options.field_validation)?.object)
        }
    };
    let change = |old: Option<&Value>| {
        let old = old.ok_or_else(|| Failure::not_found(&call.resource, call.name()))?;
        let current = scale_of(old);
        let scale = match &input {
            Input::Object(scale) => scale.clone(),
            Input::Patch(patch) => patch.apply(resource, &current, options.field_validation)?.object,
        };
        check_identity(&call, &scale, &current)?;
        let mut errors = Errors::default();
        validate_scale(Node::root(&scale), &mut errors);
        if !errors.is_empty() {
            return Err(Failure::invalid(resource, call.name(), errors));
        }
        let mut object = old.clone();
        set_scale(&mut object, &scale);
        object["metadata"]["resourceVersion"] = scale["metadata"]["resourceVersion"].clone();
        Ok(Decoded { object, warnings: Vec::new() })
    };
    let source = if call.verb == Verb::Patch { Source::Patch } else { Source::Update };
    let changed = apply(server, &call, &options, source, change).await?;
    let scale = scale_of(&call.resource.value(&changed.stored));
    Ok(response::encoded(StatusCode::OK, form.encoding, scale.to_string().into_bytes()))
}

enum Input {
    Object(Value),
    Patch(Patch),
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
