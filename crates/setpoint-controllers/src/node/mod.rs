//! The node agent: the Pods of one node, run by a provider and told of as a kubelet does.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`registration`] | the Node and its Lease |
//! | [`machine`] | what this machine is, read from the system |
//! | `pods` | the Pods of the node, kept in step by a watch |
//! | `sync` | the work on one Pod: look, decide, write, act |
//! | `orders` | a Pod with everything that it refers to |
//! | `refresh` | when a running Pod's files are looked at again |
//! | `status_patch` | what of a status has to be written |
//!
//! Nothing here decides: that is done in `setpoint_core::pod`. Nothing polls: a watch and the provider tell what to look
//! at. What an instance is called by its provider is kept beside the uid of its Pod, so that a change is looked up and
//! never searched for.

pub mod machine;
mod orders;
mod pods;
mod refresh;
pub mod registration;
mod status_patch;
mod sync;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use setpoint_core::pod::NodeFacts;
use setpoint_deployer::Provider;
use setpoint_deployer::provider::{Change, Scope};

use crate::pod_watch;
use crate::queue::Queue;
use registration::Registration;
use sync::Sync;

/// How many Pods are worked on at once: most of the work is waiting for the disk.
const AT_ONCE: usize = 16;
/// How often one asks a provider that does not tell what changes.
const ASKING: Duration = Duration::from_secs(10);
/// How long to wait after a look at everything failed.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Runs the Pods of a node.
pub struct NodeAgent {
    pub client: Client,
    pub registration: Registration,
    pub provider: Arc<dyn Provider>,
    /// Which control plane this is: what another one made is not ours.
    pub cluster: String,
}

impl std::fmt::Debug for NodeAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeAgent").field("node", &self.registration.facts.name).finish_non_exhaustive()
    }
}

impl NodeAgent {
    /// Works until it is dropped. What it had started goes on running.
    pub async fn run(self) {
        let queue = Arc::new(Queue::default());
        let facts: NodeFacts = self.registration.facts.clone();
        let sync = Arc::new(Sync::new(self.client.clone(), facts, self.provider.clone(), self.cluster, queue.clone()));
        tokio::join!(
            self.registration.keep(self.client.clone()),
            watch_pods(self.client, sync.clone()),
            watch_instances(sync.clone()),
            queue.run(AT_ONCE, sync),
        );
    }
}

/// Takes in the Pods of the node and has those worked on that changed.
async fn watch_pods(client: Client, sync: Arc<Sync>) {
    let mut events = pin!(pod_watch::watch(client, &format!("spec.nodeName={}", sync.node().name)));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let was_complete = sync.pods.is_complete();
                sync.heard(event);
                if !was_complete && sync.pods.is_complete() {
                    look_at_everything(&sync).await;
                }
            }
            Err(error) => tracing::warn!(%error, "the watch of Pods was interrupted and is taken up again"),
        }
    }
}

/// Has those worked on whose instances changed.
async fn watch_instances(sync: Arc<Sync>) {
    let Some(mut changes) = sync.provider.events() else {
        loop {
            tokio::time::sleep(ASKING).await;
            look_at_everything(&sync).await;
        }
    };
    while let Some(change) = changes.recv().await {
        match change {
            Change::Instance(id) => look_at_instance(&sync, id).await,
            Change::Everything => look_at_everything(&sync).await,
        }
    }
}

/// Also finds what was made for Pods that are gone. They are worked on only once all Pods are known.
async fn look_at_everything(sync: &Sync) {
    loop {
        match sync.provider.observe(&Scope::Everything).await {
            Ok(observed) => {
                observed.instances.iter().for_each(|instance| sync.noticed(instance));
                return;
            }
            Err(error) => tracing::warn!(%error, "what runs on this node could not be looked at"),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn look_at_instance(sync: &Sync, id: Box<str>) {
    if sync.wake_owner(&id) {
        return;
    }
    match sync.provider.observe(&Scope::Instance(id)).await {
        Ok(observed) => observed.instances.iter().for_each(|instance| sync.noticed(instance)),
        Err(error) => tracing::warn!(%error, "an instance could not be looked at"),
    }
}
