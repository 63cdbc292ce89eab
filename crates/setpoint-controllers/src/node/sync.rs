//! The work on one Pod: look at it and at what runs of it, decide, write the status, act; until there is nothing left to do.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::watcher::Event;
use kube::{Api, Client};
use parking_lot::Mutex;
use setpoint_core::observation::Reading;
use setpoint_core::pod::agent::{self, Act, Facts, InstanceFacts, RunState};
use setpoint_core::pod::status::Hold;
use setpoint_core::pod::{NodeFacts, NoticeKind};
use setpoint_deployer::provider::{Instance, Scope};
use setpoint_deployer::{Provider, Retry};
use thiserror::Error;

use super::orders::{self, Obstacle};
use super::pods::Pods;
use super::refresh::{self, Given};
use super::status_patch;
use crate::events::{Recorder, Told, is_code, title};
use crate::queue::{Outcome, Queue, Work};

/// A Pod's whole life has fewer steps. More would mean that steps undo one another.
const STEPS: usize = 16;
/// For how long whoever looks after a Pod has to live for their start to have held.
const HELD: Duration = Duration::from_secs(600);
/// When to look again after an order to stop, if nothing was heard by then.
const OVERDUE: Duration = Duration::from_secs(2);

pub(super) struct Sync {
    client: Client,
    node: NodeFacts,
    pub(super) provider: Arc<dyn Provider>,
    cluster: String,
    pub(super) pods: Pods,
    queue: Arc<Queue<String>>,
    recorder: Recorder,
    /// Whose instance it is, by the provider's id of it.
    owners: Mutex<HashMap<Box<str>, String>>,
    memories: Mutex<HashMap<String, Memory>>,
}

/// What is remembered of a Pod. All of it may be forgotten: then something is done twice that does no harm.
#[derive(Debug, Clone, Default)]
struct Memory {
    ordered_grace: Option<Duration>,
    /// When it was last started again, and how often in a row before that.
    started: Option<(tokio::time::Instant, u32)>,
    hold: Option<Hold>,
    told: Told,
    given: Option<Given>,
    /// The version that our own last write made, which is no news.
    written: Option<String>,
}

/// Why the work on a Pod did not get on.
#[derive(Debug, Error)]
enum SyncError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Provider(#[from] setpoint_deployer::Error),
    #[error("what runs of it could not be seen: {0}")]
    Unseen(String),
    #[error("{}", .0.message)]
    Held(Hold),
    #[error("it goes on and on: every step is followed by another")]
    Restless,
}

impl SyncError {
    fn retry(&self) -> Retry {
        match self {
            // What a provider refuses today, because of a file that cannot be read for example, it may do tomorrow; and
            // nothing else would come back to it.
            SyncError::Provider(error) if error.retry() != Retry::Never => error.retry(),
            SyncError::Provider(_)
            | SyncError::Api(_)
            | SyncError::Unseen(_)
            | SyncError::Held(_)
            | SyncError::Restless => Retry::BackOff,
        }
    }
}

impl Sync {
    pub(super) fn new(
        client: Client,
        node: NodeFacts,
        provider: Arc<dyn Provider>,
        cluster: String,
        queue: Arc<Queue<String>>,
    ) -> Sync {
        let recorder = Recorder::new(client.clone(), "kubelet", Some(&node.name));
        let (owners, memories) = (Mutex::default(), Mutex::default());
        Sync { client, node, provider, cluster, pods: Pods::default(), queue, recorder, owners, memories }
    }

    pub(super) fn node(&self) -> &NodeFacts {
        &self.node
    }

    /// Takes in what the watch of Pods says.
    pub(super) fn heard(&self, event: Event<Pod>) {
        if let Event::Apply(pod) = &event {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            let written = self.memories.lock().get(uid).and_then(|memory| memory.written.clone());
            if written.is_some() && written == pod.metadata.resource_version {
                self.pods.apply(event);
                return;
            }
        }
        self.pods.apply(event).into_iter().for_each(|uid| self.queue.add(uid));
    }

    /// Takes in that an instance is there.
    pub(super) fn noticed(&self, instance: &Instance) {
        if let Some(owner) = self.owner_of(instance) {
            self.owners.lock().insert(instance.guest.id.clone(), owner.clone());
            self.queue.add(owner);
        }
    }

    /// Has the Pod worked on whose instance this is; false if that is not known.
    pub(super) fn wake_owner(&self, id: &str) -> bool {
        let owner = self.owners.lock().get(id).cloned();
        owner.map(|owner| self.queue.add(owner)).is_some()
    }

    /// Whose instance it is, if it is one that we had made: we make them under the Pod's uid. What others make on the same
    /// node is theirs to look after.
    fn owner_of(&self, instance: &Instance) -> Option<String> {
        let mark = instance.guest.mark.as_ref().filter(|mark| *mark.cluster == *self.cluster)?;
        (mark.intent.as_ref() == Some(&mark.owner_uid)).then(|| mark.owner_uid.to_string())
    }

