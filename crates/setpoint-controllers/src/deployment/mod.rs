//! Deployments: revisions of a Pod template, each a ReplicaSet, one rolled out after the other.
//!
//! | module | what it does |
//! | --- | --- |
//! | `wakeup` | which Deployments a change concerns |
//! | `steps` | creates, scales and deletes ReplicaSets |
//!
//! What to do is decided in [`setpoint_core::workload::deployment`].

mod steps;
mod wakeup;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use setpoint_core::workload::deployment::revision::REVISION;
use setpoint_core::workload::deployment::{self, status};
use setpoint_core::workload::selection::{Claim, Owner};

use crate::events::Recorder;
use crate::ownership::{self, unless_moved};
use crate::queue::Queue;
use crate::runtime::caches::{PODS_BY_OWNER, REPLICA_SETS_BY_ORPHANAGE, REPLICA_SETS_BY_OWNER, orphans_of};
use crate::runtime::{Caches, Configuration, Context, Controller, Error, Name, Next, Round};

/// How soon a write is tried again that met a change of somebody else's.
const MOVED: Duration = Duration::from_millis(20);

pub struct Deployments {
    client: Client,
    caches: Caches,
    recorder: Recorder,
}

impl std::fmt::Debug for Deployments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deployments").finish_non_exhaustive()
    }
}

impl Controller for Deployments {
    type Key = Name;

    const NAME: &'static str = "deployment";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Name>>) {
        wakeup::wire(caches, queue);
    }

    async fn reconcile(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        let Some(deployment) = self.caches.deployments.get(key) else { return Ok(Next::Idle) };
        let Some(sets) = self.claim(&deployment, round).await? else { return Ok(Next::After(MOVED)) };
        let sets: Vec<&ReplicaSet> = sets.iter().map(|set| &**set).collect();
        let pods = self.pods_that_matter(&deployment, &sets);
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();

        let decision = deployment::decide(&deployment, &sets, &pods);
        let outcome = self.take(&deployment, &sets, decision.steps, round).await;
        let mut is_written = true;
        let deployment = match decision.revision {
            Some(revision) => self.note_revision(&deployment, revision, round).await?.map(Arc::new),
            None => Some(deployment),
        };
        let mut look_again = None;
        if let Some(deployment) = &deployment
            && let Some(status) = status::status(deployment, &sets, outcome.happened(), round.now)
        {
            let collision_count = outcome.collision_count.or(status.status.collision_count);
            let wanted = DeploymentStatus { collision_count, ..status.status };
            is_written = self.write_status(deployment, wanted, round).await?;
            look_again = status.look_again;
        }
        match outcome.error {
            Some(error) => Err(error.into()),
            None if outcome.collision_count.is_some() => Ok(Next::After(Duration::ZERO)),
            None if !is_written || deployment.is_none() => Ok(Next::After(MOVED)),
            None => Ok(look_again.map_or(Next::Idle, |at| Next::After(until(at, round.now)))),
        }
    }

    fn about(&self, key: &Name) -> Option<ObjectReference> {
        self.caches.deployments.get(key).map(|deployment| deployment.object_ref(&()))
    }

    fn keys(&self) -> Vec<Name> {
        self.caches.deployments.names()
    }

    fn configuration() -> Configuration {
        Configuration::of_workloads()
    }
}

impl Deployments {
    pub fn new(context: &Context, caches: &Caches) -> Deployments {
        let (client, recorder) = (context.client.clone(), context.recorder("deployment-controller"));
        Deployments { client, caches: caches.clone(), recorder }
    }

    /// The ReplicaSets that are the Deployment's, after it has adopted and released what it must.
    ///
    /// `None` if one that is to be adopted is not as it was seen: who goes on without it would make what it has again.
    async fn claim(&self, deployment: &Deployment, round: &mut Round) -> Result<Option<Vec<Arc<ReplicaSet>>>, Error> {
        let owner = Owner::from(deployment);
        let (api, cache) = (self.sets(deployment), &self.caches.replica_sets);
        let mut sets = cache.by(&REPLICA_SETS_BY_OWNER, deployment.metadata.uid.as_deref().unwrap_or_default());
        let others: Vec<Arc<ReplicaSet>> =
            sets.extract_if(.., |set| owner.claim(&set.metadata) != Claim::Keep).collect();
        for set in others.iter().filter(|set| owner.claim(&set.metadata) == Claim::Release) {
            let released = ownership::release(&api, &**set, &owner.reference()).await?;
            released.iter().for_each(|set| round.wrote(cache, set));
        }
        let selector = deployment.spec.as_ref().map(|spec| &spec.selector);
        let mut orphans = cache.by(&REPLICA_SETS_BY_ORPHANAGE, &orphans_of(&deployment.metadata, selector));
        orphans.retain(|set| owner.claim(&set.metadata) == Claim::Adopt);
        if orphans.is_empty() || !ownership::is_still_there(&self.deployments(deployment), deployment).await? {
            return Ok(Some(sets));
        }
        for orphan in orphans {
            let Some(adopted) = ownership::adopt(&api, &*orphan, &owner.reference()).await? else { return Ok(None) };
            round.wrote(cache, &adopted);
            sets.push(Arc::new(adopted));
        }
        Ok(Some(sets))
    }

    /// The Pods of all revisions, where the strategy waits for the end of each; else none.
    fn pods_that_matter(&self, deployment: &Deployment, sets: &[&ReplicaSet]) -> Vec<Arc<Pod>> {
        if !deployment::looks_at_pods(deployment) {
            return Vec::new();
        }
        let uids = sets.iter().filter_map(|set| set.metadata.uid.as_deref());
        uids.flat_map(|uid| self.caches.pods.by(&PODS_BY_OWNER, uid)).collect()
    }

    /// Notes the number of the newest revision. `None` if the Deployment is not as it was seen.
    async fn note_revision(
        &self,
        deployment: &Deployment,
        revision: i64,
        round: &mut Round,
    ) -> Result<Option<Deployment>, Error> {
        let meta = &deployment.metadata;
        let patch = json!({"metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version,
            "annotations": {REVISION: revision.to_string()},
        }});
        let api = self.deployments(deployment);
        let written = api.patch(name(deployment), &PatchParams::default(), &Patch::Merge(patch)).await;
        let written = unless_moved(written)?;
        written.iter().for_each(|deployment| round.wrote(&self.caches.deployments, deployment));
        Ok(written)
    }

    /// Writes the status, if it is another. Says whether it is as it should be now.
    async fn write_status(
        &self,
        deployment: &Deployment,
        status: DeploymentStatus,
        round: &mut Round,
    ) -> Result<bool, Error> {
        if deployment.status.as_ref() == Some(&status) {
            return Ok(true);
        }
        let wanted = Deployment { status: Some(status), ..deployment.clone() };
        let api = self.deployments(deployment);
        let written = unless_moved(api.replace_status(name(deployment), &PostParams::default(), &wanted).await)?;
        written.iter().for_each(|deployment| round.wrote(&self.caches.deployments, deployment));
        Ok(written.is_some())
    }

    fn deployments(&self, deployment: &Deployment) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), deployment.metadata.namespace.as_deref().unwrap_or_default())
    }

    fn sets(&self, deployment: &Deployment) -> Api<ReplicaSet> {
        Api::namespaced(self.client.clone(), deployment.metadata.namespace.as_deref().unwrap_or_default())
    }
}

fn name(deployment: &Deployment) -> &str {
    deployment.metadata.name.as_deref().unwrap_or_default()
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}
