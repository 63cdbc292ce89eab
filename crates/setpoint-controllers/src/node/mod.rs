//! The node agent: the Pods of one node, run by a provider and told of as a kubelet does.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`registration`] | what the Node and its Lease say |
//! | [`heartbeat`] | keeps them true, as long as the place answers |
//! | [`machine`] | what this machine is, read from the system |
//! | [`dispatch`] | brings each change of a Pod to the agent of its node |
//! | [`sync`] | the work on one Pod: look, decide, write, act |
//! | `memory` | what is remembered of a Pod, and may be forgotten |
//! | `orders` | a Pod with everything that it refers to |
//! | `refresh` | when a running Pod's files are looked at again |
//! | `status_patch` | what of a status has to be written |
//! | [`providers`] | who runs the Pods of each node in this process |
//!
//! Nothing here decides: that is done in `setpoint_core::pod`. Nothing polls: the shared cache of Pods and the provider
//! tell what to look at. What an instance is called by its provider is kept beside the uid of its Pod, so that a change is
//! looked up and never searched for.

pub mod dispatch;
pub mod heartbeat;
pub mod machine;
mod memory;
mod orders;
pub mod providers;
mod refresh;
pub mod registration;
mod status_patch;
pub mod sync;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use setpoint_core::observation::Completeness;
use setpoint_deployer::Provider;
use setpoint_deployer::provider::Change;

use crate::runtime::{Caches, Context, Follows, Runner};
pub use dispatch::Dispatch;
pub use heartbeat::{Heartbeat, Report};
pub use providers::Providers;
use registration::Registration;
pub use sync::NodePods;

/// The uid of a Pod: what the work on it goes by. Its name can be another Pod's tomorrow, and what is left of the first
/// has to go although a Pod of that name is there.
pub type Uid = Arc<str>;

/// How often one asks a provider that does not tell what changes.
const ASKING: Duration = Duration::from_secs(10);
/// How long to wait after a look at everything failed.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How many changes are taken in together, and how many instances are looked at together.
const TAKEN_AT_ONCE: usize = 1024;
const LOOKS_AT_ONCE: usize = 16;

/// Runs the Pods of a node.
pub struct NodeAgent {
    pub context: Context,
    pub caches: Caches,
    pub dispatch: Arc<Dispatch>,
    pub registration: Registration,
    pub provider: Arc<dyn Provider>,
    /// Which control plane this is: what another one made is not ours.
    pub cluster: String,
    /// Who wants to know whether the place answers.
    pub report: Option<Report>,
}

/// The two controllers that an agent is made of.
#[derive(Debug)]
pub struct Wired {
    pub pods: Arc<Runner<NodePods>>,
    pub heartbeat: Arc<Runner<Heartbeat>>,
}

impl fmt::Debug for NodeAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeAgent").field("node", &self.registration.facts.name).finish_non_exhaustive()
    }
}

impl NodeAgent {
    /// Works until it is dropped. What it had started goes on running.
    pub async fn run(self) {
        let caches = self.caches.clone();
        let Wired { pods, heartbeat } = self.wire();
        // Before that, nothing may be removed for want of a Pod.
        tokio::join!(caches.pods.completed(), caches.nodes.completed());
        // Its queue begins empty: what is found is added after that.
        tokio::join!(heartbeat.run(), pods.clone().run(), follow(pods));
    }

    /// Has it hear of its Pods. Whoever calls this drives the two themselves.
    pub fn wire(self) -> Wired {
        let NodeAgent { context, caches, dispatch, registration, provider, cluster, report } = self;
        let facts = registration.facts.clone();
        let pods = NodePods::new(&context, facts, provider.clone(), cluster, caches.clone(), dispatch);
        let heartbeat = Heartbeat::new(context.client.clone(), registration, provider, caches.clone(), report);
        Wired { pods: Runner::new(pods, &caches, &context), heartbeat: Runner::new(heartbeat, &caches, &context) }
    }
}

/// Has those worked on whose instances changed.
async fn follow(pods: Arc<Runner<NodePods>>) {
    let mut changes = pods.controller().provider().events();
    look_at_everything(&pods).await;
    loop {
        let Some(events) = &mut changes else {
            tokio::time::sleep(ASKING).await;
            look_at_everything(&pods).await;
            continue;
        };
        let mut news = Vec::new();
        if events.recv_many(&mut news, TAKEN_AT_ONCE).await == 0 {
            changes = None;
        }
        take_in(&pods, news).await;
    }
}

async fn take_in(pods: &Runner<NodePods>, news: Vec<Change>) {
    let mut unknown = Vec::new();
    let mut is_everything = false;
    for change in news {
        match change {
            Change::Everything => is_everything = true,
            Change::Instance(id) => match pods.controller().owner_of_id(&id) {
                Some(uid) => pods.queue().add(uid),
                None => unknown.push(id),
            },
        }
    }
    if is_everything {
        return look_at_everything(pods).await;
    }
    let looks = unknown.into_iter().map(|id| pods.controller().look_at_instance(id));
    let mut looks = futures::stream::iter(looks).buffered(LOOKS_AT_ONCE);
    while let Some(owner) = looks.next().await {
        owner.into_iter().for_each(|uid| pods.queue().add(uid));
    }
}

/// Also finds what was made for Pods that are gone.
async fn look_at_everything(pods: &Runner<NodePods>) {
    loop {
        match pods.controller().look_at_everything().await {
            Ok((owners, completeness)) => {
                owners.into_iter().for_each(|uid| pods.queue().add(uid));
                match completeness {
                    Completeness::Complete => return,
                    Completeness::Partial(why) => tracing::warn!(why, "not all that runs on this node could be seen"),
                }
            }
            Err(error) => tracing::warn!(%error, "what runs on this node could not be looked at"),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