    async fn observe(&self, uid: &str) -> Result<Option<InstanceFacts>, SyncError> {
        let observed = self.provider.observe(&Scope::Owner(uid.into())).await?;
        let ours = observed.instances.into_iter().find(|instance| self.owner_of(instance).as_deref() == Some(uid));
        match (ours, observed.completeness) {
            (Some(instance), _) => {
                self.owners.lock().insert(instance.guest.id.clone(), uid.to_owned());
                Ok(Some(self.facts_of(instance)))
            }
            (None, setpoint_core::observation::Completeness::Complete) => Ok(None),
            (None, setpoint_core::observation::Completeness::Partial(why)) => Err(SyncError::Unseen(why)),
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

    async fn sync(&self, uid: &str) -> Result<Outcome, SyncError> {
        let mut known = self.pods.get(uid);
        if known.is_none() && !self.pods.is_complete() {
            return Ok(Outcome::Done);
        }
        for _ in 0..STEPS {
            let instance = self.observe(uid).await?;
            let mut memory = self.memories.lock().get(uid).cloned().unwrap_or_default();
            if let (Some(pod), Some(state)) = (&known, instance.as_ref().and_then(|found| found.state.as_ref())) {
                self.recorder.tell(pod, &state.notices, &mut memory.told, Timestamp::now());
            }
            let decision = agent::decide(Facts {
                pod: known.as_deref(),
                instance: instance.as_ref(),
                hold: memory.hold.as_ref(),
                ordered_grace: memory.ordered_grace,
                node: &self.node,
                now: Timestamp::now(),
            });
            if let (Some(pod), Some(status)) = (&known, &decision.status) {
                let Some(written) = self.write_status(pod, status).await? else { return Ok(Outcome::Done) };
                memory.written = written.metadata.resource_version.clone();
                known = Some(Arc::new(written));
            }
            if let Act::Stop { grace, .. } = &decision.act {
                memory.ordered_grace = Some(*grace);
            }
            let hold = memory.hold.clone();
            self.memories.lock().insert(uid.to_owned(), memory);
            match decision.act {
                Act::Wait { until } => {
                    let refreshed = self.refresh(uid, known.as_deref(), instance.as_ref()).await?;
                    return Ok(sooner(wait(until), refreshed));
                }
                Act::Create => {
                    let Some(pod) = &known else { return Ok(Outcome::Done) };
                    self.create(uid, pod, hold).await?;
                }
                Act::Start { id } => {
                    if let Some(early) = self.start_is_early(uid) {
                        return Ok(Outcome::Until(early));
                    }
                    self.provider.start(uid, &id).await?;
                    return Ok(Outcome::Until(OVERDUE));
                }
                Act::Stop { id, grace } => {
                    self.provider.stop(uid, &id, grace).await?;
                    return Ok(Outcome::Until(grace + OVERDUE));
                }
                Act::DeleteInstance { id } => {
                    self.provider.delete(uid, &id).await?;
                    self.owners.lock().remove(&id);
                }
                Act::RemovePod => return self.remove(known.as_deref()).await,
                Act::Forget => {
                    self.memories.lock().remove(uid);
                    return Ok(Outcome::Done);
                }
            }
        }
        Err(SyncError::Restless)
    }

    /// How long to wait before whoever looks after a Pod is started again: each time longer, until one has held. Otherwise
    /// counts this start.
    fn start_is_early(&self, uid: &str) -> Option<Duration> {
        let mut memories = self.memories.lock();
        let memory = memories.entry(uid.to_owned()).or_default();
        let now = tokio::time::Instant::now();
        if let Some((last, starts)) = memory.started {
            let pause = Duration::from_secs(1 << starts.min(8));
            if now < last + pause {
                return Some(last + pause - now);
            }
        }
        let held = memory.started.is_some_and(|(last, _)| now.duration_since(last) > HELD);
        memory.started = Some((now, memory.started.filter(|_| !held).map_or(0, |(_, starts)| starts + 1)));
        None
    }

    /// Has a Pod made. What keeps it from being made is told once, in its status and an Event, and tried again.
    async fn create(&self, uid: &str, pod: &Pod, told: Option<Hold>) -> Result<(), SyncError> {
        let made = match orders::order(&self.client, pod, &self.node, &self.cluster, BTreeMap::new()).await {
            Ok(prepared) => {
                self.tell_skipped(pod, &prepared.skipped);
                match self.provider.create(&prepared.order).await {
                    Ok(_) => {
                        self.remember_given(uid, Given::new(&prepared.order, prepared.tokens, None));
                        Ok(())
                    }
                    Err(error) if error.retry() != Retry::Never => return Err(error.into()),
                    Err(error) => Err((refused(&error), "Failed")),
                }
            }
            Err(Obstacle::Api(error)) => return Err(error.into()),
            Err(Obstacle::Missing(hold, reason)) => Err((hold, reason)),
        };
        let hold = made.as_ref().err().map(|(hold, _)| hold.clone());
        if let Some(memory) = self.memories.lock().get_mut(uid) {
            memory.hold.clone_from(&hold);
        }
        let Err((hold, reason)) = made else { return Ok(()) };
        if told.as_ref() != Some(&hold) {
            let prefix = if reason == "Failed" { "Error: " } else { "" };
            let (kind, message) = (NoticeKind::Warning, format!("{prefix}{}", hold.message));
            match &hold.container {
                Some(container) => self.recorder.say_of_container(pod, container, kind, reason, &message),
                None => self.recorder.say(pod, kind, reason, &message),
            }
            let (node, now) = (&self.node, Timestamp::now());
            let facts = Facts { pod: Some(pod), instance: None, hold: Some(&hold), ordered_grace: None, node, now };
            if let Some(status) = agent::decide(facts).status {
                self.write_status(pod, &status).await?;
            }
        }
        Err(SyncError::Held(hold))
    }

    /// Gives a running Pod the files that its volumes should hold now. Returns when to look again, if ever. What is missing
    /// meanwhile takes nothing away from it.
    async fn refresh(
        &self,
        uid: &str,
        pod: Option<&Pod>,
        instance: Option<&InstanceFacts>,
    ) -> Result<Option<Duration>, SyncError> {
        let running = instance.filter(|instance| instance.run == RunState::Running);
        let (Some(pod), Some(instance)) = (pod.filter(|pod| pod.metadata.deletion_timestamp.is_none()), running) else {
            return Ok(None);
        };
        let before = self.memories.lock().get(uid).and_then(|memory| memory.given.clone());
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

    fn remember_given(&self, uid: &str, given: Given) {
        if let Some(memory) = self.memories.lock().get_mut(uid) {
            memory.given = Some(given);
        }
    }

    fn tell_skipped(&self, pod: &Pod, skipped: &[String]) {
        if !skipped.is_empty() {
            let message = format!("Keys [{}] were skipped since they are no names of variables", skipped.join(", "));
            self.recorder.say(pod, NoticeKind::Warning, "InvalidEnvironmentVariableNames", &message);
        }
    }

    /// Writes a status; `None` if the Pod is not there any more, of which the watch will tell.
    async fn write_status(
        &self,
        pod: &Pod,
        status: &k8s_openapi::api::core::v1::PodStatus,
    ) -> Result<Option<Pod>, SyncError> {
        let patch = Patch::Strategic(status_patch::patch(pod, status));
        match self.api(pod).patch_status(name(pod), &PatchParams::default(), &patch).await {
            Ok(written) => Ok(Some(written)),
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn remove(&self, pod: Option<&Pod>) -> Result<Outcome, SyncError> {
        let Some(pod) = pod else { return Ok(Outcome::Done) };
        let only = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(only), ..DeleteParams::default() }.grace_period(0);
        match self.api(pod).delete(name(pod), &parameters).await {
            Ok(_) => Ok(Outcome::Done),
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(Outcome::Done),
            Err(error) => Err(error.into()),
        }
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default())
    }
}

impl Work<String> for Sync {
    async fn work(&self, uid: &String) -> Outcome {
        match self.sync(uid).await {
            Ok(outcome) => outcome,
            Err(error) => {
                let pod = self.pods.get(uid).map_or_else(|| uid.clone(), |pod| title(&pod));
                tracing::warn!(pod, %error, "the work on a Pod did not get on");
                Outcome::Failed(error.retry())
            }
        }
    }

    async fn panicked(&self, uid: &String, message: &str) {
        if let Some(pod) = self.pods.get(uid) {
            let message = format!("a fault in setpoint keeps it from working on this Pod: {message}");
            self.recorder.say(&*pod, NoticeKind::Warning, "InternalError", &message);
        }
    }
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// What a provider would refuse again.
fn refused(error: &setpoint_deployer::Error) -> Hold {
    Hold { container: None, reason: "CreateContainerError".to_owned(), message: error.to_string() }
}

/// The outcome, or a look after this long if that is sooner.
fn sooner(outcome: Outcome, after: Option<Duration>) -> Outcome {
    match (outcome, after) {
        (Outcome::Done, Some(after)) => Outcome::Until(after),
        (Outcome::Until(before), Some(after)) => Outcome::Until(before.min(after)),
        (outcome, _) => outcome,
    }
}

fn wait(until: Option<Timestamp>) -> Outcome {
    let Some(until) = until else { return Outcome::Done };
    Outcome::Until(Timestamp::now().duration_until(until).try_into().unwrap_or_default())
}
