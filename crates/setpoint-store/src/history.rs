//! What happened lately: the order of commits, and the values they replaced.
//!
//! A commit is remembered as its key and time only. What it wrote is either still current or was replaced by a later
//! commit, so each value is held once, and forgetting the oldest commit frees exactly the value it replaced.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;

use crate::options::Options;
use crate::store::Revision;

/// A value that was replaced or deleted.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub value: Bytes,
    /// The commit that wrote it.
    pub written: Revision,
    /// The commit that replaced or deleted it.
    pub ended: Revision,
}

#[derive(Debug)]
struct Occurrence {
    key: Arc<str>,
    /// Seconds since the epoch.
    time_s: u64,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    /// Everything after this revision is remembered, so it can still be read.
    oldest: Revision,
    /// The commits after `oldest`, without gaps.
    commits: VecDeque<Occurrence>,
    /// The versions of each key that ended after `oldest`, in order.
    past: BTreeMap<Arc<str>, VecDeque<Version>>,
    /// The size of all values in `past`.
    bytes: usize,
}

impl History {
    /// An empty history that starts after `oldest`.
    pub(crate) fn after(oldest: Revision) -> Self {
        Self { oldest, ..Self::default() }
    }

    pub(crate) fn oldest(&self) -> Revision {
        self.oldest
    }

    pub(crate) fn newest(&self) -> Revision {
        self.oldest + self.commits.len() as Revision
    }

    /// When a commit was made, in seconds since the epoch; the commit must be remembered.
    pub(crate) fn time_s(&self, revision: Revision) -> u64 {
        self.commits[(revision - self.oldest - 1) as usize].time_s
    }

    /// The key that a commit changed; the commit must be remembered.
    pub(crate) fn key(&self, revision: Revision) -> &Arc<str> {
        &self.commits[(revision - self.oldest - 1) as usize].key
    }

    /// The key as `past` holds it, to share its memory.
    pub(crate) fn known(&self, key: &str) -> Option<&Arc<str>> {
        self.past.get_key_value(key).map(|(known, _)| known)
    }

    /// Remembers the next commit and the value it replaced.
    pub(crate) fn remember(&mut self, key: Arc<str>, time_s: u64, previous: Option<(Bytes, Revision)>) {
        let ended = self.newest() + 1;
        if let Some((value, written)) = previous {
            self.bytes += value.len();
            self.past.entry(key.clone()).or_default().push_back(Version { value, written, ended });
        }
        self.commits.push_back(Occurrence { key, time_s });
    }

    /// The value that a key had at a revision, if it has been replaced since.
    pub(crate) fn at(&self, key: &str, revision: Revision) -> Option<&Version> {
        version_at(self.past.get(key)?, revision)
    }

    /// The value that a commit replaced.
    pub(crate) fn ended_by(&self, key: &str, revision: Revision) -> Option<&Version> {
        self.at(key, revision - 1).filter(|version| version.ended == revision)
    }

    /// The replaced values of a range of keys as they were at a revision.
    pub(crate) fn range_at<'a>(
        &'a self,
        bounds: (Bound<&'a str>, Bound<&'a str>),
        revision: Revision,
    ) -> impl Iterator<Item = (&'a Arc<str>, Option<&'a Version>)> {
        self.past.range::<str, _>(bounds).map(move |(key, versions)| (key, version_at(versions, revision)))
    }

    /// The commits that are beyond the bounds once so many more, which replace so many bytes, are added.
    pub(crate) fn excess(&self, options: &Options, coming: (usize, usize), now_s: u64) -> Range<Revision> {
        let (commits, bytes) = coming;
        let surplus = (self.commits.len() + commits).saturating_sub(options.history_commits);
        let expired = now_s.saturating_sub(options.history_age.as_secs());
        let mut bytes = self.bytes + bytes;
        let count = self
            .commits
            .iter()
            .enumerate()
            .take_while(|(index, commit)| {
                let over = *index < surplus || commit.time_s < expired || bytes > options.history_bytes;
                let revision = self.oldest + 1 + *index as Revision;
                bytes -= self.ended_by(&commit.key, revision).map_or(0, |version| version.value.len());
                over
            })
            .take(MOST_FORGOTTEN_AT_ONCE)
            .count();
        self.up_to(self.oldest + count as Revision)
    }

    /// The oldest commits up to and including a revision, at most as many as are forgotten at once.
    pub(crate) fn up_to(&self, revision: Revision) -> Range<Revision> {
        let last = revision.min(self.newest()).min(self.oldest + MOST_FORGOTTEN_AT_ONCE as Revision);
        self.oldest + 1..last.max(self.oldest) + 1
    }

    /// Forgets the oldest commits; `commits` starts right after `oldest`.
    pub(crate) fn forget(&mut self, commits: Range<Revision>) {
        debug_assert_eq!(commits.start, self.oldest + 1, "history is forgotten from its beginning");
        for revision in commits {
            let Some(commit) = self.commits.pop_front() else { return };
            self.oldest = revision;
            let Some(versions) = self.past.get_mut(&commit.key) else { continue };
            if versions.front().is_some_and(|version| version.ended == revision)
                && let Some(version) = versions.pop_front()
            {
                self.bytes -= version.value.len();
            }
            if versions.is_empty() {
                self.past.remove(&commit.key);
            }
        }
    }
}

/// Bounds the work that forgetting adds to one batch; more than a batch can add, so history cannot outgrow its bounds.
const MOST_FORGOTTEN_AT_ONCE: usize = 2048;

fn version_at(versions: &VecDeque<Version>, revision: Revision) -> Option<&Version> {
    let index = versions.partition_point(|version| version.ended <= revision);
    versions.get(index).filter(|version| version.written <= revision)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Commits at seconds 10, 20, 30 and 40 that overwrite one key with four bytes each.
    fn four_commits() -> History {
        let mut history = History::after(7);
        for step in 1..=4u64 {
            let previous = (step > 1).then(|| (Bytes::from_static(b"abcd"), 6 + step));
            history.remember("/a".into(), step * 10, previous);
        }
        history
    }

    #[test]
    fn whichever_bound_is_reached_first_decides() {
        let generous = Options { history_commits: 100, history_age: Duration::from_secs(1000), history_bytes: 100 };
        for (name, options, coming, now_s, expected) in [
            ("nothing is due", generous.clone(), (1, 4), 50, 8..8),
            ("count, with room for what comes", Options { history_commits: 4, ..generous.clone() }, (1, 0), 50, 8..9),
            ("count, more coming than fit", Options { history_commits: 4, ..generous.clone() }, (9, 0), 50, 8..12),
            ("age", Options { history_age: Duration::from_secs(20), ..generous.clone() }, (0, 0), 45, 8..10),
            ("bytes", Options { history_bytes: 8, ..generous.clone() }, (0, 0), 50, 8..10),
            ("bytes, with room for what comes", Options { history_bytes: 8, ..generous }, (1, 4), 50, 8..11),
        ] {
            assert_eq!(four_commits().excess(&options, coming, now_s), expected, "{name}");
        }
    }

    #[test]
    fn forgetting_frees_what_was_replaced() {
        let mut history = four_commits();
        assert!(history.at("/a", 8).is_some());
        history.forget(8..10);
        assert_eq!((history.oldest(), history.newest(), history.bytes), (9, 11, 8));
        assert!(history.at("/a", 8).is_none(), "the value that ended at 9 is gone");
        assert!(history.at("/a", 9).is_some());
        history.forget(10..12);
        assert_eq!((history.oldest(), history.newest(), history.bytes), (11, 11, 0));
        assert!(history.past.is_empty());
    }
}
