//! An Environment that is deleted: its Pods go, then what is left of them, then its Node, then the
//! Environment. Its Machines are for people to delete: it waits for them.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::json;
use setpoint_api::environment::Environment;
use setpoint_deployer::provider::Scope;

use super::status::Standing;
use super::{Environments, FINALIZER, site};
use crate::events::is_code;
use crate::runtime::caches::{MACHINES_BY_ENVIRONMENT, PODS_BY_NODE};
use crate::runtime::{Error, Name, Next, Round};

/// How many Pods are asked to go at once.
const AT_ONCE: usize = 16;
/// When to look again whether anything is left that has no Pod any more.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Environments {
    /// Does the next of these that is left to do.
    pub(super) async fn leave(&self, key: &Name, environment: &Environment, round: &mut Round) -> Result<Next, Error> {
        let node = self.caches.nodes.get(key).filter(|node| site::is_node_of(node, environment));
        // Its agent is needed to end what runs there.
        let standing = self.stand(key, environment).await?;
        let is_running = self.running.lock().contains_key(key);
        // One that could never be opened holds nothing.
        if !is_running && node.is_some() {
            self.write_status(environment, &standing, round).await?;
            return Ok(standing.next());
        }
        if is_running {
            if let Some(node) = &node {
                self.cordon(node, round).await?;
            }
            let left = self.evict(key, round).await?;
            let machines = self.caches.machines.count_by(&MACHINES_BY_ENVIRONMENT, &key.name);
            if left > 0 || machines > 0 {
                self.sweep(key, environment, round.now).await;
                let standing = Standing::leaving(left, machines);
                self.write_status(environment, &standing, round).await?;
                return Ok(self.next(key, environment, &standing, round.now));
            }
            if self.holds_instances(key).await? {
                return Ok(Next::After(LOOK_AGAIN));
            }
        }
        self.close(key);
        if let Some(node) = node {
            self.remove_node(&node, round).await?;
        }
        let finalizers = environment.metadata.finalizers.iter().flatten();
        let kept = finalizers.filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
        self.write_finalizers(environment, kept, round).await?;
        Ok(Next::Idle)
    }

    async fn cordon(&self, node: &Node, round: &mut Round) -> Result<(), Error> {
        if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
            return Ok(());
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = json!({"metadata": {"uid": node.metadata.uid}, "spec": {"unschedulable": true}});
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let written = nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        round.wrote(&self.caches.nodes, &written);
        Ok(())
    }

    /// Deletes the Pods that are there. Returns how many are not gone.
    async fn evict(&self, key: &Name, round: &mut Round) -> Result<usize, Error> {
        let pods = self.caches.pods.by(&PODS_BY_NODE, &key.name);
        let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let deletions: Vec<_> = staying.map(|pod| self.delete_pod(pod)).collect();
        let mut deletions = futures::stream::iter(deletions).buffered(AT_ONCE);
        while let Some(deleted) = deletions.next().await {
            if let Some(deleted) = deleted? {
                round.wrote(&self.caches.pods, &deleted);
            }
        }
        Ok(pods.len())
    }

    async fn delete_pod(&self, pod: &Pod) -> Result<Option<Pod>, Error> {
        let only = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        match pods.delete(pod.metadata.name.as_deref().unwrap_or_default(), &parameters).await {
            Ok(answer) => Ok(answer.left()),
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether anything is there that we had made for a Pod. Its agent removes it.
    async fn holds_instances(&self, key: &Name) -> Result<bool, Error> {
        let Some(provider) = self.running.lock().get(key).map(|running| running.provider.clone()) else {
            return Ok(false);
        };
        let observed = provider.observe(&Scope::Everything).await?;
        let marks = observed.instances.iter().filter_map(|instance| instance.guest.mark.as_ref());
        let mut ours = marks.filter(|mark| *mark.cluster == *self.setup.cluster);
        // What could not be seen may be ours.
        Ok(!observed.completeness.is_complete() || ours.any(|mark| mark.intent.as_ref() == Some(&mark.owner_uid)))
    }

    async fn remove_node(&self, node: &Node, round: &mut Round) -> Result<(), Error> {
        let only = Preconditions { uid: node.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
        let nodes: Api<Node> = Api::all(self.client.clone());
        match nodes.delete(node.metadata.name.as_deref().unwrap_or_default(), &parameters).await {
            Ok(_) => round.removed(&self.caches.nodes, node),
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
