//! The file that holds the keys of sealed values: a line for each, newest first, as its id and the key in Base64.
//!
//! The newest key seals, all of them open. A rotation adds a key; when the store is opened next, it seals everything
//! with the newest and then drops the others. So a rotation can be cut short anywhere, and needs nobody to be stopped.
//!
//! Lines that begin with `sealed` name the directories in which nothing is in plain any more. That is said here and not
//! in the store, where whoever can write a plain value could say otherwise.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::disk;
use crate::key::{KEY_BYTES, Key, KeyId, NoRandomness};

/// How many keys may wait for the next start.
const MOST_KEYS: usize = 64;

/// More than the most keys take.
const MOST_BYTES: u64 = 16 << 10;

const HEADING: &str =
    "# The keys of the sealed values in this data folder. Without them the values are lost: keep a copy elsewhere.\n";

#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("there is no key file {0}; it is made when the server is first started")]
    Missing(PathBuf),
    #[error(
        "the key file {path} may be used by others than its owner (mode {mode:03o}); run `chmod 600 {path}`, and rotate \
         the keys if others may have read it",
        path = path.display()
    )]
    Open { path: PathBuf, mode: u32 },
    #[error("the key file {path} is damaged in line {line}; restore it from a copy", path = path.display())]
    Damaged { path: PathBuf, line: usize },
    #[error("the key file {0} holds no key; restore it from a copy")]
    Empty(PathBuf),
    #[error("the key file {0} is larger than a key file can be; restore it from a copy")]
    Large(PathBuf),
    #[error("the key file {0} holds {MOST_KEYS} keys, which is the most; start the server, which drops the old ones")]
    Full(PathBuf),
    #[error("the key file {path} cannot be read or written", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Random(#[from] NoRandomness),
}

/// Begins the line of a directory in which everything is sealed.
const SEALED: &str = "sealed ";

/// What a key file says.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// The keys that open, of which the first seals.
    keys: Vec<Key>,
    /// The directories in which everything is sealed.
    pub sealed: Vec<String>,
}

impl Keys {
    /// A single new key.
    pub(crate) fn generate() -> Result<Self, NoRandomness> {
        Ok(Self { keys: vec![Key::generate()?], sealed: Vec::new() })
    }

    pub(crate) fn newest(&self) -> Option<&Key> {
        self.keys.first()
    }

    pub(crate) fn find(&self, id: KeyId) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }
}

/// A place for a key file.
#[derive(Debug, Clone)]
pub struct KeyFile(PathBuf);

impl KeyFile {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Adds a new key, which seals everything from the next start on. The file may be in use.
    pub fn rotate(&self) -> Result<KeyId, KeyFileError> {
        let _lock = self.lock()?;
        let mut keys = self.read()?.ok_or_else(|| KeyFileError::Missing(self.0.clone()))?;
        if keys.keys.len() >= MOST_KEYS {
            return Err(KeyFileError::Full(self.0.clone()));
        }
        let key = Key::generate()?;
        let id = key.id;
        keys.keys.insert(0, key);
        self.write(&keys)?;
        Ok(id)
    }

