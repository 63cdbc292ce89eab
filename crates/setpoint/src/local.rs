//! The node `local`: this machine, where Pods run as processes.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use setpoint_apiserver::{Identity, Server};
use setpoint_controllers::NodeAgent;
use setpoint_controllers::environment::site;
use setpoint_controllers::node::machine;
use setpoint_controllers::node::registration::Registration;
use setpoint_controllers::runtime::{Clock, Context};
use setpoint_deployer::{Provider, process, registry};
use tokio::task::JoinSet;

use crate::controllers::{Shared, client};
use crate::data_dir::DataDir;
use crate::deployers;

/// The name of the node, and of the Environment that it stands for.
const NODE: &str = site::LOCAL;
/// What runs containers there.
const RUNTIME: &str = process::NAME;
/// Where Pods' files are, in the data folder.
const PODS: &str = "pods";

/// Those that work for the node. They are clients of the server, with the rights that their kind has on Kubernetes.
#[derive(Debug)]
pub(crate) struct Local(JoinSet<()>);

impl Local {
    pub(crate) async fn start(server: &Server, data: &DataDir, cluster: &str, shared: &Shared) -> Result<Local> {
        let folder = data.file(PODS);
        data.let_pods_pass()?;
        let context = registry::Context {
            cluster: cluster.into(),
            environment: NODE.to_owned(),
            folder: folder.clone(),
            credentials: registry::Credentials::default(),
            read_only: false,
        };
        let opened = deployers::registry()?.open(RUNTIME, None, &registry::Settings::default(), &context).await;
        let opened =
            opened.with_context(|| format!("cannot run Pods in {}; --no-local starts without", folder.display()))?;
        let provider: Arc<dyn Provider> = opened.provider;
        shared.providers.put(NODE, provider.clone());
        let node = Identity::new(format!("system:node:{NODE}"), ["system:nodes"]);
        let registration = Registration {
            facts: machine::facts(NODE, NODE, RUNTIME, &folder),
            system: machine::system(env!("CARGO_PKG_VERSION"), RUNTIME),
            provider_id: format!("setpoint://{cluster}/{NODE}"),
            owner: None,
            taints: Vec::new(),
        };
        let agent = NodeAgent {
            context: Context { metrics: shared.metrics.clone(), ..Context::new(client(server, node), Clock::System) },
            caches: shared.caches.clone(),
            dispatch: shared.dispatch.clone(),
            registration,
            provider,
            cluster: cluster.to_owned(),
            report: None,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(agent.run());
        Ok(Local(tasks))
    }

    /// Stops those that work for the node, and nothing that runs on it.
    pub(crate) fn stop(mut self) {
        tracing::info!("Pods on this machine go on running; the next start takes them up again");
        self.0.abort_all();
    }
}
