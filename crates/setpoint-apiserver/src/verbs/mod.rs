//! What can be done to a resource, one verb a file.

mod apply;
mod connect;
mod create;
mod delete;
mod get;
mod itself;
mod leave;
mod list;
mod log;
mod past;
mod patch;
mod pods;
mod review;
mod scale;
pub mod services;
mod token;
mod update;
mod watch;

pub(crate) use connect::connect;
pub use delete::{delete_all, delete_object};
pub use itself::apply_as_server;
pub use log::log;
pub use watch::watch;

use setpoint_store::{At, Commit, Expected};

use crate::failure::{Failure, Result};
use crate::fence;
use crate::object::Stored;
use crate::registry::{Resource, Subresource};
use crate::request::Verb;
use crate::response::{self, Response};
use crate::server::{Call, Shared};

/// Answers any call but a watch, and those that reach into a Pod.
pub async fn run(server: &Shared, call: Call) -> Result<Response> {
    let subresource = call.path.subresource.as_deref().and_then(|name| call.resource.subresource(name));
    if let Some(subresource) = subresource
        && !subresource.verbs().contains(&call.verb.name())
    {
        return Err(Failure::method_not_allowed());
    }
    if subresource.is_none() && !call.resource.verbs().contains(&call.verb.name()) {
        return Err(Failure::method_not_allowed());
    }
    let reads = matches!(call.verb, Verb::Get | Verb::List);
    if !reads {
        fence::check(server, &call).await?;
    }
    let _turn = match call.resource.is_definitions() && !reads {
        true => Some(server.definitions.turn().await),
        false => None,
    };
    let writes = matches!(call.verb, Verb::Create | Verb::Update | Verb::Patch);
    let idleness = call.resource.idleness().filter(|_| writes && subresource != Some(Subresource::Status));
    let mut response = match (call.verb, subresource) {
        (Verb::Get, Some(Subresource::Scale)) => scale::get(server, call).await,
        (Verb::Update | Verb::Patch, Some(Subresource::Scale)) => scale::write(server, call).await,
        (Verb::Create, Some(Subresource::Binding)) => pods::bind(server, call).await,
        (Verb::Create, Some(Subresource::Eviction)) => pods::evict(server, call).await,
        (Verb::Create, Some(Subresource::Token)) => token::create(server, call).await,
        (Verb::Get, _) => get::get(server, call).await,
        (Verb::List, _) => list::list(server, call).await,
        (Verb::Create, _) => match call.resource.review {
            Some(review) => review::create(server, call, review).await,
            None => create::create(server, call).await,
        },
        (Verb::Update, _) => update::update(server, call).await,
        (Verb::Patch, _) => patch::patch(server, call).await,
        (Verb::Delete, _) => delete::delete(server, call).await,
        (Verb::DeleteCollection, _) => delete::delete_collection(server, call).await,
        (Verb::Watch, _) => unreachable!("watches are answered apart: they have no deadline"),
    }?;
    response::warn(&mut response, idleness);
    Ok(response)
}

/// The object as it is now.
pub async fn read(server: &Shared, resource: &Resource, namespace: Option<&str>, name: &str) -> Result<Stored> {
    let key = resource.key(namespace, name);
    let entry = server.store.get(&key, At::Now).await?.value;
    entry.as_ref().map(Stored::from).ok_or_else(|| Failure::not_found(resource, name))
}

/// What became of a write.
enum Written {
    Done(Stored),
    /// Somebody else wrote the key first.
    Raced,
}

/// Where the definitions of custom resources are kept.
const DEFINITIONS_DIRECTORY: &str = "/apiextensions.k8s.io/customresourcedefinitions/";

async fn write(server: &Shared, commit: Commit, answer: impl FnOnce(u64) -> Stored) -> Result<Written> {
    let key = commit.key.clone();
    match server.store.commit(commit).await {
        Ok(committed) => {
            if let Some(name) = key.strip_prefix(DEFINITIONS_DIRECTORY) {
                server.definitions.changed(server, name).await?;
            }
            server.policy.changed(server, &key).await;
            Ok(Written::Done(answer(committed.revision)))
        }
        Err(setpoint_store::Error::Conflict { .. }) => Ok(Written::Raced),
        Err(error) => Err(error.into()),
    }
}

/// The condition under which a stored object may be replaced.
fn unchanged(stored: &Stored) -> Expected {
    Expected::Revision(stored.revision())
}
