//! ReplicaSets: as many Pods of a template as are asked for.
//!
//! | module | what it does |
//! | --- | --- |
//! | `wakeup` | which ReplicaSets a change concerns |
//! | `pods` | creates and deletes Pods |
//! | `memory` | which of these were not answered |
//!
//! What to do is decided in [`setpoint_core::workload::replica_set`].

mod memory;
mod pods;
mod wakeup;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use setpoint_core::workload::replica_set::{self, Decision, Observed, Unseen};
use setpoint_core::workload::selection::{self, Claim, Owner};

use self::memory::Memory;
use self::pods::Attempt;
use crate::events::Recorder;
use crate::ownership::{self, unless_moved};
use crate::queue::Queue;
use crate::runtime::caches::{PODS_BY_ORPHANAGE, PODS_BY_OWNER, REPLICA_SETS_BY_OWNER, orphans_of};
use crate::runtime::{Caches, Configuration, Context, Controller, Error, Name, Next, Round};

/// How soon a write is tried again that met a change of somebody else's.
const MOVED: Duration = Duration::from_millis(20);

pub struct ReplicaSets {
    client: Client,
    caches: Caches,
    recorder: Recorder,
    memories: Mutex<BTreeMap<Name, Memory>>,
}

impl std::fmt::Debug for ReplicaSets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplicaSets").finish_non_exhaustive()
    }
}

impl Controller for ReplicaSets {
    type Key = Name;

    const NAME: &'static str = "replicaset";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Name>>) {
        wakeup::wire(caches, queue);
    }

    async fn reconcile(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        let Some(set) = self.caches.replica_sets.get(key) else {
            self.memories.lock().remove(key);
            return Ok(Next::Idle);
        };
        let Some(pods) = self.claim(&set, round).await? else { return Ok(Next::After(MOVED)) };
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let attempt = self.replicate(&set, &pods, round).await;
        let observed = Observed { pods: &pods, related: &[], unseen: &attempt.unseen };
        let status = replica_set::status(&set, &observed, attempt.failure.as_deref(), round.now);
        let is_written = self.write_status(&set, status.status, round).await?;
        match attempt.error {
            Some(error) => Err(error.into()),
            None if attempt.is_unfinished => Ok(Next::After(Duration::ZERO)),
            None if !is_written => Ok(Next::After(MOVED)),
            None => Ok(status.look_again.map_or(Next::Idle, |at| Next::After(until(at, round.now)))),
        }
    }

    fn about(&self, key: &Name) -> Option<ObjectReference> {
        self.caches.replica_sets.get(key).map(|set| set.object_ref(&()))
    }

    fn keys(&self) -> Vec<Name> {
        self.caches.replica_sets.names()
    }

    fn configuration() -> Configuration {
        Configuration::of_workloads()
    }
}

impl ReplicaSets {
    pub fn new(context: &Context, caches: &Caches) -> ReplicaSets {
        let (client, recorder) = (context.client.clone(), context.recorder("replicaset-controller"));
        ReplicaSets { client, caches: caches.clone(), recorder, memories: Mutex::default() }
    }

    /// The Pods that are the ReplicaSet's, after it has adopted and released what it must.
    ///
    /// `None` if one of those is not as it was seen: who goes on without one that is to be adopted would make another, and
    /// nobody would come back for one that is to be released.
    async fn claim(&self, set: &ReplicaSet, round: &mut Round) -> Result<Option<Vec<Arc<Pod>>>, Error> {
        let owner = Owner::from(set);
        let cache = &self.caches.pods;
        let mut pods = cache.by(&PODS_BY_OWNER, uid(set));
        let released: Vec<Arc<Pod>> = pods.extract_if(.., |pod| owner.claim_pod(pod) != Claim::Keep).collect();
        for pod in released.iter().filter(|pod| owner.claim_pod(pod) == Claim::Release) {
            let released = ownership::release(&self.pods(set), &**pod, &owner.reference()).await?;
            let Some(released) = released else { return Ok(None) };
            round.wrote(cache, &released);
        }
        let mut orphans =
            cache.by(&PODS_BY_ORPHANAGE, &orphans_of(&set.metadata, set.spec.as_ref().map(|spec| &spec.selector)));
        orphans.retain(|pod| owner.claim_pod(pod) == Claim::Adopt);
        if orphans.is_empty() || !ownership::is_still_there(&self.sets(set), set).await? {
            return Ok(Some(pods));
        }
        for orphan in orphans {
            let adopted = ownership::adopt(&self.pods(set), &*orphan, &owner.reference()).await?;
            let Some(adopted) = adopted else { return Ok(None) };
            round.wrote(cache, &adopted);
            pods.push(Arc::new(adopted));
        }
        Ok(Some(pods))
    }

    /// Brings the number of Pods nearer to what it should be.
    async fn replicate(&self, set: &ReplicaSet, pods: &[&Pod], round: &mut Round) -> Attempt {
        let siblings = if replica_set::has_surplus(set, pods.len()) { self.siblings(set) } else { Vec::new() };
        let siblings: Vec<&Pod> = siblings.iter().map(|pod| &**pod).collect();
        let related = if siblings.is_empty() { pods } else { &siblings };
        let unseen = Unseen { tried: self.remembered(set, |memory| memory.tried.clone()), ..Unseen::default() };
        let observed = Observed { pods, related, unseen: &unseen };
        match replica_set::decide(set, &observed, round.now) {
            Decision::Nothing | Decision::Deleted => Attempt::default(),
            Decision::Create { count, .. } => self.create(set, count, round).await,
            Decision::Delete { pods, .. } => self.delete(set, &pods, round).await,
        }
    }

    /// The Pods of all ReplicaSets of the same owner; none if it has no owner.
    fn siblings(&self, set: &ReplicaSet) -> Vec<Arc<Pod>> {
        let Some(owner) = selection::controller_of(&set.metadata) else { return Vec::new() };
        let sets = self.caches.replica_sets.by(&REPLICA_SETS_BY_OWNER, &owner.uid);
        sets.iter().flat_map(|set| self.caches.pods.by(&PODS_BY_OWNER, uid(set))).collect()
    }

    /// Writes the status, if it is another. Says whether it is as it should be now.
    async fn write_status(&self, set: &ReplicaSet, status: ReplicaSetStatus, round: &mut Round) -> Result<bool, Error> {
        if set.status.as_ref() == Some(&status) {
            return Ok(true);
        }
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let wanted = ReplicaSet { status: Some(status), ..set.clone() };
        let written = unless_moved(self.sets(set).replace_status(name, &PostParams::default(), &wanted).await)?;
        written.iter().for_each(|set| round.wrote(&self.caches.replica_sets, set));
        Ok(written.is_some())
    }

    fn sets(&self, set: &ReplicaSet) -> Api<ReplicaSet> {
        Api::namespaced(self.client.clone(), namespace(set))
    }

    fn pods(&self, set: &ReplicaSet) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace(set))
    }
}

fn namespace(set: &ReplicaSet) -> &str {
    set.metadata.namespace.as_deref().unwrap_or_default()
}

fn uid(set: &ReplicaSet) -> &str {
    set.metadata.uid.as_deref().unwrap_or_default()
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}
