//! One thread through which every commit goes, and which makes all that wait durable together.
//!
//! While one batch is on its way to disk the next one gathers, so the batch grows with the load and a lone commit pays
//! for one sync only. The order in a batch is: check against the state and the earlier commits of the batch, persist,
//! make visible, acknowledge, tell the watchers. If persisting fails, what is on disk is not known; memory must not
//! run ahead of it, so every later commit is refused until a restart.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::engine::{Batch, Engine};
use crate::options::Options;
use crate::resident::Shared;
use crate::state::Change;
use crate::store::{Commit, Committed, Error, Expected, Result, Revision};
use crate::watching::Closing;

/// A batch ends at this many commits or bytes, so that nobody waits long for a batch to become durable.
const MOST_COMMITS: usize = 1024;
const MOST_BYTES: usize = 4 << 20;

/// How often history is looked at while nothing is committed.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) enum Request {
    Commit { commit: Commit, answer: oneshot::Sender<Result<Committed>> },
    Compact { revision: Revision, answer: oneshot::Sender<Result<()>> },
    Close { answer: oneshot::Sender<()> },
}

#[derive(Debug)]
pub(crate) struct Committer<E> {
    engine: E,
    shared: Arc<Shared>,
    options: Options,
    compactions: VecDeque<Compaction>,
    failure: Option<Error>,
}

impl<E: Engine> Committer<E> {
    pub(crate) fn new(engine: E, shared: Arc<Shared>, options: Options) -> Self {
        Self { engine, shared, options, compactions: VecDeque::new(), failure: None }
    }

    /// Serves requests until the store is closed or dropped.
    pub(crate) fn run(mut self, requests: Receiver<Request>) {
        let hub = Closing(self.shared.hub.clone());
        let closing = loop {
            let Gathered { commits, closing, .. } = self.gather(&requests);
            self.serve(commits);
            if let Some(closing) = closing {
                break closing;
            }
        };
        // The engine lets go of its files before anyone hears that the store is closed.
        drop(self);
        drop(hub);
        drop(requests);
        for answer in closing {
            // The asker may have gone.
            let _ = answer.send(());
        }
    }

    /// Serves a commit at once, in the thread of whoever asks.
    pub(crate) fn serve_commit(&mut self, commit: Commit, answer: oneshot::Sender<Result<Committed>>) {
        self.serve(vec![(commit, answer)]);
    }

    /// Serves a compaction at once, in the thread of whoever asks.
    pub(crate) fn serve_compaction(&mut self, revision: Revision, answer: oneshot::Sender<Result<()>>) {
        self.compactions.push_back((revision, answer));
        while !self.compactions.is_empty() {
            self.serve(Vec::new());
        }
    }

    /// Makes commits together, and a piece of the compaction that was asked for.
    fn serve(&mut self, commits: Vec<Pending>) {
        let done = match self.failure.clone() {
            None => self.commit(commits).and_then(|()| self.compact()),
            Some(failure) => {
                self.refuse(commits, &failure);
                Ok(())
            }
        };
        if let Err(error) = done {
            tracing::error!(%error, "the store refuses commits until it is opened again");
            self.shared.refusing.store(true, Relaxed);
            self.failure = Some(error);
        }
    }

