//! Changing an object by saying what is different.

use memchr::memmem;
use serde_json::Value;

use super::apply;
use super::update::{Change, Current, Source, change_object};
use crate::failure::{Failure, Result};
use crate::negotiate;
use crate::patch::{JsonPatch, PatchError, merge, strategic_merge};
use crate::query::{FieldValidation, WriteOptions};
use crate::registry::Resource;
use crate::render::Renderer;
use crate::response::Response;
use crate::schema::Body;
use crate::server::{Call, Shared};
use crate::write::{self, Decoded};

/// A patch, read from a body.
#[derive(Debug)]
pub(super) enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

/// Whether a patch is an apply.
pub(super) fn is_apply(call: &Call) -> bool {
    negotiate::media_type(&call.headers) == "application/apply-patch+yaml"
}

impl Patch {
    /// Reads the patch that a request carries, if it is no apply.
    pub(super) fn read(call: &Call) -> Result<Patch> {
        let media_type = negotiate::media_type(&call.headers);
        if !matches!(
            media_type,
            "application/json-patch+json" | "application/merge-patch+json" | "application/strategic-merge-patch+json"
        ) {
            return Err(Failure::unsupported_patch());
        }
        // How its lists are merged is not known of a custom resource. A Scale is not one.
        let custom = call.resource.custom.is_some() && call.path.subresource.as_deref() != Some("scale");
        if custom && media_type == "application/strategic-merge-patch+json" {
            return Err(Failure::unsupported_custom_patch());
        }
        let malformed = |why: &str| Failure::bad_request(format!("error decoding patch: {why}"));
        let body = Body::json(&call.body).decode_any().map_err(|error| malformed(&error.to_string()))?.object;
        match media_type {
            "application/json-patch+json" => JsonPatch::parse(body).map(Patch::Json).map_err(failed),
            _ if !body.is_object() => Err(malformed("an object is needed")),
            "application/merge-patch+json" => Ok(Patch::Merge(body)),
            _ => Ok(Patch::Strategic(body)),
        }
    }

    /// The object with the patch applied, checked against its schema.
    pub(super) fn apply(&self, resource: &Resource, old: &Value, validation: FieldValidation) -> Result<Decoded> {
        let served = resource.behaviour.to_served(old.clone());
        let patched = match self {
            Patch::Json(patch) => patch.apply(served).map_err(failed)?,
            Patch::Merge(patch) => merge(served, patch.clone()),
            Patch::Strategic(patch) => strategic_merge(served, patch.clone(), &resource.schema).map_err(failed)?,
        };
        write::decode_patched(resource, &patched, validation)
    }
}

pub(super) async fn patch(server: &Shared, call: Call) -> Result<Response> {
    let renderer = Renderer::new(call.resource.clone(), negotiate::form(&call.headers)?, &call.query, call.now)?;
    let options = WriteOptions::of_patch(&call.query, is_apply(&call), call.resource.field_validation())?;
    if is_apply(&call) {
        return apply::apply(server, &call, &options, &renderer).await;
    }
    let patch = Patch::read(&call)?;
    // The record of who owns which field is part of the object for a patch that speaks of it, and for no other.
    let names_record = memmem::find(&call.body, b"managedFields").is_some();
    let change = |current: Option<&Current>| {
        let current = current.ok_or_else(|| Failure::not_found(&call.resource, call.name()))?;
        let whole = names_record.then(|| call.resource.whole_value(&current.stored));
        let old = whole.as_ref().unwrap_or(&current.object);
        patch.apply(&call.resource, old, options.field_validation).map(Change::Update)
    };
    let changed = change_object(server, &call, &options, Source::Patch, change).await?;
    Ok(changed.response(&renderer))
}

fn failed(error: PatchError) -> Failure {
    match error {
        PatchError::Malformed(why) => Failure::bad_request(format!("error decoding patch: {why}")),
        PatchError::Inapplicable(_) => Failure::unpatchable(),
        PatchError::TooLarge(why) => Failure::patch_too_large(&why),
    }
}
