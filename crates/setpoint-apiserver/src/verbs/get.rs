//! Reading one object.

use http::StatusCode;
use setpoint_store::At;

use crate::failure::{Failure, Result};
use crate::negotiate;
use crate::object::Stored;
use crate::query;
use crate::render::Renderer;
use crate::response::Response;
use crate::server::{Call, Shared};

pub(super) async fn get(server: &Shared, call: Call) -> Result<Response> {
    let renderer = Renderer::new(call.resource.clone(), negotiate::form(&call.headers)?, &call.query, call.now)?;
    let wanted = query::get_revision(&call.query)?;
    let exact = wanted > 0 && call.query.text("resourceVersionMatch") == "Exact";
    let newest = server.store.revision();
    if wanted > newest {
        return Err(Failure::revision_too_large(wanted, newest));
    }
    let key = call.resource.key(call.namespace(), call.name());
    let entry = server.store.get(&key, if exact { At::Revision(wanted) } else { At::Now }).await?.value;
    let stored = entry.as_ref().map(Stored::from).ok_or_else(|| Failure::not_found(&call.resource, call.name()))?;
    Ok(renderer.object(StatusCode::OK, &stored))
}
