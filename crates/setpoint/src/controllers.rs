//! The controllers in the server's own process: its clients, through a function call.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use setpoint_apiserver::authorization::MASTERS;
use setpoint_apiserver::{Identity, Server};
use setpoint_controllers::Manager;
use setpoint_controllers::environment::{self, in_a_task};
use setpoint_controllers::node::{Dispatch, Providers};
use setpoint_controllers::runtime::{Caches, Clock};
use tokio::task::JoinHandle;

use crate::data_dir::DataDir;
use crate::deployers;

/// Where deployers of declared Environments keep files, in the data folder.
const ENVIRONMENTS: &str = "environments";

/// Starts the controllers; they work until they are aborted.
pub(crate) fn start(server: &Server, data: &DataDir, cluster: &str, shared: &Shared) -> Result<JoinHandle<()>> {
    let nodes = Identity::new("system:node:environments", ["system:nodes"]);
    let manager = Manager {
        client: client(server, Identity::new("system:kube-controller-manager", Vec::<String>::new())),
        scheduler: client(server, Identity::new("system:kube-scheduler", Vec::<String>::new())),
        clock: Clock::System,
        caches: shared.caches.clone(),
        environments: environment::Setup {
            nodes: client(server, nodes),
            dispatch: shared.dispatch.clone(),
            registry: deployers::registry()?,
            folder: data.file(ENVIRONMENTS),
            cluster: cluster.to_owned(),
            providers: shared.providers.clone(),
            host: in_a_task(),
        },
    };
    Ok(tokio::spawn(manager.run()))
}

/// What the controllers share with the node of this machine.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) caches: Caches,
    pub(crate) dispatch: std::sync::Arc<Dispatch>,
    pub(crate) providers: Providers,
}

impl Shared {
    pub(crate) fn new() -> Shared {
        let caches = Caches::default();
        Shared { dispatch: Dispatch::new(&caches), caches, providers: Providers::default() }
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
