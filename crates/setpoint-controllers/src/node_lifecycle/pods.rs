//! The Pods of nodes that are not ready, or not there any more.

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use setpoint_core::node_lifecycle::{self, Departures};
use setpoint_core::pod::NoticeKind;
use setpoint_core::workload::pod_state;

use super::{NodeLifecycle, next_at};
use crate::events::title;
use crate::ownership::{self, Deleted, unless_moved};
use crate::refusal::words;
use crate::runtime::caches::PODS_BY_NODE;
use crate::runtime::{Error, Name, Next, Round};

const CALLS_AT_ONCE: usize = 16;

impl NodeLifecycle {
    /// Has Pods say that they are not ready: nobody can say that they are.
    pub(super) async fn mark_pods_not_ready(&self, node: &Node, round: &mut Round) -> Result<(), Error> {
        let pods = self.caches.pods.by(&PODS_BY_NODE, node.metadata.name.as_deref().unwrap_or_default());
        let ready = pods.iter().filter(|pod| pod_state::is_ready(pod));
        let writes: Vec<_> = ready.map(|pod| self.mark_not_ready(pod, round.now)).collect();
        let written: Vec<kube::Result<Option<Pod>>> = stream::iter(writes).buffered(CALLS_AT_ONCE).collect().await;
        let mut failure = None;
        for written in written {
            match written {
                Ok(written) => written.iter().for_each(|written| round.wrote(&self.caches.pods, written)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn mark_not_ready(&self, pod: &Pod, now: Timestamp) -> kube::Result<Option<Pod>> {
        let at = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
        let condition = json!({
            "type": "Ready", "status": "False", "reason": "NodeNotReady", "message": "Node is not ready",
            "lastTransitionTime": at,
        });
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        unless_moved(self.api(pod).patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await)
    }

    /// Drives out those whose time has come. Returns when the next one's comes.
    pub(super) async fn evict(&self, node: &Node, round: &mut Round) -> Result<Option<Timestamp>, Error> {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        if !taints.iter().any(|taint| taint.effect == "NoExecute") {
            return Ok(None);
        }
        let pods = self.caches.pods.by(&PODS_BY_NODE, node.metadata.name.as_deref().unwrap_or_default());
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let departures = node_lifecycle::departures(&pods, &taints, round.now);
        for pod in &departures.now {
            let message = format!("Marking for deletion Pod {}", title(pod));
            self.recorder.say(*pod, NoticeKind::Normal, "TaintManagerEviction", &message);
        }
        self.delete(&departures, &DeleteParams::default(), round).await?;
        Ok(departures.next)
    }

    /// The Pods of a node that is gone go too, once nobody is left who could end what runs of them.
    pub(super) async fn clear_away(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        self.heard.lock().remove(&*key.name);
        let pods = self.caches.pods.by(&PODS_BY_NODE, &key.name);
        let is_run = self.providers.get(&key.name).is_some() || self.caches.environments.get(key).is_some();
        if pods.is_empty() || is_run {
            self.gone.lock().remove(key);
            // Who runs them may stop to, and nobody would tell.
            let again = Next::After(node_lifecycle::QUARANTINE.try_into().unwrap_or_default());
            return Ok(if pods.is_empty() { Next::Idle } else { again });
        }
        let since = *self.gone.lock().entry(key.clone()).or_insert(round.now);
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let departures = node_lifecycle::left_behind(&pods, since, round.now);
        // The cache may be behind.
        let nodes: Api<Node> = Api::all(self.client.clone());
        if !departures.now.is_empty() && nodes.get_opt(&key.name).await?.is_some() {
            self.gone.lock().remove(key);
            return Ok(Next::Idle);
        }
        self.delete(&departures, &DeleteParams::default().grace_period(0), round).await?;
        if !departures.now.is_empty() && !departures.is_more_due {
            self.gone.lock().remove(key);
        }
        Ok(next_at(departures.next, round.now))
    }

    /// Deletes Pods, each whatever becomes of the others. While more are due one that cannot go does not slow them down.
    async fn delete(&self, departures: &Departures<'_>, how: &DeleteParams, round: &mut Round) -> Result<(), Error> {
        let deletions: Vec<_> = departures.now.iter().map(|pod| self.delete_one(pod, how)).collect();
        let deleted: Vec<kube::Result<Deleted<Pod>>> = stream::iter(deletions).buffered(CALLS_AT_ONCE).collect().await;
        let (mut has_got_on, mut failure) = (false, None);
        for (pod, deleted) in departures.now.iter().zip(deleted) {
            match deleted {
                Ok(deleted) => {
                    has_got_on = true;
                    deleted.note(pod, &self.caches.pods, round);
                }
                Err(error) => {
                    tracing::warn!(pod = title(pod), error = words(&error), "a Pod cannot be made to leave its node");
                    failure = failure.or(Some(error));
                }
            }
        }
        match failure {
            Some(error) if !(has_got_on && departures.is_more_due) => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn delete_one(&self, pod: &Pod, how: &DeleteParams) -> kube::Result<Deleted<Pod>> {
        ownership::delete(&self.api(pod), pod, how.clone()).await
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default())
    }
}
