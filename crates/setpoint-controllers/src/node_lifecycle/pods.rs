//! The Pods of nodes that are not ready, or not there any more.

use std::sync::Arc;

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::json;
use setpoint_core::node_lifecycle;
use setpoint_core::pod::NoticeKind;

use super::{Heard, NodeLifecycle};
use crate::events::{is_code, title};
use crate::runtime::caches::PODS_BY_NODE;
use crate::runtime::{Error, Name, Next, Round};

/// How many Pods of a node are driven out at a time, and how long that is: a mistake must not empty a node at once.
const AT_A_TIME: usize = 50;
const PAUSE: SignedDuration = SignedDuration::from_secs(1);
const CALLS_AT_ONCE: usize = 16;
/// For how long a node has to be gone before its Pods are taken for gone.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

impl NodeLifecycle {
    /// Has Pods say that they are not ready: nobody can say that they are.
    pub(super) async fn mark_pods_not_ready(&self, node: &Node, round: &mut Round) -> Result<(), Error> {
        let pods = self.caches.pods.by(&PODS_BY_NODE, node.metadata.name.as_deref().unwrap_or_default());
        let ready = pods.iter().filter(|pod| is_ready(pod));
        let writes: Vec<_> = ready.map(|pod| self.mark_not_ready(pod, round.now)).collect();
        let mut writes = futures::stream::iter(writes).buffered(CALLS_AT_ONCE);
        while let Some(written) = writes.next().await {
            written?.into_iter().for_each(|written| round.wrote(&self.caches.pods, &written));
        }
        Ok(())
    }

    async fn mark_not_ready(&self, pod: &Pod, now: Timestamp) -> Result<Option<Pod>, Error> {
        let at = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
        let condition = json!({
            "type": "Ready", "status": "False", "reason": "NodeNotReady", "message": "Node is not ready",
            "lastTransitionTime": at,
        });
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        found(self.api(pod).patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await)
    }

    /// Drives out those whose time has come. Returns when the next one's comes.
    pub(super) async fn evict(&self, node: &Node, round: &mut Round) -> Result<Option<Timestamp>, Error> {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        if !taints.iter().any(|taint| taint.effect == "NoExecute") {
            return Ok(None);
        }
        let pods = self.caches.pods.by(&PODS_BY_NODE, node.metadata.name.as_deref().unwrap_or_default());
        let staying = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let mut leaving: Vec<(Timestamp, Arc<Pod>)> =
            staying.filter_map(|pod| Some((node_lifecycle::leaves_at(&pod, &taints)?, pod))).collect();
        leaving.sort_by(|one, other| (one.0, Name::of(&*one.1)).cmp(&(other.0, Name::of(&*other.1))));
        let due = leaving.partition_point(|(at, _)| *at <= round.now);
        for (_, pod) in leaving.iter().take(due.min(AT_A_TIME)) {
            let message = format!("Marking for deletion Pod {}", title(pod));
            self.recorder.say(&**pod, NoticeKind::Normal, "TaintManagerEviction", &message);
        }
        let batch = leaving.iter().take(due.min(AT_A_TIME)).map(|(_, pod)| &**pod);
        self.delete(batch, DeleteParams::default(), round).await?;
        if due > AT_A_TIME {
            return Ok(round.now.checked_add(PAUSE).ok());
        }
        Ok(leaving.get(due).map(|(at, _)| *at))
    }

    /// The Pods of a node that is gone go too, once nobody is left who could end what runs of them.
    pub(super) async fn clear_away(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        let pods = self.caches.pods.by(&PODS_BY_NODE, &key.name);
        let is_run = self.providers.get(&key.name).is_some() || self.caches.environments.get(key).is_some();
        if pods.is_empty() || is_run {
            self.heard.lock().remove(&*key.name);
            // Who runs them may stop to, and nobody would tell.
            let again = Next::After(QUARANTINE.try_into().unwrap_or_default());
            return Ok(if pods.is_empty() { Next::Idle } else { again });
        }
        let gone = Heard { renewed: None, at: round.now };
        let since = self.heard.lock().entry(format!("gone/{}", key.name)).or_insert(gone).at;
        let due = since.checked_add(QUARANTINE).unwrap_or(since);
        if round.now < due {
            return Ok(Next::After(round.now.duration_until(due).try_into().unwrap_or_default()));
        }
        // The cache may be behind.
        let nodes: Api<Node> = Api::all(self.client.clone());
        if nodes.get_opt(&key.name).await?.is_some() {
            self.heard.lock().remove(&format!("gone/{}", key.name));
            return Ok(Next::Idle);
        }
        let batch = pods.iter().take(AT_A_TIME).map(|pod| &**pod);
        self.delete(batch, DeleteParams::default().grace_period(0), round).await?;
        if pods.len() > AT_A_TIME {
            return Ok(Next::After(PAUSE.try_into().unwrap_or_default()));
        }
        self.heard.lock().remove(&format!("gone/{}", key.name));
        Ok(Next::Idle)
    }

    async fn delete(
        &self,
        pods: impl Iterator<Item = &Pod>,
        how: DeleteParams,
        round: &mut Round,
    ) -> Result<(), Error> {
        let deletions: Vec<_> = pods.map(|pod| self.delete_one(pod, how.clone())).collect();
        let mut deletions = futures::stream::iter(deletions).buffered(CALLS_AT_ONCE);
        while let Some(deleted) = deletions.next().await {
            deleted?.into_iter().for_each(|deleted| round.wrote(&self.caches.pods, &deleted));
        }
        Ok(())
    }

    async fn delete_one(&self, pod: &Pod, how: DeleteParams) -> Result<Option<Pod>, Error> {
        let only = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        let how = DeleteParams { preconditions: Some(only), ..how };
        let deleted = self.api(pod).delete(pod.metadata.name.as_deref().unwrap_or_default(), &how).await;
        Ok(found(deleted)?.and_then(|answer| answer.left()).filter(|pod| pod.metadata.deletion_timestamp.is_some()))
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default())
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// What is not there any more, or is another's by now, needs nothing.
fn found<T>(answer: kube::Result<T>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
