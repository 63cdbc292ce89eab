//! The decision log as it is read: the newest entry first, a block of a file at a time, and nothing is written.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use jiff::Timestamp;

use super::files::{Family, Segment, segments};
use super::record::Entry;

/// How much of a file is read at a time.
const BLOCK: u64 = 64 << 10;
/// The longest line that is read; none is written that is nearly as long.
const LONGEST_LINE: usize = 1 << 20;
/// Among how many entries one that was written twice is noticed: both are close to each other, as writing again begins
/// where the position was last noted.
const REMEMBERED: usize = 4096;

/// Reads the entries of a folder, the newest first.
#[derive(Debug)]
pub struct Reader {
    families: Vec<FamilyReader>,
    /// The next entry of each family.
    heads: Vec<Option<Entry>>,
    seen: HashSet<String>,
    order: VecDeque<String>,
    is_begun: bool,
}

impl Reader {
    /// Opens the log in this folder; `None` if there is none. Files that ended before `since` are not opened.
    pub fn open(folder: &Path, since: Option<Timestamp>) -> io::Result<Option<Reader>> {
        let mut families = Vec::new();
        for family in Family::ALL {
            let segments = match segments(folder, family) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                segments => segments?,
            };
            families.push(FamilyReader { segments, end: None, since, lines: None, unreadable: 0 });
        }
        let heads = families.iter().map(|_| None).collect();
        Ok(Some(Reader { families, heads, seen: HashSet::new(), order: VecDeque::new(), is_begun: false }))
    }

    /// The next entry, which is older than the one before.
    pub fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        if !std::mem::replace(&mut self.is_begun, true) {
            for (head, family) in self.heads.iter_mut().zip(&mut self.families) {
                *head = family.next_entry()?;
            }
        }
        loop {
            let heads = self.heads.iter().enumerate();
            let times = heads.filter_map(|(index, head)| Some((head.as_ref()?.time, index)));
            let Some((_, index)) = times.max() else { return Ok(None) };
            let entry = std::mem::replace(&mut self.heads[index], self.families[index].next_entry()?);
            if let Some(entry) = entry.filter(|entry| self.is_new(&entry.id)) {
                return Ok(Some(entry));
            }
        }
    }

    /// How many lines so far were damaged.
    pub fn unreadable(&self) -> u64 {
        self.families.iter().map(|family| family.unreadable).sum()
    }

    fn is_new(&mut self, id: &str) -> bool {
        if !self.seen.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(forgotten) = self.order.pop_front()
        {
            self.seen.remove(&forgotten);
        }
        true
    }
}

/// The entries of one family.
#[derive(Debug)]
struct FamilyReader {
    /// Those that are yet to be read, the oldest first.
    segments: Vec<Segment>,
    /// When the file after the next one was begun: nothing was added to the next one since.
    end: Option<Timestamp>,
    since: Option<Timestamp>,
    lines: Option<Backwards>,
    unreadable: u64,
}

impl FamilyReader {
    fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        loop {
            if self.lines.is_none() {
                let Some(segment) = self.segments.pop() else { return Ok(None) };
                if self.end.zip(self.since).is_some_and(|(end, since)| end < since) {
                    return Ok(None);
                }
                self.end = Some(segment.begun);
                match File::open(&segment.path) {
                    // It has just been removed as too old, and so were those before it.
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                    file => self.lines = Some(Backwards::new(file?)?),
                }
            }
            let Some(lines) = &mut self.lines else { continue };
            match lines.next_line()? {
                None => self.lines = None,
                Some(line) if line.is_empty() => {}
                Some(line) => match serde_json::from_slice::<Entry>(&line) {
                    Ok(entry) if self.since.is_some_and(|since| entry.time < since) => {}
                    Ok(entry) => return Ok(Some(entry)),
                    Err(_) => self.unreadable += 1,
                },
            }
        }
    }
}

/// The lines of a file from its end to its beginning.
#[derive(Debug)]
struct Backwards {
    file: File,
    /// What is before this is yet to be read.
    position: u64,
    /// What was read and not returned: the end of it is the next line.
    rest: Vec<u8>,
    /// The line that `rest` ends in is longer than any that is read.
    is_too_long: bool,
    is_done: bool,
}