    /// Waits for something to do and takes all that waits.
    fn gather(&mut self, requests: &Receiver<Request>) -> Gathered {
        let mut gathered = Gathered::default();
        let patience = if self.compactions.is_empty() { IDLE } else { Duration::ZERO };
        let mut next = match requests.recv_timeout(patience) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                gathered.closing = Some(Vec::new());
                None
            }
        };
        while let Some(request) = next {
            match request {
                Request::Commit { commit, answer } => {
                    gathered.bytes += commit.value.as_ref().map_or(0, Bytes::len);
                    gathered.commits.push((commit, answer));
                }
                Request::Compact { revision, answer } => self.compactions.push_back((revision, answer)),
                Request::Close { answer } => gathered.closing.get_or_insert_default().push(answer),
            }
            next = if gathered.has_room() { requests.try_recv().ok() } else { None };
        }
        gathered
    }

    fn commit(&mut self, commits: Vec<Pending>) -> Result<()> {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (changes, answers) = self.check(commits, now_s);
        let replaced = changes.iter().filter_map(|change| change.previous.as_ref()).map(|(value, _)| value.len()).sum();
        let forgotten = self.shared.state.read().history.excess(&self.options, (changes.len(), replaced), now_s);
        if !changes.is_empty() || !forgotten.is_empty() {
            let batch = Batch { changes: &changes, forgotten: forgotten.clone() };
            if let Err(error) = self.persist(batch) {
                for (answer, _) in answers {
                    let _ = answer.send(Err(error.clone()));
                }
                return Err(error);
            }
            self.shared.hub.dispatch_up_to(forgotten.end - 1);
            let mut state = self.shared.state.write();
            for change in changes {
                state.apply(change);
            }
            state.history.forget(forgotten);
        }
        for (answer, result) in answers {
            let _ = answer.send(result);
        }
        self.shared.hub.wake();
        Ok(())
    }

    /// Gives every commit its revision, or its conflict.
    fn check(&self, commits: Vec<Pending>, time_s: u64) -> (Vec<Change>, Vec<Answer>) {
        let state = self.shared.state.read();
        let mut revision = state.revision();
        let mut changes = Vec::with_capacity(commits.len());
        let mut answers = Vec::with_capacity(commits.len());
        // What the earlier commits of this batch leave behind. A conflict with them is answered only after they are
        // visible, so that whoever reads again sees what it lost against.
        let mut earlier: HashMap<Arc<str>, Option<(Bytes, Revision)>> = HashMap::new();
        for (Commit { key, value, expected }, answer) in commits {
            let pending = earlier.get(&key);
            let previous = pending.cloned().unwrap_or_else(|| state.current(&key).cloned());
            let found = previous.as_ref().map(|(_, written)| *written);
            let expected = match expected {
                Expected::Absent => None,
                Expected::Revision(revision) => Some(revision),
            };
            // Nothing is to be deleted where nothing is expected.
            if found != expected || (found.is_none() && value.is_none()) {
                let conflict = Err(Error::Conflict { key, found });
                if pending.is_some() {
                    answers.push((answer, conflict));
                } else {
                    let _ = answer.send(conflict);
                }
                continue;
            }
            revision += 1;
            earlier.insert(key.clone(), value.clone().map(|value| (value, revision)));
            changes.push(Change { revision, key, value, previous, time_s });
            answers.push((answer, Ok(Committed { revision })));
        }
        (changes, answers)
    }

    /// Does one piece of the first compaction that was asked for.
    fn compact(&mut self) -> Result<()> {
        let Some((revision, _)) = self.compactions.front() else { return Ok(()) };
        let result = self.forget(*revision);
        if let Ok(false) = result {
            return Ok(());
        }
        if let Some((revision, answer)) = self.compactions.pop_front() {
            tracing::debug!(revision, ?result, "compacted");
            let _ = answer.send(result.clone().map(|_| ()));
        }
        match result {
            Err(error @ Error::Engine(_)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Forgets some of history up to a revision; whether all of it.
    fn forget(&mut self, revision: Revision) -> Result<bool> {
        let (newest, forgotten) = {
            let state = self.shared.state.read();
            (state.revision(), state.history.up_to(revision))
        };
        if revision > newest {
            return Err(Error::Future { requested: revision, newest });
        }
        let last = forgotten.end - 1;
        if !forgotten.is_empty() {
            self.persist(Batch { changes: &[], forgotten: forgotten.clone() })?;
            self.shared.hub.dispatch_up_to(last);
            self.shared.state.write().history.forget(forgotten);
        }
        Ok(last >= revision)
    }

    fn persist(&mut self, batch: Batch<'_>) -> Result<()> {
        let started = Instant::now();
        let commits = batch.changes.len() as u64;
        self.engine.persist(batch).map_err(Error::Engine)?;
        if commits > 0 {
            self.shared.batches.commits.record(commits);
            self.shared.batches.micros.record(started.elapsed().as_micros() as u64);
        }
        Ok(())
    }

    fn refuse(&mut self, commits: Vec<Pending>, failure: &Error) {
        for (_, answer) in commits {
            let _ = answer.send(Err(failure.clone()));
        }
        for (_, answer) in self.compactions.drain(..) {
            let _ = answer.send(Err(failure.clone()));
        }
    }
}

type Pending = (Commit, oneshot::Sender<Result<Committed>>);
type Compaction = (Revision, oneshot::Sender<Result<()>>);
type Answer = (oneshot::Sender<Result<Committed>>, Result<Committed>);

/// What was waiting.
#[derive(Debug, Default)]
struct Gathered {
    commits: Vec<Pending>,
    bytes: usize,
    closing: Option<Vec<oneshot::Sender<()>>>,
}

impl Gathered {
    fn has_room(&self) -> bool {
        self.commits.len() < MOST_COMMITS && self.bytes < MOST_BYTES && self.closing.is_none()
    }
}
