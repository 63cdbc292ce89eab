//! Reads a log from where its reader wants it to begin, file after file.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Bytes;
use futures::stream;

use super::entry::{Entry, MAX_ENTRY_BYTES};
use super::files::{LogFile, RunFiles};
use super::follow::Following;
use super::printer::Printer;
use super::tail::Tail;
use crate::session::{LogOptions, LogStream};

/// About how much is handed on at once.
const PIECE_BYTES: usize = 64 << 10;

/// A place in a log, from which it is read on.
#[derive(Debug)]
pub(super) struct LogReader {
    files: RunFiles,
    current: Option<LogFile>,
    next: VecDeque<LogFile>,
    /// What was read of the current file and is no whole entry yet.
    held: Vec<u8>,
    /// Within something that is too long to be an entry.
    is_skipping: bool,
    printer: Printer,
}

/// How far the log was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// There is no more for now.
    AtEnd,
    /// No more is wanted.
    Full,
}

impl LogReader {
    pub(super) fn open(folder: &Path, run: u32, options: LogOptions) -> io::Result<LogReader> {
        let files = RunFiles::new(folder, run);
        let mut next = VecDeque::from(files.open()?);
        if let Some(since) = options.since {
            while next.len() > 1 && next.front().is_some_and(|file| file.is_before(since)) {
                next.pop_front();
            }
        }
        if let Some(lines) = options.tail_lines {
            let mut tail = Tail::new(lines, options.source);
            for index in (0..next.len()).rev() {
                if let Some(place) = tail.begins(&next[index].file)? {
                    next.drain(..index);
                    next[0].file.seek(SeekFrom::Start(place))?;
                    break;
                }
            }
        }
        let current = next.pop_front();
        Ok(LogReader { files, current, next, held: Vec::new(), is_skipping: false, printer: Printer::new(options) })
    }

    /// The text piece by piece; to the end of the log, or of what is followed.
    pub(super) fn stream(self, following: Option<Following>) -> LogStream {
        Box::pin(stream::unfold(Some((self, following)), |state| async move {
            let (mut reader, mut following) = state?;
            loop {
                // Asked first: what was written before the end is read after it.
                let is_over = following.as_ref().is_none_or(Following::is_over);
                let read = tokio::task::spawn_blocking(move || {
                    let progress = reader.read();
                    (reader, progress)
                });
                let progress = match read.await {
                    Ok((returned, progress)) => {
                        reader = returned;
                        progress
                    }
                    Err(failure) => return Some((Err(io::Error::other(failure)), None)),
                };
                let progress = match progress {
                    Err(error) => return Some((Err(error), None)),
                    Ok(progress) => progress,
                };
                let text = Bytes::from(reader.printer.take());
                let is_done = progress == Progress::Full || (progress == Progress::AtEnd && is_over);
                match (text.is_empty(), is_done) {
                    (false, true) => return Some((Ok(text), None)),
                    (false, false) => return Some((Ok(text), Some((reader, following)))),
                    (true, true) => return None,
                    (true, false) => {}
                }
                if let (Progress::AtEnd, Some(following)) = (progress, &mut following) {
                    following.more().await;
                }
            }
        }))
    }

    /// Reads about a piece.
    fn read(&mut self) -> io::Result<Progress> {
        let mut block = vec![0; PIECE_BYTES / 4];
        while self.printer.len() < PIECE_BYTES {
            if self.printer.is_full() {
                return Ok(Progress::Full);
            }
            let count = match &mut self.current {
                Some(current) => current.file.read(&mut block)?,
                None => 0,
            };
            if count > 0 {
                self.take_in(&block[..count]);
            } else if !self.turn_page()? {
                return Ok(Progress::AtEnd);
            }
        }
        Ok(Progress::More)
    }

    /// Goes on to the next file, if the current one is not written any more; `false` if there is nothing to go on to. A
    /// file that was put aside may have grown before: it is read to its end before it is left.
    fn turn_page(&mut self) -> io::Result<bool> {
        if self.next.is_empty() {
            self.next = match &self.current {
                Some(current) if self.files.is_present(current) => return Ok(false),
                Some(current) => self.files.after(current)?.into(),
                None => self.files.open()?.into(),
            };
            if let Some(current) = &mut self.current
                && !self.next.is_empty()
            {
                let mut rest = Vec::new();
                current.file.read_to_end(&mut rest)?;
                self.take_in(&rest);
            }
        }
        let Some(next) = self.next.pop_front() else { return Ok(false) };
        self.current = Some(next);
        self.held.clear();
        self.is_skipping = false;
        Ok(true)
    }