impl Backwards {
    fn new(mut file: File) -> io::Result<Backwards> {
        let position = file.seek(SeekFrom::End(0))?;
        Ok(Backwards { file, position, rest: Vec::new(), is_too_long: false, is_done: false })
    }

    fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = self.rest.iter().rposition(|byte| *byte == b'\n') {
                let line = self.rest.split_off(at + 1);
                self.rest.pop();
                return Ok(Some(self.whole(line)));
            }
            if self.position == 0 {
                let line = std::mem::take(&mut self.rest);
                let is_last = std::mem::replace(&mut self.is_done, true);
                return Ok((!is_last).then(|| self.whole(line)));
            }
            if self.rest.len() > LONGEST_LINE {
                self.is_too_long = true;
                self.rest.clear();
            }
            let count = self.position.min(BLOCK);
            self.position -= count;
            self.file.seek(SeekFrom::Start(self.position))?;
            let mut block = Vec::with_capacity(BLOCK as usize + self.rest.len());
            self.file.by_ref().take(count).read_to_end(&mut block)?;
            block.append(&mut self.rest);
            self.rest = block;
        }
    }

    /// Of a line that is too long its beginning is left, which cannot be read either.
    fn whole(&mut self, line: Vec<u8>) -> Vec<u8> {
        if std::mem::take(&mut self.is_too_long) { b"too long".to_vec() } else { line }
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::Files;
    use super::super::record::{AdministrationFact, Fact};
    use super::*;

    fn entry(id: &str, second: i64) -> Entry {
        let (by, act, subject) = ("uid 0".to_owned(), "create user".to_owned(), "x".repeat(100));
        let fact = Fact::Administration(AdministrationFact { by, act, subject });
        Entry { id: id.to_owned(), time: Timestamp::constant(second, 0), fact }
    }

    fn ids(folder: &Path, since: Option<i64>) -> (Vec<String>, u64) {
        let since = since.map(|second| Timestamp::constant(second, 0));
        let mut reader = Reader::open(folder, since).expect("a folder").expect("a log");
        let mut ids = Vec::new();
        while let Some(entry) = reader.next_entry().expect("files") {
            ids.push(entry.id);
        }
        (ids, reader.unreadable())
    }

    #[test]
    fn entries_come_newest_first_each_once_whatever_file_they_are_in() {
        const DAY: i64 = 24 * 60 * 60;
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path();
        let mut files = Files::open(folder, None).expect("a folder");
        let mut put = |family, id: &str, second: i64| {
            files.append(family, &entry(id, second).line(), Timestamp::constant(second, 0)).expect("room");
        };
        for number in 0..2000 {
            put(Family::Decisions, &format!("a{number}"), number * 2);
        }
        put(Family::Decisions, "a1999", 3998);
        put(Family::Steps, "b", 5);
        put(Family::Decisions, "c", DAY + 1);
        put(Family::Refusals, "d", DAY);
        let (all, unreadable) = ids(folder, None);
        assert_eq!((all.len(), unreadable), (2003, 0));
        assert_eq!(&all[..3], ["c", "d", "a1999"]);
        assert_eq!(&all[all.len() - 4..], ["b", "a2", "a1", "a0"]);
        assert_eq!(ids(folder, Some(DAY)).0, ["c", "d"]);
        assert_eq!(ids(folder, Some(3996)).0, ["c", "d", "a1999", "a1998"]);
    }

    #[test]
    fn damage_is_counted_and_hides_nothing_else() {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path();
        let mut files = Files::open(folder, None).expect("a folder");
        let now = Timestamp::constant(1, 0);
        files.append(Family::Decisions, &entry("first", 1).line(), now).expect("room");
        files.append(Family::Decisions, b"half a li\n", now).expect("room");
        files.append(Family::Decisions, &[&vec![b'x'; 3 * LONGEST_LINE][..], b"\n"].concat(), now).expect("room");
        files.append(Family::Decisions, &entry("last", 2).line(), now).expect("room");
        assert_eq!(ids(folder, None), (vec!["last".to_owned(), "first".to_owned()], 2));
    }

    #[test]
    fn to_look_makes_nothing() {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path().join("audit/decisions");
        assert!(Reader::open(&folder, None).expect("no error").is_none());
        assert!(!temporary.path().join("audit").exists());
    }
}
