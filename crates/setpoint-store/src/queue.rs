//! What waits for one reader: bounded, so that a reader that stands still holds on to little.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::store::{Event, Revision};

/// How many events wait for one reader before it lags.
const MOST_EVENTS: usize = 1024;

/// How large the values of those events may be together; a single event may be larger.
const MOST_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Queue {
    backlog: Backlog,
    /// Every event of the scope up to here was queued, or came before the watch.
    reached: Revision,
    /// Events are no longer queued as they happen; the reader takes them from history.
    lagging: bool,
    pub(crate) closed: bool,
    pub(crate) waker: Option<Waker>,
}

impl Queue {
    pub(crate) fn new(after: Revision, lagging: bool) -> Self {
        Self { backlog: Backlog::default(), reached: after, lagging, closed: false, waker: None }
    }

    /// Queues an event that has just happened; without room for it, the reader lags.
    pub(crate) fn push(&mut self, event: &Arc<Event>) {
        if self.lagging || event.revision <= self.reached {
            return;
        }
        self.lagging = !self.backlog.append(event);
        self.reached = event.revision - Revision::from(self.lagging);
    }

    /// Says that nothing is pushed any more; returns who must hear of it.
    pub(crate) fn close(&mut self) -> Option<Waker> {
        self.closed = true;
        self.waker.take()
    }

    pub(crate) fn pop(&mut self) -> Option<Arc<Event>> {
        self.backlog.pop()
    }

    /// Where a lagging reader reads on in history.
    pub(crate) fn lagging_after(&self) -> Option<Revision> {
        self.lagging.then_some(self.reached)
    }

    /// Queues what a lagging reader, whose queue is empty, found in history up to a revision.
    pub(crate) fn refill(&mut self, backlog: Backlog, reached: Revision) {
        debug_assert!(self.lagging && self.backlog.events.is_empty(), "only a lagging reader reads history");
        self.backlog = backlog;
        self.reached = reached;
    }

    /// Goes on with events as they happen, if none before them are missing.
    pub(crate) fn join(&mut self, dispatched: Revision) {
        self.lagging = self.lagging && self.reached < dispatched;
    }

    /// Up to where every event has been popped, given up to where all were pushed.
    pub(crate) fn progress(&self, dispatched: Revision) -> Revision {
        match self.backlog.events.front() {
            Some(event) => event.revision - 1,
            None if self.lagging => self.reached,
            None => self.reached.max(dispatched),
        }
    }
}

/// Events in order, as many as may wait.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
}

impl Backlog {
    /// Appends an event if there is room for it; whether there was.
    pub(crate) fn append(&mut self, event: &Arc<Event>) -> bool {
        let bytes = self.bytes + size(event);
        let room = self.events.is_empty() || (self.events.len() < MOST_EVENTS && bytes <= MOST_BYTES);
        if room {
            self.events.push_back(event.clone());
            self.bytes = bytes;
        }
        room
    }

    fn pop(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        self.bytes -= size(&event);
        Some(event)
    }
}

/// The bytes that an event may be the last to hold.
fn size(event: &Event) -> usize {
    let previous = event.previous.as_ref().map_or(0, |(value, _)| value.len());
    event.value.as_ref().map_or(0, |value| value.len()) + previous
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn event(revision: Revision, value: usize, previous: usize) -> Arc<Event> {
        let previous = (previous > 0).then(|| (vec![0; previous].into(), 1));
        let value = Some(Bytes::from(vec![0; value]));
        Arc::new(Event { revision, key: "/a".into(), value, previous, derived: Default::default() })
    }

    #[test]
    fn whichever_bound_is_reached_first_decides() {
        for (name, value, previous, fit) in [
            ("small events are counted", 10, 10, MOST_EVENTS),
            ("large ones are weighed", MOST_BYTES / 4, 0, 4),
            ("with what they replaced", MOST_BYTES / 4, MOST_BYTES / 4, 2),
            ("one always fits", 3 * MOST_BYTES, MOST_BYTES, 1),
        ] {
            let mut queue = Queue::new(0, false);
            let last = fit as Revision;
            for revision in 1..=last {
                queue.push(&event(revision, value, previous));
                assert_eq!(queue.lagging_after(), None, "{name}: {revision}");
            }
            for revision in last + 1..last + 3 {
                queue.push(&event(revision, value, previous));
                assert_eq!(queue.lagging_after(), Some(last), "{name}: {revision}");
            }
            let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|event| event.revision).collect();
            assert!(popped.into_iter().eq(1..=last), "{name}");
            assert_eq!(queue.backlog.bytes, 0, "{name}");
        }
    }
}
