//! All controllers together, over shared caches.

use kube::Client;
use tokio::task::JoinSet;

use crate::deployment::Deployments;
use crate::environment::{self, Environments};
use crate::replica_set::ReplicaSets;
use crate::runtime::{Caches, Clock, Runner, feed};
use crate::scheduler::Scheduler;

/// How many objects of a kind are worked on at once.
const AT_ONCE: usize = 8;
/// How many Environments are worked on at once: most of the work is waiting for a provider.
const ENVIRONMENTS_AT_ONCE: usize = 16;

/// What the controllers are given.
pub struct Manager {
    pub client: Client,
    /// With the rights of a scheduler.
    pub scheduler: Client,
    pub clock: Clock,
    /// Shared with the agent of this machine's node, where there is one.
    pub caches: Caches,
    pub environments: environment::Setup,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").finish_non_exhaustive()
    }
}

impl Manager {
    /// Works until it is dropped.
    pub async fn run(self) {
        let caches = self.caches;
        let mut controllers: JoinSet<()> = JoinSet::new();
        let replica_sets = Runner::new(ReplicaSets::new(self.client.clone(), &caches), &caches, self.clock);
        let deployments = Runner::new(Deployments::new(self.client.clone(), &caches), &caches, self.clock);
        let environments = Environments::new(self.client.clone(), caches.clone(), self.clock, self.environments);
        let environments = Runner::new(environments, &caches, self.clock);
        let scheduler = Runner::new(Scheduler::new(self.scheduler, caches.clone()), &caches, self.clock);
        let mut feeds = feed::feed(&caches, &self.client);
        caches.completed().await;
        controllers.spawn(replica_sets.run(AT_ONCE));
        controllers.spawn(deployments.run(AT_ONCE));
        controllers.spawn(environments.run(ENVIRONMENTS_AT_ONCE));
        controllers.spawn(scheduler.run(1));
        while feeds.join_next().await.is_some() {}
        controllers.shutdown().await;
    }
}
