//! The log of one run of a container: `TIME stdout F text`, in files that are put aside when they have become long.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::process::beneath;
use crate::process::order::LogLimits;

/// How many names of a log's path, from its end, a Pod may be able to change.
const UNTRUSTED: usize = 1;

/// How much of a log may become a container's last words.
const LAST_WORDS_BYTES: usize = 2048;
const LAST_WORDS_LINES: usize = 80;

/// How much of a log's end is looked at for that: more than enough for what stands before each line.
const LAST_WORDS_READ: u64 = 16 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Errors,
}

#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    limits: LogLimits,
    /// Absent if it could not be opened: then what is written is lost until it can, but the workload goes on.
    file: Option<File>,
    written: u64,
    /// Whether the last line was written only in part.
    is_torn: bool,
    pending: Vec<u8>,
}

impl LogFile {
    /// Begins the log of a run, and forgets those of all runs but the one before.
    pub(super) fn begin(folder: &Path, run: u32, limits: LogLimits) -> io::Result<LogFile> {
        fs::create_dir_all(folder)?;
        for file in fs::read_dir(folder)?.flatten() {
            let name = file.file_name();
            let of = name.to_str().and_then(|name| name.split_once('.')?.0.parse::<u32>().ok());
            if of.is_some_and(|of| of.saturating_add(1) < run) {
                fs::remove_file(file.path())?;
            }
        }
        let path = folder.join(format!("{run}.log"));
        let file = open(&path)?;
        let written = file.metadata()?.len();
        Ok(LogFile { path, limits, file: Some(file), written, is_torn: false, pending: Vec::new() })
    }

    /// Adds a line. It is in the file after the next [`LogFile::flush`].
    pub(super) fn add(&mut self, at: Timestamp, stream: Stream, line: &[u8], is_whole: bool) {
        let stream = match stream {
            Stream::Output => "stdout",
            Stream::Errors => "stderr",
        };
        let tag = if is_whole { 'F' } else { 'P' };
        if self.written + self.pending.len() as u64 >= self.limits.max_file_bytes.max(1) {
            self.flush();
            self.rotate();
        }
        self.pending.extend_from_slice(format!("{at:.9} {stream} {tag} ").as_bytes());
        self.pending.extend_from_slice(line);
        self.pending.push(b'\n');
    }

    /// Writes what was added. What a full disk does not take is lost: the workload must not wait for it.
    pub(super) fn flush(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return;
        }
        self.file = self.file.take().or_else(|| open(&self.path).ok());
        let Some(file) = &mut self.file else { return };
        if self.is_torn {
            pending.insert(0, b'\n');
        }
        match file.write_all(&pending) {
            Ok(()) => {
                self.written += pending.len() as u64;
                self.is_torn = false;
            }
            Err(_) => {
                let length = file.metadata().map_or(self.written, |metadata| metadata.len());
                self.is_torn |= length > self.written;
                self.written = length;
            }
        }
    }

    /// `0.log` becomes `0.log.1`, that `0.log.2`, and so on; the last is dropped.
    fn rotate(&mut self) {
        let aside = |number: u32| PathBuf::from(format!("{}.{number}", self.path.display()));
        let kept = self.limits.max_files.saturating_sub(1);
        for number in (1..kept).rev() {
            // Where there is none yet there is nothing to move.
            let _ = fs::rename(aside(number), aside(number + 1));
        }
        let _ = if kept == 0 { fs::remove_file(&self.path) } else { fs::rename(&self.path, aside(1)) };
        self.file = open(&self.path).ok();
        self.written = 0;
        self.is_torn = false;
    }
}

fn open(path: &Path) -> io::Result<File> {
    beneath::append(path, UNTRUSTED)
}

/// The end of a log, for a container that left no last words of its own.
pub(super) fn last_words(folder: &Path, run: u32) -> io::Result<String> {
    let mut file = beneath::open(&folder.join(format!("{run}.log")), UNTRUSTED)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS_READ)))?;
    let mut bytes = Vec::new();
    file.take(LAST_WORDS_READ).read_to_end(&mut bytes)?;
    Ok(end_of(&String::from_utf8_lossy(&bytes), length > LAST_WORDS_READ))
}

