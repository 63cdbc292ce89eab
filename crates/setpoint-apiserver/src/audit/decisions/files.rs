//! The files of the decision log: for each family of entries some of its own, begun anew each day or when they are large,
//! so that what is too old goes as whole files.
//!
//! A family never takes room from another: what many people can write, or what happens by itself, does not push out who
//! approved what.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The largest file, where the bound of its family allows one.
const LARGEST_FILE: u64 = 16 << 20;
/// How many files a family has at least before it is at its bound, so that little goes at a time.
const FILES_AT_BOUND: u64 = 8;
const STAMP: &str = "%Y%m%dT%H%M%S%.6f";

/// What entries have in common that share files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Reviews that count, and steps that were taken by their leave.
    Decisions,
    /// Steps for which nobody had to be asked.
    Steps,
    /// People's writes that change who may do what, or delete what we manage.
    Writes,
    /// Tokens of service accounts, which many may ask for at any rate.
    Tokens,
    /// Requests that were refused.
    Refusals,
    /// Reviews that do not count.
    Reviews,
    /// What was done with the data folder by commands.
    Administration,
}

impl Family {
    pub const ALL: [Family; 7] = [
        Family::Decisions,
        Family::Steps,
        Family::Writes,
        Family::Tokens,
        Family::Refusals,
        Family::Reviews,
        Family::Administration,
    ];

    fn prefix(self) -> &'static str {
        match self {
            Family::Decisions => "decisions",
            Family::Steps => "steps",
            Family::Writes => "writes",
            Family::Tokens => "tokens",
            Family::Refusals => "refusals",
            Family::Reviews => "reviews",
            Family::Administration => "administration",
        }
    }

    /// Half of everything is for what people decided; the others have equal shares of the rest.
    fn share(self, bytes: u64) -> u64 {
        if self == Family::Decisions { bytes / 2 } else { bytes / 12 }
    }
}

/// How long entries are kept, and how many bytes of them at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub days: u32,
    pub bytes: u64,
}

/// A file of a family.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    /// When it was begun: no entry in it was written before.
    pub(super) begun: Timestamp,
    pub(super) path: PathBuf,
}

/// The files as they are written. Only one process writes to a family.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    /// Without it, nothing is removed.
    retention: Option<Retention>,
    open: BTreeMap<Family, Open>,
    /// How many files were removed for their size before they were too old.
    removed_early: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Open {
    file: File,
    begun: Timestamp,
    bytes: u64,
}

impl Files {
    /// Makes the folder, for its owner alone, if it is missing.
    pub(super) fn open(folder: &Path, retention: Option<Retention>) -> io::Result<Files> {
        setpoint_store::make_folder(folder)?;
        let permissions = fs::Permissions::from_mode(0o700);
        if fs::metadata(folder)?.permissions().mode() & 0o777 != 0o700 {
            fs::set_permissions(folder, permissions)?;
        }
        Ok(Files { folder: folder.to_owned(), retention, open: BTreeMap::new(), removed_early: Arc::default() })
    }

    /// How many files were removed for their size before they were too old, as it is counted.
    pub(super) fn removed_early(&self) -> Arc<AtomicU64> {
        self.removed_early.clone()
    }

    /// Adds whole lines to a family; they survive a loss of power once this returns. Where it fails, none of them may be
    /// there, or some, or all.
    pub(super) fn append(&mut self, family: Family, lines: &[u8], now: Timestamp) -> io::Result<()> {
        let result = self.try_append(family, lines, now);
        if result.is_err() {
            // What is in the file now is not known; the next attempt looks.
            self.open.remove(&family);
        }
        result
    }

    fn try_append(&mut self, family: Family, lines: &[u8], now: Timestamp) -> io::Result<()> {
        let limit = self.largest_file(family);
        if !self.open.contains_key(&family)
            && let Some(open) = self.reopen(family)?
        {
            self.open.insert(family, open);
        }
        let fits =
            |open: &Open| is_same_day(open.begun, now) && (open.bytes == 0 || open.bytes + lines.len() as u64 <= limit);
        if !self.open.get(&family).is_some_and(fits) {
            let open = self.begin(family, now)?;
            self.open.insert(family, open);
            // Whoever writes much at once is bounded at once. What cannot be removed now is removed later.
            if let Err(error) = self.prune_family(family, now) {
                tracing::warn!(%error, "old files of the decision log cannot be removed");
            }
        }
        let open = self.open.get_mut(&family).expect("it was opened");
        if let Err(error) = open.file.write_all(lines).and_then(|()| open.file.sync_data()) {
            // Half a line would be read as damage.
            let _ = open.file.set_len(open.bytes);
            return Err(error);
        }
        open.bytes += lines.len() as u64;
        Ok(())
    }

