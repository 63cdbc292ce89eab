//! The controllers as they run, with real queues, watches, elections and time, over a transport that loses a good part of
//! everything: in the end all is as it should be. Unlike the simulation, this does not replay.

mod transport;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use setpoint_api::environment::Environment;
use setpoint_apiserver::authorization::MASTERS;
use setpoint_apiserver::fairness::Limits;
use setpoint_apiserver::{Identity, Issuer, Server, Setup, Surroundings, Users};
use setpoint_controllers::environment::{self, in_a_task};
use setpoint_controllers::manager::{Clients, Manager};
use setpoint_controllers::metrics::Metrics;
use setpoint_controllers::node::{Dispatch, Providers};
use setpoint_controllers::runtime::{Caches, Clock};
use setpoint_deployer::simulated::SimulatedDriver;
use setpoint_deployer::{Deadlines, Registry};
use setpoint_store::{MemoryStore, Options};
use setpoint_testkit::wait_for;
use tokio::task::JoinHandle;

use self::transport::Unreliable;

/// Every lost request is tried again later and later, so chance decides how long it takes.
const DEADLINE: Duration = Duration::from_secs(280);

struct Cluster {
    server: Server,
    admin: Client,
    id: String,
    deployer: Arc<SimulatedDriver>,
}

impl Cluster {
    async fn new() -> Result<Cluster> {
        let setup = Setup {
            users: Users::new(Vec::new()),
            issuer: Issuer::new("https://kubernetes.default.svc", [Issuer::new_key()])?,
            limits: Limits::default(),
            audit: None,
            surroundings: Surroundings::default(),
        };
        let server = Server::open(Arc::new(MemoryStore::new(Options::default())), setup).await;
        let server = server.map_err(|failure| anyhow!("{failure:?}"))?;
        let admin = Client::new(server.acting_as(Identity::new("admin", [MASTERS])), "default");
        let namespace = Api::<Namespace>::all(admin.clone()).get("kube-system").await?;
        let id = namespace.metadata.uid.context("a uid")?;
        Ok(Cluster { server, admin, id, deployer: Arc::default() })
    }

    /// Starts a process of controllers. Aborting it is its crash.
    fn start_controllers(&self, identity: &str) -> Result<JoinHandle<()>> {
        let client = |user: &str, groups: &[&str]| {
            let server = self.server.acting_as(Identity::new(user, groups.iter().copied()));
            Client::new(Unreliable(server), "default")
        };
        let mut registry = Registry::new(Deadlines::default());
        registry.register(self.deployer.clone())?;
        let caches = Caches::default();
        let manager = Manager {
            identity: identity.to_owned(),
            clients: Clients {
                controllers: client("system:kube-controller-manager", &[]),
                scheduler: client("system:kube-scheduler", &[]),
            },
            clock: Clock::System,
            metrics: Metrics::default(),
            environments: environment::Setup {
                nodes: client("system:node:environments", &["system:nodes"]),
                dispatch: Dispatch::new(&caches),
                registry,
                folder: PathBuf::new(),
                cluster: self.id.clone(),
                providers: Providers::default(),
                sights: environment::Sights::default(),
                host: in_a_task(),
            },
            caches,
        };
        Ok(tokio::spawn(async move {
            let _ = manager.run(std::future::pending()).await;
        }))
    }

    /// Waits until a Deployment is rolled out to so many replicas, and there are no other Pods.
    async fn until_rolled_out(&self, replicas: usize, version: &str) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.admin.clone(), "default");
        wait_for(format!("{replicas} Pods of version {version}"), DEADLINE, || async {
            let pods = pods.list(&ListParams::default()).await?.items;
            let are_right = pods.iter().all(|pod| is_ready(pod) && version_of(pod).as_deref() == Some(version));
            Ok((are_right && pods.len() == replicas).then_some(()))
        })
        .await
    }

    fn instances(&self) -> usize {
        self.deployer.place("lab").map_or(0, |place| place.len())
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn version_of(pod: &Pod) -> Option<String> {
    let container = pod.spec.as_ref()?.containers.first()?;
    container.image.clone()
}

fn template(version: &str) -> Value {
    let spec = json!({"containers": [{"name": "main", "image": version}], "terminationGracePeriodSeconds": 1});
    json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_whose_requests_are_lost_get_there_all_the_same() -> Result<()> {
    let cluster = Cluster::new().await?;
    let config = json!({"seed": 1, "failureRate": 0.05, "lostResponseRate": 0.05, "timeoutMs": 200, "latencyMaxMs": 5});
    let lab = json!({"metadata": {"name": "lab"}, "spec": {"deployer": {"name": "simulated"}, "config": config}});
    let environments: Api<Environment> = Api::all(cluster.admin.clone());
    environments.create(&PostParams::default(), &serde_json::from_value(lab)?).await?;
    let first = cluster.start_controllers("first")?;
    let second = cluster.start_controllers("second")?;

    let deployments: Api<Deployment> = Api::namespaced(cluster.admin.clone(), "default");
    let web = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 12, "selector": {"matchLabels": {"app": "web"}}, "template": template("one")},
    });
    deployments.create(&PostParams::default(), &serde_json::from_value(web)?).await?;
    cluster.until_rolled_out(12, "one").await?;

    let change = json!({"spec": {"replicas": 20, "template": template("two")}});
    deployments.patch("web", &PatchParams::default(), &Patch::Merge(change)).await?;
    // In the middle of it; the other takes over.
    first.abort();
    cluster.until_rolled_out(20, "two").await?;
    ensure!(cluster.instances() == 20, "{} instances for 20 Pods", cluster.instances());

    deployments.delete("web", &DeleteParams::default()).await?;
    cluster.until_rolled_out(0, "two").await?;
    wait_for("nothing to be left".to_owned(), DEADLINE, || async { Ok((cluster.instances() == 0).then_some(())) })
        .await?;
    second.abort();
    Ok(())
}
