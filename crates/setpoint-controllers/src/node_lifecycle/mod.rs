//! Nodes that fall silent, and what becomes of their Pods.
//!
//! What a Lease says of the time is its node's clock. What counts here is when this process last saw it renewed: so clocks
//! may differ, and a control plane that was down for a while does not take everybody for dead when it is back.

mod pods;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use serde_json::json;
use setpoint_core::node_lifecycle::{self, Judgement};

use crate::events::{Recorder, is_code};
use crate::node::Providers;
use crate::node::dispatch::node_of;
use crate::queue::Queue;
use crate::runtime::caches::PODS_BY_NODE;
use crate::runtime::{Cache, Caches, Change, Clock, Configuration, Context, Controller, Error, Name, Next, Round};

/// How soon a write is tried again that met a change of somebody else's.
const MOVED: Duration = Duration::from_millis(20);

pub struct NodeLifecycle {
    client: Client,
    caches: Caches,
    clock: Clock,
    providers: Providers,
    recorder: Recorder,
    heard: Arc<Mutex<BTreeMap<String, Heard>>>,
    /// Since when nodes are gone that have Pods.
    gone: Mutex<BTreeMap<Name, Timestamp>>,
}

/// When a node was last heard of, and by what.
#[derive(Debug, Clone, PartialEq)]
struct Heard {
    renewed: Option<MicroTime>,
    at: Timestamp,
}

impl std::fmt::Debug for NodeLifecycle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeLifecycle").finish_non_exhaustive()
    }
}

impl NodeLifecycle {
    /// `providers` are those whose Pods this process runs itself.
    pub fn new(context: &Context, caches: &Caches, providers: Providers) -> NodeLifecycle {
        let (recorder, caches) = (context.recorder("node-controller"), caches.clone());
        let (client, clock) = (context.client.clone(), context.clock);
        NodeLifecycle { client, caches, clock, providers, recorder, heard: Arc::default(), gone: Mutex::default() }
    }

    /// When the node was last heard of: now, if that is the first time.
    fn last_heard(&self, node: &Node, now: Timestamp) -> Timestamp {
        let name = node.metadata.name.clone().unwrap_or_default();
        self.heard.lock().entry(name).or_insert(Heard { renewed: None, at: now }).at
    }

    async fn write_ready(&self, node: &Node, judgement: &Judgement, round: &mut Round) -> Result<(), Error> {
        let Some(ready) = &judgement.ready else { return Ok(()) };
        let nodes: Api<Node> = Api::all(self.client.clone());
        let only = json!({"resourceVersion": node.metadata.resource_version});
        let patch = Patch::Strategic(json!({"metadata": only, "status": {"conditions": [ready]}}));
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let written = nodes.patch_status(name, &PatchParams::default(), &patch).await?;
        round.wrote(&self.caches.nodes, &written);
        Ok(())
    }

    async fn write_taints(&self, node: &Node, judgement: &Judgement, round: &mut Round) -> Result<(), Error> {
        let Some(taints) = &judgement.taints else { return Ok(()) };
        let nodes: Api<Node> = Api::all(self.client.clone());
        let only = json!({"resourceVersion": node.metadata.resource_version});
        let patch = Patch::Merge(json!({"metadata": only, "spec": {"taints": taints}}));
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let written = nodes.patch(name, &PatchParams::default(), &patch).await?;
        round.wrote(&self.caches.nodes, &written);
        Ok(())
    }

