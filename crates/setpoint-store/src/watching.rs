//! Who watches what, and how every event reaches each of them once.
//!
//! A dispatcher thread follows the commits and puts each event into the queues of those whose scope covers it; it looks
//! up the key and its directories only, and makes the event only if somebody watches. A queue that is full, in events or in bytes, is left
//! alone from then on: its watch lags, and once it has read its queue it reads on from history at its own pace, until
//! it has reached the dispatcher and joins again. So a slow reader costs nobody anything, and the only way to miss an
//! event is to be so slow that history has forgotten it, which is an error the reader sees.
//!
//! Locks are taken in the order hub, state, queue.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::task::Waker;

use parking_lot::{Condvar, Mutex, RwLock};

use crate::queue::Queue;
use crate::scope;
use crate::state::State;
use crate::store::{At, Error, Event, Result, Revision};

/// How many commits are dispatched, or read from history, before others have their turn.
pub(crate) const CHUNK: u64 = 256;

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

    pub(crate) fn state(&self) -> &RwLock<State> {
        &self.state
    }

    /// Every event up to here is in the queues it belongs to.
    pub(crate) fn dispatched(&self) -> Revision {
        self.dispatched.load(Acquire)
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

    /// Adds a queue for the events of a scope after a revision.
    pub(crate) fn add(&self, scope: Arc<str>, after: Revision) -> Result<(u64, Arc<Mutex<Queue>>)> {
        let mut watchers = self.watchers.lock();
        if watchers.closed {
            return Err(Error::Closed);
        }
        let first = self.watches.fetch_add(1, SeqCst) == 0;
        let state = self.state.read();
        if let Err(error) = state.resolve(At::Revision(after)) {
            self.watches.fetch_sub(1, SeqCst);
            return Err(error);
        }
        if first {
            // Nobody needed what happened until now.
            self.dispatched.store(state.revision(), Release);
        }
        drop(state);
        let queue = Arc::new(Mutex::new(Queue::new(after, after < self.dispatched())));
        let id = watchers.next_id;
        watchers.next_id += 1;
        watchers.by_scope.entry(scope).or_default().insert(id, queue.clone());
        Ok((id, queue))
    }

    /// Lets a lagging queue that has reached a revision join again, if that is as far as the dispatcher is.
    pub(crate) fn join(&self, queue: &Mutex<Queue>, reached: Revision) {
        // The dispatcher only moves on, so most who lag need not bother it.
        if reached >= self.dispatched() {
            let _watchers = self.watchers.lock();
            queue.lock().join(self.dispatched());
        }
    }

    pub(crate) fn remove(&self, scope: &str, id: u64) {
        let mut watchers = self.watchers.lock();
        if let Some(queues) = watchers.by_scope.get_mut(scope) {
            queues.remove(&id);
            if queues.is_empty() {
                watchers.by_scope.remove(scope);
            }
        }
        self.watches.fetch_sub(1, SeqCst);
    }

    /// Follows the commits until the store closes.
    pub(crate) fn dispatch(&self) {
        let _ending = Ending(self);
        loop {
            let closing = {
                let mut signal = self.signal.lock();
                self.signalled.wait_while(&mut signal, |signal| !signal.commits && !signal.closing);
                signal.commits = false;
                signal.closing
            };
            self.dispatch_all();
            if closing {
                return;
            }
        }
    }

    /// Queues every commit there is.
    pub(crate) fn dispatch_all(&self) {
        while self.dispatch_chunk() {}
    }

    /// Ends all watches.
    pub(crate) fn end(&self) {
        let mut watchers = self.watchers.lock();
        watchers.closed = true;
        let wakers: Vec<Waker> = watchers.all().filter_map(|queue| queue.lock().close()).collect();
        drop(watchers);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Sees to it that commits are in the queues they belong to before history forgets them. So history never overtakes
    /// the dispatcher, and a reader that keeps up survives every compaction, however quiet its scope.
    pub(crate) fn dispatch_up_to(&self, revision: Revision) {
        // A watch that starts now begins after these commits, or learns that they are gone.
        while self.watches() > 0 && self.dispatched() < revision {
            self.dispatch_chunk();
        }
    }

    /// Queues the next commits; whether there may be more.
    fn dispatch_chunk(&self) -> bool {
        let watchers = self.watchers.lock();
        let dispatched = self.dispatched();
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
        wakers.into_iter().for_each(Waker::wake);
        more
    }
}

/// Ends all watches when dropped; however the dispatcher ends.
#[derive(Debug)]
struct Ending<'a>(&'a Hub);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
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
