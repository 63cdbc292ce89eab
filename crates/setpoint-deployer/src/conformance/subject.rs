//! What the suite runs on: a place of its own, somebody outside who sees what is there, and ways to make it fail.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use setpoint_core::observation::Mark;

use crate::deployer::Deployer;
use crate::provider::{Order, Provider};

/// The control plane that the suite pretends to be.
pub const CLUSTER: &str = "conformance";

/// A secret that every order carries, wherever it can carry one. It must not come back in any error.
pub const SECRET: &str = "correct-horse-battery-staple";

/// A place in which nothing is yet, and the ways into it. Each guarantee gets one of its own; dropping it ends everything
/// that was begun there.
pub trait Subject: fmt::Debug + Send + Sync {
    /// A new client over the same place, as a control plane has after a crash. It acts as [`CLUSTER`].
    fn provider(&self) -> Arc<dyn Provider>;

    /// A new deployer over the same place, if it has revisions of its own. Otherwise revisions are made of instances, as
    /// [`OverInstances`](crate::revisions::OverInstances) does, where the provider runs Pods.
    fn deployer(&self) -> Option<Arc<dyn Deployer>> {
        None
    }

    fn witness(&self) -> &dyn Witness;

    /// How the place can be made to fail, if it can.
    fn faults(&self) -> Option<&dyn Faults> {
        None
    }

    /// An order for an instance of this name that can be made here, marked by [`mark`].
    ///
    /// One that runs a Pod calls its only container `main`. Where the provider has logs, that container writes
    /// [`greeting`] to its output as it starts.
    fn order(&self, name: &str, intent: &str, kind: Kind) -> Order;

    /// Makes something in the same place that is not ours, running, and returns the provider's id of it.
    fn plant_foreign(&self) -> BoxFuture<'_, Box<str>>;

    /// How long what was begun may take until it is observed.
    fn patience(&self) -> Duration {
        Duration::from_secs(20)
    }
}

/// What kind of instance an order is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Runs until it is asked to end, and ends then.
    Ordinary,
    /// Ends this long after it was asked to.
    Lingering(Duration),
    /// Does not end when it is asked to.
    Stubborn,
    /// Cannot be made: something in the order is wrong, of the kind that only this provider can tell.
    Invalid,
}

/// Somebody who does not ask the provider's client: the process table, an engine's own API, a simulator's log.
///
/// One who cannot see panics: without a witness nothing is proven.
pub trait Witness: fmt::Debug + Send + Sync {
    /// Every instance there is, ours or not.
    fn instances(&self) -> BoxFuture<'_, Vec<Seen>>;

    /// How many requests that change something the place has had. It only grows, and observing does not make it grow.
    fn calls(&self) -> BoxFuture<'_, u64>;
}

/// An instance as the witness sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The provider's id of it.
    pub id: Box<str>,
    /// What is written on it, as far as the witness can read it there.
    pub mark: Option<Mark>,
    pub running: bool,
}

/// How a place can be made to fail.
pub trait Faults: fmt::Debug + Send + Sync {
    /// Arranges trouble. `false` if the place cannot fail this way; then nothing is arranged.
    fn arrange(&self, trouble: Trouble) -> bool;

    /// Ends all trouble: from now on the place answers as it should.
    fn end(&self);
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The next changing call has its effect, and its answer is lost.
    LoseAnswer,
    /// The next changing call fails, without any effect.
    FailBefore,
    /// The next changing call fails after half of its effect.
    FailHalfway,
    /// Every call takes this much longer.
    Slow(Duration),
    /// No call is answered.
    Dead,
    /// The next call has its effect, and its answer is none that could be understood.
    Garbage,
}

/// What the suite writes on an instance of this name. Its owner is [`owner`].
pub fn mark(name: &str, intent: &str) -> Mark {
    Mark {
        cluster: CLUSTER.into(),
        owner_uid: owner(name).into(),
        intent: Some(intent.into()),
        spec_digest: Some("digest".into()),
    }
}

/// The uid of what an instance of this name belongs to.
pub fn owner(name: &str) -> String {
    format!("uid-{name}")
}

/// The line that an instance of this name writes as it starts.
pub fn greeting(name: &str) -> String {
    format!("{name} is here")
}
