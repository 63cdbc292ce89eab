//! Things by a text of theirs. Several may share one.

/// Built once, by sorting; a lookup is a binary search, and nothing is allocated per key.
pub(super) struct Index<'a, T> {
    entries: Vec<(&'a str, &'a T)>,
}

impl<'a, T> Index<'a, T> {
    pub(super) fn of(entries: impl Iterator<Item = (&'a str, &'a T)>) -> Index<'a, T> {
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by_key(|(key, _)| *key);
        Index { entries }
    }

    pub(super) fn get<'i>(&'i self, key: &str) -> impl ExactSizeIterator<Item = &'a T> + 'i {
        let start = self.entries.partition_point(|(own, _)| *own < key);
        let count = self.entries[start..].iter().take_while(|(own, _)| *own == key).count();
        self.entries[start..start + count].iter().map(|(_, thing)| *thing)
    }
}
