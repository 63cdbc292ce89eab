//! The store as the server sees it: every commit is written down, and some meet a fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use setpoint_store::{
    Answer, At, Commit, Committed, Entry, Error, MemoryStore, Options, Page, Range, Result, Revision, Snapshot,
    Statistics, Store, Watch,
};

use super::dice::Dice;
use super::ledger::Ledger;
use super::trace::Trace;

/// Its engine fails now and then, for one commit: before it is durable, or after. A real store would refuse everything
/// until it is opened again; here it goes on, so that one run meets many.
#[derive(Debug)]
pub(super) struct FaultyStore {
    store: MemoryStore,
    dice: Dice,
    /// How many commits in a thousand meet a fault.
    rate: AtomicU32,
    ledger: Arc<Ledger>,
    trace: Trace,
}

impl FaultyStore {
    pub(super) fn new(dice: Dice, ledger: Arc<Ledger>, trace: Trace) -> FaultyStore {
        FaultyStore { store: MemoryStore::inline(Options::default()), dice, rate: AtomicU32::new(0), ledger, trace }
    }

    pub(super) fn fail(&self, rate: u32) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    async fn make(&self, commit: Commit) -> Result<Committed> {
        let (key, value) = (commit.key.clone(), commit.value.clone());
        let committed = self.store.commit(commit).await?;
        let what = if value.is_some() { "has" } else { "loses" };
        self.trace.say(format!("store   {what} {key} @{}", committed.revision));
        self.trace.count(value.as_deref().unwrap_or_default());
        self.ledger.enter(&key, value.as_ref(), committed.revision);
        Ok(committed)
    }
}

impl Store for FaultyStore {
    fn revision(&self) -> Revision {
        self.store.revision()
    }

    fn oldest(&self) -> Revision {
        self.store.oldest()
    }

    fn get<'a>(&'a self, key: &'a str, at: At) -> Answer<'a, Snapshot<Option<Entry>>> {
        self.store.get(key, at)
    }

    fn range<'a>(&'a self, range: Range<'a>) -> Answer<'a, Page> {
        self.store.range(range)
    }

    fn count(&self, scope: &str) -> u64 {
        self.store.count(scope)
    }

    fn commit(&self, commit: Commit) -> Answer<'_, Committed> {
        Box::pin(async move {
            let rate = self.rate.load(Ordering::Relaxed);
            if rate == 0 || !self.dice.permille(rate) {
                return self.make(commit).await;
            }
            let key = commit.key.clone();
            let failed = || Error::Engine("a fault of the simulation".to_owned());
            if self.dice.permille(500) {
                self.trace.say(format!("store   the commit of {key} fails"));
                return Err(failed());
            }
            self.make(commit).await?;
            self.trace.say(format!("store   the commit of {key} is reported to have failed"));
            Err(failed())
        })
    }

    fn watch(&self, scope: &str, after: Revision) -> Result<Box<dyn Watch>> {
        self.store.watch(scope, after)
    }

    fn compact(&self, revision: Revision) -> Answer<'_, ()> {
        self.store.compact(revision)
    }

    fn is_healthy(&self) -> bool {
        self.store.is_healthy()
    }

    fn statistics(&self) -> Statistics {
        self.store.statistics()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.store.close()
    }
}
