//! Simulated Environments against the real API server in this process: how few writes a Pod takes, and how fast many are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
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
use setpoint_deployer::Registry;
use setpoint_deployer::simulated::SimulatedDriver;
use setpoint_store::{MemoryStore, Options};
use setpoint_testkit::wait_for;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(120);
/// How many Pods are made; more with this variable, to measure.
const PODS: usize = 100;
const PODS_VARIABLE: &str = "SETPOINT_PODS";

struct Cluster {
    admin: Client,
    driver: Arc<SimulatedDriver>,
    controllers: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.controllers.abort();
    }
}

impl Cluster {
    async fn start() -> Result<Cluster> {
        let issuer = Issuer::new("https://kubernetes.default.svc", [Issuer::new_key()])?;
        let (users, surroundings) = (Users::new(Vec::new()), Surroundings::default());
        let setup = Setup { users, issuer, limits: Limits::default(), audit: None, surroundings };
        let server = Server::open(Arc::new(MemoryStore::new(Options::default())), setup).await;
        let server = server.map_err(|failure| anyhow::anyhow!("{failure:?}"))?;
        let client = |user: &str, groups: &[&str]| {
            Client::new(server.acting_as(Identity::new(user, groups.iter().copied())), "default")
        };
        let admin = client("admin", &[MASTERS]);
        let cluster = Api::<Namespace>::all(admin.clone()).get("kube-system").await?.metadata.uid.context("a uid")?;
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
        if accounts.get_opt("default").await?.is_none() {
            let account = serde_json::from_value(json!({"metadata": {"name": "default"}}))?;
            accounts.create(&PostParams::default(), &account).await?;
        }
        let (mut registry, driver, folder) = (Registry::default(), Arc::default(), tempfile::tempdir()?);
        registry.register(Arc::<SimulatedDriver>::clone(&driver))?;
        let caches = Caches::default();
        let manager = Manager {
            identity: "test".to_owned(),
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
                folder: folder.path().to_owned(),
                cluster,
                providers: Providers::default(),
                sights: environment::Sights::default(),
                host: in_a_task(),
            },
            caches,
        };
        let controllers = tokio::spawn(async move {
            manager.run(std::future::pending()).await.expect("a name that can stand in a header");
        });
        Ok(Cluster { admin, driver, controllers, _folder: folder })
    }

    async fn declare(&self, name: &str, config: Value) -> Result<()> {
        let environment = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": name},
            "spec": {"deployer": {"name": "simulated"}, "config": config},
        });
        let environment: Environment = serde_json::from_value(environment)?;
        Api::<Environment>::all(self.admin.clone()).create(&PostParams::default(), &environment).await?;
        let nodes: Api<Node> = Api::all(self.admin.clone());
        wait_for(format!("the Node {name}"), PATIENCE, || async {
            let node = nodes.get_opt(name).await?;
            let is_tainted = |node: &Node| {
                let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
                taints.any(|taint| taint.effect == "NoSchedule")
            };
            Ok(node.filter(|node| !is_tainted(node)).map(drop))
        })
        .await
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.admin.clone(), "default")
    }

    async fn make(&self, names: impl Iterator<Item = String>) -> Result<()> {
        let pods = &self.pods();
        let makes = names.map(|name| async move {
            let pod = json!({
                "metadata": {"name": name},
                "spec": {"containers": [{"name": "web", "image": "x"}], "automountServiceAccountToken": false},
            });
            pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
            anyhow::Ok(())
        });
        futures::stream::iter(makes).buffer_unordered(64).try_collect::<()>().await
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whoever makes a Pod, puts it on a node and starts it writes it three times in all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_is_made_bound_and_ready_in_three_writes() -> Result<()> {
    let count = std::env::var(PODS_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(PODS);
    let cluster = Cluster::start().await?;
    cluster.declare("lab", json!({})).await?;
    let watched = cluster.pods();
    let mut events = watched.watch(&WatchParams::default().timeout(290), "0").await?.boxed();
    let start = Instant::now();
    let mut writes: BTreeMap<String, usize> = BTreeMap::new();
    let follow = async {
        let mut ready = 0;
        while ready < count {
            let event = tokio::time::timeout(PATIENCE, events.try_next()).await.context("too slow")??;
            let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event.context("the watch ended")? else {
                continue;
            };
            *writes.entry(pod.metadata.name.clone().unwrap_or_default()).or_default() += 1;
            ready += usize::from(is_ready(&pod));
        }
        anyhow::Ok(())
    };
    let names = (0..count).map(|number| format!("p{number}"));
    tokio::try_join!(cluster.make(names), follow)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{count} Pods ready in {seconds:.2} s: {:.0} a second", count as f64 / seconds);
    let most = writes.values().max().copied().unwrap_or_default();
    ensure!(most <= 3, "a Pod was written {most} times");
    let place = cluster.driver.place("lab").context("a place")?;
    ensure!(place.len() == count, "there are {} instances", place.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_at_a_place_is_told_without_asking() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.declare("lab", json!({"startMs": 50, "readyMs": 100})).await?;
    cluster.make(["web".to_owned()].into_iter()).await?;
    let pods = cluster.pods();
    let until = async |what: &str, is: &(dyn Fn(&Pod) -> bool + Sync)| {
        wait_for(what, PATIENCE, || async { Ok(pods.get_opt("web").await?.filter(|pod| is(pod))) }).await
    };
    until("the Pod to be ready", &is_ready).await?;
    let place = cluster.driver.place("lab").context("a place")?;
    let id = place.truth().first().map(|instance| instance.guest.id.clone()).context("an instance")?;
    // Somebody takes it away behind our back: it is made again.
    ensure!(place.drift(&id, setpoint_deployer::simulated::DriftKind::Vanished), "it was there");
    wait_for("another instance", PATIENCE, || async {
        let other = place.truth().into_iter().find(|instance| instance.guest.id != id);
        Ok(other.map(drop))
    })
    .await?;
    pods.delete("web", &DeleteParams::default().grace_period(1)).await?;
    wait_for("nothing to be left", PATIENCE, || async { Ok(place.is_empty().then_some(())) }).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_does_not_answer_says_so_and_keeps_what_it_holds() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.declare("lab", json!({})).await?;
    cluster.make(["web".to_owned()].into_iter()).await?;
    let environments: Api<Environment> = Api::all(cluster.admin.clone());
    let configure = async |config: Value| -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"config": config}}));
        environments.patch("lab", &PatchParams::default(), &patch).await?;
        Ok(())
    };
    let until_reason = async |reason: &str| {
        wait_for(format!("the reason {reason}"), PATIENCE, || async {
            let status = environments.get("lab").await?.status.unwrap_or_default();
            let ready = status.conditions.into_iter().find(|condition| condition.type_ == "Ready");
            Ok(ready.filter(|ready| ready.reason.as_deref() == Some(reason)).map(drop))
        })
        .await
    };
    until_reason("Reachable").await?;
    let place = cluster.driver.place("lab").context("a place")?;
    wait_for("the instance", PATIENCE, || async { Ok((place.len() == 1).then_some(())) }).await?;
    configure(json!({"down": "refuses"})).await?;
    until_reason("Unreachable").await?;
    environments.delete("lab", &DeleteParams::default()).await?;
    ensure!(environments.get_opt("lab").await?.is_some(), "it stays as long as something may run there");
    ensure!(place.len() == 1, "nobody could end it");
    configure(json!({"down": null})).await?;
    wait_for("the Environment to go", PATIENCE, || async {
        Ok(environments.get_opt("lab").await?.is_none().then_some(()))
    })
    .await?;
    ensure!(place.is_empty(), "nothing is left behind");
    if Api::<Node>::all(cluster.admin.clone()).get_opt("lab").await?.is_some() {
        bail!("its Node is still there");
    }
    Ok(())
}
