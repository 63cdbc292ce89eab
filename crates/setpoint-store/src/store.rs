//! The store's contract: bytes in, revisions out.
//!
//! Keys are paths such as `/core/configmaps/default/settings`. A *scope* names what a read or a watch covers: a
//! directory (it ends in `/` and covers everything below) or one key (it does not). One revision counter covers the
//! whole store; every commit takes the next number, and the number is the commit's place in the order of all commits.
//!
//! What every implementation promises, and `conformance` proves:
//!
//! - A commit is acknowledged only when it would survive a crash, and is visible to every read that starts after.
//! - Two commits that expect the same revision of a key: one succeeds, the other gets [`Error::Conflict`].
//! - A read is a snapshot at one revision, which it reports. While history holds a revision it can be read again.
//! - A watch yields every event of its scope after its start, in order, exactly once, or ends with
//!   [`Error::Compacted`]. A reader that is slow, or gone, costs no writer and no other reader anything.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::histogram::Histogram;

/// A place in the order of all commits; 0 is before the first.
pub type Revision = u64;

pub type Result<T> = std::result::Result<T, Error>;

/// What an asynchronous operation of a [`Store`] returns.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// An ordered, revisioned, watchable map. Shared as `Arc<dyn Store>`.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The revision of the newest visible commit.
    fn revision(&self) -> Revision;

    /// The oldest revision that can still be read; a watch may start here or later.
    fn oldest(&self) -> Revision;

    /// The value of a key, now or as it was.
    fn get<'a>(&'a self, key: &'a str, at: At) -> Answer<'a, Snapshot<Option<Entry>>>;

    /// The entries of a scope in key order, a page at a time.
    fn range<'a>(&'a self, range: Range<'a>) -> Answer<'a, Page>;

    /// How many keys a directory holds now, without visiting them.
    fn count(&self, scope: &str) -> u64;

    /// Makes one change if the key is as expected, durably, and returns the revision it got.
    ///
    /// Dropping the returned future does not undo the change: it may or may not happen.
    fn commit(&self, commit: Commit) -> Answer<'_, Committed>;

    /// The events of a scope with a revision greater than `after`.
    fn watch(&self, scope: &str, after: Revision) -> Result<Box<dyn Watch>>;

    /// Forgets what happened before `revision`, which stays readable.
    fn compact(&self, revision: Revision) -> Answer<'_, ()>;

    /// Whether commits can succeed and reach those who watch: false once the engine has failed, or after `close`.
    fn is_healthy(&self) -> bool;

    /// What the store has done so far, for metrics.
    fn statistics(&self) -> Statistics;

    /// Finishes the commits under way and closes. Later commits fail with [`Error::Closed`], and watches end with it
    /// after their last event; what was committed can still be read.
    fn close(&self) -> Answer<'_, ()>;
}

/// One reader's position in the order of all commits.
pub trait Watch: fmt::Debug + Send {
    /// The next event; waits for one. Cancel-safe: an event not returned is not lost.
    fn next(&mut self) -> Answer<'_, Arc<Event>>;

    /// The next event if there is one at hand. Further back in history than is searched at once, only `next` finds it.
    fn try_next(&mut self) -> Result<Option<Arc<Event>>>;

    /// Every event of the scope up to this revision has been returned.
    fn progress(&self) -> Revision;
}

/// Which state of the store a read sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The newest.
    Now,
    /// Exactly this one.
    Revision(Revision),
}

/// What was read, and the revision it was read at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot<T> {
    pub revision: Revision,
    pub value: T,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Arc<str>,
    pub value: Bytes,
    /// The commit that wrote this value.
    pub revision: Revision,
}

#[derive(Debug, Clone, Copy)]
pub struct Range<'a> {
    pub scope: &'a str,
    /// Continue after this key.
    pub after: Option<&'a str>,
    /// At most this many entries; 0 for all.
    pub limit: usize,
    pub at: At,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub revision: Revision,
    pub entries: Vec<Entry>,
    /// Whether the scope holds entries after these.
    pub more: bool,
}

#[derive(Debug, Clone)]
pub struct Commit {
    /// 1 to 65 535 bytes.
    pub key: Arc<str>,
    /// The new value; `None` deletes the key, which must exist.
    pub value: Option<Bytes>,
    pub expected: Expected,
}

/// What a key must be like for a commit to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Absent,
    /// Present, last written by this commit.
    Revision(Revision),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    pub revision: Revision,
}

/// One commit, as a watch tells it.
pub struct Event {
    pub revision: Revision,
    pub key: Arc<str>,
    /// The new value; `None` if the key was deleted.
    pub value: Option<Bytes>,
    /// The value before and the commit that wrote it; `None` if the key was created.
    pub previous: Option<(Bytes, Revision)>,
    /// Where readers keep what they derive from this event, so that all its readers share it.
    pub derived: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may hold secrets.
        f.debug_struct("Event").field("revision", &self.revision).field("key", &self.key).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// How many commits each durable transaction held; the sum is that of all commits.
    pub batch_commits: Histogram,
    /// How long each of these took, in microseconds.
    pub batch_duration_micros: Histogram,
    pub watches: u64,
    pub keys: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The key is not as expected; it now has the given revision (`None`: it does not exist).
    #[error("{key} is not as expected: {}", match found { Some(r) => format!("it has revision {r}"), None => "it does not exist".to_owned() })]
    Conflict { key: Arc<str>, found: Option<Revision> },
    /// The revision is no longer held.
    #[error("revision {requested} has been compacted; the oldest is {oldest}")]
    Compacted { requested: Revision, oldest: Revision },
    /// The revision has not happened yet.
    #[error("revision {requested} is in the future; the newest is {newest}")]
    Future { requested: Revision, newest: Revision },
    /// The engine failed. Whether the commit survives is not known until a restart.
    #[error("the storage engine failed: {0}")]
    Engine(String),
    #[error("the store is closed")]
    Closed,
}
