//! The truth in memory: what is, and what was.
//!
//! Current values lie apart from replaced ones, so that a read of the newest state never meets a tombstone and a read
//! of an earlier one costs only what lies in its scope.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::history::History;
use crate::scope;
use crate::store::{At, Entry, Error, Event, Result, Revision};

/// One change on its way into the store.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub revision: Revision,
    pub key: Arc<str>,
    pub value: Option<Bytes>,
    pub previous: Option<(Bytes, Revision)>,
    /// Seconds since the epoch.
    pub time_s: u64,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    current: BTreeMap<Arc<str>, (Bytes, Revision)>,
    /// How many keys each directory holds, at any depth.
    counts: HashMap<Box<str>, u64>,
    pub(crate) history: History,
}

impl State {
    /// The state that an engine kept: its values in key order, and its history, which ends at the newest revision.
    pub(crate) fn restored(current: BTreeMap<Arc<str>, (Bytes, Revision)>, history: History) -> Self {
        let mut state = Self { counts: HashMap::new(), history, current: BTreeMap::new() };
        for key in current.keys() {
            state.count_in(key);
        }
        state.current = current;
        state
    }

    pub(crate) fn revision(&self) -> Revision {
        self.history.newest()
    }

    pub(crate) fn len(&self) -> usize {
        self.current.len()
    }

    /// All values, with the commits that wrote them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &(Bytes, Revision))> {
        self.current.iter()
    }

    pub(crate) fn current(&self, key: &str) -> Option<&(Bytes, Revision)> {
        self.current.get(key)
    }

    /// The revision that a read sees, if it can be read.
    pub(crate) fn resolve(&self, at: At) -> Result<Revision> {
        let (oldest, newest) = (self.history.oldest(), self.revision());
        match at {
            At::Now => Ok(newest),
            At::Revision(requested) if requested < oldest => Err(Error::Compacted { requested, oldest }),
            At::Revision(requested) if requested > newest => Err(Error::Future { requested, newest }),
            At::Revision(requested) => Ok(requested),
        }
    }

    pub(crate) fn get(&self, key: &str, revision: Revision) -> Option<Entry> {
        if let Some((known, (value, written))) = self.current.get_key_value(key)
            && *written <= revision
        {
            return Some(Entry { key: known.clone(), value: value.clone(), revision: *written });
        }
        let version = self.history.at(key, revision)?;
        Some(Entry { key: key.into(), value: version.value.clone(), revision: version.written })
    }

    /// The entries of a directory after a key, at most `limit`.
    pub(crate) fn range(&self, directory: &str, after: Option<&str>, limit: usize, revision: Revision) -> Vec<Entry> {
        let from = match after {
            Some(after) if after >= directory => Bound::Excluded(after),
            _ => Bound::Included(directory),
        };
        let bounds = (from, Bound::Unbounded);
        let current = self
            .current
            .range::<str, _>(bounds)
            .take_while(|(key, _)| key.starts_with(directory))
            .map(|(key, (value, written))| (key, (*written <= revision).then_some((value, *written))));
        let take = |(key, found): (&Arc<str>, Option<(&Bytes, Revision)>)| {
            found.map(|(value, revision)| Entry { key: key.clone(), value: value.clone(), revision })
        };
        if revision == self.revision() {
            return current.filter_map(take).take(limit).collect();
        }
        let past = self
            .history
            .range_at(bounds, revision)
            .take_while(|(key, _)| key.starts_with(directory))
            .map(|(key, version)| (key, version.map(|version| (&version.value, version.written))));
        merge(current, past).filter_map(take).take(limit).collect()
    }

    pub(crate) fn count(&self, scope: &str) -> u64 {
        if scope::is_directory(scope) {
            self.counts.get(scope).copied().unwrap_or_default()
        } else {
            u64::from(self.current.contains_key(scope))
        }
    }

    /// Makes a change that has the next revision.
    pub(crate) fn apply(&mut self, change: Change) {
        debug_assert_eq!(change.revision, self.revision() + 1, "revisions have no gaps");
        let Change { revision, key, value, previous, time_s } = change;
        match (&value, &previous) {
            (Some(_), None) => self.count_in(&key),
            (None, Some(_)) => self.count_out(&key),
            _ => {}
        }
        let key = match value {
            None => self.current.remove_entry(&key).map_or(key, |(known, _)| known),
            Some(value) => match self.current.get_key_value(&key) {
                Some((known, _)) => {
                    let known = known.clone();
                    self.current.insert(key, (value, revision));
                    known
                }
                None => {
                    self.current.insert(key.clone(), (value, revision));
                    key
                }
            },
        };
        self.history.remember(key, time_s, previous);
    }

    /// A remembered commit as a watch tells it.
    pub(crate) fn event(&self, revision: Revision) -> Event {
        let key = self.history.key(revision).clone();
        let value = match self.current.get(&key) {
            Some((value, written)) if *written == revision => Some(value.clone()),
            _ => {
                let version = self.history.at(&key, revision).filter(|version| version.written == revision);
                version.map(|version| version.value.clone())
            }
        };
        let ended = self.history.ended_by(&key, revision);
        let previous = ended.map(|version| (version.value.clone(), version.written));
        Event { revision, key, value, previous, derived: Default::default() }
    }

    fn count_in(&mut self, key: &str) {
        for directory in scope::directories(key) {
            match self.counts.get_mut(directory) {
                Some(count) => *count += 1,
                None => {
                    self.counts.insert(directory.into(), 1);
                }
            }
        }
    }

    fn count_out(&mut self, key: &str) {
        for directory in scope::directories(key) {
            if let Some(count) = self.counts.get_mut(directory) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(directory);
                }
            }
        }
    }
}

type Found<'a> = (&'a Arc<str>, Option<(&'a Bytes, Revision)>);

/// Joins two ordered readings of the same keys; where both know a key, at most one has found a value.
fn merge<'a>(
    left: impl Iterator<Item = Found<'a>>,
    right: impl Iterator<Item = Found<'a>>,
) -> impl Iterator<Item = Found<'a>> {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    std::iter::from_fn(move || {
        let order = match (left.peek(), right.peek()) {
            (Some((left, _)), Some((right, _))) => left.cmp(right),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        match order {
            std::cmp::Ordering::Less => left.next(),
            std::cmp::Ordering::Greater => right.next(),
            std::cmp::Ordering::Equal => {
                let (key, current) = left.next()?;
                let (_, past) = right.next()?;
                Some((key, current.or(past)))
            }
        }
    })
}