fn end_of(log: &str, is_cut: bool) -> String {
    let lines: Vec<&str> = log.lines().skip(usize::from(is_cut)).collect();
    let first = lines.len().saturating_sub(LAST_WORDS_LINES);
    let mut text = String::new();
    for line in &lines[first..] {
        let mut parts = line.splitn(4, ' ').skip(2);
        let (Some(tag), Some(content)) = (parts.next(), parts.next()) else { continue };
        text.push_str(content);
        if tag == "F" {
            text.push('\n');
        }
    }
    let from = (text.len().saturating_sub(LAST_WORDS_BYTES)..=text.len()).find(|at| text.is_char_boundary(*at));
    text.split_off(from.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_put_aside_and_nothing_of_it_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let limits = LogLimits { max_file_bytes: 1000, max_files: 5 };
        let mut log = LogFile::begin(folder.path(), 3, limits).unwrap();
        for number in 0..100 {
            log.add(Timestamp::UNIX_EPOCH, Stream::Output, format!("line {number}").as_bytes(), true);
        }
        log.flush();
        let names = ["3.log.4", "3.log.3", "3.log.2", "3.log.1", "3.log"];
        let text: String = names.iter().map(|name| fs::read_to_string(folder.path().join(name)).unwrap()).collect();
        let numbers: Vec<usize> = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
        let first = numbers[0];
        assert_eq!(numbers, (first..100).collect::<Vec<_>>(), "the newest lines are all there, in order");
        assert!(text.starts_with("1970-01-01T00:00:00.000000000Z stdout F line "), "{text}");
        assert!(!folder.path().join("3.log.5").exists());
    }

    #[test]
    fn a_log_that_could_not_be_opened_goes_on_once_it_can() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a");
        let limits = LogLimits { max_file_bytes: 10, max_files: 5 };
        let mut log = LogFile::begin(&folder, 0, limits).unwrap();
        let mut say = |text: &str| {
            log.add(Timestamp::UNIX_EPOCH, Stream::Output, text.as_bytes(), true);
            log.flush();
        };
        say("first");
        fs::remove_dir_all(&folder).unwrap();
        say("lost");
        fs::create_dir(&folder).unwrap();
        say("found");
        assert_eq!(last_words(&folder, 0).unwrap(), "found\n");
    }

    #[test]
    fn after_a_torn_line_a_new_one_begins() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LogFile::begin(folder.path(), 0, LogLimits::default()).unwrap();
        fs::write(folder.path().join("0.log"), "1970-01-01T00:00").unwrap();
        // What can only be read takes nothing.
        log.file = Some(File::open(folder.path().join("0.log")).unwrap());
        let say = |log: &mut LogFile, text: &str| {
            log.add(Timestamp::UNIX_EPOCH, Stream::Output, text.as_bytes(), true);
            log.flush();
        };
        say(&mut log, "refused");
        log.file = None;
        say(&mut log, "whole");
        assert_eq!(last_words(folder.path(), 0).unwrap(), "whole\n");
    }

    #[test]
    fn the_logs_of_this_run_and_the_one_before_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        for run in 0..4 {
            LogFile::begin(folder.path(), run, LogLimits::default()).unwrap();
        }
        let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["2.log", "3.log"]);
    }

    #[test]
    fn last_words_are_the_end_of_the_log() {
        let line = |text: &str| format!("1970-01-01T00:00:00.000000000Z stderr F {text}\n");
        let many: String = (0..100).map(|number| line(&number.to_string())).collect();
        let rows = [
            ("nothing", String::new(), String::new()),
            ("a line", line("it broke"), "it broke\n".to_owned()),
            ("parts", line("b").replace(" F ", " P ") + &line("c"), "bc\n".to_owned()),
            ("at most eighty lines", many, (20..100).map(|number| format!("{number}\n")).collect()),
            ("at most 2048 bytes", line(&"é".repeat(2000)), "é".repeat(1023) + "\n"),
        ];
        for (what, log, words) in rows {
            assert_eq!(end_of(&log, false), words, "{what}");
        }
        assert_eq!(end_of(&("rest of a line\n".to_owned() + &line("whole")), true), "whole\n");
    }
}
