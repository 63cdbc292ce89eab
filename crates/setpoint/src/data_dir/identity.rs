//! Which control plane a data directory holds, and where it lives: the file `control-plane.json`.
//!
//! The file says on which machine, device and inode it lies itself. A directory that is renamed keeps the file; a copy, or
//! a backup that was unpacked, has another one. Two that act for the same guests would undo each other's work, so a copy
//! acts only once a person has said that it is the one that lives.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::token;

pub(crate) const FILE: &str = "control-plane.json";

/// The version of the file that this code writes, and the newest that it reads.
const FORMAT: u32 = 1;

const ID_LENGTH: usize = 32;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    pub(crate) format: u32,
    pub(crate) id: String,
    pub(crate) created: Timestamp,
    /// The uid of its namespace kube-system, with which it marks its guests, once there is one on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cluster: Option<String>,
    /// Whether there is a store in the directory.
    pub(crate) has_store: bool,
    pub(crate) home: Home,
    /// Where it lives instead, once a person has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) moved_to: Option<PathBuf>,
}

/// Where a data directory lies: the machine, and the file itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Home {
    /// A digest of the machine's id, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<String>,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) path: PathBuf,
    pub(crate) since: Timestamp,
}

/// What a directory is to the control plane that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Residence {
    /// It lives here.
    Here,
    /// It lives here, and the directory has another path or device number than before.
    Renamed,
    Copy(CopyOf),
    /// It was told to live elsewhere.
    GivenUp(PathBuf),
}

/// How a copy shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyOf {
    /// The original is on another machine.
    OtherMachine,
    /// The original is another file of this machine.
    OtherFile,
}

impl fmt::Display for CopyOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyOf::OtherMachine => "on another machine",
            CopyOf::OtherFile => "on this machine",
        })
    }
}

/// What a directory is, by where its control plane was last and where the file is now. Device numbers may change when a
/// machine starts, so one that differs alone says nothing.
pub(crate) fn residence(identity: &Identity, now: &Home) -> Residence {
    let last = &identity.home;
    let is_other_machine = matches!((&last.machine, &now.machine), (Some(last), Some(now)) if last != now);
    let (is_same_path, is_same_device) = (last.path == now.path, last.device == now.device);
    match &identity.moved_to {
        Some(to) => Residence::GivenUp(to.clone()),
        None if is_other_machine => Residence::Copy(CopyOf::OtherMachine),
        None if last.inode != now.inode => Residence::Copy(CopyOf::OtherFile),
        None if is_same_path && is_same_device => Residence::Here,
        None if is_same_path || is_same_device => Residence::Renamed,
        None => Residence::Copy(CopyOf::OtherFile),
    }
}

impl Identity {
    /// That of a directory which had none.
    pub(crate) fn new(folder: &Path, has_store: bool) -> Result<Identity> {
        let mut id = token::random();
        id.truncate(ID_LENGTH);
        let now = Timestamp::now();
        let home = Home { machine: None, device: 0, inode: 0, path: PathBuf::new(), since: now };
        let identity = Identity { format: FORMAT, id, created: now, cluster: None, has_store, home, moved_to: None };
        identity.settled(folder, now)
    }

    /// What a directory says; `None` if it says nothing.
    pub(crate) fn read(folder: &Path) -> Result<Option<Identity>> {
        let path = folder.join(FILE);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let shown = path.display();
        let identity: Identity = serde_json::from_slice(&text)
            .with_context(|| format!("{shown} is damaged; restore it, or say `setpoint data adopt` with --data-dir"))?;
        let format = identity.format;
        ensure!(
            format <= FORMAT,
            "{shown} has format {format}, and this setpoint reads up to {FORMAT}; use a newer one"
        );
        Ok(Some(identity))
    }

    /// Writes it down where it is.
    pub(crate) fn write(&self, folder: &Path) -> Result<Identity> {
        self.settled(folder, self.home.since)
    }

