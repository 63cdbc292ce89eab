//! Environments: each that runs Pods gets a Node of its name, and an agent that runs what is put on it.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`status`] | what an Environment says of itself |
//! | [`site`] | what its Node is |
//! | `sweep` | one look at everything in each period |
//! | `news` | what came and went since the last look |
//! | `orphans` | what belongs to nothing, removed where that may be |
//! | [`sights`] | what was last seen, and whom it concerns |
//! | `opening` | its deployer, opened as its spec says |
//! | `leaving` | an Environment that is deleted: its Pods go, then its Node, then it |
//!
//! A finalizer keeps an Environment until nothing of ours runs there any more: nobody else knows the way to its provider.

mod leaving;
mod news;
mod opening;
mod orphans;
pub mod sights;
pub mod site;
pub mod status;
mod sweep;

use std::any::Any;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use serde_json::json;
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_deployer::{Provider, Registry};

use self::news::News;
pub use self::sights::Sights;
use self::status::Standing;
use self::sweep::Survey;
use crate::events::{Recorder, is_code};
use crate::node::{Dispatch, NodeAgent, Providers};
use crate::permission::{Asker, Treasury};
use crate::planning::Planning;
use crate::queue::{Lane, Queue};
use crate::runtime::caches::{ENVIRONMENTS_BY_SECRET, MACHINES_BY_DRIFT, MACHINES_BY_LIMIT, drifting, limited};
use crate::runtime::{Cache, Caches, Change, Configuration, Context, Controller, Error, Name, Next, Round};

/// What keeps an Environment until its Pods are gone.
pub const FINALIZER: &str = "setpoint.dev/environment";

/// Has an agent run until what it gives back is dropped.
pub type Host = Arc<dyn Fn(NodeAgent) -> Box<dyn Any + Send + Sync> + Send + Sync>;

/// What Environments are opened with.
#[derive(Clone)]
pub struct Setup {
    /// With the rights of nodes.
    pub nodes: Client,
    pub dispatch: Arc<Dispatch>,
    pub registry: Registry,
    /// Where each Environment has a folder of its own.
    pub folder: PathBuf,
    /// Which control plane this is.
    pub cluster: String,
    pub providers: Providers,
    /// What was last seen; others in this process may ask whether it is on record.
    pub sights: Sights,
    pub host: Host,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

pub struct Environments {
    client: Client,
    caches: Caches,
    /// What agents are given.
    nodes: Context,
    setup: Setup,
    running: Mutex<BTreeMap<Name, Running>>,
    sights: Sights,
    planning: Planning,
    treasury: Treasury,
    asker: Asker,
    recorder: Recorder,
    sweeps: Counter,
    surveys: Mutex<BTreeMap<Name, Survey>>,
    /// When those were asked that have never answered.
    unanswered: Mutex<BTreeMap<Name, Timestamp>>,
    news: Arc<News>,
    queue: Mutex<Option<Arc<Queue<Name>>>>,
}

/// An Environment that was opened.
struct Running {
    uid: Option<String>,
    generation: Option<i64>,
    /// The version of the Secret that it was opened with.
    credentials: Option<String>,
    provider: Arc<dyn Provider>,
    reach: Arc<Mutex<Option<Result<(), String>>>>,
    /// Its agent, as long as this is there.
    agent: Option<Box<dyn Any + Send + Sync>>,
}

impl std::fmt::Debug for Environments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environments").finish_non_exhaustive()
    }
}

