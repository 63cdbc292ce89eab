//! All controllers together, over shared caches, for as long as this process leads.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use http::header::InvalidHeaderValue;
use kube::Client;
use tokio::task::JoinSet;

use crate::metrics::Metrics;
use crate::runtime::{Caches, Clock, Context, Driven, Election, Fence, feed};

/// Runs the controllers.
pub struct Manager {
    /// Who this is among those who might lead: nobody else's name.
    pub identity: String,
    pub clients: Clients,
    pub clock: Clock,
    pub metrics: Metrics,
}

/// How the server is reached: those who act may have different rights.
#[derive(Clone)]
pub struct Clients {
    pub controllers: Client,
    pub scheduler: Client,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

/// All controllers, wired to caches that are not fed yet.
#[expect(clippy::needless_pass_by_value, reason = "each controller takes its part")]
pub fn controllers(context: &Context, scheduler: Client, caches: &Caches) -> Vec<Arc<dyn Driven>> {
    let _scheduling = context.acting_through(scheduler);
    let _ = caches;
    // Each: `Runner::new(ReplicaSets::new(..), caches, context),`
    vec![]
}

impl Manager {
    /// Acts while it leads and waits for its turn while another does, until it is told to stop.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), InvalidHeaderValue> {
        let mut election = Election::new(self.clients.controllers.clone(), &self.identity, self.clock)?;
        let mut stop = pin!(stop);
        loop {
            let fence = tokio::select! {
                biased;
                () = &mut stop => break,
                fence = election.won() => fence,
            };
            self.metrics.leading().set(1);
            let is_stopped = tokio::select! {
                biased;
                () = &mut stop => true,
                () = election.lost() => false,
                () = self.act(&fence) => false,
            };
            self.metrics.leading().set(0);
            if is_stopped {
                break;
            }
        }
        election.leave().await;
        Ok(())
    }

    /// Acts until it is dropped, or until what it follows has come to an end.
    async fn act(&self, fence: &Fence) {
        let (client, scheduler) = (fence.guard(&self.clients.controllers), fence.guard(&self.clients.scheduler));
        let context = Context { metrics: self.metrics.clone(), ..Context::new(client.clone(), self.clock) };
        let caches = Caches::default();
        let controllers = controllers(&context, scheduler, &caches);
        let mut feeds = feed::feed(&caches, &client, &self.metrics);
        caches.completed().await;
        let mut running: JoinSet<()> = controllers.iter().map(|controller| controller.clone().run()).collect();
        // No watch ends by itself.
        feeds.join_next().await;
        controllers.iter().for_each(|controller| controller.close());
        while running.join_next().await.is_some() {}
    }
}
