//! The folder that holds everything a control plane must not lose.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// A data folder that this process alone uses, or alone of its sort.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// Locked for as long as it is open; the kernel unlocks it however the process ends.
    _lock: File,
}

impl DataDir {
    /// Makes the folder if it is missing and locks it against a second process.
    pub(crate) fn open(path: &Path) -> Result<DataDir> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("cannot make the data folder {}", path.display()))?;
        let lock_path = path.join("lock");
        let lock = lock_file(&lock_path)?;
        match lock.try_lock() {
            Ok(()) => Ok(DataDir { path: path.to_owned(), _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => bail!(
                "the data folder {} is in use by another setpoint; stop that one or give this one its own with --data-dir",
                path.display()
            ),
            Err(fs::TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", lock_path.display()))
            }
        }
    }

    /// Opens a folder that a server may be using, and waits for others that have opened it with the same lock.
    pub(crate) fn open_beside_server(path: &Path, lock: &str) -> Result<DataDir> {
        if !path.is_dir() {
            bail!("there is no data folder {}; `setpoint up` makes it, and --data-dir names another", path.display());
        }
        let lock_path = path.join(lock);
        let lock = lock_file(&lock_path)?;
        lock.lock().with_context(|| format!("cannot lock {}", lock_path.display()))?;
        Ok(DataDir { path: path.to_owned(), _lock: lock })
    }

    /// The folder used when none is named: under the user's data home.
    pub(crate) fn default_path() -> Result<PathBuf> {
        let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = from("XDG_DATA_HOME").or_else(|| from("HOME").map(|home| home.join(".local/share")));
        match home {
            Some(home) => Ok(home.join("setpoint")),
            None => bail!("neither XDG_DATA_HOME nor HOME is set; name a data folder with --data-dir"),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The content of a file; `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<String>> {
        match fs::read_to_string(self.file(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", self.file(name).display())),
        }
    }

    /// Writes a file that only its owner may read. A reader sees the old content or the new, also after a crash.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<()> {
        let (path, temporary) = (self.file(name), self.file(&format!("{name}.new")));
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&temporary)?;
            file.write_all(content.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(&self.path)?.sync_all()
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

fn lock_file(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(false).write(true).mode(0o600);
    options.open(path).with_context(|| format!("cannot open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_is_for_one_process() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("data");
        let first = DataDir::open(&path).expect("nobody uses it");
        let error = DataDir::open(&path).expect_err("it is in use").to_string();
        assert!(error.contains("in use by another setpoint"), "{error}");
        drop(first);
        DataDir::open(&path).expect("it is free again");
    }

    #[test]
    fn only_the_owner_may_read_what_is_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = DataDir::open(&folder.path().join("data")).expect("nobody uses it");
        data.write("token", "secret").expect("the folder is writable");
        let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!((mode(&data.file("token")), mode(&data.path)), (0o600, 0o700));
        assert_eq!(data.read("token").expect("readable").as_deref(), Some("secret"));
        assert_eq!(data.read("nothing").expect("absence is no error"), None);
    }
}
