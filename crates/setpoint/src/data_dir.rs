//! The folder that holds everything a control plane must not lose.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How long a child that was just forked may take to become a program of its own.
const BECOMING_A_PROGRAM: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

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
        let begun = Instant::now();
        let mut locked = lock.try_lock();
        // A child of one that was just killed has its lock until it has become another program.
        while matches!(locked, Err(fs::TryLockError::WouldBlock)) && begun.elapsed() < BECOMING_A_PROGRAM {
            #[expect(
                clippy::disallowed_methods,
                reason = "a lock does not tell when it is free, and nothing else runs yet"
            )]
            std::thread::sleep(LOOK_AGAIN);
            locked = lock.try_lock();
        }
        match locked {
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

    /// The content of a file that nobody but its owner may know; `None` if there is none.
    pub(crate) fn read_secret(&self, name: &str) -> Result<Option<String>> {
        let path = self.file(name);
        let shown = path.display();
        let read = || -> std::io::Result<(u32, String)> {
            let (mut file, mut text) = (File::open(&path)?, String::new());
            file.read_to_string(&mut text)?;
            Ok((file.metadata()?.mode(), text))
        };
        match read() {
            Ok((mode, _)) if mode & 0o077 != 0 => {
                bail!("{shown} is secret, but can be used by others than its owner; run `chmod 600 {shown}`")
            }
            Ok((_, text)) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {shown}")),
        }
    }

    /// Writes a file that only its owner may read. A reader sees the old content or the new, also after a crash.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<()> {
        let path = self.file(name);
        setpoint_store::write_private(&path, content.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))
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
        let left_behind = data.file("token.new");
        fs::write(&left_behind, "by a crash").expect("the folder is writable");
        fs::set_permissions(&left_behind, fs::Permissions::from_mode(0o644)).expect("the file is ours");
        data.write("token", "secret").expect("the folder is writable");
        let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!((mode(&data.file("token")), mode(&data.path)), (0o600, 0o700));
        assert_eq!(data.read("token").expect("readable").as_deref(), Some("secret"));
        assert_eq!(data.read("nothing").expect("absence is no error"), None);
    }

    #[test]
    fn a_secret_that_others_may_use_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = DataDir::open(&folder.path().join("data")).expect("nobody uses it");
        assert_eq!(data.read_secret("token").expect("absence is no error"), None);
        data.write("token", "secret").expect("the folder is writable");
        for (mode, is_read) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)] {
            fs::set_permissions(data.file("token"), fs::Permissions::from_mode(mode)).expect("the file is ours");
            match data.read_secret("token") {
                Ok(text) => assert!(is_read && text.as_deref() == Some("secret"), "{mode:o}"),
                Err(error) => {
                    assert!(!is_read && error.to_string().contains("run `chmod 600"), "{mode:o}: {error}")
                }
            }
        }
    }
}
