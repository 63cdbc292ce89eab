//! What a store has acknowledged, in a file beside the engine's files.
//!
//! The engine takes a missing file for one that never was, and begins with empty tables. So after every durable batch
//! this file says up to which revision the engine holds commits, and which objects there are, as a sum over their keys
//! and revisions. A store that opens with less is refused: an emptier cluster must not look like a start that went well.
//!
//! The file follows the disk and is not forced to it. After a loss of power it may say less than the engine holds, never
//! more; what it says is then compared with the state as it was at that revision.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::disk;
use crate::embedded::OpenError;
use crate::folder::ACKNOWLEDGED;
use crate::state::{Change, State};
use crate::store::Revision;

/// A revision, and the objects that there were then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    revision: Revision,
    objects: u64,
}

impl Acknowledged {
    /// What a state holds.
    pub(crate) fn of(state: &State) -> Self {
        let objects = state.iter().fold(0, |sum: u64, (key, (_, written))| sum.wrapping_add(digest(key, *written)));
        Self { revision: state.revision(), objects }
    }

    /// What a state held at a revision that history still has.
    fn at(state: &State, revision: Revision) -> Self {
        let mut found = Self::of(state);
        for later in (revision + 1..=state.revision()).rev() {
            let event = state.event(later);
            let written = event.value.map(|_| later);
            found.objects = exchange(found.objects, &event.key, written, event.previous.map(|(_, before)| before));
        }
        Self { revision, ..found }
    }

    /// Takes in a change that was made durable.
    pub(crate) fn add(&mut self, change: &Change) {
        let before = change.previous.as_ref().map(|(_, written)| *written);
        let now = change.value.as_ref().map(|_| change.revision);
        self.objects = exchange(self.objects, &change.key, before, now);
        self.revision = change.revision;
    }

    /// Says what is missing, if a state holds less than this.
    pub(crate) fn check(self, state: &State) -> Result<(), OpenError> {
        let newest = state.revision();
        if newest < self.revision {
            return Err(OpenError::Missing(format!(
                "its engine ends at revision {newest}, and revision {} was acknowledged: files under `engine` are missing, \
                 cut short or of another time",
                self.revision
            )));
        }
        // Before that, nobody can say any more what there was.
        let is_remembered = self.revision >= state.history.oldest();
        if is_remembered && Self::at(state, self.revision) != self {
            return Err(OpenError::Missing(format!(
                "objects that it held at revision {} are not there: files under `engine/keyspaces` are missing or of \
                 another time",
                self.revision
            )));
        }
        Ok(())
    }

    /// The line of the file. It is always as long, so that it is written over in one piece.
    fn line(self) -> String {
        format!("{:020} {:016x}\n", self.revision, self.objects)
    }

    fn parse(text: &str) -> Option<Self> {
        let (revision, objects) = text.strip_suffix('\n')?.split_once(' ')?;
        let found = Self { revision: revision.parse().ok()?, objects: u64::from_str_radix(objects, 16).ok()? };
        (found.line() == text).then_some(found)
    }

    /// Reads the file of a store.
    pub(crate) fn read(folder: &Path) -> Result<Self, OpenError> {
        let damaged = |what: &str| OpenError::Missing(format!("the file `{ACKNOWLEDGED}` {what}"));
        match std::fs::read(folder.join(ACKNOWLEDGED)) {
            Ok(bytes) => {
                let text = std::str::from_utf8(&bytes).ok();
                text.and_then(Self::parse).ok_or_else(|| damaged("does not say what was acknowledged"))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Err(damaged("is missing")),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the file of a store.
    pub(crate) fn write(self, folder: &Path) -> io::Result<()> {
        disk::write(&folder.join(ACKNOWLEDGED), self.line().as_bytes())
    }
}

/// The file while its store is open.
#[derive(Debug)]
pub(crate) struct AcknowledgedFile {
    file: File,
    pub(crate) last: Acknowledged,
}

impl AcknowledgedFile {
    pub(crate) fn open(folder: &Path, last: Acknowledged) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).open(folder.join(ACKNOWLEDGED))?;
        let opened = Self { file, last };
        opened.write()?;
        Ok(opened)
    }

    /// Writes down what is durable by now. A process that is killed leaves the line of before or this one.
    pub(crate) fn write(&self) -> io::Result<()> {
        self.file.write_all_at(self.last.line().as_bytes(), 0)
    }
}

/// The sum over all objects after one of them has changed.
fn exchange(sum: u64, key: &str, before: Option<Revision>, now: Option<Revision>) -> u64 {
    let part = |written: Option<Revision>| written.map_or(0, |written| digest(key, written));
    sum.wrapping_sub(part(before)).wrapping_add(part(now))
}

/// FNV-1a over a key and the revision of its value, which stays the same over versions and machines. It guards against
/// loss, not against forgery.
fn digest(key: &str, written: Revision) -> u64 {
    let bytes = key.bytes().chain(written.to_be_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;

    /// A state after some puts and deletions, and what it acknowledged after each.
    fn states() -> (State, Vec<Acknowledged>) {
        let (mut state, mut acknowledged) = (State::default(), Acknowledged::of(&State::default()));
        let mut all = vec![acknowledged];
        for (index, (key, is_put)) in
            [("/a", true), ("/b", true), ("/a", true), ("/b", false), ("/c", true)].into_iter().enumerate()
        {
            let change = Change {
                revision: index as u64 + 1,
                key: Arc::from(key),
                value: is_put.then(|| Bytes::from_static(b"x")),
                previous: state.current(key).cloned(),
                time_s: 0,
            };
            acknowledged.add(&change);
            state.apply(change);
            all.push(acknowledged);
        }
        (state, all)
    }

    #[test]
    fn what_was_acknowledged_at_any_revision_is_found_again() {
        let (state, all) = states();
        assert_eq!(Acknowledged::of(&state), all[5]);
        for acknowledged in all {
            acknowledged.check(&state).unwrap();
            assert_eq!(Acknowledged::parse(&acknowledged.line()), Some(acknowledged));
        }
    }

    #[test]
    fn a_state_that_holds_less_is_refused() {
        let (state, all) = states();
        let later = Acknowledged { revision: 6, ..all[5] };
        assert!(matches!(later.check(&state), Err(OpenError::Missing(_))), "it ends too early");
        let other = Acknowledged { objects: all[5].objects.wrapping_sub(digest("/a", 3)), ..all[5] };
        assert!(matches!(other.check(&state), Err(OpenError::Missing(_))), "an object is not there");
    }

    #[test]
    fn a_line_that_was_changed_is_no_line() {
        let line = states().1[5].line();
        for text in ["", "1 2\n", line.trim_end(), &line[1..], &format!("{line}x")] {
            assert_eq!(Acknowledged::parse(text), None, "{text:?}");
        }
    }
}
