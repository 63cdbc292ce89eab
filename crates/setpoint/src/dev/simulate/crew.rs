//! One process of controllers: its caches, its queues, what it is working on, and the agents of its nodes. All of it is
//! gone when it crashes.

use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
use parking_lot::Mutex;
use setpoint_apiserver::Identity;
use setpoint_controllers::environment::{self, Host};
use setpoint_controllers::manager;
use setpoint_controllers::node::{Dispatch, Providers};
use setpoint_controllers::runtime::caches::Moment;
use setpoint_controllers::runtime::{Caches, Context, Driven};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::feed::{self, Feed};
use super::gate::{Gate, Gated};
use super::world::World;

pub(super) struct Crew {
    pub(super) name: String,
    pub(super) caches: Caches,
    pub(super) feeds: Vec<Box<dyn Feed>>,
    pub(super) gate: Gate,
    controllers: Vec<Arc<dyn Driven>>,
    /// Whether it leads: the controllers were told to begin with everything there is.
    is_awake: bool,
    /// Since when it lists everything before it leads.
    begun: Moment,
    /// What is being worked on.
    working: JoinSet<String>,
    /// The agents of the Environments' nodes. They run by themselves; what they send waits at the gate like all else.
    agents: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Crew {
    /// A process that has just started. It is fed before it works.
    pub(super) fn start(world: &World, name: String) -> Crew {
        let gate = Gate::default();
        let client = |user: &str, groups: &[&str]| {
            let server = world.server.acting_as(Identity::new(user, groups.iter().copied()));
            Client::new(Gated { server, gate: gate.clone() }, "default")
        };
        let (caches, agents) = (Caches::default(), Arc::default());
        let context = Context::new(client("system:kube-controller-manager", &[]), world.clock);
        let context = Context { seed: Some(world.seeds.number()), ..context };
        let scheduling = context.acting_through(client("system:kube-scheduler", &[]));
        let environments = environment::Setup {
            nodes: client("system:node:environments", &["system:nodes"]),
            dispatch: Dispatch::new(&caches),
            registry: world.registry.clone(),
            folder: PathBuf::new(),
            cluster: world.cluster.clone(),
            providers: Providers::default(),
            sights: environment::Sights::default(),
            host: hosted(&agents),
        };
        let controllers = manager::controllers(&context, &scheduling, &caches, environments);
        controllers.iter().for_each(|controller| controller.close());
        let feeds = feed::all(world, &caches);
        Crew {
            name,
            caches,
            feeds,
            gate,
            controllers,
            is_awake: false,
            begun: Moment::default(),
            working: JoinSet::new(),
            agents,
        }
    }

    /// Begins to work, once it has seen everything.
    pub(super) fn wake(&mut self) {
        if !self.is_awake && self.caches.are_complete_since(&self.begun) {
            self.is_awake = true;
            self.controllers.iter().for_each(|controller| controller.begin());
        }
    }

    /// Leads no longer: what it was doing ends where it stands. Once it has listed everything anew it may lead again.
    pub(super) fn resign(&mut self) {
        self.is_awake = false;
        self.begun = self.caches.moment();
        self.feeds.iter_mut().for_each(|feed| feed.cut(true));
        self.working.abort_all();
        self.controllers.iter().for_each(|controller| controller.close());
    }

    /// What is ready, by controller and place in its queue.
    pub(super) fn ready(&self) -> Vec<(usize, usize)> {
        if !self.is_awake {
            return Vec::new();
        }
        let each = self.controllers.iter().enumerate();
        each.flat_map(|(at, controller)| (0..controller.ready().len()).map(move |place| (at, place))).collect()
    }

    /// Begins a round of work. Says on what.
    pub(super) fn begin(&mut self, (controller, place): (usize, usize)) -> String {
        let controller = self.controllers[controller].clone();
        let key = controller.ready().get(place).cloned().unwrap_or_default();
        let title = format!("{} {key}", controller.name());
        let said = title.clone();
        self.working.spawn(async move {
            let report = controller.turn(place).await;
            format!("{title}: {report:?}")
        });
        said
    }

    /// What has ended since.
    pub(super) fn ended(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.working.try_join_next()).flatten().collect()
    }

    /// When something is ready by itself.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.controllers.iter().filter_map(|controller| controller.next_due()).min()
    }

    /// Whether it has seen everything, and has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.is_awake
            && self.working.is_empty()
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
        self.agents.lock().drain(..).for_each(|agent| agent.abort());
    }
}

/// Has agents run as long as their crew does, and no longer than whoever started them wants.
fn hosted(agents: &Arc<Mutex<Vec<AbortHandle>>>) -> Host {
    struct Agent(AbortHandle);
    impl Drop for Agent {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let agents = agents.clone();
    Arc::new(move |agent| {
        let task = tokio::spawn(agent.run()).abort_handle();
        agents.lock().push(task.clone());
        Box::new(Agent(task))
    })
}