    fn largest_file(&self, family: Family) -> u64 {
        let share = self.retention.map_or(u64::MAX, |retention| family.share(retention.bytes));
        LARGEST_FILE.min(share / FILES_AT_BOUND).max(1)
    }

    /// The newest file of a family, to add to it. A process that was killed may have left half a line there.
    fn reopen(&self, family: Family) -> io::Result<Option<Open>> {
        let Some(Segment { begun, path }) = segments(&self.folder, family)?.pop() else { return Ok(None) };
        let mut file = OpenOptions::new().append(true).read(true).open(&path)?;
        let mut bytes = file.metadata()?.len();
        let mut last = [b'\n'];
        if bytes > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        if last != *b"\n" {
            file.write_all(b"\n")?;
            bytes += 1;
        }
        Ok(Some(Open { file, begun, bytes }))
    }

    fn begin(&self, family: Family, now: Timestamp) -> io::Result<Open> {
        // Names sort by their times also where the clock was set back.
        let last = segments(&self.folder, family)?.pop().map(|segment| segment.begun);
        let after = |last: Timestamp| last.checked_add(SignedDuration::from_micros(1)).unwrap_or(last);
        let begun = last.map(after).map_or(now, |after| now.max(after));
        let path = self.folder.join(format!("{}-{}.log", family.prefix(), begun.strftime(STAMP)));
        let file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&path)?;
        setpoint_store::keep_owner(&file, &path)?;
        // The file's name has to survive as well as its content.
        File::open(&self.folder)?.sync_all()?;
        Ok(Open { file, begun, bytes: 0 })
    }

    /// Removes files that are older than what is kept, and the oldest of a family that takes more room than it may.
    pub(super) fn prune(&self, now: Timestamp) -> io::Result<()> {
        Family::ALL.into_iter().try_for_each(|family| self.prune_family(family, now))
    }

    fn prune_family(&self, family: Family, now: Timestamp) -> io::Result<()> {
        let Some(retention) = self.retention else { return Ok(()) };
        let early = prune(&self.folder, family, retention, now)?;
        if early > 0 {
            self.removed_early.fetch_add(early, Ordering::Relaxed);
            tracing::error!(
                files = early,
                family = family.prefix(),
                "the decision log is at its bound: its oldest files were removed before their time; raise --decision-log-size"
            );
        }
        Ok(())
    }
}

/// Returns how many files went although they were young enough.
fn prune(folder: &Path, family: Family, retention: Retention, now: Timestamp) -> io::Result<u64> {
    let segments = segments(folder, family)?;
    let kept_since = now.checked_sub(SignedDuration::from_hours(24 * i64::from(retention.days))).unwrap_or(now);
    // A file is added to until the day ends, or the next one begins.
    let day = SignedDuration::from_hours(24);
    let end = |index: usize| match segments.get(index + 1) {
        Some(next) => next.begun,
        None => segments[index].begun.checked_add(day).unwrap_or(Timestamp::MAX),
    };
    let expired = (0..segments.len()).take_while(|&index| end(index) < kept_since).count();
    for segment in &segments[..expired] {
        fs::remove_file(&segment.path)?;
    }
    let sizes: Vec<u64> =
        segments[expired..].iter().map(|segment| Ok(fs::metadata(&segment.path)?.len())).collect::<io::Result<_>>()?;
    let (mut total, mut early) = (sizes.iter().sum::<u64>(), 0);
    for (segment, size) in segments[expired..].iter().zip(&sizes).take(sizes.len().saturating_sub(1)) {
        if total <= family.share(retention.bytes) {
            break;
        }
        fs::remove_file(&segment.path)?;
        total -= size;
        early += 1;
    }
    Ok(early)
}

/// The files of a family, the oldest first.
pub(super) fn segments(folder: &Path, family: Family) -> io::Result<Vec<Segment>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let stamp = name.and_then(|name| name.strip_prefix(family.prefix())?.strip_prefix('-')?.strip_suffix(".log"));
        if let Some(begun) = stamp.and_then(time) {
            found.push(Segment { begun, path });
        }
    }
    found.sort();
    Ok(found)
}

fn time(stamp: &str) -> Option<Timestamp> {
    let time = DateTime::strptime("%Y%m%dT%H%M%S%.f", stamp).ok()?;
    TimeZone::UTC.to_timestamp(time).ok()
}

