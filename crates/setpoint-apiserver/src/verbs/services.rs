//! The addresses and ports of Services: taken when one is written, given back when it goes.

use parking_lot::Mutex;
use serde_json::Value;
use setpoint_store::{At, Range};

use crate::failure::{Failure, Result};
use crate::kinds::service::{self, Refusal};
use crate::object::Stored;
use crate::registry::{Resource, text_at};
use crate::server::Shared;
use crate::service_ip::{Allocator, Claim};

/// Takes note of what stored Services use.
pub async fn learn_addresses(server: &Shared) -> Result<()> {
    let resource = server.registry().built_in("", "v1", "services");
    let scope = resource.directory(None);
    let page = server.store.range(Range { scope: &scope, after: None, limit: 0, at: At::Now }).await?;
    let mut allocator = server.services.lock();
    for entry in &page.entries {
        service::seed(&resource.value(&Stored::from(entry)), &mut allocator);
    }
    Ok(())
}

/// What a write took for a Service. Given back when this is dropped, unless the write is kept.
#[must_use = "what a write takes is given back unless it is kept"]
pub(super) struct Taken<'s> {
    services: &'s Mutex<Allocator>,
    claim: Option<Claim>,
}

impl Taken<'_> {
    /// The write took place: what it took stays taken, what it no longer needs is free.
    pub(super) fn keep(mut self) {
        if let Some(claim) = self.claim.take() {
            self.services.lock().commit(claim);
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.services.lock().revert(claim);
        }
    }
}

/// Gives a Service the addresses and ports it asks for or needs. Takes nothing for other kinds.
pub(super) fn allocate<'s>(
    server: &'s Shared,
    resource: &Resource,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<Taken<'s>> {
    let services = &server.services;
    if !is_service(resource) {
        return Ok(Taken { services, claim: None });
    }
    let allocated = service::allocate(object, old, &mut services.lock(), &mut || server.surroundings.random());
    let claim = allocated.map_err(|refusal| match refusal {
        Refusal::Invalid(errors) => Failure::invalid(resource, text_at(object, &["metadata", "name"]), errors),
        Refusal::Exhausted(why) => Failure::unavailable(why),
    })?;
    Ok(Taken { services, claim: Some(claim) })
}

/// Gives back what a deleted Service used.
pub(super) fn release(server: &Shared, resource: &Resource, object: &Value) {
    if is_service(resource) {
        service::release(object, &mut server.services.lock());
    }
}

fn is_service(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "services"
}
