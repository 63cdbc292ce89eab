//! A reader's end of a watch.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use crate::queue::{Backlog, Queue};
use crate::scope;
use crate::store::{Answer, At, Error, Event, Result, Revision, Watch};
use crate::watching::{CHUNK, Hub};

/// How many chunks of history are searched for an event before others have their turn.
const MOST_CHUNKS: u32 = 8;

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
        for _ in 0..MOST_CHUNKS {
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
        if let Some(waker) = waker {
            waker.wake_by_ref();
        }
        Ok(None)
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::task::{Context, Wake};

    use bytes::Bytes;
    use parking_lot::RwLock;

    use super::*;
    use crate::state::{Change, State};

    #[derive(Default)]
    struct Wakes(AtomicU64);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn a_long_search_lets_others_have_their_turn() {
        let mut state = State::default();
        for revision in 1..=20_000 {
            let key = if revision < 20_000 { format!("/d/{revision}") } else { "/rare/a".to_owned() };
            let value = Some(Bytes::new());
            state.apply(Change { revision, key: key.into(), value, previous: None, time_s: 0 });
        }
        let hub = Arc::new(Hub::new(Arc::new(RwLock::new(state))));
        let mut watch = Subscription::start(hub, "/rare/", 0).unwrap();
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut polls = 0;
        loop {
            let before = watch.progress();
            match watch.next().as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(event) => break assert_eq!(event.unwrap().revision, 20_000),
                Poll::Pending => polls += 1,
            }
            assert_eq!(wakes.0.load(SeqCst), polls, "it asks to be polled again");
            let searched = watch.progress() - before;
            assert!((1..=2048).contains(&searched), "{searched} commits in one poll");
        }
    }
}
