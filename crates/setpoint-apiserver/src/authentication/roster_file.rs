//! A roster in a file that others write, noticed when it changes.
//!
//! Faults are not taken for an empty roster: that would lock everybody out, and let revoked certificates in. What the
//! file last said when it was sound goes on counting, so whoever is new waits until it is repaired, and the log says so.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use super::roster::ROSTER_LIMIT;
use super::{Roster, RosterError};

/// A file that was changed less than this ago may change again without its times telling: they advance in steps. What
/// the clock says does not count, since it may be set.
const STEP: Duration = Duration::from_millis(50);

/// A file that holds a roster.
#[derive(Debug)]
pub(super) struct RosterFile {
    path: PathBuf,
    seen: RwLock<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// The file that was read last.
    look: Look,
    /// Since when it looks so.
    since: Instant,
    /// Whether it was read after that for so long that another content would look different.
    settled: bool,
    /// What was wrong with it, so that the same is said once.
    fault: Option<String>,
}

/// What tells that a file is another than before, without reading it.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    File { device: u64, inode: u64, size: u64, mode: u32, modified: (i64, i64), changed: (i64, i64) },
    Unseen(ErrorKind),
}

/// Why a file of users cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{} cannot be read; let its owner run the server", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error(
        "{} is gone, and with it who is known and which certificates are revoked; restore it, or go by docs/users.md",
        .path.display()
    )]
    Gone { path: PathBuf },
    #[error("{} can be used by others than its owner; run `chmod 600 {}`", .path.display(), .path.display())]
    Open { path: PathBuf },
    #[error("{} is damaged; restore it, or correct it by docs/users.md", .path.display())]
    Damaged { path: PathBuf, source: RosterError },
}

impl RosterFile {
    pub(super) fn open(path: PathBuf) -> Result<(RosterFile, Roster), FileError> {
        let (look, roster) = look_into(&path);
        let seen = RwLock::new(Seen { look, since: Instant::now(), settled: false, fault: None });
        Ok((RosterFile { path, seen }, roster?))
    }

    /// Gives away what the file says, if that may be something else than last time. Others who ask meanwhile wait, so that
    /// nobody goes by what is out of date, and what was read first is not given away last.
    pub(super) fn if_changed(&self, take: impl FnOnce(Roster)) {
        // Nearly always the answer, and it is found side by side.
        let look = Look::at(&self.path);
        if self.seen.read().is_current(&look) {
            return;
        }
        let mut seen = self.seen.write();
        if seen.is_current(&Look::at(&self.path)) {
            return;
        }
        let begun = Instant::now();
        let (look, roster) = look_into(&self.path);
        seen.note(look, begun, Instant::now());
        match roster {
            Ok(roster) => {
                if seen.fault.take().is_some() {
                    tracing::info!(file = %self.path.display(), "the users are read again");
                }
                take(roster);
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
                let fault = format!("{error}{cause}");
                if seen.fault.as_ref() != Some(&fault) {
                    tracing::error!("the users stay as they were: {fault}");
                    seen.fault = Some(fault);
                }
            }
        }
    }
}

impl Seen {
    fn is_current(&self, look: &Look) -> bool {
        self.settled && self.look == *look
    }

    /// Takes note of a file that was read between these times.
    fn note(&mut self, look: Look, begun: Instant, ended: Instant) {
        if self.look != look {
            (self.look, self.since) = (look, ended);
        }
        self.settled = matches!(self.look, Look::Unseen(_)) || begun.saturating_duration_since(self.since) >= STEP;
    }
}

/// What a file of users says.
pub fn read_roster(path: &Path) -> Result<Roster, FileError> {
    look_into(path).1
}

fn look_into(path: &Path) -> (Look, Result<Roster, FileError>) {
    let failed = |error: std::io::Error| {
        let path = path.to_owned();
        let gone = error.kind() == ErrorKind::NotFound;
        let look = Look::Unseen(error.kind());
        (look, Err(if gone { FileError::Gone { path } } else { FileError::Unreadable { path, source: error } }))
    };
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = match opened {
        Ok(opened) => opened,
        Err(error) => return failed(error),
    };
    let look = Look::of(&metadata);
    if metadata.mode() & 0o077 != 0 {
        return (look, Err(FileError::Open { path: path.to_owned() }));
    }
    let mut text = Vec::new();
    if let Err(error) = file.take(ROSTER_LIMIT + 1).read_to_end(&mut text) {
        return failed(error);
    }
    (look, Roster::parse(&text).map_err(|source| FileError::Damaged { path: path.to_owned(), source }))
}

