//! What a controller is.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use setpoint_deployer::Retry;
use thiserror::Error;

use super::caches::Caches;
use super::configuration::Configuration;
use super::round::Round;
use crate::queue::{Key, Lane, Queue};
use crate::refusal::words;

/// What acts on the objects of a kind, one at a time.
///
/// A controller holds nothing that it could not lose: what it knows it reads from the caches, what it decides it has the
/// core decide, and what it does it does so that doing it twice is as doing it once. Whoever drives it sees to it that no
/// key is worked on twice at once, and that the caches show what the last round wrote.
pub trait Controller: Send + Sync + 'static {
    type Key: Key;

    /// What it is called in metrics and logs, such as `replicaset`.
    const NAME: &'static str;

    /// Has the keys added that a change concerns: listens to the caches. Called once, before they are fed.
    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Self::Key>>);

    /// Brings one object nearer to what it should be. The object may be gone: then there is nothing to do.
    fn reconcile(&self, key: &Self::Key, round: &mut Round) -> impl Future<Output = Result<Next, Error>> + Send;

    /// For which place the work on a key waits: other keys of that lane may have to wait for it, those of other lanes never
    /// do. The same lane for all, where none waits for a place.
    fn lane(&self, _: &Self::Key) -> Lane {
        Lane::default()
    }

    /// The object that people look at, to tell them there that work on it panicked.
    fn about(&self, key: &Self::Key) -> Option<ObjectReference>;

    /// The keys of everything there is, for a look at all of it: at the start, and now and then.
    fn keys(&self) -> Vec<Self::Key>;

    /// Lets go of what it holds beyond a round, such as tasks: another leads now.
    fn resign(&self) {}

    /// How it wants to be driven. One that hears of everything that it reads needs no sweep, or a rare one.
    fn configuration() -> Configuration {
        Configuration::default()
    }
}

/// What comes after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing until something changes.
    Idle,
    /// The same again after so long, if nothing changes before.
    After(Duration),
}

/// Why a round did not get to its end.
#[derive(Debug, Error)]
pub enum Error {
    #[error("{}", words(.0))]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Provider(#[from] setpoint_deployer::Error),
    /// Something is in the way that may not be tomorrow. People were told of it where they look.
    #[error("{0}")]
    Held(String),
    #[error("for {} s now the caches do not show what the last round wrote", .0.as_secs())]
    Behind(Duration),
}

impl Error {
    pub fn retry(&self) -> Retry {
        match self {
            Error::Api(_) | Error::Held(_) | Error::Behind(_) => Retry::BackOff,
            Error::Provider(error) => error.retry(),
        }
    }

    /// Whether somebody else wrote first, as happens: the next round sees it.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Error::Api(kube::Error::Api(status)) if status.is_conflict())
    }
}
