//! How far back somebody may look: in a namespace, no further than to its creation.
//!
//! Who is given rights in a namespace is not given what an earlier one of the same name held for others. Who has the same
//! rights in all namespaces had them in that one, too.

use http::StatusCode;
use setpoint_store::{At, Revision};

use crate::authorization::Access;
use crate::failure::{Failure, Result};
use crate::object::Stored;
use crate::registry::text_at;
use crate::server::{Call, Shared};

/// Refuses to answer a call from a revision, or with what happened since, where that was in another namespace.
pub(super) async fn check(server: &Shared, call: &Call, revision: Revision) -> Result<()> {
    let access = Access::by_path(call.verb.name(), &call.path, &call.query);
    let namespace = access.namespace();
    if namespace.is_empty() || access.clone().everywhere().is_allowed(&server.policy.read(), &call.caller.identity) {
        return Ok(());
    }
    let then = match uid(server, namespace, At::Revision(revision)).await {
        // The read itself says so in its own words.
        Err(failure) if failure.code == StatusCode::GONE => return Ok(()),
        uid => uid?,
    };
    if then.is_some() && then == uid(server, namespace, At::Now).await? {
        return Ok(());
    }
    Err(Failure::expired(format!(
        "too old resource version: the namespace {namespace:?} was created after {revision}, and who has no right to this \
         in all namespaces cannot see what was there before"
    )))
}

/// Which namespace had this name; none if there was none.
async fn uid(server: &Shared, namespace: &str, at: At) -> Result<Option<String>> {
    let key = server.registry().built_in("", "v1", "namespaces").key(None, namespace);
    let entry = server.store.get(&key, at).await?.value;
    Ok(entry.map(|entry| text_at(&Stored::from(&entry).metadata(), &["uid"]).to_owned()))
}
