//! Who watches what, and how every event reaches each of them once.
//!
//! A dispatcher thread follows the commits and puts each event into the queues of those whose scope covers it; it looks
//! up the key and its directories only, and makes the event only if somebody watches. A queue that is full is left
//! alone from then on: its watch lags, and once it has read its queue it reads on from history at its own pace, until
//! it has reached the dispatcher and joins again. So a slow reader costs nobody anything, and the only way to miss an
//! event is to be so slow that history has forgotten it, which is an error the reader sees.
//!
//! Locks are taken in the order hub, state, queue.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};

use crate::scope;
use crate::state::State;
use crate::store::{Answer, At, Error, Event, Result, Revision, Watch};

/// How many events wait for one reader before it lags.
const MOST_QUEUED: usize = 1024;

/// How many commits are dispatched, or read from history, before others have their turn.
const CHUNK: u64 = 256;

/// About what it takes to hand an event to one reader.
const READER_TIME: Duration = Duration::from_micros(20);

/// How long a commit may wait for those before it to be taken.
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Hub {
    state: Arc<RwLock<State>>,
    watchers: Mutex<Watchers>,
    /// Every event up to here is in the queues it belongs to. Changes only while `watchers` is locked, and never
    /// lies before the beginning of history while somebody watches.
    dispatched: AtomicU64,
    watches: AtomicUsize,
    signal: Mutex<Signal>,
    signalled: Condvar,
}

/// Tells the dispatcher, when dropped, that there will be no more commits; however the committer ends.
#[derive(Debug)]
pub(crate) struct Closing(pub(crate) Arc<Hub>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.signal.lock().closing = true;
        self.0.signalled.notify_one();
    }
}

#[derive(Debug, Default)]
struct Watchers {
    by_scope: HashMap<Arc<str>, BTreeMap<u64, Arc<Mutex<Queue>>>>,
    next_id: u64,
    closed: bool,
}

#[derive(Debug, Default)]
struct Signal {
    commits: bool,
    closing: bool,
}

#[derive(Debug)]
struct Queue {
    events: VecDeque<Arc<Event>>,
    /// The reader has all events up to here already.
    after: Revision,
    /// Events are no longer queued; the reader takes them from history.
    lagging: bool,
    closed: bool,
    waker: Option<Waker>,
}

impl Hub {
    pub(crate) fn new(state: Arc<RwLock<State>>) -> Self {
        let dispatched = AtomicU64::new(state.read().revision());
        Self {
            state,
            watchers: Mutex::default(),
            dispatched,
            watches: AtomicUsize::new(0),
            signal: Mutex::default(),
            signalled: Condvar::new(),
        }
    }

    pub(crate) fn watches(&self) -> usize {
        self.watches.load(SeqCst)
    }

    /// Says that there are new commits.
    pub(crate) fn wake(&self) {
        // A watch that starts now counts itself before it looks at the state, so it cannot miss these commits.
        if self.watches() > 0 {
            self.signal.lock().commits = true;
            self.signalled.notify_one();
        }
    }

    /// Follows the commits until the store closes.
    #[expect(clippy::disallowed_methods, reason = "the dispatcher has a thread of its own")]
    pub(crate) fn dispatch(&self) {
        loop {
            let closing = {
                let mut signal = self.signal.lock();
                self.signalled.wait_while(&mut signal, |signal| !signal.commits && !signal.closing);
                signal.commits = false;
                signal.closing
            };
            let mut woken = 0;
            while self.dispatch_chunk(&mut woken) {}
            if closing {
                return self.end();
            }
            thread::sleep(pause(woken));
        }
    }

    /// Sees to it that commits are in the queues they belong to before history forgets them. So history never overtakes
    /// the dispatcher, and a reader that keeps up survives every compaction, however quiet its scope.
    pub(crate) fn dispatch_up_to(&self, revision: Revision) {
        // A watch that starts now begins after these commits, or learns that they are gone.
        while self.watches() > 0 && self.dispatched.load(Acquire) < revision {
            self.dispatch_chunk(&mut 0);
        }
    }

    /// Queues the next commits and counts the readers it woke; whether there may be more.
    fn dispatch_chunk(&self, woken: &mut u32) -> bool {
        let watchers = self.watchers.lock();
        let dispatched = self.dispatched.load(Acquire);
        let state = self.state.read();
        if watchers.by_scope.is_empty() {
            // Nobody needs what happened until now, and history may have forgotten it.
            self.dispatched.store(state.revision(), Release);
            return false;
        }
        let last = state.revision().min(dispatched + CHUNK);
        let events: Vec<Arc<Event>> = (dispatched + 1..=last)
            .filter(|revision| watchers.covering(state.history.key(*revision)).next().is_some())
            .map(|revision| Arc::new(state.event(revision)))
            .collect();
        let more = last < state.revision();
        drop(state);
        let mut wakers = Vec::new();
        for event in &events {
            for queue in watchers.covering(&event.key) {
                let mut queue = queue.lock();
                queue.push(event);
                wakers.extend(queue.waker.take());
            }
        }
        self.dispatched.store(last, Release);
        drop(watchers);
        *woken += u32::try_from(wakers.len()).unwrap_or(u32::MAX);
        wakers.into_iter().for_each(Waker::wake);
        more
    }

