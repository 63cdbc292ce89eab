//! Reading one object, as it is or as it was.

use http::StatusCode;
use setpoint_store::At;

use super::past;
use crate::custom;
use crate::failure::{Failure, Result};
use crate::negotiate;
use crate::object::Stored;
use crate::query;
use crate::render::Renderer;
use crate::response::Response;
use crate::server::{Call, Shared};

pub(super) async fn get(server: &Shared, call: Call) -> Result<Response> {
    let form = negotiate::form(&call.headers)?;
    let at = state(server, &call).await?;
    let resource = custom::resource_at(server, &call.resource, at).await?;
    let renderer = Renderer::new(resource, form, &call.query, call.now)?;
    Ok(renderer.object(StatusCode::OK, &read(server, &call, at).await?))
}

/// The state of the store that a get is read from. Only `Exact` names an earlier one; anything else, and `Exact` of no
/// revision, is ignored as in Kubernetes.
pub(super) async fn state(server: &Shared, call: &Call) -> Result<At> {
    let wanted = query::get_revision(&call.query)?;
    let newest = server.store.revision();
    if wanted > newest {
        return Err(Failure::revision_too_large(wanted, newest));
    }
    if wanted == 0 || call.query.text("resourceVersionMatch") != "Exact" {
        return Ok(At::Now);
    }
    past::check(server, call, wanted).await?;
    Ok(At::Revision(wanted))
}

/// The object that a call names, in that state.
pub(super) async fn read(server: &Shared, call: &Call, at: At) -> Result<Stored> {
    let key = call.resource.key(call.namespace(), call.name());
    let entry = server.store.get(&key, at).await?.value;
    entry.as_ref().map(Stored::from).ok_or_else(|| Failure::not_found(&call.resource, call.name()))
}
