//! Puts Pods that have no node on the local one, as long as there is no scheduler.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_core::pod::NoticeKind;
use setpoint_deployer::Retry;

use crate::events::{Recorder, is_code, title};
use crate::pod_watch;
use crate::queue::{Outcome, Queue, Work};

const SCHEDULER: &str = "default-scheduler";
const AT_ONCE: usize = 8;

pub struct Binder {
    client: Client,
    node_name: String,
    recorder: Recorder,
    node: Mutex<Option<Node>>,
    /// Pods without a node, by uid.
    unbound: Mutex<HashMap<String, Arc<Pod>>>,
}

impl std::fmt::Debug for Binder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Binder").field("node", &self.node_name).finish_non_exhaustive()
    }
}

impl Binder {
    pub fn new(client: Client, node_name: &str) -> Binder {
        let recorder = Recorder::new(client.clone(), SCHEDULER, None);
        let (node, unbound) = (Mutex::default(), Mutex::default());
        Binder { client, node_name: node_name.to_owned(), recorder, node, unbound }
    }

    /// Works until it is dropped.
    pub async fn run(self) {
        let (queue, binder) = (Arc::new(Queue::default()), Arc::new(self));
        tokio::join!(binder.watch_pods(&queue), binder.watch_node(&queue), queue.clone().run(AT_ONCE, binder.clone()));
    }

    async fn watch_pods(&self, queue: &Queue<String>) {
        let selector = format!("spec.nodeName=,spec.schedulerName={SCHEDULER}");
        let mut events = pin!(pod_watch::watch(self.client.clone(), &selector));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => self.unbound.lock().clear(),
                Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                    if let Some(uid) = pod.metadata.uid.clone() {
                        self.unbound.lock().insert(uid.clone(), Arc::new(pod));
                        queue.add(uid);
                    }
                }
                Ok(Event::Delete(pod)) => {
                    self.unbound.lock().remove(pod.metadata.uid.as_deref().unwrap_or_default());
                }
                Ok(Event::InitDone) => {}
                Err(error) => tracing::warn!(%error, "the watch of unbound Pods was interrupted and is taken up again"),
            }
        }
    }

    /// A Pod that did not fit may fit once the node is another.
    async fn watch_node(&self, queue: &Queue<String>) {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.node_name));
        let mut events = pin!(watcher::watcher(Api::<Node>::all(self.client.clone()), config).default_backoff());
        while let Some(event) = events.next().await {
            let node = match event {
                Ok(Event::Apply(node) | Event::InitApply(node)) => Some(node),
                Ok(Event::Delete(_)) => None,
                Ok(Event::Init | Event::InitDone) => continue,
                Err(error) => {
                    tracing::warn!(%error, "the watch of the node was interrupted and is taken up again");
                    continue;
                }
            };
            let before = std::mem::replace(&mut *self.node.lock(), node.clone());
            if what_counts(before.as_ref()) != what_counts(node.as_ref()) {
                self.unbound.lock().keys().for_each(|uid| queue.add(uid.clone()));
            }
        }
    }

    async fn bind(&self, pod: &Pod) -> kube::Result<()> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // It is looked at again once the node is there.
        let Some(node) = self.node.lock().clone() else { return Ok(()) };
        let Some(why_not) = why_not(pod, &node) else {
            let target = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(self.node_name.clone()),
                ..ObjectReference::default()
            };
            let (name, uid) = (Some(name.to_owned()), pod.metadata.uid.clone());
            let metadata = ObjectMeta { name: name.clone(), uid, ..ObjectMeta::default() };
            let binding = Binding { metadata, target };
            let path = name.unwrap_or_default();
            pods.create_subresource::<_, Value>("binding", &path, &PostParams::default(), &binding).await?;
            let message = format!("Successfully assigned {} to {}", title(pod), self.node_name);
            self.recorder.say(pod, NoticeKind::Normal, "Scheduled", &message);
            return Ok(());
        };
        let old = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut told = old.filter(|condition| condition.type_ == "PodScheduled");
        if told.any(|condition| condition.message.as_deref() == Some(&why_not)) {
            return Ok(());
        }
        self.recorder.say(pod, NoticeKind::Warning, "FailedScheduling", &why_not);
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why_not,
            "lastTransitionTime": Time(Timestamp::now()), "observedGeneration": pod.metadata.generation,
        });
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await.map(drop)
    }
}

impl Work<String> for Binder {
    async fn work(&self, uid: &String) -> Outcome {
        let Some(pod) = self.unbound.lock().get(uid).cloned() else { return Outcome::Done };
        if !is_to_be_bound(&pod) {
            return Outcome::Done;
        }
        match self.bind(&pod).await {
            Ok(()) => Outcome::Done,
            // It was bound or deleted meanwhile.
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => Outcome::Done,
            Err(error) => {
                tracing::warn!(pod = title(&pod), %error, "a Pod could not be put on a node");
                Outcome::Failed(Retry::BackOff)
            }
        }
    }

    async fn panicked(&self, uid: &String, message: &str) {
        tracing::error!(uid, message, "a Pod could not be put on a node");
    }
}

fn is_to_be_bound(pod: &Pod) -> bool {
    let has_gates = pod.spec.iter().any(|spec| spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()));
    pod.metadata.deletion_timestamp.is_none() && !has_gates
}

/// Why a Pod cannot be put on the node, as a scheduler says it.
fn why_not(pod: &Pod, node: &Node) -> Option<String> {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let mut wanted = pod.spec.iter().flat_map(|spec| spec.node_selector.iter().flatten());
    let reason = if node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false) {
        "1 node(s) were unschedulable"
    } else if wanted.any(|(label, value)| labels.get(label) != Some(value)) {
        "1 node(s) didn't match Pod's node affinity/selector"
    } else {
        return None;
    };
    Some(format!("0/1 nodes are available: {reason}."))
}

/// What of a node decides whether a Pod fits; its heartbeat does not.
fn what_counts(node: Option<&Node>) -> Option<(Option<bool>, Value)> {
    let node = node?;
    Some((node.spec.as_ref().and_then(|spec| spec.unschedulable), json!(node.metadata.labels)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_bound_where_it_fits() {
        let unschedulable = "0/1 nodes are available: 1 node(s) were unschedulable.";
        let elsewhere = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
        let node = || json!({"metadata": {"labels": {"disk": "ssd"}}});
        let rows = [
            ("any node will do", json!({}), node(), None),
            ("its label", json!({"spec": {"nodeSelector": {"disk": "ssd"}, "containers": []}}), node(), None),
            (
                "another label",
                json!({"spec": {"nodeSelector": {"disk": "tape"}, "containers": []}}),
                node(),
                Some(elsewhere),
            ),
            ("a node that takes none", json!({}), json!({"spec": {"unschedulable": true}}), Some(unschedulable)),
        ];
        for (name, pod, node, expected) in rows {
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let node: Node = serde_json::from_value(node).unwrap();
            assert_eq!(why_not(&pod, &node).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn some_pods_are_left_alone() {
        let rows = [
            ("an ordinary one", json!({"spec": {"containers": []}}), true),
            ("one that is deleted", json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}), false),
            ("one that is gated", json!({"spec": {"containers": [], "schedulingGates": [{"name": "x"}]}}), false),
        ];
        for (name, pod, expected) in rows {
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(is_to_be_bound(&pod), expected, "{name}");
        }
    }
}
