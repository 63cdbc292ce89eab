//! The files of one run of a container: the one that is written, and older ones that were put aside.
//!
//! They are renamed while they are read. A file is therefore known by what it is, not by what it is called.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::process::beneath;

/// There are never more files of one run.
const MAX_FILES: u32 = 64;

/// A file of a log, open.
#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) file: File,
    identity: (u64, u64),
}

/// The files of one run.
#[derive(Debug, Clone)]
pub(super) struct RunFiles {
    present: PathBuf,
}

impl RunFiles {
    pub(super) fn new(folder: &Path, run: u32) -> RunFiles {
        RunFiles { present: folder.join(format!("{run}.log")) }
    }

    /// All that there are, oldest first. They are opened from the newest on: one that is put aside meanwhile is met again
    /// under its new name, and none is missed.
    pub(super) fn open(&self) -> io::Result<Vec<LogFile>> {
        let mut files: Vec<LogFile> = Vec::new();
        for number in 0..MAX_FILES {
            match LogFile::open(&self.name(number))? {
                Some(file) if files.iter().any(|other| other.identity == file.identity) => {}
                Some(file) => files.push(file),
                // While files are put aside, the newest may not be there for a moment.
                None if number == 0 => {}
                None => break,
            }
        }
        files.reverse();
        Ok(files)
    }

    /// Those that came after this one, oldest first. If it is not there any more, that is all of them.
    pub(super) fn after(&self, last: &LogFile) -> io::Result<Vec<LogFile>> {
        let mut files = self.open()?;
        if let Some(at) = files.iter().position(|file| file.identity == last.identity) {
            files.drain(..=at);
        }
        Ok(files)
    }

    /// Whether this is still the file that is written.
    pub(super) fn is_present(&self, file: &LogFile) -> bool {
        std::fs::metadata(&self.present).is_ok_and(|found| (found.dev(), found.ino()) == file.identity)
    }

    fn name(&self, number: u32) -> PathBuf {
        match number {
            0 => self.present.clone(),
            number => self.present.with_extension(format!("log.{number}")),
        }
    }
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Option<LogFile>> {
        let file = match beneath::open(path, 1) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let metadata = file.metadata()?;
        Ok(Some(LogFile { file, identity: (metadata.dev(), metadata.ino()) }))
    }

    /// Whether all in it was written before this time.
    pub(super) fn is_before(&self, time: Timestamp) -> bool {
        let written = self.file.metadata().and_then(|metadata| metadata.modified()).ok();
        written.and_then(|at| Timestamp::try_from(at).ok()).is_some_and(|at| at < time)
    }
}
