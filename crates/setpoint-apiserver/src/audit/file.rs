//! A file that begins anew when it is large, and keeps some of those before it.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// When a file begins anew, and how many are kept: together the bound of what they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    pub bytes: u64,
    /// The one being written included.
    pub files: usize,
}

/// A file of lines. `audit.log` becomes `audit-<time>.log` when it is full.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    rotation: Rotation,
    /// `None` after a rotation that could not make the next file.
    file: Option<fs::File>,
    bytes: u64,
    /// Whether the end of the last line is still to come.
    within_line: bool,
}

impl File {
    /// Opens a file to add to it, and makes it and its folder, for its owner alone, if they are missing.
    pub fn open(path: impl Into<PathBuf>, rotation: Rotation) -> io::Result<File> {
        let path = path.into();
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            setpoint_store::make_folder(folder)?;
        }
        let mut file = File { path, rotation, file: None, bytes: 0, within_line: false };
        file.reopen()?;
        file.end_line()?;
        Ok(file)
    }

    fn reopen(&mut self) -> io::Result<&mut fs::File> {
        let file = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(&self.path)?;
        setpoint_store::keep_owner(&file, &self.path)?;
        self.bytes = file.metadata()?.len();
        Ok(self.file.insert(file))
    }

    /// A process that was killed may have left half a line.
    fn end_line(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_mut().filter(|_| self.bytes > 0) else { return Ok(()) };
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
            self.bytes += 1;
        }
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            file.sync_data()?;
        }
        let (stem, extension) = name(&self.path);
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%S%.6f");
        match fs::rename(&self.path, self.path.with_file_name(format!("{stem}-{time}{extension}"))) {
            // Moved already: by an attempt that could not make the next file, or by somebody else.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        self.reopen()?;
        let old = self.rotated()?;
        // Names sort by their times.
        for path in old.iter().rev().skip(self.rotation.files.saturating_sub(1)) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// The files before this one, the oldest first.
    fn rotated(&self) -> io::Result<Vec<PathBuf>> {
        let (stem, extension) = name(&self.path);
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let time = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.strip_prefix(&format!("{stem}-"))?.strip_suffix(&extension));
            let is_time = |time: &str| time.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'T' | b'.'));
            if time.is_some_and(|time| time.len() == 22 && is_time(time)) {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }
}

/// The two ends of a file's name: before and from its last dot.
fn name(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    (text(path.file_stem()), extension.unwrap_or_default())
}

impl Write for File {
    /// Writes as many whole lines as the file has room for, and at least one: a longer line has a file to itself. The rest
    /// of a line that the system took in part stays with its beginning.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let room = usize::try_from(self.rotation.bytes.saturating_sub(self.bytes)).unwrap_or(usize::MAX);
        let fitting = match lines.len() <= room {
            true => lines.len(),
            false => lines[..room].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1),
        };
        if fitting == 0 && self.bytes > 0 && !self.within_line {
            self.rotate()?;
            return self.write(lines);
        }
        let first = || lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |end| end + 1);
        let count = if fitting > 0 { fitting } else { first() };
        let file = match &mut self.file {
            Some(file) => file,
            None => self.reopen()?,
        };
        let written = file.write(&lines[..count])?;
        self.bytes += written as u64;
        self.within_line = lines[..written].last().map_or(self.within_line, |last| *last != b'\n');
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn all(file: &File) -> Vec<String> {
        let paths = file.rotated().expect("a folder").into_iter().chain([file.path.clone()]);
        paths.map(|path| fs::read_to_string(path).expect("a file")).collect()
    }

    #[test]
    fn a_file_is_rotated_between_lines_and_the_oldest_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit/audit.log");
        let rotation = Rotation { bytes: 10, files: 3 };
        let mut file = File::open(&path, rotation).expect("a file");
        fs::write(folder.path().join("audit/audit-notes.log"), "mine").expect("a file");
        file.write_all(b"one\ntwo\nthree\n").expect("room");
        assert_eq!(all(&file), ["one\ntwo\n", "three\n"]);
        file.write_all(b"a line that is longer\nfour\nfive\nsix\n").expect("room");
        assert_eq!(all(&file), ["a line that is longer\n", "four\nfive\n", "six\n"], "three files are kept");
        assert!(folder.path().join("audit/audit-notes.log").exists(), "what is not the log's is left alone");
        let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.path().join("audit"))), (0o600, 0o700));
    }

    #[test]
    fn a_file_goes_on_where_it_was_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        fs::write(&path, "one\nhalf a li").expect("a file");
        let mut file = File::open(&path, Rotation { bytes: 20, files: 2 }).expect("a file");
        file.write_all(b"two\n").expect("room");
        assert_eq!(all(&file), ["one\nhalf a li\ntwo\n"]);
        file.write_all(b"three\n").expect("room");
        assert_eq!(all(&file), ["one\nhalf a li\ntwo\n", "three\n"], "what was there counts");
    }

    #[test]
    fn a_line_that_was_taken_in_part_stays_in_one_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut file = File::open(folder.path().join("audit.log"), Rotation { bytes: 8, files: 3 }).expect("a file");
        assert_eq!(file.write(b"one\nhal").expect("room"), 7);
        file.write_all(b"f a line\ntwo\n").expect("room");
        assert_eq!(all(&file), ["one\nhalf a line\n", "two\n"]);
    }

    #[test]
    fn a_file_that_was_moved_away_begins_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        let mut file = File::open(&path, Rotation { bytes: 8, files: 2 }).expect("a file");
        file.write_all(b"one\ntwo\n").expect("room");
        // As after a rotation that could not make the next file.
        fs::rename(&path, folder.path().join("audit-moved.log")).expect("it is there");
        file.file = None;
        file.write_all(b"three\n").expect("a rotation that was begun can be ended");
        assert_eq!(all(&file), ["three\n"]);
    }

    #[test]
    fn a_folder_that_cannot_be_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("a file");
        assert!(File::open(file.join("audit.log"), Rotation { bytes: 10, files: 1 }).is_err());
    }
}
