//! Reading one object, as it is or as it was.

use http::StatusCode;
use setpoint_store::At;

use crate::custom;
use crate::failure::{Failure, Result};
use crate::negotiate;
use crate::object::Stored;
use crate::query::{self, Query};
use crate::render::Renderer;
use crate::response::Response;
use crate::server::{Call, Shared};

pub(super) async fn get(server: &Shared, call: Call) -> Result<Response> {
    let form = negotiate::form(&call.headers)?;
    let at = state(server, &call.query)?;
    let resource = custom::resource_at(server, &call.resource, at).await?;
    let renderer = Renderer::new(resource, form, &call.query, call.now)?;
    Ok(renderer.object(StatusCode::OK, &read(server, &call, at).await?))
}

/// The state of the store that a get is read from. Only `Exact` names an earlier one; anything else, and `Exact` of no
/// revision, is ignored as in Kubernetes.
pub(super) fn state(server: &Shared, query: &Query) -> Result<At> {
    let wanted = query::get_revision(query)?;
    let newest = server.store.revision();
    if wanted > newest {
        return Err(Failure::revision_too_large(wanted, newest));
    }
    let exact = wanted > 0 && query.text("resourceVersionMatch") == "Exact";
    Ok(if exact { At::Revision(wanted) } else { At::Now })
}

/// The object that a call names, in that state.
pub(super) async fn read(server: &Shared, call: &Call, at: At) -> Result<Stored> {
    let key = call.resource.key(call.namespace(), call.name());
    let entry = server.store.get(&key, at).await?.value;
    entry.as_ref().map(Stored::from).ok_or_else(|| Failure::not_found(&call.resource, call.name()))
}
