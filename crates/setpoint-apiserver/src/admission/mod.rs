//! Whether a write that is in order may take place: the one place that every write passes just before it is committed,
//! and a dry run, too.
//!
//! A request was allowed by its path alone. Here it is known what it makes of the object, and what is not allowed because
//! of that is refused, one rule a file. What the server does by itself passes as well: it has all rights, but what is
//! protected is protected from it, too.

mod authorship;
mod creation;
mod escalation;
mod finalizer;
#[cfg(test)]
mod fixture;
mod namespace;
mod protection;
mod record;
mod service_account;

use serde_json::Value;

pub use self::authorship::{refused_review, stamp};
use crate::authentication::Caller;
use crate::failure::Result;
use crate::kind::Part;
use crate::registry::{Resource, text_at};
use crate::request::Verb;
use crate::server::Shared;

/// What is about to be committed.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    pub caller: &'a Caller,
    pub verb: Verb,
    pub resource: &'a Resource,
    /// What of the object the request is about.
    pub part: Part,
    pub namespace: Option<&'a str>,
    /// The name that the request's path has; "" where the object brought it along.
    pub path_name: &'a str,
    /// None for an object that is new.
    pub before: Option<&'a Value>,
    /// None for one that is deleted, whether or not something keeps it for a while.
    pub after: Option<&'a Value>,
}

impl<'a> Change<'a> {
    /// The deletion of an object.
    pub fn deletion(
        caller: &'a Caller,
        resource: &'a Resource,
        namespace: Option<&'a str>,
        name: &'a str,
        object: &'a Value,
    ) -> Change<'a> {
        let (verb, part) = (Verb::Delete, Part::Main);
        Change { caller, verb, resource, part, namespace, path_name: name, before: Some(object), after: None }
    }

    /// The name of the object.
    fn name(&self) -> &'a str {
        self.after.or(self.before).map(|object| text_at(object, &["metadata", "name"])).unwrap_or_default()
    }

    /// The namespace of the object; "" if it is the cluster's.
    fn place(&self) -> &'a str {
        self.namespace.unwrap_or_default()
    }
}

/// Refuses a change that may not take place.
pub async fn admit(server: &Shared, change: &Change<'_>) -> Result<()> {
    creation::check(&server.policy.read(), change)?;
    authorship::check(change)?;
    finalizer::check(change)?;
    record::check(&server.policy.read(), change)?;
    escalation::check(&server.policy, change)?;
    service_account::check(&server.policy.read(), change)?;
    protection::check(server, change).await?;
    namespace::check(server, change).await
}
