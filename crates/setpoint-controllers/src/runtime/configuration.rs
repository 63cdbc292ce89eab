//! How a controller is driven, and with what.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;

use super::clock::Clock;
use super::fence::Fence;
use crate::events::{Recorder, Source};
use crate::metrics::Metrics;
use crate::queue::{self, Room};

/// How a controller is driven. A controller says what suits it, and who runs it may say otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Changes of which kinds wake it.
    pub kinds: Kinds,
    /// For how long changes are gathered after a round began; one that comes alone does not wait.
    pub window: Duration,
    /// How often everything is looked at even though nothing was heard of it; never if `None`.
    pub sweep: Option<Duration>,
    /// How many keys are worked on at the same time.
    pub room: Room,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kinds {
    All,
    /// Those of these names, in exactly this case.
    Only(BTreeSet<String>),
}

impl Default for Configuration {
    fn default() -> Configuration {
        let (window, room) = (queue::Options::WINDOW, queue::Options::ROOM);
        Configuration { kinds: Kinds::All, window, sweep: Some(Duration::from_secs(30)), room }
    }
}

impl Configuration {
    /// For those that hear of everything they read: a look at all of it is for what nobody thought of, and may be rare.
    pub fn of_workloads() -> Configuration {
        Configuration { sweep: Some(Duration::from_secs(600)), ..Configuration::default() }
    }

    /// For those that wait for places: a slow one holds up no other. One that hangs keeps 16 keys busy, and from the 17th on
    /// each keeps 4 more: what is kept in memory grows with the number of places, and not with what waits for them.
    pub fn of_places() -> Configuration {
        Configuration { room: Room { in_lane: 16, at_least: 4, at_once: 256 }, ..Configuration::of_workloads() }
    }
}

impl Kinds {
    pub fn only<'a>(kinds: impl IntoIterator<Item = &'a str>) -> Kinds {
        Kinds::Only(kinds.into_iter().map(str::to_owned).collect())
    }

    pub fn includes(&self, kind: &str) -> bool {
        match self {
            Kinds::All => true,
            Kinds::Only(kinds) => kinds.contains(kind),
        }
    }
}

/// What controllers are given. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    pub client: Client,
    pub clock: Clock,
    pub metrics: Metrics,
    /// What all chance follows from; drawn if `None`.
    pub seed: Option<u64>,
    /// Whether Events are told.
    pub tells: bool,
    /// Whether places are only looked at: what would be done is told, and nothing is.
    pub read_only: bool,
    /// What says under which leadership one acts; none where there is no election.
    pub fence: Option<Fence>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("clock", &self.clock).field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl Context {
    pub fn new(client: Client, clock: Clock) -> Context {
        Context { client, clock, metrics: Metrics::default(), seed: None, tells: true, read_only: false, fence: None }
    }

    /// The same for another client.
    pub fn acting_through(&self, client: Client) -> Context {
        Context { client, ..self.clone() }
    }

    /// The term of the leadership under which one acts.
    pub fn epoch(&self) -> i64 {
        self.fence.as_ref().and_then(Fence::epoch).unwrap_or_default()
    }

    /// Whether that leadership still lasts.
    pub fn leads_in(&self, epoch: i64) -> bool {
        self.fence.as_ref().is_none_or(|fence| fence.epoch() == Some(epoch))
    }

    /// Tells Events on behalf of a component, such as `replicaset-controller`.
    pub fn recorder(&self, component: &'static str) -> Recorder {
        self.recorder_on(component, None)
    }

    /// The same for a component of which every host has one.
    pub fn recorder_on(&self, component: &'static str, host: Option<&str>) -> Recorder {
        if !self.tells {
            return Recorder::silent();
        }
        let (host, dropped) = (host.map(str::to_owned), self.metrics.dropped(component));
        Recorder::open(self.client.clone(), Source { component, host, clock: self.clock, dropped })
    }

    pub(super) fn queue_options(&self, controller: &'static str, configuration: &Configuration) -> queue::Options {
        let (window, room) = (configuration.window, configuration.room);
        let seed = self.seed.unwrap_or_else(rand::random);
        queue::Options { window, room, seed, meter: self.metrics.of(controller) }
    }
}
