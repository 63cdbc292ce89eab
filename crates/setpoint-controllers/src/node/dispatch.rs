//! Brings each change of a Pod to the agent of its node, however many agents there are: one listener, one look-up.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::RwLock;

use crate::runtime::{Caches, Change};

/// What an agent does when one of its Pods changes. It must not block.
pub(super) type Hears = dyn Fn(&Change<Pod>) + Send + Sync;

/// Who listens for each node.
#[derive(Default)]
pub struct Dispatch(RwLock<BTreeMap<String, Arc<Hears>>>);

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.read().keys()).finish()
    }
}

impl Dispatch {
    pub fn new(caches: &Caches) -> Arc<Dispatch> {
        let dispatch = Arc::new(Dispatch::default());
        let listener = dispatch.clone();
        caches.pods.listen(move |change| listener.hand_out(change));
        dispatch
    }

    /// From now on, changes of this node's Pods are heard here, and nowhere else.
    pub(super) fn attach(&self, node: &str, hears: Arc<Hears>) {
        self.0.write().insert(node.to_owned(), hears);
    }

    /// Unless another one has come in the meantime.
    pub(super) fn detach(&self, node: &str, hears: &Arc<Hears>) {
        let mut all = self.0.write();
        if all.get(node).is_some_and(|present| Arc::ptr_eq(present, hears)) {
            all.remove(node);
        }
    }

    fn hand_out(&self, change: &Change<Pod>) {
        let all = self.0.read();
        let mut told = "";
        for node in change.both().filter_map(|pod| node_of(pod)) {
            // A Pod hardly ever changes its node.
            if node != told {
                all.get(node).into_iter().for_each(|hears| hears(change));
                told = node;
            }
        }
    }
}

/// The node that a Pod is on.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}
