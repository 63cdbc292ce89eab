//! Drives a controller: one key at a time, each with the caches showing what its last round wrote.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_deployer::Retry;

use super::caches::Caches;
use super::clock::Clock;
use super::controller::{Controller, Next};
use super::round::{Round, Unseen};
use crate::queue::{Outcome, Queue, Work};

pub struct Runner<C: Controller> {
    controller: Arc<C>,
    queue: Arc<Queue<C::Key>>,
    clock: Clock,
    /// What the last round on a key wrote, as long as it may not be seen.
    unseen: Mutex<BTreeMap<C::Key, Vec<Unseen>>>,
}

impl<C: Controller> std::fmt::Debug for Runner<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("controller", &C::NAME).finish_non_exhaustive()
    }
}

impl<C: Controller> Runner<C> {
    /// Wires a controller. The caches must not be fed yet.
    pub fn new(controller: C, caches: &Caches, clock: Clock) -> Arc<Runner<C>> {
        let (controller, queue) = (Arc::new(controller), Arc::new(Queue::default()));
        controller.wire(caches, &queue);
        Arc::new(Runner { controller, queue, clock, unseen: Mutex::default() })
    }

    pub fn controller(&self) -> &C {
        &self.controller
    }

    pub fn queue(&self) -> &Queue<C::Key> {
        &self.queue
    }

    /// Whether the caches show what the last round on a key wrote.
    pub fn is_up_to_date(&self, key: &C::Key) -> bool {
        self.unseen.lock().get(key).is_none_or(|unseen| unseen.iter().all(Unseen::is_seen))
    }

    /// Works for ever, on no more than `at_once` keys at the same time.
    pub async fn run(self: Arc<Self>, at_once: usize) {
        self.queue.clone().run(at_once, self).await;
    }

    async fn catch_up(&self, key: &C::Key) {
        let unseen = self.unseen.lock().remove(key).unwrap_or_default();
        for write in unseen {
            write.seen().await;
        }
    }
}

impl<C: Controller> Work<C::Key> for Runner<C> {
    async fn work(&self, key: &C::Key) -> Outcome {
        self.catch_up(key).await;
        let mut round = Round::new(self.clock.now());
        let result = self.controller.reconcile(key, &mut round).await;
        if !round.writes.is_empty() {
            self.unseen.lock().insert(key.clone(), round.writes);
        }
        match result {
            Ok(Next::Idle) => Outcome::Done,
            Ok(Next::After(after)) => Outcome::Until(after),
            Err(error) => {
                tracing::warn!(controller = C::NAME, ?key, %error, "this did not get on");
                Outcome::Failed(match error.retry() {
                    // Nothing else would come back to it.
                    Retry::Never => Retry::BackOff,
                    retry => retry,
                })
            }
        }
    }

    async fn panicked(&self, key: &C::Key, message: &str) {
        tracing::error!(controller = C::NAME, ?key, message, "the work on this panicked");
    }
}