    /// The keys, if there is a file.
    pub(crate) fn read(&self) -> Result<Option<Keys>, KeyFileError> {
        let mut file = match File::open(&self.0) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(error)),
        };
        let mode = file.metadata().map_err(|error| self.failed(error))?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyFileError::Open { path: self.0.clone(), mode });
        }
        let mut text = Zeroizing::new(String::with_capacity(MOST_BYTES as usize + 1));
        let read = file.by_ref().take(MOST_BYTES + 1).read_to_string(&mut text);
        match read {
            Ok(length) if length as u64 > MOST_BYTES => Err(KeyFileError::Large(self.0.clone())),
            Ok(_) => self.parse(&text).map(Some),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Writes keys to a file that is not there yet.
    pub(crate) fn create(&self, keys: &Keys) -> Result<(), KeyFileError> {
        let _lock = self.lock()?;
        self.write(keys)
    }

    /// Says that everything in some directories, and nothing else, is sealed with a key. Older keys are dropped; newer
    /// ones may have come meanwhile.
    pub(crate) fn settle(&self, newest: KeyId, directories: &[String]) -> Result<(), KeyFileError> {
        let _lock = self.lock()?;
        let Some(mut keys) = self.read()? else { return Ok(()) };
        let Some(index) = keys.keys.iter().position(|key| key.id == newest) else { return Ok(()) };
        let old = keys.keys.split_off(index + 1);
        if old.is_empty() && keys.sealed == directories {
            return Ok(());
        }
        keys.sealed = directories.to_vec();
        self.write(&keys)?;
        tracing::info!(key = %newest, dropped = old.len(), "everything that is to be sealed is under the newest key");
        Ok(())
    }

    /// Keeps others from changing the file until it is dropped; readers need no lock.
    fn lock(&self) -> Result<File, KeyFileError> {
        let lock = || {
            let folder = File::open(disk::folder_of(&self.0))?;
            folder.lock()?;
            Ok(folder)
        };
        lock().map_err(|error: io::Error| match error.kind() {
            ErrorKind::NotFound => KeyFileError::Missing(self.0.clone()),
            _ => self.failed(error),
        })
    }

    fn parse(&self, text: &str) -> Result<Keys, KeyFileError> {
        let mut found = Keys::default();
        for (number, line) in text.lines().enumerate() {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            if let Some(directory) = line.strip_prefix(SEALED) {
                found.sealed.push(directory.to_owned());
                continue;
            }
            let damaged = || KeyFileError::Damaged { path: self.0.clone(), line: number + 1 };
            found.keys.push(parse_line(line).ok_or_else(damaged)?);
        }
        match found.keys.len() {
            0 => Err(KeyFileError::Empty(self.0.clone())),
            1..=MOST_KEYS => Ok(found),
            _ => Err(KeyFileError::Large(self.0.clone())),
        }
    }

    fn write(&self, content: &Keys) -> Result<(), KeyFileError> {
        let mut text = Zeroizing::new(String::with_capacity(MOST_BYTES as usize));
        text.push_str(HEADING);
        for directory in &content.sealed {
            text.extend([SEALED, directory, "\n"]);
        }
        for key in &content.keys {
            text.extend([&*key.id.to_string(), " "]);
            STANDARD.encode_string(key.reveal(), &mut text);
            text.push('\n');
        }
        disk::write(&self.0, text.as_bytes()).map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> KeyFileError {
        KeyFileError::File { path: self.0.clone(), source }
    }
}

fn parse_line(line: &str) -> Option<Key> {
    let (id, key) = line.trim().split_once(' ')?;
    let bytes = Zeroizing::new(STANDARD.decode(key).ok()?);
    let key = Key::new(Zeroizing::new(<[u8; KEY_BYTES]>::try_from(&bytes[..]).ok()?));
    (key.id.to_string() == id).then_some(key)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    fn file() -> (tempfile::TempDir, KeyFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("secrets.key"));
        (folder, file)
    }

    fn ids(keys: &Keys) -> Vec<KeyId> {
        keys.keys.iter().map(|key| key.id).collect()
    }

    #[test]
    fn a_rotation_adds_a_key_and_older_ones_can_go() {
        let (_folder, file) = file();
        assert!(file.read().unwrap().is_none());
        let first = Keys::generate().unwrap();
        file.create(&first).unwrap();
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
        let first = first.newest().unwrap().id;
        let second = file.rotate().unwrap();
        let third = file.rotate().unwrap();
        assert_eq!(ids(&file.read().unwrap().unwrap()), [third, second, first]);
        let directories = ["/secrets/".to_owned()];
        file.settle(second, &directories).unwrap();
        let settled = file.read().unwrap().unwrap();
        assert_eq!(ids(&settled), [third, second], "a key that came meanwhile stays");
        assert_eq!(settled.sealed, directories);
        file.settle(first, &[]).unwrap();
        let settled = file.read().unwrap().unwrap();
        assert_eq!((ids(&settled), &settled.sealed[..]), (vec![third, second], &directories[..]), "that key is gone");
        let fourth = file.rotate().unwrap();
        let rotated = file.read().unwrap().unwrap();
        assert_eq!((ids(&rotated), &rotated.sealed[..]), (vec![fourth, third, second], &directories[..]));
    }

    #[test]
    fn a_full_file_waits_for_a_start() {
        let (_folder, file) = file();
        file.create(&Keys::generate().unwrap()).unwrap();
        for _ in 1..MOST_KEYS {
            file.rotate().unwrap();
        }
        assert!(matches!(file.rotate(), Err(KeyFileError::Full(_))));
        assert_eq!(file.read().unwrap().unwrap().keys.len(), MOST_KEYS);
    }

    #[test]
    fn a_file_that_is_not_sound_is_refused() {
        let (_folder, file) = file();
        assert!(matches!(file.rotate(), Err(KeyFileError::Missing(_))));
        assert!(matches!(KeyFile::at("/no/such/folder/key").rotate(), Err(KeyFileError::Missing(_))));
        file.create(&Keys::generate().unwrap()).unwrap();
        let sound = fs::read_to_string(file.path()).unwrap();
        let line = sound.lines().last().unwrap();
        for (name, text, message) in [
            ("empty", String::new(), "holds no key"),
            ("only the heading", HEADING.to_owned(), "holds no key"),
            ("a letter less", line[..line.len() - 2].to_owned(), "line 1"),
            ("another id", format!("{HEADING}\n{}", line.replacen(&line[..1], "x", 1)), "line 3"),
            ("no id", line[17..].to_owned(), "line 1"),
            ("a short key", "0011223344556677 AAAA".to_owned(), "line 1"),
            ("too many keys", format!("{line}\n").repeat(MOST_KEYS + 1), "larger"),
            ("no end", "#".repeat(MOST_BYTES as usize + 1), "larger"),
        ] {
            fs::write(file.path(), text).unwrap();
            let error = file.read().unwrap_err().to_string();
            assert!(error.contains(message) && error.contains("restore it from a copy"), "{name}: {error}");
            assert!(!error.contains(&line[17..]), "{name}: {error}");
        }
    }

    #[test]
    fn a_file_that_others_may_use_is_refused() {
        let (_folder, file) = file();
        file.create(&Keys::generate().unwrap()).unwrap();
        for (mode, refused) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o620, true)] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            match file.read() {
                Ok(_) => assert!(!refused, "{mode:o}"),
                Err(error) => {
                    assert!(refused, "{mode:o}: {error}");
                    let advice = format!("chmod 600 {}", file.path().display());
                    assert!(error.to_string().contains(&advice), "{error}");
                }
            }
        }
    }
}
