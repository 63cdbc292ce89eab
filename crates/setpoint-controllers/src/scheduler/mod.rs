//! Puts Pods on nodes: decides one after the other, has many bound at once.
//!
//! There is one key, the next turn: a round decides for Pod after Pod, the most important first, each with all that was
//! decided before it in place, and has the server told of many decisions at the same time. `setpoint_core::scheduling`
//! decides.

mod pending;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use setpoint_core::pod::NoticeKind;
use setpoint_core::scheduling::{self, Board, NodeState, Refusal};

use self::pending::{Pending, Turn, has_ended, is_to_be_placed};
use crate::events::{Recorder, is_code, title};
use crate::queue::{Queue, Room, words_of_panic};
use crate::refusal::words;
use crate::runtime::{Caches, Change, Configuration, Context, Controller, Error, Next, Round};

/// How many decisions the server is told of at the same time.
const AT_ONCE: usize = 64;

pub struct Scheduler {
    client: Client,
    caches: Caches,
    recorder: Recorder,
    panics: Counter,
    place: Place,
    state: Arc<Mutex<State>>,
}

/// Finds the node for a Pod, as [`scheduling::place`] does.
type Place = fn(&Pod, &mut Board) -> Result<Arc<str>, Refusal>;

#[derive(Debug, Default)]
struct State {
    board: Board,
    pending: Pending,
}

/// What was decided for a Pod.
enum Decision {
    Bind(Arc<Pod>, Turn, Arc<str>),
    Refuse(Arc<Pod>, Turn, Refusal),
    /// None: there is a fault of ours, in these words.
    Fail(Arc<Pod>, Turn, String),
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

impl Scheduler {
    pub fn new(context: &Context, caches: &Caches) -> Scheduler {
        let (client, recorder) = (context.client.clone(), context.recorder("default-scheduler"));
        let panics = context.metrics.of(Scheduler::NAME).panics;
        let (caches, place) = (caches.clone(), scheduling::place);
        Scheduler { client, caches, recorder, panics, place, state: Arc::default() }
    }

    /// Decides for the next Pod whose turn it is.
    fn decide(&self, now: Timestamp) -> Option<Decision> {
        let State { board, pending } = &mut *self.state.lock();
        loop {
            let turn = pending.take(now)?;
            let is_it = |pod: &Arc<Pod>| pod.metadata.uid.as_deref() == Some(&*turn.uid) && is_to_be_placed(pod);
            let Some(pod) = self.caches.pods.get(&turn.name).filter(is_it) else {
                pending.forget(&turn);
                continue;
            };
            // What the server may have been told already is not decided otherwise.
            if let Some(node) = board.node_of(&turn.uid) {
                return Some(Decision::Bind(pod, turn, node.clone()));
            }
            // What goes wrong with one Pod must not keep others from their nodes.
            match catch_unwind(AssertUnwindSafe(|| (self.place)(&pod, board))) {
                Err(panic) => return Some(Decision::Fail(pod, turn, words_of_panic(&*panic))),
                Ok(Ok(node)) => {
                    board.place(&pod, &node);
                    return Some(Decision::Bind(pod, turn, node));
                }
                Ok(Err(refusal)) => {
                    pending.wait(turn.clone());
                    if !tells(&pod, &refusal.to_string()) {
                        return Some(Decision::Refuse(pod, turn, refusal));
                    }
                    pending.done(&turn);
                }
            }
        }
    }

    async fn carry_out(&self, decision: Decision, now: Timestamp) {
        let (pod, turn, result) = match decision {
            Decision::Bind(pod, turn, node) => {
                let result = self.bind(&pod, &node).await;
                match &result {
                    Ok(()) => {
                        let message = format!("Successfully assigned {} to {node}", title(&pod));
                        self.recorder.say(&*pod, NoticeKind::Normal, "Scheduled", &message);
                    }
                    Err(error) if is_about_the_pod(error) => self.withdraw(&turn),
                    Err(_) => {}
                }
                (pod, turn, result)
            }
            Decision::Refuse(pod, turn, refusal) => {
                let message = refusal.to_string();
                self.recorder.say(&*pod, NoticeKind::Warning, "FailedScheduling", &message);
                let result = self.write_refusal(&pod, &message, now).await;
                (pod, turn, result)
            }
            Decision::Fail(pod, turn, message) => return self.tell_of_fault(&pod, turn, &message, now),
        };
        if let Err(error) = &result
            && !is_about_the_pod(error)
        {
            tracing::warn!(pod = title(&pod), error = words(error), "a Pod could not be put on a node");
        }
        let pending = &mut self.state.lock().pending;
        pending.done(&turn);
        if result.is_err() {
            // If it was bound or deleted meanwhile the cache will have told by then. No refusal proves that it was.
            pending.retry(turn, now);
        }
    }

    fn tell_of_fault(&self, pod: &Pod, turn: Turn, message: &str, now: Timestamp) {
        self.panics.inc();
        tracing::error!(pod = title(pod), message, "to find a node for this panicked");
        let message = format!("a fault in setpoint keeps it from working on this: {message}");
        self.recorder.say(pod, NoticeKind::Warning, "InternalError", &message);
        let pending = &mut self.state.lock().pending;
        pending.done(&turn);
        pending.retry(turn, now);
    }

    async fn bind(&self, pod: &Pod, node: &str) -> kube::Result<()> {
        let target = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        };
        let (name, uid) = (pod.metadata.name.clone().unwrap_or_default(), pod.metadata.uid.clone());
        let binding =
            Binding { metadata: ObjectMeta { name: Some(name.clone()), uid, ..ObjectMeta::default() }, target };
        let pods = self.api(pod);
        pods.create_subresource::<_, Value>("binding", &name, &PostParams::default(), &binding).await.map(drop)
    }

