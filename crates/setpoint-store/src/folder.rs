//! The folder of an embedded store: the version of what is in it, and its engine, which is replaced as a whole.
//!
//! | name | what it is |
//! | --- | --- |
//! | `format` | the version; `new` until the rest is there |
//! | `acknowledged` | what must be in the engine's files |
//! | `engine` | the engine's files; under this name only when they are complete |
//! | `engine.new` | files that are not complete yet |
//! | `engine.old` | files that have been replaced, or were about to be |

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::acknowledged::Acknowledged;
use crate::disk;
use crate::embedded::OpenError;
use crate::journal;
use crate::state::State;

/// The newest version of the folder that this code reads, and the one it writes. Version 2 knows sealed values, version 3
/// what was acknowledged.
pub(crate) const FORMAT: u32 = 3;

/// The first version that knows sealed values.
const FIRST_SEALED: u32 = 2;

/// The first version that has the file [`ACKNOWLEDGED`].
pub(crate) const FIRST_ACKNOWLEDGED: u32 = 3;

pub(crate) const ACKNOWLEDGED: &str = "acknowledged";

/// What `format` says while the folder is being made for the first time.
const NEW: &str = "new";

/// What every engine has. Without one of these files it would open as an empty one, and remove what it has of the rest.
const ENGINE_FILES: [&str; 4] = ["version", "keyspaces/0/current", "keyspaces/1/current", "keyspaces/2/current"];

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The version that it was found with; what is made now has the newest.
    pub(crate) found: u32,
}

/// What lies in a folder.
enum Found {
    Nothing,
    /// It was being made for the first time, and nothing was acknowledged.
    Unfinished,
    Version(u32),
}

impl Folder {
    /// Checks the folder's format and finishes or undoes what was cut short; or makes the folder, with an engine that
    /// `make` writes. Nobody but its owner can read it then.
    pub(crate) fn prepare(path: &Path, make: impl FnOnce(&Path) -> Result<(), OpenError>) -> Result<Self, OpenError> {
        match Self::look(path)? {
            Found::Version(found) => {
                disk::make_private(path)?;
                // Whoever knows only the version before would read sealed values as plain ones.
                if found < FIRST_SEALED {
                    disk::write(&path.join("format"), format!("{FIRST_SEALED}\n").as_bytes())?;
                }
                Self::repair(path, found)
            }
            Found::Nothing | Found::Unfinished => Self::make(path, make),
        }
    }

    /// The folder, if a store was made there. What was cut short is finished or undone.
    pub(crate) fn existing(path: &Path) -> Result<Option<Self>, OpenError> {
        match Self::look(path)? {
            Found::Version(found) => Self::repair(path, found).map(Some),
            Found::Nothing | Found::Unfinished => Ok(None),
        }
    }

    fn make(path: &Path, make: impl FnOnce(&Path) -> Result<(), OpenError>) -> Result<Self, OpenError> {
        let folder = Self { path: path.to_owned(), found: FORMAT };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        disk::make_private(path)?;
        disk::write(&path.join("format"), format!("{NEW}\n").as_bytes())?;
        for left_behind in [folder.engine(), path.join("engine.new")] {
            disk::remove_folder(&left_behind)?;
        }
        folder.install(make)?;
        Acknowledged::of(&State::default()).write(path)?;
        folder.settle()?;
        Ok(folder)
    }

    /// Says that the folder has all that the newest version has.
    pub(crate) fn settle(&self) -> io::Result<()> {
        disk::write(&self.path.join("format"), format!("{FORMAT}\n").as_bytes())
    }

    fn repair(path: &Path, found: u32) -> Result<Self, OpenError> {
        let folder = Self { path: path.to_owned(), found };
        let (engine, old, new) = (folder.engine(), path.join("engine.old"), path.join("engine.new"));
        if !engine.exists() && old.exists() {
            disk::rename(&old, &engine)?;
        }
        folder.check_engine()?;
        for left_behind in [old, new] {
            if left_behind.exists() {
                disk::remove_folder(&left_behind)?;
            }
        }
        Ok(folder)
    }

    /// Sees that the engine has the files without which it would begin anew. This comes before it is opened: it removes
    /// tables that it takes for unfinished ones.
    fn check_engine(&self) -> Result<(), OpenError> {
        let engine = self.engine();
        if !engine.is_dir() {
            return Err(OpenError::Missing("the folder `engine` is missing".into()));
        }
        for name in ENGINE_FILES {
            let length = fs::metadata(engine.join(name)).map(|file| file.len());
            match length {
                Ok(0) => return Err(OpenError::Missing(format!("the file `engine/{name}` is empty"))),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(OpenError::Missing(format!("the file `engine/{name}` is missing")));
                }
                Err(error) => return Err(error.into()),
            }
        }
        match journal::exists(&engine)? {
            true => Ok(()),
            false => Err(OpenError::Missing("the journal (`engine/*.jnl`) is missing".into())),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn engine(&self) -> PathBuf {
        self.path.join("engine")
    }

    /// Puts an engine that `make` writes in the place of the one that is there, of which no byte stays. Both are
    /// closed; `make` returns when what it wrote survives a loss of power. However this is cut short, the next start
    /// finds one of the two.
    pub(crate) fn replace_engine(&self, make: impl FnOnce(&Path) -> Result<(), OpenError>) -> Result<(), OpenError> {
        let old = self.path.join("engine.old");
        let new = self.path.join("engine.new");
        make(&new)?;
        disk::rename(&self.engine(), &old)?;
        disk::rename(&new, &self.engine())?;
        Ok(disk::remove_folder(&old)?)
    }

    /// The engine cannot finish its own half-made files, should the process end in between; so they are made aside.
    fn install(&self, make: impl FnOnce(&Path) -> Result<(), OpenError>) -> Result<(), OpenError> {
        let new = self.path.join("engine.new");
        make(&new)?;
        Ok(disk::rename(&new, &self.engine())?)
    }

    fn look(path: &Path) -> Result<Found, OpenError> {
        match fs::read_to_string(path.join("format")) {
            Ok(text) if text.trim() == NEW => Ok(Found::Unfinished),
            Ok(text) => match text.trim().parse::<u32>() {
                Ok(found) if found > FORMAT => Err(OpenError::Newer { found }),
                Ok(found) => Ok(Found::Version(found)),
                Err(_) => Err(OpenError::Damaged("the file `format` holds no number".into())),
            },
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            Err(_) if ["engine", "engine.old", ACKNOWLEDGED].iter().any(|name| path.join(name).exists()) => {
                Err(OpenError::Missing("the file `format` is missing".into()))
            }
            Err(_) => Ok(Found::Nothing),
        }
    }
}