impl Look {
    fn at(path: &Path) -> Look {
        std::fs::metadata(path).map_or_else(|error| Look::Unseen(error.kind()), |metadata| Look::of(&metadata))
    }

    fn of(file: &Metadata) -> Look {
        Look::File {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            mode: file.mode(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::{self, OpenOptions, Permissions};
    use std::io::Write as _;
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

    use tempfile::TempDir;

    use super::*;

    pub(crate) fn folder() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("users.json");
        (folder, path)
    }

    /// Writes the file in place, which is the harder way to notice.
    pub(crate) fn write(path: &Path, text: &str) {
        let mut options = OpenOptions::new();
        let mut file =
            options.create(true).write(true).truncate(true).mode(0o600).open(path).expect("it can be written");
        file.write_all(text.as_bytes()).expect("it is written");
    }

    fn changed(file: &RosterFile) -> Option<Roster> {
        let mut given = None;
        file.if_changed(|roster| given = Some(roster));
        given
    }

    #[test]
    fn a_file_that_is_not_there_is_lost() {
        let (_folder, path) = folder();
        let error = RosterFile::open(path).expect_err("who was revoked would come back").to_string();
        assert!(error.contains("is gone, and with it"), "{error}");
    }

    #[test]
    fn nobody_goes_by_an_older_reading() {
        let (_folder, path) = folder();
        write(&path, &Roster::default().text());
        let (file, _) = RosterFile::open(path).expect("it is sound");
        let mut given = false;
        file.if_changed(|_| {
            given = true;
            assert!(file.seen.try_read().is_none(), "others wait until it is given away");
        });
        assert!(given, "it may have changed again within a step of its times");
    }

    #[test]
    fn a_file_that_is_not_sound_is_refused_at_the_start() {
        let sound = Roster::default().text();
        let rows = [
            ("damaged", "{", 0o600, "is damaged; restore it"),
            ("readable by a group", &sound, 0o640, "run `chmod 600"),
            ("writable by all", &sound, 0o602, "run `chmod 600"),
        ];
        for (row, text, mode, expected) in rows {
            let (_folder, path) = folder();
            write(&path, text);
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("the file is ours");
            let error = RosterFile::open(path).expect_err(row).to_string();
            assert!(error.contains(expected), "{row}: {error}");
        }
        let (folder, _) = folder();
        let error = RosterFile::open(folder.path().to_owned()).expect_err("a folder").to_string();
        assert!(error.contains("chmod") || error.contains("cannot be read"), "{error}");
    }

    #[test]
    fn a_file_is_read_again_when_its_permissions_are_right() {
        let (_folder, path) = folder();
        write(&path, &Roster::default().text());
        let (file, _) = RosterFile::open(path.clone()).expect("it is sound");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("the file is ours");
        assert_eq!(changed(&file), None);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("the file is ours");
        assert_eq!(changed(&file), Some(Roster::default()));
    }

    #[test]
    fn a_file_that_stays_is_not_read_again() {
        let (_folder, path) = folder();
        write(&path, &Roster::default().text());
        let (file, _) = RosterFile::open(path).expect("it is sound");
        let deadline = Instant::now() + Duration::from_secs(10);
        while changed(&file).is_some() {
            assert!(Instant::now() < deadline, "it is read for ever");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_a_look_tells_does_not_depend_on_the_clock() {
        let at =
            |seconds| Look::File { device: 1, inode: 1, size: 1, mode: 0, modified: (0, 0), changed: (seconds, 0) };
        let begin = Instant::now();
        let far_ahead = 1 << 40;
        for (row, changed) in [("long ago", 0), ("in a time to come", far_ahead)] {
            let mut seen = Seen { look: at(1), since: begin, settled: true, fault: None };
            let mut note = |changed, begun: Duration, took: Duration| {
                seen.note(at(changed), begin + begun, begin + begun + took);
                seen.is_current(&at(changed))
            };
            assert!(!note(changed, STEP, STEP), "{row}: it may change again");
            assert!(!note(changed, STEP * 2, STEP), "{row}: a step has to pass since it was seen");
            assert!(note(changed, STEP * 3, STEP), "{row}");
            assert!(!note(changed + 1, STEP * 9, STEP), "{row}: another");
        }
    }
}