/// An agent in a task of its own.
pub fn in_a_task() -> Host {
    struct Task(tokio::task::JoinHandle<()>);
    impl Drop for Task {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    Arc::new(|agent| Box::new(Task(tokio::spawn(agent.run()))))
}

impl Environments {
    pub fn new(context: &Context, caches: &Caches, setup: Setup, planning: &Planning) -> Environments {
        let sights = setup.sights.clone();
        let treasury = Treasury::new(context, caches, planning, &sights);
        let asker = Asker::new(context, caches, planning);
        let recorder = context.recorder("environment-controller");
        let nodes = context.acting_through(setup.nodes.clone());
        let (client, caches) = (context.client.clone(), caches.clone());
        Environments {
            client,
            caches,
            nodes,
            setup,
            running: Mutex::default(),
            sights,
            planning: planning.clone(),
            treasury,
            asker,
            recorder,
            sweeps: context.metrics.sweeps(),
            surveys: Mutex::default(),
            unanswered: Mutex::default(),
            news: Arc::default(),
            queue: Mutex::default(),
        }
    }

    /// Opens it and has its agent run, as far as that can be done.
    async fn stand(&self, key: &Name, environment: &Environment) -> Result<Standing, Error> {
        if let Some(refusal) = self.refusal(key, environment) {
            return Ok(refusal);
        }
        let is_current = |running: &Running| {
            running.uid == environment.metadata.uid
                && running.generation == environment.metadata.generation
                && running.credentials == self.credentials_version(environment)
        };
        if !self.running.lock().get(key).is_some_and(is_current)
            && let Err(problem) = self.open(key, environment).await?
        {
            // What runs by an earlier configuration goes on, but nobody acts by credentials that were taken away.
            let version = self.credentials_version(environment);
            let is_let_in = |running: &Running| problem.has_credentials() && running.credentials == version;
            if !self.running.lock().get(key).is_some_and(is_let_in) {
                self.close(key);
            }
            return Ok(problem);
        }
        let running = self.running.lock();
        let reach = running.get(key).and_then(|running| running.reach.lock().clone());
        Ok(Standing::of_reach(reach))
    }

    /// Why an Environment cannot have its Node.
    fn refusal(&self, key: &Name, environment: &Environment) -> Option<Standing> {
        let node = self.caches.nodes.get(&Name::new("", &key.name));
        let is_foreign = node.is_some_and(|node| !site::is_node_of(&node, environment));
        (is_foreign || &*key.name == site::LOCAL).then(|| Standing::name_taken(&key.name))
    }

    async fn write_status(
        &self,
        environment: &Environment,
        standing: &Standing,
        round: &mut Round,
    ) -> Result<(), Error> {
        let name = environment.metadata.name.as_deref().unwrap_or_default();
        let survey = self.surveys.lock().get(&Name::new("", name)).cloned();
        let census = survey.map(|survey| self.census(name, survey));
        let Some(patch) = status::patch(environment, standing, census.as_ref(), round.now) else { return Ok(()) };
        let api: Api<Environment> = Api::all(self.client.clone());
        match api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) => round.wrote(&self.caches.environments, &written),
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Writes the finalizers that it should have; the next round begins when that is seen.
    async fn write_finalizers(
        &self,
        environment: &Environment,
        kept: Vec<String>,
        round: &mut Round,
    ) -> Result<(), Error> {
        let meta = &environment.metadata;
        let only = json!({"resourceVersion": meta.resource_version, "uid": meta.uid, "finalizers": kept});
        let api: Api<Environment> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"metadata": only}));
        match api.patch(meta.name.as_deref().unwrap_or_default(), &PatchParams::default(), &patch).await {
            // With the last of them it is gone, and must not be opened again by one who does not see that yet.
            Ok(written) if is_released(&written) => round.removed(&self.caches.environments, environment),
            Ok(written) => round.wrote(&self.caches.environments, &written),
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// What an Environment has to say of what it holds.
    fn census(&self, name: &str, survey: Survey) -> status::Census {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        status::Census {
            drifted: count(self.caches.machines.count_by(&MACHINES_BY_DRIFT, name)),
            limited: count(self.caches.machines.count_by(&MACHINES_BY_LIMIT, name)),
            usage: survey.usage,
            offer: survey.offer,
            orphans: survey.orphans,
            observed_at: survey.observed_at,
        }
    }

    /// Who acts there, and whether an agent does so too.
    fn provider_of(&self, key: &Name) -> Option<(Arc<dyn Provider>, bool)> {
        self.running.lock().get(key).map(|running| (running.provider.clone(), running.agent.is_some()))
    }

    fn has_yet_to_answer(&self, key: &Name) -> bool {
        self.running.lock().get(key).is_some_and(|running| running.reach.lock().is_none())
    }

    /// Takes down whether a place answers.
    fn reached(&self, key: &Name, answer: Result<(), String>) {
        if let Some(running) = self.running.lock().get(key) {
            *running.reach.lock() = Some(answer);
        }
    }

    /// When to come back: when it is time for another look, or to try again what failed.
    fn next(&self, key: &Name, environment: &Environment, standing: &Standing, now: Timestamp) -> Next {
        let runs_machines = |(provider, _): &(Arc<dyn Provider>, bool)| provider.abilities().runs_machines;
        match (standing.next(), self.provider_of(key).filter(runs_machines)) {
            (Next::Idle, Some(_)) => Next::After(self.due_in(key, environment, now).unwrap_or_default()),
            (next, _) => next,
        }
    }

    /// Ends the work for an Environment. What runs there goes on.
    fn close(&self, key: &Name) {
        self.running.lock().remove(key);
        self.surveys.lock().remove(key);
        self.unanswered.lock().remove(key);
        self.news.forget(key);
        self.sights.forget(&key.name);
        if &*key.name != site::LOCAL {
            self.setup.providers.remove(&key.name);
        }
    }
}

