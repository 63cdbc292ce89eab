//! The control plane in this process: the store, the API server and those who act, with or without a listener.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use setpoint_apiserver::authorization::MASTERS;
use setpoint_apiserver::fairness::Limits;
use setpoint_apiserver::{Identity, Server, Setup, Surroundings, Users, audit, kinds};
use setpoint_controllers::environment::Sights;
use setpoint_store::{At, EmbeddedStore, KeyFile, MemoryStore, Range, Sealing, Store};
use tokio::task::JoinSet;

use crate::controllers::{self, Controllers, Shared};
use crate::data_dir::{DataDir, STORE};
use crate::issuer;
use crate::local::Local;
use crate::pods::Pods;
use crate::secrets::KEYS;

/// Where Environments are stored.
const ENVIRONMENTS: &str = "/setpoint.dev/environments/";
/// How long what is under way may take after the program was told to stop.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

/// What the control plane is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Who may use it over the network.
    pub(crate) users: Users,
    /// Where objects are kept: in memory, or in the data folder.
    pub(crate) in_memory: bool,
    /// Where it is written who changed what.
    pub(crate) audit: Option<audit::Log>,
    /// Where it is kept who approved and who did what.
    pub(crate) decisions: Option<audit::Decisions>,
    /// Whether Pods run on this machine.
    pub(crate) runs_pods: bool,
    /// Whether the controllers run in this process.
    pub(crate) runs_controllers: bool,
}

/// A control plane at work.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    pub(crate) server: Server,
    store: Arc<dyn Store>,
    logs: Logs,
    actors: Actors,
    sights: Sights,
}

/// What is written until the very end.
#[derive(Debug)]
struct Logs {
    audit: Option<audit::Log>,
    decisions: Option<audit::Decisions>,
}

/// Those who act: they are clients of the server.
#[derive(Debug)]
pub(crate) struct Actors {
    local: Option<Local>,
    controllers: Option<Controllers>,
    _feeds: Option<JoinSet<()>>,
}

/// Who keeps the folder that all is kept in may do everything.
pub(crate) fn administrator() -> Identity {
    Identity::new("admin", [MASTERS])
}

impl ControlPlane {
    /// Starts everything. The folder must be kept open for as long as it runs.
    pub(crate) async fn start(data: &DataDir, parts: Parts) -> Result<ControlPlane> {
        let store: Arc<dyn Store> = match parts.in_memory {
            true => Arc::new(MemoryStore::new(setpoint_store::Options::default())),
            false => Arc::new(open_embedded(data).await?),
        };
        let setup = Setup {
            users: parts.users,
            issuer: issuer::open(data)?,
            limits: Limits::default(),
            audit: parts.audit.clone(),
            surroundings: Surroundings::default(),
        };
        let (server, cluster) = open_server(&store, setup).await?;
        if !parts.in_memory {
            data.note_store(&cluster)?;
        }
        if let Some(decisions) = &parts.decisions {
            server.keep_decisions(decisions.clone());
        }
        let shared = Shared::new();
        server.connect_pods(Arc::new(Pods { providers: shared.providers.clone() }));
        server.publish(shared.metrics.registry());
        let local = match parts.runs_pods {
            true => Some(Local::start(&server, data, &cluster, &shared).await?),
            false => None,
        };
        let controllers = match parts.runs_controllers {
            true => Some(Controllers::start(&server, data.path(), &cluster, &shared)?),
            false => None,
        };
        // Where there are no controllers, nobody else keeps in step what the node reads.
        let feeds = controllers.is_none().then(|| shared.feed(&server));
        let actors = Actors { local, controllers, _feeds: feeds };
        let logs = Logs { audit: parts.audit, decisions: parts.decisions };
        Ok(ControlPlane { server, store, logs, actors, sights: shared.sights })
    }

