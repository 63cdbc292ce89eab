//! The addresses and ports of Services: taken when one is written, given back when it goes.

use parking_lot::Mutex;
use serde_json::Value;
use setpoint_store::{At, Range};

use crate::failure::{Failure, Result};
use crate::object::Stored;
use crate::registry::Resource;
use crate::server::Shared;
use crate::service_ip::{Allocator, allocate_service, release_service};

/// Takes note of what stored Services use.
pub async fn learn_addresses(server: &Shared) -> Result<()> {
    let resource = server.registry.built_in("", "v1", "services");
    let scope = resource.directory(None);
    let page = server.store.range(Range { scope: &scope, after: None, limit: 0, at: At::Now }).await?;
    let mut allocator = server.services.lock();
    for entry in &page.entries {
        allocator.learn(&resource.value(&Stored::from(entry)));
    }
    Ok(())
}

/// What a write took. Given back unless the write is kept; what the write no longer needs is given back if it is.
#[must_use]
pub struct Lease<'s> {
    services: Option<&'s Mutex<Allocator>>,
    new: Value,
    old: Option<Value>,
}

impl Lease<'_> {
    /// The write took place.
    pub fn keep(mut self) {
        if let (Some(services), Some(old)) = (self.services.take(), &self.old) {
            services.lock().release_difference(old, &self.new);
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(services) = self.services else { return };
        match &self.old {
            Some(old) => services.lock().release_difference(&self.new, old),
            None => release_service(&self.new, &mut services.lock()),
        }
    }
}

/// Gives a Service the addresses and ports it asks for or needs. Does nothing for other kinds.
pub fn allocate<'s>(
    server: &'s Shared,
    resource: &Resource,
    object: &mut Value,
    old: Option<&Value>,
    dry_run: bool,
) -> Result<Lease<'s>> {
    if !is_service(resource) {
        return Ok(Lease { services: None, new: Value::Null, old: None });
    }
    let mut allocator = server.services.lock();
    let mut random = || rand::random::<u64>();
    let allocated = allocate_service(object, old, &mut allocator, &mut random);
    drop(allocator);
    allocated.map_err(|errors| {
        Failure::invalid(resource, object["metadata"]["name"].as_str().unwrap_or_default(), errors)
    })?;
    let lease = Lease { services: Some(&server.services), new: object.clone(), old: old.cloned() };
    if dry_run {
        drop(lease);
        return Ok(Lease { services: None, new: Value::Null, old: None });
    }
    Ok(lease)
}

/// Gives back what a deleted Service used.
pub fn release(server: &Shared, resource: &Resource, object: &Value) {
    if is_service(resource) {
        release_service(object, &mut server.services.lock());
    }
}

fn is_service(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "services"
}
