//! A reader's end of a watch.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use crate::queue::{Backlog, Queue};
use crate::scope;
use crate::store::{Answer, At, Error, Event, Result, Revision, Watch};
use crate::watching::{CHUNK, Hub};

#[derive(Debug)]
pub(crate) struct Subscription {
    hub: Arc<Hub>,
    scope: Arc<str>,
    id: u64,
    queue: Arc<Mutex<Queue>>,
}

impl Subscription {
    pub(crate) fn start(hub: Arc<Hub>, scope: &str, after: Revision) -> Result<Self> {
        let scope: Arc<str> = scope.into();
        let (id, queue) = hub.add(scope.clone(), after)?;
        Ok(Self { hub, scope, id, queue })
    }

    /// The next event, or none for now, in which case the waker is called when there may be one.
    fn advance(&mut self, waker: Option<&Waker>) -> Result<Option<Arc<Event>>> {
        loop {
            let mut queue = self.queue.lock();
            if let Some(event) = queue.pop() {
                return Ok(Some(event));
            }
            let Some(reached) = queue.lagging_after() else {
                if queue.closed {
                    return Err(Error::Closed);
                }
                queue.waker = waker.cloned();
                return Ok(None);
            };
            drop(queue);
            self.catch_up(reached)?;
        }
    }

    /// Queues the next events from history, and joins the dispatcher when there are no more.
    fn catch_up(&mut self, mut reached: Revision) -> Result<()> {
        let mut backlog = Backlog::default();
        let state = self.hub.state().read();
        state.resolve(At::Revision(reached))?;
        let last = state.revision().min(reached + CHUNK);
        while reached < last {
            let next = reached + 1;
            let covered = scope::covers(&self.scope, state.history.key(next));
            if covered && !backlog.append(&Arc::new(state.event(next))) {
                break;
            }
            reached = next;
        }
        drop(state);
        self.queue.lock().refill(backlog, reached);
        self.hub.join(&self.queue, reached);
        Ok(())
    }
}

impl Watch for Subscription {
    fn next(&mut self) -> Answer<'_, Arc<Event>> {
        Box::pin(poll_fn(|context| match self.advance(Some(context.waker())) {
            Ok(Some(event)) => Poll::Ready(Ok(event)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }))
    }

    fn try_next(&mut self) -> Result<Option<Arc<Event>>> {
        self.advance(None)
    }

    fn progress(&self) -> Revision {
        // Read first: what is dispatched by now is in the queue by now.
        let dispatched = self.hub.dispatched();
        self.queue.lock().progress(dispatched)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.remove(&self.scope, self.id);
    }
}
