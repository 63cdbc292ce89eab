//! All controllers together, over shared caches, for as long as this process leads.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use http::header::InvalidHeaderValue;
use kube::Client;
use thiserror::Error;
use tokio::task::JoinSet;

use crate::change_set::ChangeSets;
use crate::deployment::Deployments;
use crate::endpoints::ServiceEndpoints;
use crate::environment::{self, Environments};
use crate::goal::Goals;
use crate::job::Jobs;
use crate::machine::Machines;
use crate::metrics::Metrics;
use crate::node_lifecycle::NodeLifecycle;
use crate::notification::Notifier;
use crate::plan::Plans;
use crate::planning::Planning;
use crate::replica_set::ReplicaSets;
use crate::runtime::caches::Moment;
use crate::runtime::{Caches, Clock, Context, Driven, Election, Fence, Runner, feed};
use crate::scheduler::Scheduler;

/// Runs the controllers.
pub struct Manager {
    /// Who this is among those who might lead: nobody else's name.
    pub identity: String,
    pub clients: Clients,
    pub clock: Clock,
    pub metrics: Metrics,
    /// Which it feeds; others in this process may read them.
    pub caches: Caches,
    pub environments: environment::Setup,
}

/// Why the controllers ended although nobody told them to.
#[derive(Debug, Error)]
pub enum Failure {
    #[error("nobody can lead under this name")]
    Identity(#[from] InvalidHeaderValue),
    #[error("a watch ended by itself, which none does: this is a fault in setpoint")]
    WatchEnded,
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

/// All controllers, wired to caches that are not fed yet. Those who schedule have rights of their own.
pub fn controllers(
    context: &Context,
    scheduling: &Context,
    caches: &Caches,
    environments: environment::Setup,
) -> Vec<Arc<dyn Driven>> {
    let sights = environments.sights.clone();
    let planning = Planning::new(context, caches, &environments.cluster, &environments.providers);
    vec![
        Runner::new(ReplicaSets::new(context, caches), caches, context),
        Runner::new(Deployments::new(context, caches), caches, context),
        Runner::new(Jobs::new(context, caches), caches, context),
        Runner::new(ServiceEndpoints::new(context, caches), caches, context),
        Runner::new(NodeLifecycle::new(context, caches, environments.providers.clone()), caches, context),
        Runner::new(Machines::new(context, caches, &planning, &sights), caches, context),
        Runner::new(ChangeSets::new(context, caches, &planning), caches, context),
        Runner::new(Notifier::new(context, caches), caches, context),
        Runner::new(Environments::new(context, caches, environments, &planning), caches, context),
        Runner::new(Plans::new(context, caches), caches, context),
        Runner::new(Goals::new(context, caches), caches, context),
        Runner::new(Scheduler::new(scheduling, caches), caches, scheduling),
    ]
}

impl Manager {
    /// Acts while it leads, until it is told to stop. While another leads it hears of everything, so that it is ready.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), Failure> {
        let (clients, fence) = (&self.clients, Fence::default());
        let mut election = Election::new(clients.controllers.clone(), &self.identity, self.clock, fence.clone())?;
        let context = Context::new(fence.guard(&clients.controllers), self.clock);
        let context = Context { metrics: self.metrics.clone(), fence: Some(fence.clone()), ..context };
        let scheduling = context.acting_through(fence.guard(&clients.scheduler));
        let nodes = fence.guard(&self.environments.nodes);
        let environments = environment::Setup { nodes, ..self.environments.clone() };
        let controllers = controllers(&context, &scheduling, &self.caches, environments);
        controllers.iter().for_each(|controller| controller.close());
        let mut stop = pin!(stop);
        let outcome = loop {
            // Whoever led before lists everything anew: what became of its last writes nobody noted.
            let begun = self.caches.moment();
            let mut feeds = feed::feed(&self.caches, &clients.controllers, &self.metrics);
            let act = async {
                election.won().await;
                self.metrics.leading().set(1);
                tokio::select! {
                    biased;
                    () = election.lost() => {}
                    () = self.act(&controllers, &begun) => {}
                }
            };
            let outcome = tokio::select! {
                biased;
                () = &mut stop => Some(Ok(())),
                _ = feeds.join_next() => Some(Err(Failure::WatchEnded)),
                () = act => None,
            };
            self.metrics.leading().set(0);
            controllers.iter().for_each(|controller| controller.close());
            if let Some(outcome) = outcome {
                break outcome;
            }
        };
        election.leave().await;
        outcome
    }

    /// Looks until it is told to stop, and does nothing to any place: what is in sight is told of the objects that the server
    /// of this process holds. Nobody leads, since nobody acts.
    pub async fn look(self, stop: impl Future<Output = ()> + Send) -> Result<(), Failure> {
        let context = Context::new(self.clients.controllers.clone(), self.clock);
        let context = Context { metrics: self.metrics.clone(), tells: false, read_only: true, ..context };
        let planning = Planning::new(&context, &self.caches, &self.environments.cluster, &self.environments.providers);
        let (caches, environments) = (&self.caches, self.environments.clone());
        let sights = environments.sights.clone();
        let lookers: Vec<Arc<dyn Driven>> = vec![
            Runner::new(Machines::new(&context, caches, &planning, &sights), caches, &context),
            Runner::new(ChangeSets::new(&context, caches, &planning), caches, &context),
            Runner::new(Environments::new(&context, caches, environments, &planning), caches, &context),
            Runner::new(Plans::new(&context, caches), caches, &context),
            Runner::new(Goals::new(&context, caches), caches, &context),
        ];
        lookers.iter().for_each(|looker| looker.close());
        let begun = self.caches.moment();
        let mut feeds = feed::feed(&self.caches, &self.clients.controllers, &self.metrics);
        let mut stop = pin!(stop);
        let outcome = tokio::select! {
            biased;
            () = &mut stop => Ok(()),
            _ = feeds.join_next() => Err(Failure::WatchEnded),
            () = self.act(&lookers, &begun) => Ok(()),
        };
        lookers.iter().for_each(|looker| looker.close());
        outcome
    }

    /// Acts until it is dropped. Nobody acts before everything is known: what is not there yet would be made again.
    async fn act(&self, controllers: &[Arc<dyn Driven>], begun: &Moment) {
        self.caches.completed_since(begun).await;
        let mut running: JoinSet<()> = controllers.iter().map(|controller| controller.clone().run()).collect();
        while running.join_next().await.is_some() {}
        std::future::pending().await
    }
}
