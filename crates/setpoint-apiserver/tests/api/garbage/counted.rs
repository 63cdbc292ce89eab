//! A store that counts how often it is asked for a key, to tell what the collector's work costs.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_store::{
    Answer, At, Commit, Committed, Entry, Page, Range, Result, Revision, Snapshot, Statistics, Store, Watch,
};

#[derive(Debug)]
pub(super) struct Counted {
    store: Arc<dyn Store>,
    gets: Mutex<HashMap<String, usize>>,
}

impl Counted {
    pub(super) fn over(store: Arc<dyn Store>) -> Arc<Counted> {
        Arc::new(Counted { store, gets: Mutex::default() })
    }

    /// How often keys that begin so were asked for.
    pub(super) fn gets(&self, prefix: &str) -> usize {
        self.gets.lock().iter().filter(|(key, _)| key.starts_with(prefix)).map(|(_, gets)| gets).sum()
    }
}

impl Store for Counted {
    fn revision(&self) -> Revision {
        self.store.revision()
    }

    fn oldest(&self) -> Revision {
        self.store.oldest()
    }

    fn get<'a>(&'a self, key: &'a str, at: At) -> Answer<'a, Snapshot<Option<Entry>>> {
        *self.gets.lock().entry(key.to_owned()).or_default() += 1;
        self.store.get(key, at)
    }

    fn range<'a>(&'a self, range: Range<'a>) -> Answer<'a, Page> {
        self.store.range(range)
    }

    fn count(&self, scope: &str) -> u64 {
        self.store.count(scope)
    }

    fn commit(&self, commit: Commit) -> Answer<'_, Committed> {
        self.store.commit(commit)
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
