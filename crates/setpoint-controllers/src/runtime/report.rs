//! What rounds of work came to, for tests and tools.

use std::ops::AddAssign;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Objects that were looked at.
    pub examined: usize,
    /// Those of them of which something was written.
    pub changed: usize,
    /// Objects that could not be looked at now: work on them is under way, or the caches do not show what the last round
    /// wrote.
    pub skipped: usize,
    /// What went wrong first; empty if nothing did.
    pub note: String,
}

impl Report {
    pub(super) fn skipped() -> Report {
        Report { skipped: 1, ..Report::default() }
    }
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Report) {
        self.examined += other.examined;
        self.changed += other.changed;
        self.skipped += other.skipped;
        if self.note.is_empty() {
            self.note = other.note;
        }
    }
}