    /// Starts one that only looks, at what the store in a folder holds: on a copy in memory, with no Pods, and with places
    /// that are asked and never told anything. In the folder nothing is made and nothing is written.
    pub(crate) async fn look(folder: &Path) -> Result<ControlPlane> {
        let store: Arc<dyn Store> = Arc::new(copy_embedded(folder).await?);
        let setup = Setup {
            users: Users::new([]),
            issuer: issuer::passing()?,
            limits: Limits::default(),
            audit: None,
            surroundings: Surroundings::default(),
        };
        let (server, cluster) = open_server(&store, setup).await?;
        let shared = Shared::new();
        let controllers = Some(Controllers::look(&server, folder, &cluster, &shared)?);
        let actors = Actors { local: None, controllers, _feeds: None };
        let logs = Logs { audit: None, decisions: None };
        Ok(ControlPlane { server, store, logs, actors, sights: shared.sights })
    }

    /// A client with all rights, through a function call.
    pub(crate) fn administer(&self) -> Client {
        controllers::client(&self.server, administrator())
    }

    /// Whether every Machine that had to be looked at was, and what was seen is on record.
    pub(crate) fn is_calm(&self) -> bool {
        self.sights.is_calm()
    }

    /// Lets `work` use it until it is done; those who act are stopped by whoever does the work.
    pub(crate) async fn serve_until<F: Future<Output = ()>>(
        self,
        work: impl FnOnce(Server, Actors) -> F,
    ) -> Result<()> {
        work(self.server, self.actors).await;
        close(self.store, self.logs).await
    }

    /// Stops those who act, then everything else.
    pub(crate) async fn stop(self) -> Result<()> {
        self.actors.stop().await;
        self.server.stop();
        close(self.store, self.logs).await
    }
}

impl Actors {
    pub(crate) async fn stop(self) {
        if let Some(controllers) = self.controllers {
            controllers.stop().await;
        }
        self.local.into_iter().for_each(Local::stop);
    }
}

async fn close(store: Arc<dyn Store>, logs: Logs) -> Result<()> {
    let closed = tokio::time::timeout(DRAIN, store.close()).await;
    // Whatever became of the store.
    if let Some(audit) = logs.audit {
        audit.close().await;
    }
    if let Some(decisions) = logs.decisions {
        decisions.close().await;
    }
    closed
        .context("the store did not close in time; what was acknowledged is safe")?
        .context("the store did not close cleanly")?;
    Ok(())
}

/// The API server over a store, and what it marks its guests with.
async fn open_server(store: &Arc<dyn Store>, setup: Setup) -> Result<(Server, String)> {
    let server = Server::open(store.clone(), setup)
        .await
        .map_err(|failure| anyhow::anyhow!("the API server cannot start: {failure:?}"))?;
    let itself = controllers::client(&server, Identity::new("system:setpoint", [MASTERS]));
    let cluster = controllers::cluster_id(itself).await?;
    Ok((server, cluster))
}

/// The store in the data folder, with Secrets sealed on disk.
async fn open_embedded(data: &DataDir) -> Result<EmbeddedStore> {
    data.check_store()?;
    if data.is_of_former_version() {
        data.settle(holds_environments(&copy_embedded(data.path()).await?).await?)?;
    }
    let (path, sealing) = (data.file(STORE), sealing(data.path()));
    let shown = path.display().to_string();
    let open = move || EmbeddedStore::open_sealed(&path, setpoint_store::Options::default(), sealing);
    tokio::task::spawn_blocking(open).await?.with_context(|| format!("cannot open the store in {shown}"))
}

async fn holds_environments(store: &MemoryStore) -> Result<bool> {
    let found = store.range(Range { scope: ENVIRONMENTS, after: None, limit: 1, at: At::Now }).await?;
    Ok(!found.entries.is_empty())
}

/// What the store in a folder holds, in memory; an empty one where there is none.
async fn copy_embedded(folder: &Path) -> Result<MemoryStore> {
    let (path, sealing) = (folder.join(STORE), sealing(folder));
    let shown = path.display().to_string();
    let copy = move || MemoryStore::copy_of(&path, setpoint_store::Options::default(), sealing);
    let copied = tokio::task::spawn_blocking(copy).await?;
    let copied = copied.with_context(|| format!("cannot read the store in {shown}"))?;
    Ok(copied.unwrap_or_else(|| MemoryStore::new(setpoint_store::Options::default())))
}

fn sealing(folder: &Path) -> Sealing {
    Sealing { directories: vec![kinds::secret::DIRECTORY.to_owned()], key_file: KeyFile::at(folder.join(KEYS)) }
}
