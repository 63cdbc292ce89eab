//! A store whose truth is in memory: reads never wait for a disk, and an engine makes the commits durable.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;

use crate::committer::{Committer, Request};
use crate::engine::Engine;
use crate::histogram::Recorder;
use crate::options::Options;
use crate::scope;
use crate::state::State;
use crate::store::{
    Answer, At, Commit, Committed, Entry, Error, Page, Range, Result, Revision, Snapshot, Statistics, Store, Watch,
};
use crate::subscription::Subscription;
use crate::watching::Hub;

/// How many entries a read copies before it lets writers through.
const CHUNK: usize = 4096;

/// What the engines can store.
const LONGEST_KEY: usize = 65_535;

/// A store over an engine. Dropping it closes it, and waits for that.
#[derive(Debug)]
pub struct Resident<E> {
    shared: Arc<Shared>,
    work: Work<E>,
}

/// Who commits, and tells those who watch.
#[derive(Debug)]
enum Work<E> {
    /// Two threads, so that one who commits waits for nobody's engine but its own batch's.
    Threads {
        requests: Option<mpsc::Sender<Request>>,
        committer: Option<JoinHandle<()>>,
        dispatcher: Option<JoinHandle<()>>,
    },
    /// Whoever asks, before it is answered; nobody once the store is closed. For engines that do not wait, where what
    /// happens must follow from what was asked alone.
    Caller(Mutex<Option<Committer<E>>>),
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Arc<RwLock<State>>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) batches: Batches,
    /// Whether commits are refused because the engine failed.
    pub(crate) refusing: AtomicBool,
}

/// What durable transactions that hold commits were like.
#[derive(Debug)]
pub(crate) struct Batches {
    pub(crate) commits: Recorder,
    pub(crate) micros: Recorder,
}

impl Shared {
    fn new(state: State) -> Arc<Shared> {
        let state = Arc::new(RwLock::new(state));
        let hub = Arc::new(Hub::new(state.clone()));
        Arc::new(Shared { state, hub, batches: Batches::default(), refusing: AtomicBool::new(false) })
    }
}

impl Default for Batches {
    fn default() -> Self {
        const COMMITS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
        const MICROS: &[u64] =
            &[50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000];
        Self { commits: Recorder::new(COMMITS), micros: Recorder::new(MICROS) }
    }
}

impl<E: Engine> Resident<E> {
    /// Starts a store with the state that its engine kept.
    pub(crate) fn start(engine: E, state: State, options: Options) -> std::io::Result<Self> {
        let shared = Shared::new(state);
        let (requests, receiver) = mpsc::channel();
        let committer = Committer::new(engine, shared.clone(), options);
        let hub = shared.hub.clone();
        let dispatcher = thread::Builder::new().name("store-dispatcher".into()).spawn(move || hub.dispatch())?;
        let committer = thread::Builder::new().name("store-committer".into()).spawn(move || committer.run(receiver))?;
        let (committer, dispatcher) = (Some(committer), Some(dispatcher));
        Ok(Self { shared, work: Work::Threads { requests: Some(requests), committer, dispatcher } })
    }

    /// A store without threads: each commit is made, and told, by whoever asks for it.
    pub(crate) fn without_threads(engine: E, state: State, options: Options) -> Self {
        let shared = Shared::new(state);
        let committer = Committer::new(engine, shared.clone(), options);
        Self { shared, work: Work::Caller(Mutex::new(Some(committer))) }
    }

    fn request(&self, request: Request) -> Result<()> {
        match &self.work {
            Work::Threads { requests, .. } => {
                let requests = requests.as_ref().ok_or(Error::Closed)?;
                requests.send(request).map_err(|_| Error::Closed)
            }
            Work::Caller(committer) => {
                let mut committer = committer.lock();
                let present = committer.as_mut().ok_or(Error::Closed)?;
                match request {
                    Request::Commit { commit, answer } => present.serve_commit(commit, answer),
                    Request::Compact { revision, answer } => present.serve_compaction(revision, answer),
                    Request::Close { answer } => {
                        *committer = None;
                        self.shared.hub.dispatch_all();
                        self.shared.hub.end();
                        let _ = answer.send(());
                        return Ok(());
                    }
                }
                self.shared.hub.dispatch_all();
                Ok(())
            }
        }
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
        let runs = |thread: &Option<JoinHandle<()>>| thread.as_ref().is_some_and(|thread| !thread.is_finished());
        !self.shared.refusing.load(Relaxed)
            && match &self.work {
                Work::Threads { committer, dispatcher, .. } => runs(committer) && runs(dispatcher),
                Work::Caller(committer) => committer.lock().is_some(),
            }
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            batch_commits: self.shared.batches.commits.read(),
            batch_duration_micros: self.shared.batches.micros.read(),
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
        let Work::Threads { requests, committer, dispatcher } = &mut self.work else {
            // Whoever still watches learns that nothing comes any more.
            self.shared.hub.end();
            return;
        };
        *requests = None;
        for thread in [committer.take(), dispatcher.take()].into_iter().flatten() {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc::{Receiver, Sender};
    use std::task::Poll;
    use std::time::Duration;

    use super::*;
    use crate::engine::Batch;
    use crate::store::Expected;

    /// An engine that says how large each batch is, and waits to be told how it ends.
    #[derive(Debug)]
    struct Puppet {
        batches: Sender<usize>,
        outcomes: Receiver<std::result::Result<(), String>>,
    }

    impl Engine for Puppet {
        fn persist(&mut self, batch: Batch<'_>) -> std::result::Result<(), String> {
            self.batches.send(batch.changes.len()).unwrap();
            self.outcomes.recv().unwrap()
        }
    }

    struct Strings {
        batches: Receiver<usize>,
        outcomes: Sender<std::result::Result<(), String>>,
    }

    fn puppet() -> (Resident<Puppet>, Strings) {
        let (batches, seen) = mpsc::channel();
        let (outcomes, told) = mpsc::channel();
        let store = Resident::start(Puppet { batches, outcomes: told }, State::default(), Options::default()).unwrap();
        (store, Strings { batches: seen, outcomes })
    }

    fn create(key: &str) -> Commit {
        Commit { key: key.into(), value: Some(Bytes::from_static(b"x")), expected: Expected::Absent }
    }

    /// Lets a commit reach the committer, and not end.
    async fn begin<'a>(store: &'a Resident<Puppet>, key: &str) -> Answer<'a, Committed> {
        let mut commit = store.commit(create(key));
        let polled = poll_fn(|context| Poll::Ready(commit.as_mut().poll(context))).await;
        assert!(polled.is_pending());
        commit
    }