fn is_same_day(a: Timestamp, b: Timestamp) -> bool {
    let day = |time: Timestamp| TimeZone::UTC.to_datetime(time).date();
    day(a) == day(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn content(folder: &Path, family: Family) -> Vec<String> {
        let segments = segments(folder, family).expect("a folder");
        segments.iter().map(|segment| fs::read_to_string(&segment.path).expect("a file")).collect()
    }

    #[test]
    fn files_are_private_begin_anew_each_day_and_go_when_they_are_old() {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path().join("audit/decisions");
        let retention = Retention { days: 4, bytes: 1 << 20 };
        let mut files = Files::open(&folder, Some(retention)).expect("a folder");
        for (time, line) in [
            ("2026-01-01T10:00:00Z", "a\n"),
            ("2026-01-01T23:59:59Z", "b\n"),
            ("2026-01-02T00:00:00Z", "c\n"),
            ("2026-01-05T00:00:00Z", "d\n"),
        ] {
            files.append(Family::Decisions, line.as_bytes(), at(time)).expect("room");
        }
        files.append(Family::Refusals, b"r\n", at("2026-01-05T00:00:00Z")).expect("room");
        assert_eq!(content(&folder, Family::Decisions), ["a\nb\n", "c\n", "d\n"]);
        assert_eq!(content(&folder, Family::Refusals), ["r\n"]);
        let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        for segment in segments(&folder, Family::Decisions).expect("a folder") {
            assert_eq!(mode(&segment.path), 0o600);
        }
        fs::write(folder.join("decisions-notes.log"), "mine").expect("a file");
        let rows = [
            ("2026-01-05T23:00:00Z", vec!["a\nb\n", "c\n", "d\n"]),
            ("2026-01-06T01:00:00Z", vec!["c\n", "d\n"]),
            ("2026-01-09T01:00:00Z", vec!["d\n"]),
            ("2026-01-10T01:00:00Z", vec![]),
        ];
        for (now, expected) in rows {
            files.prune(at(now)).expect("a folder");
            assert_eq!(files.removed_early().load(Ordering::Relaxed), 0, "{now}: none goes too early");
            assert_eq!(content(&folder, Family::Decisions), expected, "{now}");
        }
        assert!(folder.join("decisions-notes.log").exists(), "what is not the log's is left alone");
    }

    #[test]
    fn at_its_bound_a_family_loses_its_own_oldest_files_and_no_other_does() {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path();
        // 1 024 bytes for tokens and as many for writes, 6 144 for decisions.
        let mut files = Files::open(folder, Some(Retention { days: 365, bytes: 12 << 10 })).expect("a folder");
        let now = at("2026-01-01T10:00:00Z");
        files.append(Family::Decisions, b"alice approved\n", now).expect("room");
        files.append(Family::Writes, b"alice was made an administrator\n", now).expect("room");
        for number in 0..1000 {
            files.append(Family::Tokens, format!("{number:099}\n").as_bytes(), now).expect("room");
            let bytes = content(folder, Family::Tokens).concat().len();
            assert!(bytes <= 1024 + 128, "{bytes} bytes after {number} lines: it is bounded while it is written");
        }
        assert!(files.removed_early().load(Ordering::Relaxed) > 900, "it is said how many went early");
        files.prune(now).expect("a folder");
        let tokens = content(folder, Family::Tokens).concat();
        assert!((512..=1024).contains(&tokens.len()), "{}", tokens.len());
        assert!(tokens.ends_with("999\n"), "the newest stay");
        assert_eq!(content(folder, Family::Decisions), ["alice approved\n"]);
        assert_eq!(content(folder, Family::Writes), ["alice was made an administrator\n"]);
    }

    #[test]
    fn a_file_goes_on_where_it_was_left_also_when_the_clock_was_set_back() {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path();
        let now = at("2026-01-02T10:00:00Z");
        Files::open(folder, None).expect("a folder").append(Family::Steps, b"one\nhalf a li", now).expect("room");
        let mut files = Files::open(folder, None).expect("a folder");
        files.append(Family::Steps, b"two\n", now).expect("room");
        assert_eq!(content(folder, Family::Steps), ["one\nhalf a li\ntwo\n"]);
        files.append(Family::Steps, b"three\n", at("2026-01-01T10:00:00Z")).expect("room");
        assert_eq!(content(folder, Family::Steps), ["one\nhalf a li\ntwo\n", "three\n"], "in their order");
    }
}
