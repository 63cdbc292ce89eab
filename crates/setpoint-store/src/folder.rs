//! The folder of an embedded store: the version of what is in it, and its engine, which is replaced as a whole.
//!
//! | name | what it is |
//! | --- | --- |
//! | `format` | the version |
//! | `engine` | the engine's files; under this name only when they are complete |
//! | `engine.new` | files that are not complete yet |
//! | `engine.old` | files that have been replaced, or were about to be |

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::disk;
use crate::embedded::OpenError;

/// The newest version of the folder that this code reads, and the one it writes. Version 2 knows sealed values.
pub(crate) const FORMAT: u32 = 2;

#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Checks the folder's format and finishes or undoes what was cut short; or makes the folder, with an engine that
    /// `make` writes.
    pub(crate) fn prepare(path: &Path, make: impl FnOnce(&Path) -> Result<(), OpenError>) -> Result<Self, OpenError> {
        let folder = Self(path.to_owned());
        let (engine, old, new) = (folder.engine(), path.join("engine.old"), path.join("engine.new"));
        let found = folder.format(engine.exists() || old.exists())?;
        if found.is_none() {
            fs::create_dir_all(path)?;
        }
        // Whoever knows only the version before would read sealed values as plain ones.
        if found != Some(FORMAT) {
            disk::write(&path.join("format"), format!("{FORMAT}\n").as_bytes())?;
        }
        if !engine.exists() && old.exists() {
            disk::rename(&old, &engine)?;
        }
        for left_behind in [old, new] {
            if left_behind.exists() {
                disk::remove_folder(&left_behind)?;
            }
        }
        if !engine.exists() {
            folder.install(make)?;
        }
        Ok(folder)
    }

    pub(crate) fn engine(&self) -> PathBuf {
        self.0.join("engine")
    }

    /// Puts an engine that `make` writes in the place of the one that is there, of which no byte stays. Both are
    /// closed; `make` returns when what it wrote survives a loss of power. However this is cut short, the next start
    /// finds one of the two.
    pub(crate) fn replace_engine(&self, make: impl FnOnce(&Path) -> Result<(), OpenError>) -> Result<(), OpenError> {
        let old = self.0.join("engine.old");
        let new = self.0.join("engine.new");
        make(&new)?;
        disk::rename(&self.engine(), &old)?;
        disk::rename(&new, &self.engine())?;
        Ok(disk::remove_folder(&old)?)
    }

    /// The engine cannot finish its own half-made files, should the process end in between; so they are made aside.
    fn install(&self, make: impl FnOnce(&Path) -> Result<(), OpenError>) -> Result<(), OpenError> {
        let new = self.0.join("engine.new");
        make(&new)?;
        Ok(disk::rename(&new, &self.engine())?)
    }

    /// The version of what is in the folder, if anything is.
    fn format(&self, has_engine: bool) -> Result<Option<u32>, OpenError> {
        match fs::read_to_string(self.0.join("format")) {
            Ok(text) => match text.trim().parse::<u32>() {
                Ok(found) if found > FORMAT => Err(OpenError::Newer { found }),
                Ok(found) => Ok(Some(found)),
                Err(_) => Err(OpenError::Damaged("the file `format` holds no number".into())),
            },
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            Err(_) if has_engine => Err(OpenError::Damaged("the file `format` is missing".into())),
            Err(_) => Ok(None),
        }
    }
}