    /// Writes down that it lives in this directory, and since when.
    pub(crate) fn settled(&self, folder: &Path, since: Timestamp) -> Result<Identity> {
        let path = folder.join(FILE);
        self.write_to(folder, &path, since).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The file keeps its inode when it takes the place of the one before, so it can say which it has.
    fn write_to(&self, folder: &Path, path: &Path, since: Timestamp) -> io::Result<Identity> {
        let aside = folder.join(format!("{FILE}.new"));
        match fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        setpoint_store::keep_owner(&file, path)?;
        let home = Home { since, ..Home::of(&file, folder)? };
        let settled = Identity { home, ..self.clone() };
        file.write_all(serde_json::to_string_pretty(&settled)?.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&aside, path)?;
        File::open(folder)?.sync_all()?;
        Ok(settled)
    }

    /// Where the file is now.
    pub(crate) fn found(folder: &Path) -> Result<Home> {
        let path = folder.join(FILE);
        let found = File::open(&path).and_then(|file| Home::of(&file, folder));
        found.with_context(|| format!("cannot read {}", path.display()))
    }
}

impl Home {
    fn of(file: &File, folder: &Path) -> io::Result<Home> {
        let metadata = file.metadata()?;
        Ok(Home {
            machine: machine(),
            device: metadata.dev(),
            inode: metadata.ino(),
            path: fs::canonicalize(folder)?,
            since: Timestamp::now(),
        })
    }
}

/// What this machine is called here. Its id itself is told to nobody.
fn machine() -> Option<String> {
    let files = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    let id = files.iter().find_map(|file| fs::read_to_string(file).ok().filter(|id| !id.trim().is_empty()))?;
    let digest = Sha256::new().chain_update(b"setpoint").chain_update(id.trim()).finalize();
    Some(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(machine: Option<&str>, device: u64, inode: u64, path: &str) -> Home {
        let since = Timestamp::UNIX_EPOCH;
        Home { machine: machine.map(str::to_owned), device, inode, path: path.into(), since }
    }

    #[test]
    fn a_copy_is_told_from_a_directory_that_was_renamed() {
        let identity = |home: Home, moved_to: Option<&str>| Identity {
            format: FORMAT,
            id: "id".to_owned(),
            created: Timestamp::UNIX_EPOCH,
            cluster: None,
            has_store: true,
            home,
            moved_to: moved_to.map(PathBuf::from),
        };
        let last = || home(Some("m"), 1, 2, "/a");
        let rows = [
            ("nothing has changed", last(), None, last(), Residence::Here),
            ("renamed", last(), None, home(Some("m"), 1, 2, "/b"), Residence::Renamed),
            ("the machine was started anew", last(), None, home(Some("m"), 9, 2, "/a"), Residence::Renamed),
            ("copied beside it", last(), None, home(Some("m"), 1, 3, "/b"), Residence::Copy(CopyOf::OtherFile)),
            ("restored in its place", last(), None, home(Some("m"), 1, 3, "/a"), Residence::Copy(CopyOf::OtherFile)),
            ("a snapshot", last(), None, home(Some("m"), 9, 2, "/b"), Residence::Copy(CopyOf::OtherFile)),
            ("on another machine", last(), None, home(Some("n"), 1, 2, "/a"), Residence::Copy(CopyOf::OtherMachine)),
            ("a machine without an id", last(), None, home(None, 1, 2, "/a"), Residence::Here),
            ("it lives elsewhere", last(), Some("/c"), last(), Residence::GivenUp("/c".into())),
        ];
        for (row, last, moved_to, now, expected) in rows {
            assert_eq!(residence(&identity(last, moved_to), &now), expected, "{row}");
        }
    }

    #[test]
    fn what_is_written_says_where_it_lies() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(Identity::read(folder.path()).expect("absence is no error"), None);
        let made = Identity::new(folder.path(), false).expect("the folder is writable");
        assert_eq!(made.id.len(), ID_LENGTH);
        for identity in [made.clone(), made.write(folder.path()).expect("the folder is writable")] {
            let found = Identity::found(folder.path()).expect("it is there");
            let read = Identity::read(folder.path()).expect("readable").expect("it was written");
            assert_eq!((read.id.as_str(), residence(&read, &found)), (identity.id.as_str(), Residence::Here));
        }
        fs::write(folder.path().join(FILE), "{").expect("the folder is writable");
        let error = Identity::read(folder.path()).expect_err("it is damaged").to_string();
        assert!(error.contains("setpoint data adopt"), "{error}");
    }
}
