//! Things by a text of theirs. Several may share one.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Built once, by sorting the hashes of the texts; a lookup is a binary search that compares numbers next to each
/// other, and nothing is allocated per key. The order within means nothing, and never shows.
pub(super) struct Index<'a, T> {
    entries: Vec<(u64, &'a str, &'a T)>,
}

impl<'a, T> Index<'a, T> {
    pub(super) fn of(entries: impl Iterator<Item = (&'a str, &'a T)>) -> Index<'a, T> {
        let mut entries: Vec<_> = entries.map(|(key, thing)| (hash(key), key, thing)).collect();
        entries.sort_unstable_by_key(|(hash, ..)| *hash);
        Index { entries }
    }

    pub(super) fn get<'i>(&'i self, key: &'i str) -> impl Iterator<Item = &'a T> + Clone + 'i {
        let sought = hash(key);
        let start = self.entries.partition_point(|(hash, ..)| *hash < sought);
        self.entries[start..]
            .iter()
            .take_while(move |(hash, ..)| *hash == sought)
            .filter(move |(_, own, _)| *own == key)
            .map(|(.., thing)| *thing)
    }

    /// Whether there are several.
    pub(super) fn is_shared(&self, key: &str) -> bool {
        self.get(key).nth(1).is_some()
    }
}

fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}
