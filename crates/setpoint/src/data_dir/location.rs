//! Where a command finds its data directory, and what it does where there is none.
//!
//! `setpoint up` makes one anywhere. Other commands make the default one if they act; where a directory was named, they
//! take a name that leads to none for a mistake.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::{DataDir, identity};

/// What may lie in a data directory.
const KNOWN: [&str; 16] = [
    identity::FILE,
    "admin.token",
    "audit",
    "ca.crt",
    "ca.key",
    "controllers",
    "environments",
    "kubeconfig",
    "lock",
    "lost+found",
    "pods",
    "secrets.key",
    "service-accounts.key",
    "store",
    "users.json",
    "users.lock",
];

/// Any of these makes a directory one of ours.
const MARKS: [&str; 4] = [identity::FILE, "store/format", "ca.key", "service-accounts.key"];

/// How many names are listed.
const LISTED: usize = 8;

/// A data directory by its path, which was named or is the default.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) path: PathBuf,
    is_named: bool,
}

/// What is at a path.
enum Found {
    DataDir,
    Nothing,
    /// A directory in which only what belongs into a data directory lies, if anything does.
    Unfinished(Vec<String>),
    /// Something else; the names in it, if it is a directory.
    Other(Vec<String>),
}

impl Location {
    /// The directory that an option names, or else the default.
    pub(crate) fn of(option: Option<&Path>) -> Result<Location> {
        Ok(match option {
            Some(path) => Location { path: path.to_owned(), is_named: true },
            None => Location { path: DataDir::default_path()?, is_named: false },
        })
    }

    /// Opens it to act there, and makes it if there is none.
    pub(crate) fn make(&self) -> Result<DataDir> {
        match self.find()? {
            Found::DataDir | Found::Nothing | Found::Unfinished(_) => DataDir::open(&self.path),
            Found::Other(names) => bail!(
                "{} is no data directory, and not empty ({}); name an empty or a new one with --data-dir",
                self.path.display(),
                listed(&names)
            ),
        }
    }

    /// Opens it to act there. Only the default one is made.
    pub(crate) fn open(&self) -> Result<DataDir> {
        if self.is_named {
            self.check()?;
        }
        self.make()
    }

    /// Opens it to look; `None` if it is the default and was never made.
    pub(crate) fn look(&self) -> Result<Option<DataDir>> {
        match self.find()? {
            Found::Nothing | Found::Unfinished(_) if !self.is_named => Ok(None),
            _ => {
                self.check()?;
                DataDir::open_to_look(&self.path).map(Some)
            }
        }
    }

    /// Sees that it is there, and a data directory.
    pub(crate) fn check(&self) -> Result<()> {
        let shown = self.path.display();
        let expected = format!("{}, store/ and secrets.key among others", identity::FILE);
        let remedy = format!("`setpoint up --data-dir {shown}` makes one there");
        match self.find()? {
            Found::DataDir => Ok(()),
            Found::Nothing => {
                let beside = self.path.parent().map(names_in).transpose()?.unwrap_or_default();
                let beside = match beside.is_empty() {
                    true => String::new(),
                    false => format!("; beside it there is {}", listed(&beside)),
                };
                bail!("there is no data directory {shown} (expected: {expected}){beside}; {remedy}")
            }
            Found::Unfinished(names) | Found::Other(names) => {
                let found = if names.is_empty() { "nothing".to_owned() } else { listed(&names) };
                bail!("{shown} is no data directory (expected: {expected}; found: {found}); {remedy}")
            }
        }
    }

    fn find(&self) -> Result<Found> {
        if MARKS.iter().any(|mark| self.path.join(mark).exists()) {
            return Ok(Found::DataDir);
        }
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(error).with_context(|| format!("cannot look at {}", self.path.display())),
            Ok(metadata) if !metadata.is_dir() => return Ok(Found::Other(vec!["a file".to_owned()])),
            Ok(_) => {}
        }
        let names = names_in(&self.path)?;
        let is_ours = names.iter().all(|name| KNOWN.contains(&name.as_str()));
        Ok(if is_ours { Found::Unfinished(names) } else { Found::Other(names) })
    }
}

fn names_in(folder: &Path) -> Result<Vec<String>> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            return Ok(Vec::new());
        }
        entries => entries.with_context(|| format!("cannot list {}", folder.display()))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn listed(names: &[String]) -> String {
    let first = names.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: PathBuf) -> Location {
        Location { path, is_named: true }
    }

    #[test]
    fn a_name_that_leads_to_no_data_directory_is_a_mistake() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let made = named(folder.path().join("production"));
        drop(made.make().expect("`up` makes it"));
        drop(made.open().expect("it is there"));
        drop(made.look().expect("it is there").expect("it is there"));
        let typo = named(folder.path().join("prodution"));
        let other = folder.path().join("other");
        fs::create_dir(&other).expect("the folder is writable");
        fs::write(other.join("letter.txt"), "").expect("the folder is writable");
        let rows = [
            ("a typo", &typo, "beside it there is other, production"),
            ("another folder", &named(other.clone()), "found: letter.txt"),
        ];
        for (row, location, word) in rows {
            for error in [location.open().err(), location.look().err(), location.check().err()] {
                let error = error.expect(row).to_string();
                assert!(error.contains(word) && error.contains("control-plane.json"), "{row}: {error}");
            }
        }
        assert!(!typo.path.exists());
        let error = named(other).make().expect_err("it would be closed to others").to_string();
        assert!(error.contains("not empty (letter.txt)"), "{error}");
    }

    #[test]
    fn the_default_is_made_by_who_acts_and_missed_by_nobody_who_looks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let location = Location { path: folder.path().join("setpoint"), is_named: false };
        assert!(location.look().expect("nothing is there yet").is_none());
        assert!(!location.path.exists());
        drop(location.open().expect("it is made"));
        assert!(location.look().expect("it is there").is_some());
    }
}