    #[tokio::test]
    async fn what_waits_becomes_durable_together() {
        let (store, strings) = puppet();
        let first = begin(&store, "/first").await;
        assert_eq!(strings.batches.recv(), Ok(1));
        let mut waiting = Vec::new();
        for count in 0..64 {
            waiting.push(begin(&store, &format!("/{count}")).await);
        }
        assert_eq!(store.revision(), 0, "nothing is visible before it is durable");
        strings.outcomes.send(Ok(())).unwrap();
        assert_eq!(strings.batches.recv(), Ok(64));
        strings.outcomes.send(Ok(())).unwrap();
        assert_eq!(first.await, Ok(Committed { revision: 1 }));
        for (count, commit) in waiting.into_iter().enumerate() {
            assert_eq!(commit.await, Ok(Committed { revision: count as Revision + 2 }));
        }
        let statistics = store.statistics();
        assert_eq!((statistics.batch_commits.sum, statistics.batch_commits.count(), statistics.keys), (65, 2, 65));
        assert_eq!(statistics.batch_commits.counts, [1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    }

    #[tokio::test]
    async fn a_transaction_without_commits_is_no_batch() {
        let (store, strings) = puppet();
        strings.outcomes.send(Ok(())).unwrap();
        store.commit(create("/a")).await.unwrap();
        let before = store.statistics();
        let compaction = store.compact(1);
        let slow = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            strings.outcomes.send(Ok(())).unwrap();
        };
        assert_eq!(tokio::join!(compaction, slow).0, Ok(()));
        let after = store.statistics();
        assert_eq!(after.batch_duration_micros, before.batch_duration_micros);
        assert_eq!((after.batch_commits.sum, after.batch_commits.count()), (1, 1));
        assert_eq!((after.batch_duration_micros.count(), after.batch_commits.count()), (1, 1));
    }

    #[tokio::test]
    async fn an_engine_that_panics_ends_the_store() {
        let (store, Strings { batches, outcomes }) = puppet();
        let mut watch = store.watch("/", 0).unwrap();
        drop((batches, outcomes));
        assert_eq!(store.commit(create("/a")).await, Err(Error::Closed));
        assert_eq!(watch.next().await.err(), Some(Error::Closed));
        assert_eq!(store.commit(create("/b")).await, Err(Error::Closed));
    }

    #[tokio::test]
    async fn a_failed_engine_is_not_asked_again() {
        let (store, strings) = puppet();
        strings.outcomes.send(Ok(())).unwrap();
        assert!(store.commit(create("/a")).await.is_ok());
        let failed = Error::Engine("no space left".into());
        strings.outcomes.send(Err("no space left".into())).unwrap();
        assert_eq!(store.commit(create("/b")).await, Err(failed.clone()));
        assert_eq!(store.commit(create("/c")).await, Err(failed.clone()), "its files may hold /b or not");
        assert_eq!(store.compact(1).await, Err(failed));
        assert_eq!((store.revision(), store.count("/")), (1, 1), "what was durable is still served");
        assert_eq!(strings.batches.iter().take(2).collect::<Vec<_>>(), [1, 1]);
        assert!(strings.batches.recv_timeout(Duration::from_millis(10)).is_err());
        assert_eq!(store.close().await, Ok(()));
    }

    /// A reader whose waker panics, which ends the thread that calls it.
    struct Spoiler;

    impl std::task::Wake for Spoiler {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }

    #[tokio::test]
    async fn a_store_that_tells_nobody_is_not_healthy() {
        let store = crate::MemoryStore::new(Options::default());
        let mut watch = store.watch("/", 0).unwrap();
        let mut other = store.watch("/other", 0).unwrap();
        let waker = std::task::Waker::from(Arc::new(Spoiler));
        assert!(watch.next().as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        assert!(store.is_healthy());
        store.commit(create("/a")).await.unwrap();
        assert_eq!(other.next().await.err(), Some(Error::Closed), "who waits learns of it");
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while store.is_healthy() {
            assert!(std::time::Instant::now() < deadline, "the dispatcher has ended");
            tokio::task::yield_now().await;
        }
    }
}
