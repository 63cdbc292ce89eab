//! The work on one Pod: look at it and at what runs of it, decide, write the status, act; until there is nothing left to do.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use setpoint_core::observation::{Completeness, Reading};
use setpoint_core::pod::agent::{self, Act, Facts, InstanceFacts, RunState};
use setpoint_core::pod::status::Hold;
use setpoint_core::pod::{NodeFacts, NoticeKind};
use setpoint_deployer::provider::{Instance, Scope};
use setpoint_deployer::{Provider, Retry, SpecError};

use super::Uid;
use super::dispatch::{Dispatch, Hears, node_of};
use super::memory::{self, Memories};
use super::orders::{self, Obstacle};
use super::refresh::{self, Given};
use super::status_patch;
use crate::events::{Recorder, is_code};
use crate::queue::{Queue, Room};
use crate::runtime::caches::{PODS_BY_NODE, PODS_BY_UID};
use crate::runtime::{Caches, Change, Clock, Configuration, Context, Controller, Error, Follows, Next, Round};

/// A Pod's whole life has fewer steps. More would mean that steps undo one another.
const STEPS: usize = 16;
/// When to look again after an order to stop, if nothing was heard by then.
const OVERDUE: Duration = Duration::from_secs(2);
/// How long something may take to be made before its Pod says that it is being made.
const SOON: Duration = Duration::from_millis(200);

/// The Pods of one node.
pub struct NodePods {
    client: Client,
    node: NodeFacts,
    provider: Arc<dyn Provider>,
    cluster: String,
    caches: Caches,
    dispatch: Arc<Dispatch>,
    clock: Clock,
    recorder: Recorder,
    memories: Arc<Memories>,
    hears: parking_lot::Mutex<Option<Arc<Hears>>>,
}

impl std::fmt::Debug for NodePods {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodePods").field("node", &self.node.name).finish_non_exhaustive()
    }
}

impl Drop for NodePods {
    fn drop(&mut self) {
        if let Some(hears) = self.hears.get_mut() {
            self.dispatch.detach(&self.node.name, hears);
        }
    }
}

impl NodePods {
    pub(super) fn new(
        context: &Context,
        node: NodeFacts,
        provider: Arc<dyn Provider>,
        cluster: String,
        caches: Caches,
        dispatch: Arc<Dispatch>,
    ) -> NodePods {
        let (client, clock) = (context.client.clone(), context.clock);
        let recorder = context.recorder_on("kubelet", Some(&node.name));
        let (memories, hears) = (Arc::default(), Default::default());
        NodePods { client, node, provider, cluster, caches, dispatch, clock, recorder, memories, hears }
    }

    pub fn provider(&self) -> &Arc<dyn Provider> {
        &self.provider
    }

    /// The Pod whose instance this is, if that is known.
    pub fn owner_of_id(&self, id: &str) -> Option<Uid> {
        self.memories.owner(id)
    }

    /// The Pods whose instances there are, by a look at all of them: also Pods that are gone. And whether these are all.
    pub async fn look_at_everything(&self) -> Result<(Vec<Uid>, Completeness), setpoint_deployer::Error> {
        let observed = self.provider.observe(&Scope::Everything).await?;
        let owners = observed.instances.iter().filter_map(|instance| self.noticed(instance)).collect();
        Ok((owners, observed.completeness))
    }

    /// The Pod whose instance this is, by a look at it.
    pub async fn look_at_instance(&self, id: Box<str>) -> Option<Uid> {
        match self.provider.observe(&Scope::Instance(id)).await {
            Ok(observed) => observed.instances.iter().find_map(|instance| self.noticed(instance)),
            Err(error) => {
                tracing::warn!(%error, "an instance could not be looked at");
                None
            }
        }
    }

    fn noticed(&self, instance: &Instance) -> Option<Uid> {
        let owner = memory::uid(self.owner_of(instance)?);
        self.memories.owns(&owner, &instance.guest.id);
        Some(owner)
    }

