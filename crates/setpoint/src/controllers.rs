//! The controllers in the server's own process: its clients, through a function call.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use setpoint_apiserver::authorization::MASTERS;
use setpoint_apiserver::{Identity, Server};
use setpoint_controllers::manager::{Clients, Manager};
use setpoint_controllers::metrics::Metrics;
use setpoint_controllers::runtime::{Caches, Clock};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The controllers at work.
#[derive(Debug)]
pub(crate) struct Controllers {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Controllers {
    /// Starts them. They go by the same name for as long as the objects are there, so that those of a server that was
    /// started again take over from its earlier life at once.
    pub(crate) fn start(server: &Server, cluster: &str) -> Controllers {
        let metrics = Metrics::default();
        server.publish(metrics.registry());
        let manager = Manager {
            identity: format!("setpoint-up-{cluster}"),
            clients: Clients {
                controllers: client(server, Identity::new("system:kube-controller-manager", Vec::<String>::new())),
                scheduler: client(server, Identity::new("system:kube-scheduler", Vec::<String>::new())),
            },
            clock: Clock::System,
            metrics,
            caches: Caches::default(),
        };
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async { stopped.await.unwrap_or_default() };
            if let Err(error) = manager.run(stopped).await {
                tracing::error!(%error, "the controllers cannot stand for election");
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

/// What this control plane marks its instances with: it stays as long as its objects do.
pub(crate) async fn cluster_id(server: &Server) -> Result<String> {
    let itself = Identity::new("system:setpoint", [MASTERS]);
    let namespaces: Api<Namespace> = Api::all(client(server, itself));
    let namespace = namespaces.get("kube-system").await.context("cannot read the namespace kube-system")?;
    namespace.metadata.uid.context("the namespace kube-system has no uid")
}

pub(crate) fn client(server: &Server, identity: Identity) -> Client {
    Client::new(server.acting_as(identity), "default")
}
