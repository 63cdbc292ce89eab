//! The decision log: who approved and who did what, kept for long and apart from the log of requests.
//!
//! Reviews and steps are taken from what is committed, whoever commits it: a task follows the store, and notes how far it has
//! come ([`position`]). So nothing that was committed is left out: what was not written when the process died is
//! written after the next start, perhaps a second time and then under the same id; and while the files cannot be written,
//! the task waits. Only if that lasts so long that the store has forgotten the commits, the log says from when on
//! something may be missing. A step's call is committed before it is made, so that what was done is never without a line.
//!
//! Refusals, and writes that give rights, are no commits that say who made them: they are written before their answer is
//! sent. Where that fails, the server goes on, and counts what was lost.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`record`] | an entry of the log |
//! | [`reviews`], [`steps`], [`requests`] | what there is to say: pure |
//! | [`refusals`] | how many refusals of one caller are written |
//! | [`signer`] | which key a signature names |
//! | [`follow`] | the task that follows the store |
//! | [`files`], [`position`] | the files as they are written and removed |
//! | [`read`] | the files as they are read |

mod files;
mod follow;
mod position;
mod read;
mod record;
mod refusals;
mod requests;
mod reviews;
mod signer;
mod steps;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_store::Revision;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use self::files::Files;
pub use self::files::{Family, Retention};
pub use self::read::Reader;
pub use self::record::{
    AdministrationFact, ChangeSetName, Entry, Fact, GapFact, RequestFact, ReviewFact, ReviewedStep, StepFact,
    StepOutcome,
};
use self::refusals::Budgets;
pub(crate) use self::requests::fact;

/// How long a request waits for its line, and the end of the program for the last ones.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait after a failure before trying again.
const RETRY: Duration = Duration::from_secs(1);
/// How many lines of requests are written at the same time; on a disk that hangs no more threads wait.
const AT_ONCE: usize = 16;

/// A decision log. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Decisions(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    files: Arc<Mutex<Files>>,
    writes: Arc<Semaphore>,
    refused: Mutex<Budgets>,
    failing: AtomicBool,
    /// The program ends: what cannot be written now is written after the next start.
    closing: AtomicBool,
    counts: Counts,
    /// Every commit up to this revision is in the log.
    followed: AtomicU64,
    follower: Mutex<Option<JoinHandle<()>>>,
}

/// What became of entries that are not in the log.
#[derive(Debug, Default)]
struct Counts {
    lost: AtomicU64,
    left_out: AtomicU64,
    removed_early: Arc<AtomicU64>,
}

impl Decisions {
    /// Opens the log in a folder, which is made for its owner alone if it is missing. Without a retention, nothing is
    /// removed.
    pub fn open(folder: impl Into<PathBuf>, retention: Option<Retention>) -> io::Result<Decisions> {
        let folder = folder.into();
        let files = Files::open(&folder, retention)?;
        let counts = Counts { removed_early: files.removed_early(), ..Counts::default() };
        let log = Decisions(Arc::new(Shared {
            files: Arc::new(Mutex::new(files)),
            folder,
            writes: Arc::new(Semaphore::new(AT_ONCE)),
            refused: Mutex::new(Budgets::new(Instant::now())),
            failing: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            counts,
            followed: AtomicU64::new(0),
            follower: Mutex::new(None),
        }));
        log.prune(Timestamp::now())?;
        Ok(log)
    }

    /// Writes an entry of a request down, as far as that can be done in time.
    pub(crate) async fn put(&self, family: Family, fact: Fact) {
        let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string();
        let now = Timestamp::now();
        let entry = Entry { id, time: now, fact };
        let line = entry.line();
        if let Fact::Refusal(refusal) = &entry.fact
            && !self.0.refused.lock().spend(&refusal.by, line.len(), Instant::now())
        {
            self.0.counts.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let written = tokio::time::timeout(PATIENCE, self.append(vec![(family, line)], now)).await;
        if self.note(written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))).is_err() {
            self.0.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes entries down, however often that fails; false if the program ends before it succeeds.
    async fn keep(&self, entries: &[(Family, Entry)]) -> bool {
        let lines: Vec<(Family, Vec<u8>)> = entries.iter().map(|(family, entry)| (*family, entry.line())).collect();
        while self.note(self.append(lines.clone(), Timestamp::now()).await).is_err() {
            if self.0.closing.load(Ordering::SeqCst) {
                return false;
            }
            tokio::time::sleep(RETRY).await;
        }
        true
    }

    async fn append(&self, lines: Vec<(Family, Vec<u8>)>, now: Timestamp) -> io::Result<()> {
        let mut together: BTreeMap<Family, Vec<u8>> = BTreeMap::new();
        for (family, line) in lines {
            together.entry(family).or_default().extend(line);
        }
        let permit = self.0.writes.clone().acquire_owned().await.map_err(io::Error::other)?;
        let files = self.0.files.clone();
        let write = move || {
            let _permit = permit;
            let mut files = files.lock();
            together.into_iter().try_for_each(|(family, lines)| files.append(family, &lines, now))
        };
        tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
    }

    /// Takes note of whether lines could be written, and says so where that changed.
    fn note(&self, written: io::Result<()>) -> io::Result<()> {
        match &written {
            Ok(()) if self.0.failing.swap(false, Ordering::SeqCst) => {
                tracing::info!(lost = self.lost(), "the decision log is written again");
            }
            Err(error) if !self.0.failing.swap(true, Ordering::SeqCst) => {
                tracing::error!(%error, "the decision log cannot be written; what is committed is written later");
            }
            _ => {}
        }
        written
    }

    /// Removes what is too old, or too much.
    fn prune(&self, now: Timestamp) -> io::Result<()> {
        self.0.files.lock().prune(now)
    }

    /// Waits, for a while, until everything is written that was committed to a store that is closed by now.
    pub async fn close(&self) {
        self.0.closing.store(true, Ordering::SeqCst);
        let Some(follower) = self.0.follower.lock().take() else { return };
        let ended = follower.abort_handle();
        if tokio::time::timeout(PATIENCE, follower).await.is_err() {
            ended.abort();
            tracing::error!("the decision log ends without its last lines; they are written after the next start");
        }
    }

    /// Whether lines are being written.
    pub fn is_healthy(&self) -> bool {
        !self.0.failing.load(Ordering::SeqCst)
    }

    /// How many entries of requests could not be written.
    pub fn lost(&self) -> u64 {
        self.0.counts.lost.load(Ordering::Relaxed)
    }

    /// How many refusals were left out as too many.
    pub fn left_out(&self) -> u64 {
        self.0.counts.left_out.load(Ordering::Relaxed)
    }

    /// How many files were removed for their size before they were too old.
    pub fn removed_early(&self) -> u64 {
        self.0.counts.removed_early.load(Ordering::Relaxed)
    }

    /// Up to which commit everything is in the log.
    pub fn followed(&self) -> Revision {
        self.0.followed.load(Ordering::Relaxed)
    }
}

/// Writes down what a command did with the data folder, beside a server that may be writing the rest. Only one command may
/// do so at a time.
pub fn record_administration(folder: &Path, fact: AdministrationFact, now: Timestamp) -> io::Result<()> {
    let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string();
    let entry = Entry { id, time: now, fact: Fact::Administration(fact) };
    Files::open(folder, None)?.append(Family::Administration, &entry.line(), now)
}

#[cfg(test)]
mod tests;