    /// Whose instance it is, if it is one that we had made: we make them under the Pod's uid. What others make on the same
    /// node is theirs to look after.
    fn owner_of<'a>(&self, instance: &'a Instance) -> Option<&'a str> {
        let mark = instance.guest.mark.as_ref().filter(|mark| *mark.cluster == *self.cluster)?;
        (mark.intent.as_ref() == Some(&mark.owner_uid)).then_some(&*mark.owner_uid)
    }

    /// The Pod of this uid on this node; `None` if there is none.
    fn pod(&self, uid: &str) -> Option<Arc<Pod>> {
        let found = self.caches.pods.by(&PODS_BY_UID, uid);
        found.into_iter().find(|pod| node_of(pod) == Some(&self.node.name))
    }

    async fn observe(&self, uid: &Uid) -> Result<Option<InstanceFacts>, Error> {
        let observed = self.provider.observe(&Scope::Owner((**uid).into())).await?;
        let ours = observed.instances.into_iter().find(|instance| self.owner_of(instance) == Some(uid));
        match (ours, observed.completeness) {
            (Some(instance), _) => {
                self.memories.owns(uid, &instance.guest.id);
                Ok(Some(self.facts_of(instance)))
            }
            (None, Completeness::Complete) => Ok(None),
            (None, Completeness::Partial(why)) => Err(Error::Held(format!("what runs of it could not be seen: {why}"))),
        }
    }

    fn facts_of(&self, instance: Instance) -> InstanceFacts {
        let words = &self.provider.abilities().guests;
        let run = match &instance.guest.run {
            Reading::Known(word) if words.running_words.contains(&&**word) => RunState::Running,
            Reading::Known(word) if words.stopped_words.contains(&&**word) => RunState::Stopped,
            Reading::Known(_) | Reading::Unknown | Reading::Absent => RunState::Unsettled,
        };
        InstanceFacts { id: instance.guest.id, run, state: instance.pod }
    }

    async fn sync(&self, uid: &Uid, round: &mut Round) -> Result<Next, Error> {
        let mut known = self.pod(uid);
        if known.is_none() && !self.caches.pods.is_complete() {
            return Ok(Next::Idle);
        }
        for _ in 0..STEPS {
            let instance = self.observe(uid).await?;
            let mut memory = self.memories.of(uid);
            if let (Some(pod), Some(state)) = (&known, instance.as_ref().and_then(|found| found.state.as_ref())) {
                self.recorder.tell(pod, &state.notices, &mut memory.told, self.clock.now());
            }
            let decision = agent::decide(Facts {
                pod: known.as_deref(),
                instance: instance.as_ref(),
                hold: memory.hold.as_ref(),
                ordered_grace: memory.ordered_grace,
                node: &self.node,
                now: self.clock.now(),
            });
            // What is made at once is told of once it is there, with one write.
            let is_made = decision.act == Act::Create;
            if let (Some(pod), Some(status), false) = (&known, &decision.status, is_made) {
                let Some(written) = self.write_status(pod, status, decision.ports.as_deref(), round).await? else {
                    return Ok(Next::Idle);
                };
                memory.written.clone_from(&written.metadata.resource_version);
                known = Some(Arc::new(written));
            }
            if let Act::Stop { grace, .. } = &decision.act {
                memory.ordered_grace = Some(*grace);
            }
            let hold = memory.hold.clone();
            self.memories.keep(uid, memory);
            match decision.act {
                Act::Wait { until } => {
                    let refreshed = self.refresh(uid, known.as_deref(), instance.as_ref()).await?;
                    return Ok(sooner(self.wait(until), refreshed));
                }
                Act::Create => {
                    let Some(pod) = known.clone() else { return Ok(Next::Idle) };
                    match self.make(uid, &pod, decision.status.as_deref(), hold, round).await? {
                        Made::Silently => {}
                        Made::Told(written) => known = Some(written),
                        Made::Gone => return Ok(Next::Idle),
                    }
                }
                Act::Start { id } => {
                    let mut early = None;
                    self.memories.change(uid, |memory| early = memory.start_is_early());
                    if let Some(early) = early {
                        return Ok(Next::After(early));
                    }
                    self.provider.start(uid, &id).await?;
                    return Ok(Next::After(OVERDUE));
                }
                Act::Stop { id, grace } => {
                    self.provider.stop(uid, &id, grace).await?;
                    // What ends at once is cleared away at once.
                    let is_stopped = |instance: InstanceFacts| instance.run == RunState::Stopped;
                    let has_ended = known.is_some() && self.observe(uid).await?.is_none_or(is_stopped);
                    if !has_ended {
                        return Ok(Next::After(grace + OVERDUE));
                    }
                }
                Act::DeleteInstance { id } => {
                    self.provider.delete(uid, &id).await?;
                    self.memories.disown(&id);
                }
                Act::RemovePod => return self.remove(known.as_deref(), round).await,
                Act::Forget => {
                    self.memories.forget(uid);
                    return Ok(Next::Idle);
                }
            }
        }
        Err(Error::Held("it goes on and on: every step is followed by another".to_owned()))
    }

    /// Has a Pod made. If that takes a while, its status says meanwhile that it is being made.
    async fn make(
        &self,
        uid: &Uid,
        pod: &Pod,
        status: Option<&PodStatus>,
        hold: Option<Hold>,
        round: &mut Round,
    ) -> Result<Made, Error> {
        let (mut created, mut made) = (pin!(self.create(uid, pod, hold)), Made::Silently);
        let outcome = match tokio::time::timeout(SOON, &mut created).await {
            Ok(outcome) => outcome,
            Err(_) => {
                if let Some(status) = status {
                    made = self
                        .write_status(pod, status, None, round)
                        .await?
                        .map_or(Made::Gone, |written| Made::Told(Arc::new(written)));
                }
                created.await
            }
        };
        let Some(refusal) = outcome? else { return Ok(made) };
        if let Some(status) = &refusal.status {
            let known = if let Made::Told(written) = &made { written } else { pod };
            self.write_status(known, status, None, round).await?;
        }
        Err(Error::Held(refusal.message))
    }

    /// Has a Pod made. What keeps it from being made is told once, in its status and an Event, and tried again.
    async fn create(&self, uid: &Uid, pod: &Pod, told: Option<Hold>) -> Result<Option<Refusal>, Error> {
        let made = match orders::order(&self.client, pod, &self.node, &self.cluster, BTreeMap::new()).await {
            Ok(prepared) => {
                self.tell_skipped(pod, &prepared.skipped);
                match self.provider.create(&prepared.order).await {
                    Ok(_) => {
                        self.remember_given(uid, Given::new(&prepared.order, prepared.tokens, None));
                        Ok(())
                    }
                    Err(error) if error.retry() != Retry::Never => return Err(error.into()),
                    Err(error) => Err(refused(&error)),
                }
            }
            Err(Obstacle::Api(error)) => return Err(error.into()),
            Err(Obstacle::Missing(hold, reason)) => Err((hold, reason)),
        };
        let hold = made.as_ref().err().map(|(hold, _)| hold.clone());
        self.memories.change(uid, |memory| memory.hold.clone_from(&hold));
        let Err((hold, reason)) = made else { return Ok(None) };
        let mut status = None;
        if told.as_ref() != Some(&hold) {
            let prefix = if reason == "Failed" { "Error: " } else { "" };
            let (kind, message) = (NoticeKind::Warning, format!("{prefix}{}", hold.message));
            match &hold.container {
                Some(container) => self.recorder.say_of_container(pod, container, kind, reason, &message),
                None => self.recorder.say(pod, kind, reason, &message),
            }
            let (node, now) = (&self.node, self.clock.now());
            let facts = Facts { pod: Some(pod), instance: None, hold: Some(&hold), ordered_grace: None, node, now };
            status = agent::decide(facts).status;
        }
        Ok(Some(Refusal { message: hold.message, status }))
    }

    /// Gives a running Pod the files that its volumes should hold now. Returns when to look again, if ever. What is missing
    /// meanwhile takes nothing away from it.
    async fn refresh(
        &self,
        uid: &Uid,
        pod: Option<&Pod>,
        instance: Option<&InstanceFacts>,
    ) -> Result<Option<Duration>, Error> {
        let running = instance.filter(|instance| instance.run == RunState::Running);
        let (Some(pod), Some(instance)) = (pod.filter(|pod| pod.metadata.deletion_timestamp.is_none()), running) else {
            return Ok(None);
        };
        let before = self.memories.read(uid, |memory| memory.given.clone());
        match refresh::due(pod, before.as_ref()) {
            Some(due) if due.is_zero() => {}
            later => return Ok(later),
        }
        let tokens = before.as_ref().map(Given::fresh_tokens).unwrap_or_default();
        let given = match orders::order(&self.client, pod, &self.node, &self.cluster, tokens).await {
            Ok(prepared) => {
                let given = Given::new(&prepared.order, prepared.tokens, before.as_ref());
                if before.as_ref().is_none_or(|before| given.differs(before)) {
                    self.provider.update(uid, &instance.id, &prepared.order).await?;
                }
                Some(given)
            }
            Err(Obstacle::Api(error)) => return Err(error.into()),
            Err(Obstacle::Missing(..)) => before.as_ref().map(Given::looked_at),
        };
        if let Some(given) = given {
            self.remember_given(uid, given);
        }
        Ok(Some(refresh::LOOK))
    }

    fn remember_given(&self, uid: &Uid, given: Given) {
        self.memories.change(uid, |memory| memory.given = Some(given));
    }

    fn tell_skipped(&self, pod: &Pod, skipped: &[String]) {
        if !skipped.is_empty() {
            let message = format!("Keys [{}] were skipped since they are no names of variables", skipped.join(", "));
            self.recorder.say(pod, NoticeKind::Warning, "InvalidEnvironmentVariableNames", &message);
        }
    }

    /// Writes a status; `None` if the Pod is not there any more, of which the cache will tell.
    async fn write_status(
        &self,
        pod: &Pod,
        status: &PodStatus,
        ports: Option<&str>,
        round: &mut Round,
    ) -> Result<Option<Pod>, Error> {
        let patch = Patch::Strategic(status_patch::patch(pod, status, ports));
        match self.api(pod).patch_status(name(pod), &PatchParams::default(), &patch).await {
            Ok(written) => {
                round.wrote(&self.caches.pods, &written);
                Ok(Some(written))
            }
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn remove(&self, pod: Option<&Pod>, round: &mut Round) -> Result<Next, Error> {
        let Some(pod) = pod else { return Ok(Next::Idle) };
        let only = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(only), ..DeleteParams::default() }.grace_period(0);
        match self.api(pod).delete(name(pod), &parameters).await {
            Ok(answer) => {
                if answer.right().is_some() {
                    round.removed(&self.caches.pods, pod);
                }
                Ok(Next::Idle)
            }
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(Next::Idle),
            Err(error) => Err(error.into()),
        }
    }

    fn wait(&self, until: Option<Timestamp>) -> Next {
        let Some(until) = until else { return Next::Idle };
        Next::After(self.clock.now().duration_until(until).try_into().unwrap_or_default())
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default())
    }
}

