//! Who divides traffic: what a split is told to, and a table in memory that a proxy reads.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::RwLock;
use setpoint_api::traffic_split::SplitEntry;

use crate::deployer::AppName;
use crate::provider::Answer;

/// What divides an App's traffic. Shared as `Arc<dyn Router>`.
pub trait Router: fmt::Debug + Send + Sync + 'static {
    /// Divides an App's traffic, and returns what was applied.
    fn apply<'a>(&'a self, app: &'a AppName, entries: &'a [SplitEntry]) -> Answer<'a, Vec<SplitEntry>>;

    /// How an App's traffic is divided.
    fn observe<'a>(&'a self, app: &'a AppName) -> Answer<'a, Option<Vec<SplitEntry>>>;
}

/// A router in memory. Whoever forwards requests reads it.
#[derive(Debug, Default)]
pub struct RoutingTable {
    apps: RwLock<BTreeMap<AppName, Vec<SplitEntry>>>,
}

impl RoutingTable {
    /// How an App's traffic is divided.
    pub fn split(&self, app: &AppName) -> Option<Vec<SplitEntry>> {
        self.apps.read().get(app).cloned()
    }
}

impl Router for RoutingTable {
    fn apply<'a>(&'a self, app: &'a AppName, entries: &'a [SplitEntry]) -> Answer<'a, Vec<SplitEntry>> {
        Box::pin(async move {
            self.apps.write().insert(app.clone(), entries.to_vec());
            Ok(entries.to_vec())
        })
    }

    fn observe<'a>(&'a self, app: &'a AppName) -> Answer<'a, Option<Vec<SplitEntry>>> {
        Box::pin(async move { Ok(self.split(app)) })
    }
}
