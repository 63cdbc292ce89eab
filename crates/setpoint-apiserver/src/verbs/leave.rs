//! Why an answer that lasts may go on: its caller is still allowed what was asked for, and to be who they act as.

use std::sync::Arc;

use tokio::sync::watch;

use crate::authentication::{Caller, impersonation};
use crate::authorization::Access;
use crate::failure::Result;
use crate::query::Query;
use crate::request::{ResourcePath, Verb};
use crate::server::{Call, Shared};

/// The leave that somebody has, as long as rights do not change.
pub(super) struct Leave {
    /// Tells when rights that count here may have changed.
    changes: watch::Receiver<()>,
    server: Arc<Shared>,
    caller: Caller,
    path: ResourcePath,
    query: Query,
}

impl Leave {
    /// For the watch that a call asks for.
    pub(super) fn ask(server: Arc<Shared>, call: &Call) -> Result<Leave> {
        let (caller, path, query) = (call.caller.clone(), call.path.clone(), call.query.clone());
        let access = Access::by_path(Verb::Watch.name(), &path, &query);
        let needed = caller.impersonator.iter().flat_map(|impersonator| impersonation::needed(&impersonator.wanted));
        let namespaces = needed.chain([access]).map(|access| access.namespace());
        let changes = server.policy.changes.of(namespaces);
        let leave = Leave { changes, server, caller, path, query };
        // The request was allowed, but what changed between then and now is not heard of.
        leave.check()?;
        Ok(leave)
    }

    /// Whether its caller may still have what was asked for.
    fn check(&self) -> Result<()> {
        let access = Access::by_path(Verb::Watch.name(), &self.path, &self.query);
        let policy = self.server.policy.read();
        if let Some(impersonator) = &self.caller.impersonator {
            impersonator.check(&policy)?;
        }
        access.check(&policy, &self.caller.identity).map(drop)
    }

    /// Whether it has to be asked for again.
    pub(super) fn is_stale(&self) -> bool {
        self.changes.has_changed().unwrap_or(false)
    }

    /// Ends when it has to be asked for again.
    pub(super) async fn stale(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Asks for it again.
    pub(super) fn renew(&mut self) -> Result<()> {
        self.changes.mark_unchanged();
        self.check()
    }
}
