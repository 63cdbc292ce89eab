//! Why an answer that lasts may go on: its caller is still allowed what was asked for, and to be who they act as.

use std::sync::Arc;

use tokio::sync::watch;

use crate::authentication::{self, Caller, impersonation};
use crate::authorization::Access;
use crate::failure::{Failure, Result};
use crate::query::Query;
use crate::request::ResourcePath;
use crate::server::{Call, Shared};

/// The leave that somebody has, as long as rights do not change.
pub(super) struct Leave {
    /// Tells when rights that count here may have changed.
    changes: watch::Receiver<()>,
    server: Arc<Shared>,
    caller: Caller,
    /// All that its caller must be allowed.
    verbs: &'static [&'static str],
    path: ResourcePath,
    query: Query,
}

impl Leave {
    /// For these verbs on what a call asks for.
    pub(super) fn ask(server: Arc<Shared>, call: &Call, verbs: &'static [&'static str]) -> Result<Leave> {
        let (caller, path, query) = (call.caller.clone(), call.path.clone(), call.query.clone());
        let accesses = verbs.iter().map(|verb| Access::by_path(verb, &path, &query));
        let needed = caller.impersonator.iter().flat_map(|impersonator| impersonation::needed(&impersonator.wanted));
        let namespaces = needed.chain(accesses).map(|access| access.namespace());
        let changes = server.policy.changes.of(namespaces);
        let leave = Leave { changes, server, caller, verbs, path, query };
        // The request was allowed, but what changed between then and now is not heard of.
        leave.check()?;
        Ok(leave)
    }

    /// Whether its caller may still have what was asked for.
    fn check(&self) -> Result<()> {
        let policy = self.server.policy.read();
        if let Some(impersonator) = &self.caller.impersonator {
            impersonator.check(&policy)?;
        }
        let mut accesses = self.verbs.iter().map(|verb| Access::by_path(verb, &self.path, &self.query));
        accesses.try_for_each(|access| access.check(&policy, &self.caller.identity).map(drop))
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

    /// Ends when there is no leave any more, or nobody to have it, or the server stops; and says which.
    pub(super) async fn lost(mut self) -> Failure {
        let mut stopping = self.server.stopping();
        let mut lapse = std::pin::pin!(authentication::lapse(&self.server, self.caller.standing.clone()));
        loop {
            tokio::select! {
                () = &mut lapse => return Failure::unauthorized(),
                _ = stopping.wait_for(|stopping| *stopping) => return Failure::unavailable("the server is shutting down"),
                () = self.stale() => {
                    if let Err(refusal) = self.renew() {
                        return refusal;
                    }
                }
            }
        }
    }
}
