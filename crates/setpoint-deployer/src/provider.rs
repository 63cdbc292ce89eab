//! The contract of a provider: what runs instances for us.
//!
//! What every provider promises, and `conformance` proves by what is observed, never by what the provider claims:
//!
//! - **Idempotent.** Every verb twice is as once. A create carries its intent in the mark; a second create under the same
//!   intent finds what the first one made, also if the first one's answer was lost or its caller died, and gives back its
//!   id. Callers may be many at once.
//! - **Marked.** What is made carries its mark from the instant it exists, so nothing is ever made that could not be found
//!   again. What carries no mark of ours is shown and never touched.
//! - **Stateless.** Nothing that we would have to keep is kept by the provider's client: a new one over the same place
//!   sees and does the same.
//! - **Early refusals.** What is wrong with an order is a [`SpecError`](crate::SpecError) before anything is sent.
//! - **Honest sight.** An observation that could not see everything says so. What could not be read is unknown, not absent.
//! - **Out of order.** To stop, start or delete what is not there does no harm: a stop or a delete of what is gone is done
//!   already, a start or an update of it is [`Fault::NotFound`](crate::Fault::NotFound).
//! - **No hanging.** Calls are cancel-safe: one that is dropped may or may not have had its effect, and leaves nothing
//!   locked. Whoever opens a provider through the registry gets one whose calls have deadlines.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodSpec;
use serde::{Deserialize, Serialize};
use setpoint_api::environment::ItemPrice;
use setpoint_api::price::Price;
use setpoint_core::observation::{Completeness, Guest, Mark, Observation};
use setpoint_core::pod::PodState;
pub use setpoint_core::pod::{Variables, Volume, VolumeFile};
use setpoint_core::registry::Capabilities;
use setpoint_core::split::Granularity;
use setpoint_core::value::Fields;
use tokio::sync::mpsc;

use crate::error::Result;
use crate::order;
use crate::session::{Exec, Logs};

/// What an asynchronous operation returns.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// What runs instances for us. Shared as `Arc<dyn Provider>`.
pub trait Provider: fmt::Debug + Send + Sync + 'static {
    /// What it can do. Always the same.
    fn abilities(&self) -> &Abilities;

    /// What is there. Changes nothing.
    fn observe<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Observed>;

    /// Makes an instance, running, and returns the provider's id of it.
    fn create<'a>(&'a self, order: &'a Order) -> Answer<'a, Box<str>>;

    /// Makes the configuration of an instance what the order says. What it is known again by stays: of the mark, only the
    /// spec digest is written. So what was adopted never passes for something that we made.
    fn update<'a>(&'a self, intent: &'a str, id: &'a str, order: &'a Order) -> Answer<'a, ()>;

    /// Begins to start an instance that does not run. That it runs is to be observed.
    fn start<'a>(&'a self, intent: &'a str, id: &'a str) -> Answer<'a, ()>;

    /// Begins to stop an instance: it is asked to end, and made to once `grace` is over. That it has stopped is to be
    /// observed. A later call may shorten the time that is left, never lengthen it.
    fn stop<'a>(&'a self, intent: &'a str, id: &'a str, grace: Duration) -> Answer<'a, ()>;

    /// Removes an instance and all that is kept of it, running or not.
    fn delete<'a>(&'a self, intent: &'a str, id: &'a str) -> Answer<'a, ()>;

    /// Writes our mark on an instance that is there and is nobody's: from then on it is ours. Without a mark, takes ours
    /// off, and the instance stays. What is another's is refused. Only where instances can be adopted.
    fn mark<'a>(&'a self, intent: &'a str, id: &'a str, mark: Option<&'a Mark>) -> Answer<'a, ()> {
        let _ = (intent, id);
        let unable = order::unable(self.abilities(), order::marking(mark.is_some()));
        Box::pin(async move { Err(unable) })
    }

    /// What a Machine with these fields costs per hour while it runs, as far as the provider says.
    fn quote<'a>(&'a self, fields: &'a Fields) -> Answer<'a, Option<Price>> {
        let _ = fields;
        Box::pin(async { Ok(None) })
    }

    /// What there is to be had, as far as the provider says.
    fn offer(&self) -> Answer<'_, Offer> {
        Box::pin(async { Ok(Offer::default()) })
    }

    /// What instances write, where it can be read.
    fn logs(&self) -> Option<&dyn Logs> {
        None
    }

    /// How to run a command within an instance, where that can be done.
    fn exec(&self) -> Option<&dyn Exec> {
        None
    }

    /// Tells of changes as they happen, where the provider can: ids of instances to look at again. One who reads too slowly
    /// is told [`Change::Everything`] instead. Without this, one has to ask from time to time.
    fn events(&self) -> Option<mpsc::Receiver<Change>> {
        None
    }
}

