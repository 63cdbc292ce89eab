//! Machines: observe, settle, plan, ask, act one step at a time, and record.
//!
//! | module | what it does |
//! | --- | --- |
//! | `wakeup` | which Machines a change concerns |
//! | `round` | one look and what follows from it: a step, or a status |
//! | `acting` | a step, as calls to a provider |
//! | `rest` | when to look again although nothing is heard |
//! | `writes` | status and finalizer |
//!
//! What to do is decided in [`setpoint_core::plan`], what may be done in [`crate::permission`], what goes on record in [`setpoint_core::machine`]. Nothing is done that
//! was not written down before, on the version of the Machine that it was decided from; so of two who act one wins, and who
//! dies between two steps leaves behind what the next one has to know.

mod acting;
mod rest;
mod round;
mod wakeup;
mod writes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource};
use setpoint_api::machine::Machine;
use setpoint_core::machine;

use self::round::Progress;
use crate::environment::Sights;
use crate::environment::status::not_opened;
use crate::events::Recorder;
use crate::permission::{Asker, Treasury};
use crate::planning::Planning;
use crate::queue::{Lane, Queue};
use crate::runtime::{Caches, Configuration, Context, Controller, Error, Name, Next, Round};

/// How many steps are taken before others have their turn.
const STEPS_AT_ONCE: usize = 8;
/// How soon a write is tried again that met a change of somebody else's.
const MOVED: Duration = Duration::from_millis(20);

pub struct Machines {
    context: Context,
    client: Client,
    caches: Caches,
    planning: Planning,
    sights: Sights,
    treasury: Treasury,
    asker: Asker,
    recorder: Recorder,
}

impl std::fmt::Debug for Machines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machines").finish_non_exhaustive()
    }
}

impl Machines {
    pub fn new(context: &Context, caches: &Caches, planning: &Planning, sights: &Sights) -> Machines {
        Machines {
            context: context.clone(),
            client: context.client.clone(),
            caches: caches.clone(),
            planning: planning.clone(),
            sights: sights.clone(),
            treasury: Treasury::new(context, caches, planning, sights),
            asker: Asker::new(context, caches, planning),
            recorder: context.recorder("machine-controller"),
        }
    }

    /// How long a Machine may still have a guest, where that has an end.
    fn time_left(&self, machine: &Machine, now: Timestamp) -> Option<Duration> {
        let environment = self.caches.environments.get(&Name::new("", &machine.spec.environment))?;
        let expires_at = machine::expires_at(machine, environment.spec.guardrails.as_ref())?;
        Some(Duration::try_from(expires_at.duration_since(now)).unwrap_or_default())
    }

    /// Whether nobody can look at its guest.
    fn is_out_of_sight(&self, machine: &Machine) -> bool {
        let environment = self.caches.environments.get(&Name::new("", &machine.spec.environment));
        let is_closed = environment.is_some_and(|environment| not_opened(&environment).is_some());
        is_closed && self.planning.provider(&machine.spec.environment).is_err()
    }

    /// Whether its guest was on its way from one state to another when it was last seen.
    fn is_passing(&self, machine: &Machine) -> bool {
        let Some(run) = machine.status.as_ref().and_then(|status| status.run.as_deref()) else { return false };
        let Ok(provider) = self.planning.provider(&machine.spec.environment) else { return false };
        provider.abilities().guests.passing_words.contains(&run)
    }

    /// Takes step after step, each decided anew and by the rules of that moment, until nothing is left that may be done.
    async fn bring(&self, machine: Arc<Machine>, round: &mut Round) -> Result<Progress, Error> {
        let Some(mut machine) = self.kept(machine, round).await? else { return Ok(Progress::Rests(Next::Idle)) };
        let environment = Name::new("", &machine.spec.environment);
        let mut taken = BTreeSet::new();
        for _ in 0..STEPS_AT_ONCE {
            let Some(environment) = self.caches.environments.get(&environment) else {
                return self.without_environment(&machine, round).await.map(Progress::Rests);
            };
            if self.planning.provider(&machine.spec.environment).is_err() {
                return self.before_opening(&machine, &environment, round).await.map(Progress::Rests);
            }
            match self.step(&environment, &machine, &mut taken, round).await? {
                Progress::Acted(written) => machine = written,
                rests => return Ok(rests),
            }
        }
        Ok(Progress::Acted(machine))
    }
}

impl Controller for Machines {
    type Key = Name;

    const NAME: &'static str = "machine";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Name>>) {
        self.sights.connect(queue);
        wakeup::wire(caches, queue, &self.sights);
    }

    async fn reconcile(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        let stir = self.sights.stirred(key);
        let Some(machine) = self.caches.machines.get(key) else {
            self.sights.calm(key, stir);
            return Ok(Next::Idle);
        };
        let left = self.time_left(&machine, round.now);
        let is_over = left.is_some_and(|left| left.is_zero());
        let is_done = machine::is_settled(&machine) && !self.is_passing(&machine) && !self.is_out_of_sight(&machine);
        if is_done && writes::is_kept(&machine) && stir.is_none() && !is_over {
            return Ok(left.map_or(Next::Idle, Next::After));
        }
        match self.bring(machine, round).await? {
            Progress::Acted(_) => Ok(Next::After(Duration::ZERO)),
            Progress::Told(next) => {
                self.sights.calm(key, stir);
                Ok(match (next, left) {
                    (Next::Idle, Some(left)) if !is_over => Next::After(left),
                    (next, _) => next,
                })
            }
            Progress::Rests(next) => Ok(next),
        }
    }

    fn lane(&self, key: &Name) -> Lane {
        self.caches.machines.get(key).map(|machine| machine.spec.environment.as_str().into()).unwrap_or_default()
    }

    fn about(&self, key: &Name) -> Option<ObjectReference> {
        self.caches.machines.get(key).map(|machine| machine.object_ref(&()))
    }

    fn keys(&self) -> Vec<Name> {
        self.caches.machines.names()
    }

    /// Environments are swept; whoever waits for something is woken by it.
    fn configuration() -> Configuration {
        Configuration::of_places()
    }
}
