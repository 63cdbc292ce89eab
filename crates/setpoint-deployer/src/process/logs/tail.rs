//! Where the last lines of a log begin. It is read from its end, block by block, only as far as needed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::entry::Entry;
use crate::session::LogSource;

const BLOCK: u64 = 64 << 10;

/// Looks for the beginning of the last lines, from the newest file to the oldest.
#[derive(Debug)]
pub(super) struct Tail {
    source: LogSource,
    wanted: u64,
    seen: u64,
    has_begun: bool,
}

impl Tail {
    /// The last so many lines of a source. A line that has not ended yet is one too.
    pub(super) fn new(wanted: u64, source: LogSource) -> Tail {
        Tail { source, wanted, seen: 0, has_begun: false }
    }

    /// Where they begin in this file, or `None` if they begin in an older one.
    pub(super) fn begins(&mut self, file: &File) -> io::Result<Option<u64>> {
        let mut lines = Backwards::new(file, file.metadata()?.len());
        while let Some((end, line)) = lines.next()? {
            let entry = Entry::parse(&line).filter(|entry| entry.is_from(self.source));
            if entry.is_some_and(|entry| self.is_beyond(&entry)) {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Takes in the entry before those that were taken in; `true` if it belongs to a line that is not wanted any more.
    fn is_beyond(&mut self, entry: &Entry<'_>) -> bool {
        let is_another_line = entry.ends_line || !self.has_begun;
        self.has_begun = true;
        if is_another_line {
            self.seen += 1;
        }
        self.seen > self.wanted
    }
}

/// The lines of a file from its end on. What follows the last end of a line is not among them.
struct Backwards<'f> {
    file: &'f File,
    /// What was read and not yet returned: the file from `start` on.
    held: Vec<u8>,
    start: u64,
    is_trimmed: bool,
}

impl<'f> Backwards<'f> {
    fn new(file: &'f File, length: u64) -> Backwards<'f> {
        Backwards { file, held: Vec::new(), start: length, is_trimmed: false }
    }

    /// The line before, and the place of what follows it.
    fn next(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        loop {
            if !self.is_trimmed
                && let Some(at) = self.held.iter().rposition(|byte| *byte == b'\n')
            {
                self.held.truncate(at + 1);
                self.is_trimmed = true;
            }
            if self.is_trimmed && !self.held.is_empty() {
                let body = &self.held[..self.held.len() - 1];
                let begin = body.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
                if let Some(begin) = begin.or((self.start == 0).then_some(0)) {
                    let line = body[begin..].to_vec();
                    let end = self.start + self.held.len() as u64;
                    self.held.truncate(begin);
                    return Ok(Some((end, line)));
                }
            }
            if self.start == 0 {
                return Ok(None);
            }
            let length = self.start.min(BLOCK);
            let mut block = vec![0; usize::try_from(length).unwrap_or_default()];
            self.file.read_exact_at(&mut block, self.start - length)?;
            block.append(&mut self.held);
            self.held = block;
            self.start -= length;
        }
    }
}