    fn take_in(&mut self, block: &[u8]) {
        self.held.extend_from_slice(block);
        let mut begin = 0;
        while let Some(length) = self.held[begin..].iter().position(|byte| *byte == b'\n') {
            let line = &self.held[begin..begin + length];
            if !std::mem::take(&mut self.is_skipping)
                && let Some(entry) = Entry::parse(line)
            {
                self.printer.print(&entry);
            }
            begin += length + 1;
        }
        self.held.drain(..begin);
        if self.held.len() > MAX_ENTRY_BYTES {
            self.held.clear();
            self.is_skipping = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures::StreamExt;
    use proptest::prelude::*;

    use super::*;
    use crate::session::LogSource;

    async fn read_all(folder: &Path, options: LogOptions) -> String {
        let stream = LogReader::open(folder, 0, options).unwrap().stream(None);
        let pieces: Vec<_> = stream.map(|piece| piece.unwrap()).collect().await;
        String::from_utf8(pieces.concat()).unwrap()
    }

    /// Entries as files: `sizes` says after how many a file is put aside.
    fn write(folder: &Path, entries: &[(bool, bool, String)], size: usize) {
        let line = |(number, (is_error, ends, text)): (usize, &(bool, bool, String))| {
            let (source, tag) = (if *is_error { "stderr" } else { "stdout" }, if *ends { "F" } else { "P" });
            format!("2026-01-01T00:00:{:02}Z {source} {tag} {text}\n", number % 60)
        };
        let lines: Vec<String> = entries.iter().enumerate().map(line).collect();
        let files: Vec<String> = lines.chunks(size.max(1)).map(|lines| lines.concat()).collect();
        for (age, content) in files.iter().rev().enumerate() {
            let name = if age == 0 { "0.log".to_owned() } else { format!("0.log.{age}") };
            fs::write(folder.join(name), content).unwrap();
        }
    }

    fn last_lines(text: &str, count: u64) -> String {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let skipped = lines.len().saturating_sub(usize::try_from(count).unwrap());
        lines[skipped..].concat()
    }

    /// Where an entry comes from, whether it ends its line, and its text: a part of a line is never empty.
    fn any_entry() -> impl Strategy<Value = (bool, bool, String)> {
        let ends_line = any::<bool>();
        (any::<bool>(), ends_line, "[a-z ]{0,40}").prop_map(|(is_error, ends_line, text)| {
            let text = if ends_line || !text.is_empty() { text } else { "part".to_owned() };
            (is_error, ends_line, text)
        })
    }

    proptest! {
        #[test]
        fn the_tail_is_the_last_lines_of_everything(
            entries in prop::collection::vec(any_entry(), 0..40),
            size in 1_usize..20,
            count in 0_u64..12,
            source in prop_oneof![Just(LogSource::All), Just(LogSource::Output), Just(LogSource::Errors)],
        ) {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), &entries, size);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let options = LogOptions { source, ..LogOptions::default() };
                let everything = read_all(folder.path(), options.clone()).await;
                let tail = read_all(folder.path(), LogOptions { tail_lines: Some(count), ..options }).await;
                prop_assert_eq!(tail, last_lines(&everything, count));
                Ok(())
            })?;
        }
    }

    #[tokio::test]
    async fn long_logs_are_read_whole_and_their_tail_from_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let entries: Vec<_> = (0..20_000).map(|number| (false, true, format!("line {number}"))).collect();
        write(folder.path(), &entries, 7000);
        let everything = read_all(folder.path(), LogOptions::default()).await;
        assert_eq!(everything.lines().count(), 20_000);
        assert!(everything.starts_with("line 0\n") && everything.ends_with("line 19999\n"));
        let options = LogOptions { tail_lines: Some(9000), ..LogOptions::default() };
        assert_eq!(read_all(folder.path(), options).await, last_lines(&everything, 9000));
    }

    #[tokio::test]
    async fn garbage_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let good = "2026-01-01T00:00:00Z stdout F good\n";
        let content = format!("{good}{}\n\0\n{good}2026-01-01T00:00:00Z stdout F cut of", "x".repeat(200_000));
        fs::write(folder.path().join("0.log"), content).unwrap();
        assert_eq!(read_all(folder.path(), LogOptions::default()).await, "good\ngood\n");
        let options = LogOptions { tail_lines: Some(1), ..LogOptions::default() };
        assert_eq!(read_all(folder.path(), options).await, "good\n");
    }

    #[tokio::test]
    async fn a_run_that_wrote_nothing_has_an_empty_log() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_all(folder.path(), LogOptions { tail_lines: Some(3), ..LogOptions::default() }).await, "");
    }
}
