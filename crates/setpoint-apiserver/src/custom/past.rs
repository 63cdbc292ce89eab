//! A custom resource as it was served at an earlier revision.
//!
//! Whoever reads what was wants to see what a reader saw then. A schema that has changed since would hide the fields that
//! it no longer has, and show defaults that nobody had heard of. History holds the definition as long as its objects.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use setpoint_store::{At, Result};

use super::definition::resources;
use super::names;
use crate::object::Stored;
use crate::registry::{DEFINITIONS, Resource};
use crate::server::Shared;

/// The resource by the definition of that state. One that was not served then, or was as it is now, is given back.
pub async fn resource_at(server: &Shared, resource: &Arc<Resource>, at: At) -> Result<Arc<Resource>> {
    if at == At::Now || resource.custom.is_none() {
        return Ok(resource.clone());
    }
    let definitions = server.registry().built_in(DEFINITIONS.0, "v1", DEFINITIONS.1);
    let key = definitions.key(None, &resource.group_resource());
    let (then, now) = (server.store.get(&key, at).await?.value, server.store.get(&key, At::Now).await?.value);
    let Some(then) = then.filter(|then| now.as_ref().is_none_or(|now| now.revision != then.revision)) else {
        return Ok(resource.clone());
    };
    let definition = definitions.value(&Stored::from(&then));
    let is_as_now = |now| definitions.value(&Stored::from(now))["spec"] == definition["spec"];
    if now.as_ref().is_some_and(is_as_now) || !names::is_true(&definition, "Established") {
        return Ok(resource.clone());
    }
    // Objects that are older than this definition may be older than its schema.
    let current_since = Arc::new(AtomicU64::new(then.revision));
    let mut known = resources(&definition, &server.schemas, &current_since).into_iter();
    let same = known.find(|then| then.version == resource.version);
    Ok(same.map_or_else(|| resource.clone(), Arc::new))
}
