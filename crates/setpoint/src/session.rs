//! Who a command works with: a server, or, where none runs, a control plane in this process on the local data folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use http::Method;
use jiff::Timestamp;
use serde_json::json;
use setpoint_apiserver::{Users, audit};

use crate::client::{Answer, Connection, Server};
use crate::control_plane::{ControlPlane, Parts};
use crate::data_dir::identity::Residence;
use crate::data_dir::{DataDir, Location};
use crate::get::JSON;
use crate::outcome::Outcome;
use crate::terminal::remark;
use crate::up::{AUDIT_LOG, KUBECONFIG};
use crate::{decision_log, logging, stop, user};

/// As large as `setpoint up` lets the audit log become, by default.
pub(crate) const ROTATION: audit::Rotation = audit::Rotation { bytes: 50 << 20, files: 10 };

/// Where to work.
#[derive(Debug, Args)]
pub(crate) struct Place {
    #[command(flatten)]
    connection: Connection,
    /// Work on this data folder: through its server, or in this process where none runs
    /// [default: setpoint under the user's data home]
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    data_dir: Option<PathBuf>,
}

/// A server to work with, which may be here only for as long as the work takes.
pub(crate) struct Session {
    pub(crate) server: Server,
    pub(crate) here: Option<Here>,
}

/// A control plane in this process, which knows only what was stored until it has looked.
pub(crate) struct Here {
    pub(crate) plane: ControlPlane,
    pub(crate) since: Timestamp,
    /// Nobody else may have the folder meanwhile, if there is one.
    _data: Option<DataDir>,
}

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Everything that is stored is held as desired for as long as the work takes.
    Acting,
    /// Nothing is changed: neither the folder nor any place.
    Looking,
}

impl Place {
    /// The namespace that was named.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.connection.namespace.as_deref()
    }

    /// Does the work, and stops whatever was started for it, however it ends.
    pub(crate) fn run(&self, work: impl AsyncFnOnce(&Session) -> Result<Outcome>) -> Result<Outcome> {
        self.work(Purpose::Acting, work)
    }

    /// Does work that only looks.
    pub(crate) fn look(&self, work: impl AsyncFnOnce(&Session) -> Result<Outcome>) -> Result<Outcome> {
        self.work(Purpose::Looking, work)
    }

    fn work(&self, purpose: Purpose, work: impl AsyncFnOnce(&Session) -> Result<Outcome>) -> Result<Outcome> {
        logging::start_quietly();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(async {
            let stop = stop::signal()?;
            let session = self.open(purpose).await?;
            let result = tokio::select! {
                result = work(&session) => result,
                () = stop => Err(anyhow!("interrupted; what was written stays, and `setpoint status` shows it")),
            };
            let stopped = session.stop().await;
            result.and_then(|outcome| stopped.map(|()| outcome))
        });
        // A prompt that nobody answered is not waited for.
        runtime.shutdown_timeout(Duration::from_millis(100));
        result
    }

    async fn open(&self, purpose: Purpose) -> Result<Session> {
        if self.data_dir.is_none() && self.connection.is_named() {
            return Ok(Session { server: self.connection.connect().await?, here: None });
        }
        let location = Location::of(self.data_dir.as_deref())?;
        if let Some(server) = self.running_on(&location.path).await? {
            return Ok(Session { server, here: None });
        }
        let since = Timestamp::now();
        let (plane, data) = match purpose {
            Purpose::Acting => act(&location).await?,
            Purpose::Looking => look(&location).await?,
        };
        let namespace = self.connection.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let server = Server::here(plane.administer(), namespace);
        Ok(Session { server, here: Some(Here { plane, since, _data: data }) })
    }

    /// The server that runs on a data folder, if one does. The kubeconfig in a copy leads to that of the original.
    async fn running_on(&self, folder: &Path) -> Result<Option<Server>> {
        let kubeconfig = folder.join(KUBECONFIG);
        let is_copy = matches!(DataDir::residence_of(folder)?, Some(Residence::Copy(_) | Residence::GivenUp(_)));
        if is_copy || !kubeconfig.exists() {
            return Ok(None);
        }
        let server = self.connection.through(kubeconfig).connect().await?;
        Ok(server.read("/version", JSON).await.is_ok().then_some(server))
    }
}

/// A control plane that acts, in this process.
async fn act(location: &Location) -> Result<(ControlPlane, Option<DataDir>)> {
    let data = location.open()?;
    remark(&format!("no server runs on {}: the work is done in this process", location.path.display()));
    user::make_roster(data.path())?;
    let file = audit::File::open(data.file(AUDIT_LOG), ROTATION).context("cannot open the audit log")?;
    let parts = Parts {
        users: Users::new([]),
        in_memory: false,
        audit: Some(audit::Log::to(file)?),
        decisions: Some(decision_log::open(&data, None)?),
        runs_pods: true,
        runs_controllers: true,
    };
    let plane = ControlPlane::start(&data, parts).await?;
    Ok((plane, Some(data)))
}

/// A control plane that only looks, in this process.
async fn look(location: &Location) -> Result<(ControlPlane, Option<DataDir>)> {
    let shown = location.path.display();
    let data = location.look()?;
    remark(&match data {
        Some(_) => format!("no server runs on {shown}: this is a look at what is stored there, and changes nothing"),
        None => format!("there is no data directory {shown} yet: nothing is stored"),
    });
    Ok((ControlPlane::look(&location.path).await?, data))
}

impl Session {
    async fn stop(self) -> Result<()> {
        match self.here {
            Some(here) => here.plane.stop().await,
            None => Ok(()),
        }
    }

    /// The name that the server knows the user by.
    pub(crate) async fn user(&self) -> Result<String> {
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let answer = self.server.send(Method::POST, path, Some((JSON, &review))).await?.object()?;
        let name = answer["status"]["userInfo"]["username"].as_str().map(str::to_owned);
        name.context("the server does not say who asks")
    }

    /// What this control plane is known by: the uid of its namespace kube-system.
    pub(crate) async fn cluster(&self) -> Result<String> {
        match self.server.read("/api/v1/namespaces/kube-system", JSON).await? {
            Answer::Found(namespace) => {
                namespace["metadata"]["uid"].as_str().map(str::to_owned).context("the namespace kube-system has no uid")
            }
            _ => Err(anyhow!("the server has no namespace kube-system")),
        }
    }
}
