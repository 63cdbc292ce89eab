//! The controllers in the server's own process: its clients, through a function call.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use setpoint_apiserver::{Identity, Server};
use setpoint_controllers::environment::{self, Sights, in_a_task};
use setpoint_controllers::manager::{Clients, Failure, Manager};
use setpoint_controllers::metrics::Metrics;
use setpoint_controllers::node::{Dispatch, Providers};
use setpoint_controllers::runtime::{Caches, Clock, feed};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use crate::deployers;

/// Who the controllers are to the server.
pub(crate) const MANAGER: &str = "system:kube-controller-manager";
/// Where deployers of declared Environments keep files, in the data folder.
const ENVIRONMENTS: &str = "environments";

/// The controllers at work.
#[derive(Debug)]
pub(crate) struct Controllers {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// What the controllers share with the node of this machine, and with whoever else is in this process.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) caches: Caches,
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) providers: Providers,
    pub(crate) sights: Sights,
    pub(crate) metrics: Metrics,
}

impl Shared {
    pub(crate) fn new() -> Shared {
        let caches = Caches::default();
        let (providers, metrics) = (Providers::default(), Metrics::default());
        Shared { dispatch: Dispatch::new(&caches), caches, providers, sights: Sights::default(), metrics }
    }

    /// Keeps the caches in step with the server until it is dropped.
    pub(crate) fn feed(&self, server: &Server) -> JoinSet<()> {
        let client = client(server, Identity::new(MANAGER, Vec::<String>::new()));
        feed::feed(&self.caches, &client, &self.metrics)
    }
}

impl Controllers {
    /// Starts them. They go by the same name for as long as the objects are there, so that those of a server that was
    /// started again take over from its earlier life at once.
    pub(crate) fn start(server: &Server, data: &Path, cluster: &str, shared: &Shared) -> Result<Controllers> {
        let manager = manager(server, data, cluster, shared)?;
        Ok(Controllers::run(|stopped| manager.run(stopped)))
    }

    /// Starts those that only look.
    pub(crate) fn look(server: &Server, data: &Path, cluster: &str, shared: &Shared) -> Result<Controllers> {
        let manager = manager(server, data, cluster, shared)?;
        Ok(Controllers::run(|stopped| manager.look(stopped)))
    }

    fn run<F>(work: impl FnOnce(Stopped) -> F) -> Controllers
    where
        F: Future<Output = std::result::Result<(), Failure>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let work = work(Box::pin(async { stopped.await.unwrap_or_default() }));
        let task = tokio::spawn(async move {
            if let Err(error) = work.await {
                tracing::error!(%error, "the controllers ended: nothing is acted on any more until this is started again");
            }
        });
        Controllers { stop, task }
    }

    /// Stops them, so that others may act at once.
    pub(crate) async fn stop(self) {
        // Whether or not they are still there to hear of it.
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// Is over when the controllers are to stop.
type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

fn manager(server: &Server, data: &Path, cluster: &str, shared: &Shared) -> Result<Manager> {
    Ok(Manager {
        identity: format!("setpoint-up-{cluster}"),
        clients: Clients {
            controllers: client(server, Identity::new(MANAGER, Vec::<String>::new())),
            scheduler: client(server, Identity::new("system:kube-scheduler", Vec::<String>::new())),
        },
        clock: Clock::System,
        metrics: shared.metrics.clone(),
        caches: shared.caches.clone(),
        environments: environment::Setup {
            nodes: client(server, Identity::new("system:node:environments", ["system:nodes"])),
            dispatch: shared.dispatch.clone(),
            registry: deployers::registry()?,
            folder: data.join(ENVIRONMENTS),
            cluster: cluster.to_owned(),
            providers: shared.providers.clone(),
            sights: shared.sights.clone(),
            host: in_a_task(),
        },
    })
}

/// What this control plane marks its instances with: it stays as long as its objects do.
pub(crate) async fn cluster_id(client: Client) -> Result<String> {
    let namespaces: Api<Namespace> = Api::all(client);
    let namespace = namespaces.get("kube-system").await.context("cannot read the namespace kube-system")?;
    namespace.metadata.uid.context("the namespace kube-system has no uid")
}

pub(crate) fn client(server: &Server, identity: Identity) -> Client {
    Client::new(server.acting_as(identity), "default")
}