/// What a provider can do. It is data, so that a plan can be made without one.
#[derive(Debug, Clone)]
pub struct Abilities {
    /// The fields of its guests, and what a change of each takes.
    pub guests: Capabilities,
    /// Whether it runs Pods.
    pub runs_pods: bool,
    /// Whether it runs named guests with fields of their own: Machines.
    pub runs_machines: bool,
    /// Whether a Pod's container needs an image. A process has only its command.
    pub needs_image: bool,
    /// How finely traffic can be divided.
    pub traffic: Granularity,
}

/// What a provider has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offer {
    /// How much in all, as quantities: `cores`, `memory`, `gpus`, `instances`.
    pub capacity: BTreeMap<String, String>,
    /// What it asks for what it offers, by item.
    pub prices: Vec<ItemPrice>,
}

/// What an observation is to cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    Everything,
    /// One instance, by the provider's id.
    Instance(Box<str>),
    /// The instances whose mark names this owner.
    Owner(Box<str>),
}

/// One look at what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// Whether it shows everything in its scope. Only then is what it does not show provably gone.
    pub completeness: Completeness,
    pub instances: Vec<Instance>,
    pub observed_at: Timestamp,
}

/// An instance as it was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub guest: Guest,
    /// How a Pod's containers are, if it is one and that could be read.
    pub pod: Option<PodState>,
}

/// What is to be made: what it is known again by, and what it is.
#[derive(Debug, Clone)]
pub struct Order {
    /// Written on the instance that is made, which it names the intent of. Where an instance is changed, the mark that it has,
    /// with the digest of what it is made from afterwards.
    pub mark: Mark,
    /// What the instance is called, for people: it need not be the only one of that name.
    pub name: String,
    /// The id that the instance must have, where the provider lets us choose.
    pub provider_id: Option<Box<str>>,
    pub body: Body,
}

#[derive(Debug, Clone)]
pub enum Body {
    /// A guest, field by field.
    Machine(Fields),
    Pod(Box<PodOrder>),
}

/// A Pod with everything that it needs to run: nothing has to be looked up any more.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOrder {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub spec: PodSpec,
    /// The variables of each container, in the order in which they are set. References are resolved.
    pub variables: BTreeMap<String, Variables>,
    /// The content of each volume.
    pub volumes: BTreeMap<String, Volume>,
}

/// What to look at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Instance(Box<str>),
    Everything,
}

impl Abilities {
    /// Those of a deployer that runs Pods from their commands, each as an instance of its own that shows at once; the rest
    /// with struct update syntax.
    pub const fn of_pods(deployer: &'static str) -> Abilities {
        Abilities {
            guests: Capabilities {
                deployer,
                fields: &[],
                creates: true,
                adopts: false,
                has_run_state: true,
                chooses_ids: false,
                creates_before_delete: true,
                update_restarts: false,
                bills: false,
                settle_seconds: 0,
                running_words: &["running"],
                stopped_words: &["stopped"],
                passing_words: &[],
            },
            runs_pods: true,
            runs_machines: false,
            needs_image: false,
            traffic: Granularity::EXACT,
        }
    }
}

impl Observed {
    pub fn instance(&self, id: &str) -> Option<&Instance> {
        self.instances.iter().find(|instance| *instance.guest.id == *id)
    }

    /// What the planner reads of it.
    pub fn into_observation(self) -> Observation {
        let guests = self.instances.into_iter().map(|instance| instance.guest).collect();
        Observation { completeness: self.completeness, guests, observed_at: self.observed_at }
    }
}

impl Order {
    /// The intent under which it is made.
    pub fn intent(&self) -> &str {
        self.mark.intent.as_deref().unwrap_or_default()
    }
}