    fn end(&self) {
        let mut watchers = self.watchers.lock();
        watchers.closed = true;
        for queue in watchers.all() {
            let mut queue = queue.lock();
            queue.closed = true;
            if let Some(waker) = queue.waker.take() {
                waker.wake();
            }
        }
    }
}

/// The time given to readers to take what they were woken for. Commits that come meanwhile share the next wake, so that
/// under load each reader is woken less often, for more; a lone commit is never delayed.
fn pause(woken: u32) -> Duration {
    (READER_TIME * woken).min(LONGEST_PAUSE)
}

impl Watchers {
    fn all(&self) -> impl Iterator<Item = &Arc<Mutex<Queue>>> {
        self.by_scope.values().flat_map(BTreeMap::values)
    }

    /// The queues whose scope covers a key.
    fn covering<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Arc<Mutex<Queue>>> {
        let scopes = scope::directories(key).chain((!scope::is_directory(key)).then_some(key));
        scopes.filter_map(|scope| self.by_scope.get(scope)).flat_map(BTreeMap::values)
    }
}

impl Queue {
    fn push(&mut self, event: &Arc<Event>) {
        if self.lagging || event.revision <= self.after {
            return;
        }
        if self.events.len() == MOST_QUEUED {
            self.lagging = true;
        } else {
            self.events.push_back(event.clone());
        }
    }
}

/// A reader's end of a watch.
#[derive(Debug)]
pub(crate) struct Subscription {
    hub: Arc<Hub>,
    scope: Arc<str>,
    id: u64,
    queue: Arc<Mutex<Queue>>,
    /// Events taken from the queue or from history, not yet returned.
    taken: VecDeque<Arc<Event>>,
    /// Every event up to here has been taken.
    position: Revision,
}

impl Subscription {
    pub(crate) fn start(hub: Arc<Hub>, scope: &str, after: Revision) -> Result<Self> {
        let scope: Arc<str> = scope.into();
        let mut watchers = hub.watchers.lock();
        if watchers.closed {
            return Err(Error::Closed);
        }
        let first = hub.watches.fetch_add(1, SeqCst) == 0;
        let state = hub.state.read();
        if let Err(error) = state.resolve(At::Revision(after)) {
            hub.watches.fetch_sub(1, SeqCst);
            return Err(error);
        }
        if first {
            // Nobody needed what happened until now.
            hub.dispatched.store(state.revision(), Release);
        }
        drop(state);
        let lagging = after < hub.dispatched.load(Acquire);
        let queue = Queue { events: VecDeque::new(), after, lagging, closed: false, waker: None };
        let queue = Arc::new(Mutex::new(queue));
        let id = watchers.next_id;
        watchers.next_id += 1;
        watchers.by_scope.entry(scope.clone()).or_default().insert(id, queue.clone());
        drop(watchers);
        Ok(Self { hub, scope, id, queue, taken: VecDeque::new(), position: after })
    }

    /// The next event, or none for now, in which case the waker is called when there may be one.
    fn advance(&mut self, waker: Option<&Waker>) -> Result<Option<Arc<Event>>> {
        loop {
            if let Some(event) = self.taken.pop_front() {
                return Ok(Some(event));
            }
            let mut queue = self.queue.lock();
            if let Some(last) = queue.events.back() {
                self.position = last.revision;
                std::mem::swap(&mut self.taken, &mut queue.events);
            } else if queue.lagging {
                drop(queue);
                self.catch_up()?;
            } else if queue.closed {
                return Err(Error::Closed);
            } else {
                queue.waker = waker.cloned();
                return Ok(None);
            }
        }
    }

    /// Takes the next events from history, and joins the dispatcher when there are no more.
    fn catch_up(&mut self) -> Result<()> {
        let state = self.hub.state.read();
        state.resolve(At::Revision(self.position))?;
        let last = state.revision().min(self.position + CHUNK);
        let revisions = self.position + 1..=last;
        let covered = revisions.filter(|revision| scope::covers(&self.scope, state.history.key(*revision)));
        self.taken.extend(covered.map(|revision| Arc::new(state.event(revision))));
        drop(state);
        self.position = last;
        let _watchers = self.hub.watchers.lock();
        if self.position >= self.hub.dispatched.load(Acquire) {
            let mut queue = self.queue.lock();
            queue.after = self.position;
            queue.lagging = false;
        }
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
        let dispatched = self.hub.dispatched.load(Acquire);
        if let Some(event) = self.taken.front() {
            return event.revision - 1;
        }
        let queue = self.queue.lock();
        match queue.events.front() {
            Some(event) => event.revision - 1,
            None if queue.lagging => self.position,
            None => self.position.max(dispatched),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut watchers = self.hub.watchers.lock();
        if let Some(queues) = watchers.by_scope.get_mut(&self.scope) {
            queues.remove(&self.id);
            if queues.is_empty() {
                watchers.by_scope.remove(&self.scope);
            }
        }
        self.hub.watches.fetch_sub(1, SeqCst);
    }
}
