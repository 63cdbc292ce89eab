//! All controllers together, over shared caches.

use kube::Client;
use tokio::task::JoinSet;

use crate::deployment::Deployments;
use crate::replica_set::ReplicaSets;
use crate::runtime::{Caches, Clock, Runner, feed};

/// How many objects of a kind are worked on at once.
const AT_ONCE: usize = 8;

/// What the controllers are given.
pub struct Manager {
    pub client: Client,
    pub clock: Clock,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").finish_non_exhaustive()
    }
}

impl Manager {
    /// Works until it is dropped.
    pub async fn run(self) {
        let caches = Caches::default();
        let mut controllers: JoinSet<()> = JoinSet::new();
        let replica_sets = Runner::new(ReplicaSets::new(self.client.clone(), &caches), &caches, self.clock);
        let deployments = Runner::new(Deployments::new(self.client.clone(), &caches), &caches, self.clock);
        let mut feeds = feed::feed(&caches, &self.client);
        caches.completed().await;
        controllers.spawn(replica_sets.run(AT_ONCE));
        controllers.spawn(deployments.run(AT_ONCE));
        while feeds.join_next().await.is_some() {}
        controllers.shutdown().await;
    }
}