    /// Gives up the room of a Pod that the server did not put there, unless it shows that it did.
    fn withdraw(&self, turn: &Turn) {
        let shown = self.caches.pods.get(&turn.name).filter(|pod| pod.metadata.uid.as_deref() == Some(&*turn.uid));
        let is_there = shown.is_some_and(|pod| !is_to_be_placed(&pod) && !has_ended(&pod));
        if !is_there {
            self.state.lock().board.remove(&turn.uid);
        }
    }

    async fn write_refusal(&self, pod: &Pod, message: &str, now: Timestamp) -> kube::Result<()> {
        let condition = unschedulable(pod, message, now);
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        self.api(pod).patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await.map(drop)
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default())
    }
}

impl Controller for Scheduler {
    type Key = ();
    const NAME: &'static str = "scheduler";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<()>>) {
        let (state, own) = (self.state.clone(), queue.clone());
        caches.pods.listen(move |change| {
            if state.lock().heard_of_pod(change) {
                own.add(());
            }
        });
        let (state, own) = (self.state.clone(), queue.clone());
        caches.nodes.listen(move |change| {
            if state.lock().heard_of_node(change) {
                own.add(());
            }
        });
    }

    async fn reconcile(&self, (): &(), round: &mut Round) -> Result<Next, Error> {
        let now = round.now;
        // There is one round at a time; the last one may have been cut off, as when leadership was lost.
        self.state.lock().pending.take_back();
        let decisions = std::iter::from_fn(|| self.decide(now));
        let acts = futures::stream::iter(decisions).map(|decision| self.carry_out(decision, now));
        acts.buffer_unordered(AT_ONCE).collect::<()>().await;
        let next = self.state.lock().pending.next_retry();
        Ok(next.map_or(Next::Idle, |due| Next::After(now.duration_until(due).try_into().unwrap_or(Duration::ZERO))))
    }

    fn about(&self, (): &()) -> Option<ObjectReference> {
        None
    }

    fn keys(&self) -> Vec<()> {
        vec![()]
    }

    /// A round takes all that wait, so nothing has to be gathered first.
    fn configuration() -> Configuration {
        Configuration { window: Duration::ZERO, room: Room::of(1), ..Configuration::of_workloads() }
    }
}

impl State {
    /// Takes in a change of a Pod. Whether there is something to decide.
    fn heard_of_pod(&mut self, change: &Change<Pod>) -> bool {
        let uid = |pod: &Option<Arc<Pod>>| pod.as_ref().and_then(|pod| pod.metadata.uid.clone());
        let mut has_freed = false;
        if let Some(before) = change.before.as_ref().filter(|_| uid(&change.before) != uid(&change.after)) {
            has_freed |= self.has_gone(before);
        }
        let Some(after) = &change.after else { return has_freed && self.pending.wake() };
        let node = after.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|node| !node.is_empty());
        let mut is_new = false;
        match (node, Turn::of(after)) {
            (Some(_), _) if has_ended(after) => has_freed |= self.has_gone(after),
            (Some(node), turn) => {
                turn.iter().for_each(|turn| self.pending.forget(turn));
                has_freed |= self.board.place(after, node);
            }
            (None, Some(turn)) if is_to_be_placed(after) => {
                is_new = is_another(change) || !change.before.as_ref().is_some_and(|before| is_to_be_placed(before));
                if is_new {
                    self.pending.add(turn);
                }
            }
            (None, _) => has_freed |= self.has_gone(after),
        }
        // Both: what is new, and what waits for room.
        (has_freed && self.pending.wake()) | is_new
    }

    /// A Pod takes up no room any more, nor waits for any. Whether it did.
    fn has_gone(&mut self, pod: &Pod) -> bool {
        let Some(turn) = Turn::of(pod) else { return false };
        self.pending.forget(&turn);
        self.board.remove(&turn.uid)
    }

    fn heard_of_node(&mut self, change: &Change<Node>) -> bool {
        match &change.after {
            Some(node) => self.board.set_node(NodeState::of(node)) && self.pending.wake(),
            None => {
                self.board.remove_node(change.latest().metadata.name.as_deref().unwrap_or_default());
                // What is told of why they do not fit is another now.
                self.pending.wake()
            }
        }
    }
}

/// Whether a Pod that waits is another in what counts; that it says now that it waits is not.
fn is_another(change: &Change<Pod>) -> bool {
    let what_counts = |pod: &Arc<Pod>| {
        let metadata = &pod.metadata;
        (metadata.uid.clone(), metadata.generation, metadata.labels.clone())
    };
    change.before.as_ref().map(what_counts) != change.after.as_ref().map(what_counts)
}

/// What a Pod says of whether it has a node.
fn scheduled(pod: &Pod) -> Option<&PodCondition> {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == "PodScheduled")
}

/// Whether a Pod says already why it is on no node.
fn tells(pod: &Pod, message: &str) -> bool {
    scheduled(pod).is_some_and(|condition| condition.message.as_deref() == Some(message))
}

/// What a Pod that fits nowhere should say: since when that is stays, whatever else keeps it from a node now.
fn unschedulable(pod: &Pod, message: &str, now: Timestamp) -> Value {
    let before = scheduled(pod).filter(|condition| condition.status == "False");
    let since = before.and_then(|condition| condition.last_transition_time.clone()).unwrap_or(Time(now));
    json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": since, "observedGeneration": pod.metadata.generation,
    })
}

/// Whether a refusal is about the Pod, as when it is gone or on a node, and not about whoever asks.
fn is_about_the_pod(error: &kube::Error) -> bool {
    is_code(error, 404) || is_code(error, 409)
}