impl Controller for Environments {
    type Key = Name;
    const NAME: &'static str = "environment";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Name>>) {
        *self.queue.lock() = Some(queue.clone());
        let own = queue.clone();
        caches.environments.listen(move |change| own.add(Name::of(&**change.latest())));
        let (own, environments) = (queue.clone(), caches.environments.clone());
        caches.nodes.listen(move |change| {
            let name = Name::of(&**change.latest());
            let came_or_went = change.before.is_none() || change.after.is_none();
            if came_or_went && environments.get(&name).is_some() {
                own.add(name);
            }
        });
        let (own, environments) = (queue.clone(), caches.environments.clone());
        caches.pods.listen(move |change| wake_leaving(change, &environments, &own));
        let (own, environments) = (queue.clone(), caches.environments.clone());
        caches.secrets.listen(move |change| {
            let Name { namespace, name } = Name::of(&**change.latest());
            let opened = environments.by(&ENVIRONMENTS_BY_SECRET, &format!("{namespace}/{name}"));
            opened.iter().for_each(|environment| own.add(Name::of(&**environment)));
        });
        let (own, news, clock) = (queue.clone(), self.news.clone(), self.nodes.clock);
        caches.machines.listen(move |change| {
            let (before, after) = (change.before.as_deref(), change.after.as_deref());
            let name = Name::new("", &change.latest().spec.environment);
            let is_first = news::has_guest(before) != news::has_guest(after) && news.heard(&name, clock.now());
            if tells(before) != tells(after) || is_first {
                own.add(name);
            }
        });
    }

    async fn reconcile(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        let Some(environment) = self.caches.environments.get(key) else {
            self.close(key);
            return Ok(Next::Idle);
        };
        let finalizers = environment.metadata.finalizers.clone().unwrap_or_default();
        let is_kept = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
        if environment.metadata.deletion_timestamp.is_some() {
            return if is_kept && !self.nodes.read_only {
                self.leave(key, &environment, round).await
            } else {
                Ok(Next::Idle)
            };
        }
        let is_refused = self.refusal(key, &environment).is_some();
        if !is_kept && !is_refused {
            let kept = finalizers.into_iter().chain([FINALIZER.to_owned()]).collect();
            self.write_finalizers(&environment, kept, round).await?;
            return Ok(Next::Idle);
        }
        let standing = self.stand(key, &environment).await?;
        // The first look may take long.
        if environment.status.is_none() && !self.nodes.read_only {
            self.write_status(&environment, &standing, round).await?;
        }
        self.sweep(key, &environment, round).await?;
        let standing = self.stand(key, &environment).await?;
        // Of what a look cannot see, it stays on record what was seen last.
        if self.nodes.read_only && self.has_yet_to_answer(key) {
            return Ok(Next::Idle);
        }
        self.write_status(&environment, &standing, round).await?;
        Ok(self.next(key, &environment, &standing, round.now))
    }

    fn resign(&self) {
        let running: Vec<Name> = self.running.lock().keys().cloned().collect();
        running.iter().for_each(|key| self.close(key));
    }

    fn lane(&self, key: &Name) -> Lane {
        key.name.clone()
    }

    fn about(&self, key: &Name) -> Option<ObjectReference> {
        self.caches.environments.get(key).map(|environment| environment.object_ref(&()))
    }

    fn keys(&self) -> Vec<Name> {
        self.caches.environments.names()
    }

    /// Most of the work is waiting for a provider.
    fn configuration() -> Configuration {
        Configuration::of_places()
    }
}

/// What an Environment says of a Machine: that it is there, that it drifts, or that a limit holds it.
fn tells(machine: Option<&Machine>) -> (bool, bool, bool) {
    let has = |values: Vec<String>| !values.is_empty();
    machine.map(|machine| (true, has(drifting(machine)), has(limited(machine)))).unwrap_or_default()
}

/// Whether nothing keeps an Environment any more that is deleted.
fn is_released(environment: &Environment) -> bool {
    let meta = &environment.metadata;
    meta.deletion_timestamp.is_some() && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
}

/// A Pod that is gone may be the last for which an Environment stays.
fn wake_leaving(change: &Change<Pod>, environments: &Cache<Environment>, queue: &Queue<Name>) {
    let (Some(pod), None) = (&change.before, &change.after) else { return };
    let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else { return };
    let name = Name::new("", node);
    if environments.get(&name).is_some_and(|environment| environment.metadata.deletion_timestamp.is_some()) {
        queue.add(name);
    }
}
