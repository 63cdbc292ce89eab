//! Which values are sealed on disk, and with what. Memory holds all of them in plain.

use bytes::Bytes;

use crate::key::{KeyId, NoRandomness, Place};
use crate::key_file::{KeyFile, KeyFileError, Keys};
use crate::record::Kept;
use crate::scope;
use crate::store::Revision;

/// What a store seals.
#[derive(Debug, Clone)]
pub struct Sealing {
    /// The directories whose values are sealed, each with a slash at its end.
    pub directories: Vec<String>,
    /// Where the keys are. It is made when it is missing and no value needs it.
    pub key_file: KeyFile,
}

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(
        "the value of {key} is sealed with key {id}, which the key file {file} does not hold; restore the key file from a copy"
    )]
    UnknownKey { key: String, id: KeyId, file: String },
    #[error(
        "the value of {key} is sealed with key {id}, and the key file {file} is missing; restore the key file from a copy"
    )]
    NoKeyFile { key: String, id: KeyId, file: String },
    #[error("the value of {key} is sealed with key {id}, and no key file was named")]
    NoSealing { key: String, id: KeyId },
    #[error(
        "the value of {key} at revision {revision} is not what was sealed there with key {id}; restore a backup of the \
         data folder"
    )]
    Foreign { key: String, revision: Revision, id: KeyId },
    #[error(
        "the value of {key} at revision {revision} is in plain, and all of {directory} was sealed; restore a backup of \
         the data folder, or, if this is one from before, remove the line `sealed {directory}` from {file}"
    )]
    Plain { key: String, revision: Revision, directory: String, file: String },
    #[error("the sealed value of {key} at revision {revision} is cut short; restore a backup of the data folder")]
    Short { key: String, revision: Revision },
}

/// Seals what goes to disk, and opens what comes from there.
#[derive(Debug, Default)]
pub(crate) struct Sealer {
    sealing: Option<Sealing>,
    keys: Keys,
    /// Whether the keys are in their file, and not just made.
    saved: bool,
}

impl Sealer {
    /// Reads the keys, or makes one that is not in any file yet.
    pub(crate) fn new(sealing: Sealing) -> Result<Self, KeyFileError> {
        let (keys, saved) = match sealing.key_file.read()? {
            Some(keys) => (keys, true),
            None => (Keys::generate()?, false),
        };
        Ok(Self { sealing: Some(sealing), keys, saved })
    }

    /// Makes the key file, unless there is one. Comes before anything is sealed.
    pub(crate) fn save_keys(&mut self) -> Result<(), KeyFileError> {
        if let Some(sealing) = self.sealing.as_ref().filter(|_| !self.saved) {
            sealing.key_file.create(&self.keys)?;
            self.saved = true;
        }
        Ok(())
    }

    /// Has the key file say that nothing is in plain or under an old key any more. Comes when that is so, for good.
    pub(crate) fn settle(&self) -> Result<(), KeyFileError> {
        match (&self.sealing, self.keys.newest()) {
            (Some(sealing), Some(newest)) => sealing.key_file.settle(newest.id, &sealing.directories),
            _ => Ok(()),
        }
    }

    /// A value as it goes to disk.
    pub(crate) fn keep<'a>(&self, key: &str, value: &'a [u8], written: Revision) -> Result<Kept<'a>, NoRandomness> {
        let Some(sealing_key) = self.wanted(key).and_then(|id| self.keys.find(id)) else {
            return Ok(Kept { written, sealed: false, bytes: value.into() });
        };
        let sealed = sealing_key.seal(Place { key, written }, value)?;
        Ok(Kept { written, sealed: true, bytes: sealed.into() })
    }

    /// The value that lies on disk.
    pub(crate) fn open(&self, key: &str, kept: &Kept<'_>) -> Result<Bytes, SealError> {
        let revision = kept.written;
        if !kept.sealed {
            return match self.keys.sealed.iter().find(|directory| scope::covers(directory, key)) {
                Some(directory) => Err(self.plain(key, revision, directory)),
                None => Ok(Bytes::copy_from_slice(&kept.bytes)),
            };
        }
        let id = KeyId::of(&kept.bytes).ok_or_else(|| SealError::Short { key: key.into(), revision })?;
        let opener = self.keys.find(id).ok_or_else(|| self.unknown(key, id))?;
        let foreign = || SealError::Foreign { key: key.into(), revision, id };
        opener.open(Place { key, written: revision }, &kept.bytes).ok_or_else(foreign)
    }

    /// Whether a value lies on disk as it would if it were written now.
    pub(crate) fn is_current(&self, key: &str, kept: &Kept<'_>) -> bool {
        let found = kept.sealed.then(|| KeyId::of(&kept.bytes)).flatten();
        found == self.wanted(key)
    }

    /// The key that a value of this object is to be sealed with, if it is to be sealed.
    fn wanted(&self, key: &str) -> Option<KeyId> {
        let directories = &self.sealing.as_ref()?.directories;
        let covered = directories.iter().any(|directory| scope::covers(directory, key));
        self.keys.newest().filter(|_| covered).map(|newest| newest.id)
    }

    fn plain(&self, key: &str, revision: Revision, directory: &str) -> SealError {
        let file = self.sealing.as_ref().map(shown).unwrap_or_default();
        SealError::Plain { key: key.into(), revision, directory: directory.into(), file }
    }

    fn unknown(&self, key: &str, id: KeyId) -> SealError {
        let key = key.to_owned();
        match &self.sealing {
            None => SealError::NoSealing { key, id },
            Some(sealing) => {
                let file = shown(sealing);
                if self.saved {
                    SealError::UnknownKey { key, id, file }
                } else {
                    SealError::NoKeyFile { key, id, file }
                }
            }
        }
    }
}

fn shown(sealing: &Sealing) -> String {
    sealing.key_file.path().display().to_string()
}
