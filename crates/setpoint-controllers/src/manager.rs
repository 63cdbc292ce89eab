//! All controllers together, over shared caches.

use kube::Client;
use tokio::task::JoinSet;

use crate::runtime::{Caches, Clock, feed};

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
        // Each: `let sets = Runner::new(ReplicaSets::new(..), &caches, self.clock);` before the feed begins.
        let mut feeds = feed::feed(&caches, &self.client);
        caches.completed().await;
        // Each: `controllers.spawn(sets.run(AT_ONCE));` once the caches are complete.
        while feeds.join_next().await.is_some() {}
        controllers.shutdown().await;
    }
}
