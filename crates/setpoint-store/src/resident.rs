//! A store whose truth is in memory: reads never wait for a disk, and an engine makes the commits durable.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use parking_lot::RwLock;
use tokio::sync::oneshot;

use crate::committer::{Committer, Request};
use crate::engine::Engine;
use crate::options::Options;
use crate::scope;
use crate::state::State;
use crate::store::{
    Answer, At, Commit, Committed, Entry, Error, Page, Range, Result, Revision, Snapshot, Statistics, Store, Watch,
};
use crate::watching::{Hub, Subscription};

/// How many entries a read copies before it lets writers through.
const CHUNK: usize = 4096;

/// What the engines can store.
const LONGEST_KEY: usize = 65_535;

/// A store over an engine. Dropping it closes it, and waits for that.
#[derive(Debug)]
pub struct Resident<E> {
    shared: Arc<Shared>,
    requests: Option<mpsc::Sender<Request>>,
    committer: Option<JoinHandle<()>>,
    dispatcher: Option<JoinHandle<()>>,
    engine: PhantomData<fn() -> E>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Arc<RwLock<State>>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) statistics: Counters,
    /// Whether commits are refused, because the engine failed or the store was closed.
    pub(crate) refusing: AtomicBool,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) batch_micros: AtomicU64,
}

impl<E: Engine> Resident<E> {
    /// Starts a store with the state that its engine kept.
    pub(crate) fn start(engine: E, state: State, options: Options) -> std::io::Result<Self> {
        let state = Arc::new(RwLock::new(state));
        let hub = Arc::new(Hub::new(state.clone()));
        let shared = Arc::new(Shared {
            state,
            hub: hub.clone(),
            statistics: Counters::default(),
            refusing: AtomicBool::new(false),
        });
        let (requests, receiver) = mpsc::channel();
        let committer = Committer::new(receiver, engine, shared.clone(), options);
        let dispatcher = thread::Builder::new().name("store-dispatcher".into()).spawn(move || hub.dispatch())?;
        let committer = thread::Builder::new().name("store-committer".into()).spawn(move || committer.run())?;
        Ok(Self {
            shared,
            requests: Some(requests),
            committer: Some(committer),
            dispatcher: Some(dispatcher),
            engine: PhantomData,
        })
    }

    fn request(&self, request: Request) -> Result<()> {
        let requests = self.requests.as_ref().ok_or(Error::Closed)?;
        requests.send(request).map_err(|_| Error::Closed)
    }

    /// Reads a directory in chunks that all see the same revision.
    fn read_directory(&self, range: Range<'_>, most: usize) -> Result<(Revision, Vec<Entry>)> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut at = range.at;
        loop {
            let state = self.shared.state.read();
            let revision = state.resolve(at)?;
            let wanted = CHUNK.min(most - entries.len());
            let after = entries.last().map(|entry| entry.key.clone());
            let chunk = state.range(range.scope, after.as_deref().or(range.after), wanted, revision);
            drop(state);
            let complete = chunk.len() < wanted;
            entries.extend(chunk);
            if complete || entries.len() == most {
                return Ok((revision, entries));
            }
            at = At::Revision(revision);
        }
    }

    fn read_page(&self, range: Range<'_>) -> Result<Page> {
        if !scope::is_directory(range.scope) {
            let state = self.shared.state.read();
            let revision = state.resolve(range.at)?;
            let wanted = range.after.is_none_or(|after| after < range.scope);
            let entries = wanted.then(|| state.get(range.scope, revision)).flatten().into_iter().collect();
            return Ok(Page { revision, entries, more: false });
        }
        // One more than asked for, to know whether there are more.
        let most = if range.limit == 0 { usize::MAX } else { range.limit.saturating_add(1) };
        let (revision, mut entries) = match (self.read_directory(range, most), range.at) {
            // Between two chunks the revision was compacted away; this time hold on to it.
            (Err(Error::Compacted { .. }), At::Now) => {
                let state = self.shared.state.read();
                let revision = state.revision();
                (revision, state.range(range.scope, range.after, most, revision))
            }
            (read, _) => read?,
        };
        let more = range.limit != 0 && entries.len() > range.limit;
        if more {
            entries.truncate(range.limit);
        }
        Ok(Page { revision, entries, more })
    }
}

impl<E: Engine> Store for Resident<E> {
    fn revision(&self) -> Revision {
        self.shared.state.read().revision()
    }

    fn oldest(&self) -> Revision {
        self.shared.state.read().history.oldest()
    }

    fn get<'a>(&'a self, key: &'a str, at: At) -> Answer<'a, Snapshot<Option<Entry>>> {
        Box::pin(async move {
            let state = self.shared.state.read();
            let revision = state.resolve(at)?;
            Ok(Snapshot { revision, value: state.get(key, revision) })
        })
    }

    fn range<'a>(&'a self, range: Range<'a>) -> Answer<'a, Page> {
        Box::pin(async move { self.read_page(range) })
    }

    fn count(&self, scope: &str) -> u64 {
        self.shared.state.read().count(scope)
    }

    fn commit(&self, mut commit: Commit) -> Answer<'_, Committed> {
        Box::pin(async move {
            let length = commit.key.len();
            assert!((1..=LONGEST_KEY).contains(&length), "a key has 1 to {LONGEST_KEY} bytes, not {length}");
            // A value may be a piece of something larger, such as a request's buffer, which would be kept with it.
            commit.value = commit.value.map(|value| Bytes::copy_from_slice(&value));
            let (answer, committed) = oneshot::channel();
            self.request(Request::Commit { commit, answer })?;
            committed.await.unwrap_or(Err(Error::Closed))
        })
    }

    fn watch(&self, scope: &str, after: Revision) -> Result<Box<dyn Watch>> {
        Ok(Box::new(Subscription::start(self.shared.hub.clone(), scope, after)?))
    }

    fn compact(&self, revision: Revision) -> Answer<'_, ()> {
        Box::pin(async move {
            let (answer, compacted) = oneshot::channel();
            self.request(Request::Compact { revision, answer })?;
            compacted.await.unwrap_or(Err(Error::Closed))
        })
    }

    fn is_healthy(&self) -> bool {
        !self.shared.refusing.load(Relaxed)
    }

    fn statistics(&self) -> Statistics {
        let counters = &self.shared.statistics;
        Statistics {
            commits: counters.commits.load(Relaxed),
            batches: counters.batches.load(Relaxed),
            batch_micros: counters.batch_micros.load(Relaxed),
            watches: self.shared.hub.watches() as u64,
            keys: self.shared.state.read().len() as u64,
        }
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let (answer, closed) = oneshot::channel();
            // Whoever finds it closed has nothing left to wait for.
            if self.request(Request::Close { answer }).is_ok() {
                let _ = closed.await;
            }
            Ok(())
        })
    }
}

impl<E> Drop for Resident<E> {
    fn drop(&mut self) {
        self.requests = None;
        for thread in [self.committer.take(), self.dispatcher.take()].into_iter().flatten() {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }
}