impl Controller for NodePods {
    type Key = Uid;
    const NAME: &'static str = "node";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Uid>>) {
        let (memories, own) = (self.memories.clone(), queue.clone());
        let hears: Arc<Hears> = Arc::new(move |change: &Change<Pod>| {
            let uid = |pod: &Option<Arc<Pod>>| pod.as_ref().and_then(|pod| pod.metadata.uid.clone());
            let (before, after) = (uid(&change.before), uid(&change.after));
            // It is gone, or another one has its name.
            let gone = before.filter(|before| after.as_ref() != Some(before));
            let version = change.latest().metadata.resource_version.as_ref();
            let news = after.filter(|uid| !memories.is_own_write(uid, version));
            gone.iter().chain(&news).for_each(|uid| own.add(memory::uid(uid)));
        });
        *self.hears.lock() = Some(hears.clone());
        self.dispatch.attach(&self.node.name, hears);
        // What was there before it listened.
        for pod in caches.pods.by(&PODS_BY_NODE, &self.node.name) {
            pod.metadata.uid.iter().for_each(|uid| queue.add(memory::uid(uid)));
        }
    }

    async fn reconcile(&self, uid: &Uid, round: &mut Round) -> Result<Next, Error> {
        self.sync(uid, round).await
    }

    fn about(&self, uid: &Uid) -> Option<ObjectReference> {
        let pod = self.pod(uid)?;
        let metadata = &pod.metadata;
        Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        })
    }

    /// Also those of whom only an instance is left.
    fn keys(&self) -> Vec<Uid> {
        let pods = self.caches.pods.by(&PODS_BY_NODE, &self.node.name);
        let uids = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref()).map(memory::uid);
        uids.chain(self.memories.all_owners()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Most of the work is waiting.
    fn configuration() -> Configuration {
        Configuration { room: Room::of(32), ..Configuration::of_workloads() }
    }
}

/// How a Pod was made.
enum Made {
    /// At once: its status says nothing of it yet.
    Silently,
    /// After a while, in which its status said so.
    Told(Arc<Pod>),
    /// It is not there any more.
    Gone,
}

/// Why a Pod was not made, and the status that says so where that is news.
struct Refusal {
    message: String,
    status: Option<Box<PodStatus>>,
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// What a provider would refuse again, and the reason of the Event that says so.
fn refused(error: &setpoint_deployer::Error) -> (Hold, &'static str) {
    let message = error.to_string();
    match error {
        setpoint_deployer::Error::Spec(SpecError::Mount { .. }) => {
            (orders::hold(None, "ContainerCreating", &message), "FailedMount")
        }
        _ => (orders::hold(None, "CreateContainerError", &message), "Failed"),
    }
}

/// What comes next, or a look after this long if that is sooner.
fn sooner(next: Next, after: Option<Duration>) -> Next {
    match (next, after) {
        (Next::Idle, Some(after)) => Next::After(after),
        (Next::After(before), Some(after)) => Next::After(before.min(after)),
        (next, _) => next,
    }
}
