//! A server in this process, with the node agent and the scheduler as its clients.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Event, Namespace, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use setpoint_apiserver::authorization::MASTERS;
use setpoint_apiserver::fairness::Limits;
use setpoint_apiserver::{Identity, Issuer, Server, Setup, Surroundings, Users};
use setpoint_controllers::node::registration::Registration;
use setpoint_controllers::node::{Dispatch, machine};
use setpoint_controllers::runtime::{Caches, Clock, Context, Runner, feed};
use setpoint_controllers::{NodeAgent, Scheduler};
use setpoint_store::{MemoryStore, Options};
use setpoint_testkit::wait_for;
use tokio::task::JoinSet;

use super::fake_provider::FakeProvider;

const DEADLINE: Duration = Duration::from_secs(30);

pub(super) struct Cluster {
    server: Server,
    pub(super) admin: Client,
    pub(super) provider: Arc<FakeProvider>,
    pub(super) id: String,
    tasks: JoinSet<()>,
}

impl Cluster {
    /// A cluster whose node has not been started.
    pub(super) async fn new() -> Result<Cluster> {
        let issuer = Issuer::new("https://kubernetes.default.svc", [Issuer::new_key()])?;
        let users = Users::new(Vec::new());
        let setup =
            Setup { users, issuer, limits: Limits::default(), audit: None, surroundings: Surroundings::default() };
        let server = Server::open(Arc::new(MemoryStore::new(Options::default())), setup).await;
        let server = server.map_err(|failure| anyhow::anyhow!("{failure:?}"))?;
        let admin = Client::new(server.acting_as(Identity::new("admin", [MASTERS])), "default");
        let namespace = Api::<Namespace>::all(admin.clone()).get("kube-system").await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
        if accounts.get_opt("default").await?.is_none() {
            let account = serde_json::from_value(json!({"metadata": {"name": "default"}}))?;
            accounts.create(&PostParams::default(), &account).await?;
        }
        let id = namespace.metadata.uid.context("a uid")?;
        Ok(Cluster { server, admin, provider: FakeProvider::new(), id, tasks: JoinSet::new() })
    }

    /// A cluster whose node runs.
    pub(super) async fn start() -> Result<Cluster> {
        let mut cluster = Cluster::new().await?;
        cluster.start_node();
        Ok(cluster)
    }

    pub(super) fn start_node(&mut self) {
        let client = |user: &str, groups: &[&str]| {
            Client::new(self.server.acting_as(Identity::new(user, groups.iter().copied())), "default")
        };
        let caches = Caches::default();
        let context = |client: Client| Context::new(client, Clock::System);
        let agent = NodeAgent {
            context: context(client("system:node:local", &["system:nodes"])),
            dispatch: Dispatch::new(&caches),
            caches: caches.clone(),
            registration: Registration {
                facts: machine::facts("local", "local", "fake", Path::new("/")),
                system: machine::system("0.0.0", "fake"),
                provider_id: "setpoint://test/local".to_owned(),
                owner: None,
                taints: Vec::new(),
            },
            provider: self.provider.clone(),
            cluster: self.id.clone(),
            report: None,
        };
        let scheduling = context(client("system:kube-scheduler", &[]));
        let scheduler = Runner::new(Scheduler::new(&scheduling, &caches), &caches, &scheduling);
        let mut feeds = feed::feed(&caches, &client("system:kube-controller-manager", &[]), &scheduling.metrics);
        self.tasks.spawn(agent.run());
        self.tasks.spawn(scheduler.run());
        self.tasks.spawn(async move { while feeds.join_next().await.is_some() {} });
    }

    /// Ends the node's agents as a crash would.
    pub(super) async fn crash_node(&mut self) {
        self.tasks.shutdown().await;
    }

    pub(super) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.admin.clone(), "default")
    }

    /// Makes a Pod with one container `web`, with this in its spec besides. Returns its uid.
    pub(super) async fn run(&self, name: &str, over: Value) -> Result<String> {
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "web", "image": "web:1", "command": ["sleep", "9"]}]},
        });
        for (field, value) in over.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        let made = self.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        made.metadata.uid.context("a uid")
    }

    pub(super) async fn delete(&self, name: &str, grace: u32) -> Result<()> {
        self.pods().delete(name, &DeleteParams::default().grace_period(grace)).await?;
        Ok(())
    }

    /// Waits until a Pod is as it should be, and returns it.
    pub(super) async fn until(&self, name: &str, what: impl Fn(&Value) -> bool) -> Result<Value> {
        let (pods, what) = (self.pods(), &what);
        let seen = wait_for(format!("the Pod {name}"), DEADLINE, || async {
            let pod = serde_json::to_value(pods.get_opt(name).await?)?;
            Ok(what(&pod).then_some(pod))
        });
        match seen.await {
            Ok(pod) => Ok(pod),
            Err(error) => {
                let last = serde_json::to_string_pretty(&pods.get_opt(name).await?)?;
                Err(error.context(format!("{last}\ncalls: {:?}", self.provider.calls())))
            }
        }
    }

    pub(super) async fn until_running(&self, name: &str) -> Result<Value> {
        self.until(name, |pod| pod["status"]["phase"] == "Running").await
    }

    pub(super) async fn until_gone(&self, name: &str) -> Result<()> {
        self.until(name, Value::is_null).await.map(drop)
    }

    /// Waits until something is so of what the provider has.
    pub(super) async fn eventually<T: Debug>(
        &self,
        what: &str,
        condition: impl Fn(&FakeProvider) -> Option<T>,
    ) -> Result<T> {
        let (condition, provider) = (&condition, &self.provider);
        let waited = wait_for(what, DEADLINE, || async { Ok(condition(provider)) }).await;
        waited.with_context(|| format!("calls: {:?}", self.provider.calls()))
    }

    /// The Events of a Pod: reason, message, and how often.
    pub(super) async fn events(&self, name: &str) -> Result<Vec<(String, String, i32)>> {
        let events: Api<Event> = Api::namespaced(self.admin.clone(), "default");
        let fields = format!("involvedObject.name={name}");
        let list = events.list(&ListParams::default().fields(&fields)).await?;
        let told = |event: Event| {
            (event.reason.unwrap_or_default(), event.message.unwrap_or_default(), event.count.unwrap_or_default())
        };
        Ok(list.items.into_iter().map(told).collect())
    }

    /// Waits for an Event of a Pod, and returns its message and count.
    pub(super) async fn until_told(&self, name: &str, reason: &str, count: i32) -> Result<String> {
        wait_for(format!("the Event {reason} of {name}, {count} times"), DEADLINE, || async {
            let events = self.events(name).await?;
            let found = events.into_iter().find(|event| event.0 == reason && event.2 == count);
            Ok(found.map(|event| event.1))
        })
        .await
    }
}