    async fn look_after(&self, node: &Node, round: &mut Round) -> Result<Next, Error> {
        let judgement = node_lifecycle::judge(node, self.last_heard(node, round.now), round.now);
        let written = if judgement.ready.is_some() {
            self.write_ready(node, &judgement, round).await
        } else {
            self.write_taints(node, &judgement, round).await
        };
        match written {
            Ok(()) => {}
            Err(Error::Api(error)) if is_code(&error, 404) => return Ok(Next::Idle),
            // Somebody else wrote it. Not every write wakes us: a heartbeat does not.
            Err(Error::Api(error)) if is_code(&error, 409) => return Ok(Next::After(MOVED)),
            Err(error) => return Err(error),
        }
        if judgement.ready.is_some() {
            // The taints follow once that is seen.
            return Ok(Next::Idle);
        }
        let marked = if judgement.is_ready { Ok(()) } else { self.mark_pods_not_ready(node, round).await };
        let leaving = self.evict(node, round).await?;
        marked?;
        Ok(next_at(judgement.until.into_iter().chain(leaving).min(), round.now))
    }
}

impl Controller for NodeLifecycle {
    type Key = Name;
    const NAME: &'static str = "node-lifecycle";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Name>>) {
        let own = queue.clone();
        caches.nodes.listen(move |change| {
            if what_counts(&change.before) != what_counts(&change.after) {
                own.add(Name::of(&**change.latest()));
            }
        });
        let (heard, clock) = (self.heard.clone(), self.clock);
        caches.node_leases.listen(move |change| hear(&mut heard.lock(), change, clock.now()));
        let (own, nodes) = (queue.clone(), caches.nodes.clone());
        caches.pods.listen(move |change| wake_for_pod(change, &nodes, &own));
    }

    async fn reconcile(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        match self.caches.nodes.get(key) {
            Some(node) => {
                self.gone.lock().remove(key);
                self.look_after(&node, round).await
            }
            None => self.clear_away(key, round).await,
        }
    }

    fn about(&self, key: &Name) -> Option<ObjectReference> {
        self.caches.nodes.get(key).map(|node| node.object_ref(&()))
    }

    fn keys(&self) -> Vec<Name> {
        // Also of nodes that are gone: nobody else comes for their Pods after a restart.
        let bound = self.caches.pods.values(&PODS_BY_NODE).into_iter().filter(|node| !node.is_empty());
        let names = bound.map(|node| Name::new("", &node)).chain(self.caches.nodes.names());
        names.collect::<BTreeSet<Name>>().into_iter().collect()
    }

    fn configuration() -> Configuration {
        Configuration::of_workloads()
    }
}

fn next_at(at: Option<Timestamp>, now: Timestamp) -> Next {
    at.map_or(Next::Idle, |at| Next::After(now.duration_until(at).try_into().unwrap_or_default()))
}

/// What of a node decides what is done about it. Its heartbeat does not.
fn what_counts(node: &Option<Arc<Node>>) -> Option<serde_json::Value> {
    let node = node.as_ref()?;
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready").map(|ready| &ready.status);
    let spec = node.spec.as_ref();
    Some(json!([
        node.metadata.uid,
        ready,
        spec.and_then(|spec| spec.taints.as_ref()),
        spec.and_then(|spec| spec.unschedulable),
    ]))
}

fn hear(heard: &mut BTreeMap<String, Heard>, change: &Change<Lease>, now: Timestamp) {
    let name = change.latest().metadata.name.clone().unwrap_or_default();
    let Some(lease) = &change.after else { return };
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    let is_news = heard.get(&name).is_none_or(|heard| heard.renewed != renewed);
    if is_news {
        heard.insert(name, Heard { renewed, at: now });
    }
}

/// A Pod that came to a node that is not there, or that drives Pods out.
fn wake_for_pod(change: &Change<Pod>, nodes: &Cache<Node>, queue: &Queue<Name>) {
    let Some(node) = change.after.as_ref().and_then(|pod| node_of(pod)) else { return };
    if change.before.as_ref().and_then(|pod| node_of(pod)) == Some(node) {
        return;
    }
    let name = Name::new("", node);
    let drives_out = |node: &Node| {
        let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        taints.any(|taint| taint.effect == "NoExecute")
    };
    if nodes.get(&name).is_none_or(|node| drives_out(&node)) {
        queue.add(name);
    }
}
