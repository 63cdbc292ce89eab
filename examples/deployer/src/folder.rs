//! The place: a folder with one file for each instance. What runs is what its file says.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A folder of instances. Several processes may use it at once.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

/// What a file says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    pub name: String,
    /// What we wrote on it; nothing if somebody else made it.
    pub mark: Option<EntryMark>,
    /// How long it takes to end when it is asked to; nothing if it does not end by itself.
    pub needs_ms: Option<i64>,
    pub ends_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryMark {
    pub cluster: Box<str>,
    pub owner_uid: Box<str>,
    pub intent: Option<Box<str>>,
    pub spec_digest: Option<Box<str>>,
}

impl Entry {
    pub fn runs(&self) -> bool {
        self.ends_at.is_none_or(|end| Timestamp::now() < end)
    }
}

impl Folder {
    pub fn at(path: &Path) -> Folder {
        Folder { path: path.to_owned() }
    }

    /// Every instance by its id.
    pub fn entries(&self) -> io::Result<BTreeMap<String, Entry>> {
        let mut entries = BTreeMap::new();
        for file in fs::read_dir(&self.path)? {
            let name = file?.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")) else { continue };
            if let Some(entry) = self.read(id)? {
                entries.insert(id.to_owned(), entry);
            }
        }
        Ok(entries)
    }

    pub fn read(&self, id: &str) -> io::Result<Option<Entry>> {
        match fs::read(self.file(id)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a file whole or not at all: whoever reads sees the old one or the new one.
    pub fn write(&self, id: &str, entry: &Entry) -> io::Result<()> {
        let new = self.path.join(format!("{id}.new"));
        fs::write(&new, serde_json::to_vec(entry)?)?;
        fs::rename(new, self.file(id))
    }

    pub fn remove(&self, id: &str) -> io::Result<()> {
        fs::remove_file(self.file(id))
    }

    /// Nobody else changes anything until this is dropped. It is beside the folder, so that taking it leaves no trace there.
    pub fn lock(&self) -> io::Result<File> {
        let lock = File::create(self.path.with_extension("lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    /// When something in the folder was last made, replaced or removed, by the file system's own account.
    pub fn changed_at(&self) -> io::Result<Timestamp> {
        let changed = fs::metadata(&self.path)?.modified()?;
        Timestamp::try_from(changed).map_err(io::Error::other)
    }

    fn file(&self, id: &str) -> PathBuf {
        self.path.join(format!("{id}.json"))
    }
}
