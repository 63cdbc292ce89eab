//! Who runs the Pods of each node in this process: where logs and commands go.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use setpoint_deployer::Provider;

/// Providers by the names of nodes. Cheap to clone; clones are the same table.
#[derive(Debug, Clone, Default)]
pub struct Providers(Arc<RwLock<BTreeMap<String, Arc<dyn Provider>>>>);

impl Providers {
    pub fn get(&self, node: &str) -> Option<Arc<dyn Provider>> {
        self.0.read().get(node).cloned()
    }

    pub fn put(&self, node: &str, provider: Arc<dyn Provider>) {
        self.0.write().insert(node.to_owned(), provider);
    }

    pub fn remove(&self, node: &str) {
        self.0.write().remove(node);
    }
}
