//! One process of controllers: its caches, its queues, what it is working on. All of it is gone when it crashes.

use std::fmt::Debug;
use std::sync::Arc;

use kube::Client;
use setpoint_controllers::deployment::Deployments;
use setpoint_controllers::queue::{self, Work};
use setpoint_controllers::replica_set::ReplicaSets;
use setpoint_controllers::runtime::{Caches, Controller, Runner};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::feed::{self, Feed};
use super::gate::{Gate, Gated};
use super::world::World;

pub(super) struct Crew {
    pub(super) name: String,
    pub(super) caches: Caches,
    pub(super) feeds: Vec<Box<dyn Feed>>,
    pub(super) controllers: Vec<Box<dyn Driven>>,
    pub(super) gate: Gate,
    /// What is being worked on. Dropping it is the crash.
    working: JoinSet<String>,
}

impl Crew {
    /// A process that has just started. It is fed before it works.
    pub(super) fn start(world: &World, name: String) -> Crew {
        let gate = Gate::default();
        let client = Client::new(Gated { server: world.as_controllers(), gate: gate.clone() }, "default");
        let caches = Caches::default();
        let seeds = &world.seeds;
        let controllers: Vec<Box<dyn Driven>> = vec![
            driven(ReplicaSets::new(client.clone(), &caches), &caches, world, seeds.number()),
            driven(Deployments::new(client.clone(), &caches), &caches, world, seeds.number()),
        ];
        let feeds = feed::all(world, &caches);
        Crew { name, caches, feeds, controllers, gate, working: JoinSet::new() }
    }

    /// Whether it has seen everything once, and may work.
    pub(super) fn is_complete(&self) -> bool {
        self.caches.all().iter().all(|cache| cache.is_complete())
    }

    /// What is ready, by controller and place in its queue.
    pub(super) fn ready(&self) -> Vec<(usize, usize)> {
        if !self.is_complete() {
            return Vec::new();
        }
        let each = self.controllers.iter().enumerate();
        each.flat_map(|(at, controller)| (0..controller.ready()).map(move |place| (at, place))).collect()
    }

    /// Begins a round of work. Says on what.
    pub(super) fn begin(&mut self, (controller, place): (usize, usize)) -> String {
        self.controllers[controller].begin(place, &mut self.working)
    }

    /// What has ended since; a panic is the fault that it is.
    pub(super) fn ended(&mut self) -> Vec<Result<String, String>> {
        let mut ended = Vec::new();
        while let Some(result) = self.working.try_join_next() {
            ended.push(result.map_err(|error| error.to_string()));
        }
        ended
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.working.is_empty()
    }

    /// When something is ready by itself.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.controllers.iter().filter_map(|controller| controller.next_due()).min()
    }

    /// Whether it has seen everything, and has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.is_complete()
            && !self.is_busy()
            && self.ready().is_empty()
            && self.gate.waiting().is_empty()
            && !self.feeds.iter().any(|feed| feed.is_behind())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // What it sent is lost with it.
        self.gate.close();
        self.working.abort_all();
    }
}

/// A controller that is driven by hand.
pub(super) trait Driven {
    /// How many keys are ready.
    fn ready(&self) -> usize;

    /// Begins a round on one of them.
    fn begin(&self, place: usize, working: &mut JoinSet<String>) -> String;

    fn next_due(&self) -> Option<Instant>;
}

fn driven<C: Controller>(controller: C, caches: &Caches, world: &World, seed: u64) -> Box<dyn Driven> {
    let options = queue::Options { seed, ..queue::Options::default() };
    Box::new(ByHand(Runner::with(controller, caches, world.clock, options)))
}

struct ByHand<C: Controller>(Arc<Runner<C>>);

impl<C: Controller> Driven for ByHand<C>
where
    C::Key: Debug,
{
    fn ready(&self) -> usize {
        self.0.queue().ready().len()
    }

    fn begin(&self, place: usize, working: &mut JoinSet<String>) -> String {
        let runner = self.0.clone();
        let Some(key) = runner.queue().ready().into_iter().nth(place) else { return String::new() };
        let title = format!("{} {key:?}", C::NAME);
        if runner.queue().take(&key) {
            let title = title.clone();
            working.spawn(async move {
                let outcome = runner.work(&key).await;
                runner.queue().finish(key, outcome);
                format!("{title}: {outcome:?}")
            });
        }
        title
    }

    fn next_due(&self) -> Option<Instant> {
        self.0.queue().next_due()
    }
}
