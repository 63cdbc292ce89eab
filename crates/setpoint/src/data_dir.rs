//! The folder that holds everything a control plane must not lose.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`identity`] | which control plane it is, and whether it lives here |
//! | [`location`] | where commands find it, and which of them make it |
//! | `modes` | what others may do with what lies in it |
//! | `ownership` | whose it is, where root works in the folder of a user |

pub(crate) mod identity;
pub(crate) mod location;
mod modes;
mod ownership;

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use parking_lot::Mutex;

use self::identity::{Identity, Residence, residence};
pub(crate) use self::location::Location;

/// How long a child that was just forked may take to become a program of its own.
const BECOMING_A_PROGRAM: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A data folder that this process alone uses, or alone of its sort.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// Locked for as long as it is open; the kernel unlocks it however the process ends.
    _lock: File,
    /// Who acts here, if anybody does, and that is known.
    identity: Mutex<Option<Identity>>,
}

/// Where the store lies.
pub(crate) const STORE: &str = "store";

impl DataDir {
    /// Makes the folder if it is missing, locks it against a second process, and sees that its control plane lives here.
    pub(crate) fn open(path: &Path) -> Result<DataDir> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("cannot make the data folder {}", path.display()))?;
        let data = DataDir::locked(path)?;
        let identity = data.claim()?;
        modes::close_to_others(path).with_context(|| format!("cannot close {} to others", path.display()))?;
        *data.identity.lock() = identity;
        Ok(data)
    }

    /// Opens a folder that is there, only to look. It may be a copy.
    pub(crate) fn open_to_look(path: &Path) -> Result<DataDir> {
        DataDir::locked(path)
    }

    fn locked(path: &Path) -> Result<DataDir> {
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
            Ok(()) => Ok(DataDir { path: path.to_owned(), _lock: lock, identity: Mutex::new(None) }),
            Err(fs::TryLockError::WouldBlock) => bail!(
                "the data folder {} is in use by another setpoint; stop that one or give this one its own with --data-dir",
                path.display()
            ),
            Err(fs::TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", lock_path.display()))
            }
        }
    }

    /// Sees that the control plane of this folder lives here. One that is new is given an id. One of a former version is not,
    /// until it is known what its store holds.
    fn claim(&self) -> Result<Option<Identity>> {
        let shown = self.path.display();
        let Some(identity) = Identity::read(&self.path)? else {
            ensure!(
                !self.knows_what_it_acknowledged(),
                "{shown} is not whole: {} is missing. Restore the whole directory from one backup; or, if nothing else \
                 acts for its guests, say `setpoint data adopt --data-dir {shown}`",
                identity::FILE
            );
            return match self.holds_store() {
                true => Ok(None),
                false => Identity::new(&self.path, self.had_store()).map(Some),
            };
        };
        match residence(&identity, &Identity::found(&self.path)?) {
            Residence::Here => Ok(Some(identity)),
            Residence::Renamed => {
                tracing::info!(from = %identity.home.path.display(), to = %shown, "the data folder has another path or device");
                identity.write(&self.path).map(Some)
            }
            away => bail!(self.refusal(&identity, &away)),
        }
    }

    /// Why nobody acts here.
    fn refusal(&self, identity: &Identity, away: &Residence) -> String {
        let (shown, id) = (self.path.display(), &identity.id);
        let (lives, since) = (identity.home.path.display(), identity.home.since);
        let what = match away {
            Residence::GivenUp(to) => format!("control plane {id} was told to live in {} instead", to.display()),
            Residence::Copy(copy) => {
                format!("it is a copy of control plane {id}, which has lived in {lives} {copy} since {since}")
            }
            Residence::Here | Residence::Renamed => format!("control plane {id} lives here"),
        };
        format!(
            "nothing acts on {shown}: {what}. Two that act for the same guests undo each other's work. If the other one is \
             gone for good, say `setpoint data adopt --data-dir {shown}`; looking (`setpoint status`, `drift`, `plan`) is \
             possible meanwhile"
        )
    }

    /// What the directory is to its control plane; `None` where none has an id.
    pub(crate) fn residence_of(path: &Path) -> Result<Option<Residence>> {
        match Identity::read(path)? {
            Some(identity) => Ok(Some(residence(&identity, &Identity::found(path)?))),
            None => Ok(None),
        }
    }

    /// Makes this folder the one in which its control plane lives, whatever it was. The one in which it lived before, if it
    /// can be reached from here, is told so. Returns the identity as it was, if there was one, and as it is.
    pub(crate) fn adopt(path: &Path) -> Result<(Option<Identity>, Identity)> {
        let data = DataDir::locked(path)?;
        let before = Identity::read(path).ok().flatten();
        let identity = match &before {
            None => Identity::new(path, data.had_store())?,
            Some(identity) => {
                let _original = give_up(identity, path)?;
                Identity { moved_to: None, ..identity.clone() }.settled(path, Timestamp::now())?
            }
        };
        Ok((before, identity))
    }

    /// Whether a former version wrote the store, which gave no ids: then this may be a backup of a folder that lives elsewhere.
    pub(crate) fn is_of_former_version(&self) -> bool {
        self.identity.lock().is_none()
    }

    /// Gives an id to the folder of a former version, by what its store holds. One that holds Environments may act for guests
    /// for which another one acts, so a person has to say which one lives.
    pub(crate) fn settle(&self, holds_environments: bool) -> Result<()> {
        let shown = self.path.display();
        ensure!(
            !holds_environments,
            "nothing acts on {shown}: a former version wrote it, and it does not say that its control plane lives here, so it \
             may be a copy or a restored backup. Two that act for the same guests undo each other's work. If nothing else acts \
             for them, say `setpoint data adopt --data-dir {shown}` once; looking (`setpoint status`, `drift`, `plan`) is \
             possible meanwhile"
        );
        *self.identity.lock() = Some(Identity::new(&self.path, self.had_store())?);
        Ok(())
    }

    /// Sees that the store is there that was, before one is opened.
    pub(crate) fn check_store(&self) -> Result<()> {
        let had_store = self.identity.lock().as_ref().is_some_and(|identity| identity.has_store);
        ensure!(
            !had_store || self.holds_store(),
            "the store of the control plane in {} is missing; restore the whole directory from one backup",
            self.path.display()
        );
        Ok(())
    }

    /// Notes that there is a store now, and whose. Another control plane's is refused.
    pub(crate) fn note_store(&self, cluster: &str) -> Result<()> {
        let mut identity = self.identity.lock();
        let Some(present) = identity.as_ref() else { return Ok(()) };
        match &present.cluster {
            Some(known) if known != cluster => bail!(
                "the store in {} is that of control plane {cluster}, and the rest is {known}'s; restore the whole directory \
                 from one backup",
                self.path.display()
            ),
            Some(_) if present.has_store => Ok(()),
            _ => {
                let noted = Identity { cluster: Some(cluster.to_owned()), has_store: true, ..present.clone() };
                *identity = Some(noted.write(&self.path)?);
                Ok(())
            }
        }
    }

    /// Whether a store was ever made here, as far as a folder of a former version shows it.
    fn had_store(&self) -> bool {
        self.holds_store() || self.file("secrets.key").exists()
    }

    fn holds_store(&self) -> bool {
        ["store/format", "store/engine"].iter().any(|name| self.file(name).exists())
    }

    /// Whether the store was written by a version that gives each directory an id.
    fn knows_what_it_acknowledged(&self) -> bool {
        self.file("store/acknowledged").exists()
    }

    /// Lets users of Pods pass through to where Pods are, as only root can run them.
    pub(crate) fn let_pods_pass(&self) -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        modes::open_passage(&self.path)
            .with_context(|| format!("cannot let users of Pods pass through {}", self.path.display()))
    }

    /// Opens a folder that a server may be using, and waits for others that have opened it with the same lock.
    pub(crate) fn open_beside_server(path: &Path, lock: &str) -> Result<DataDir> {
        let lock_path = path.join(lock);
        let lock = lock_file(&lock_path)?;
        lock.lock().with_context(|| format!("cannot lock {}", lock_path.display()))?;
        Ok(DataDir { path: path.to_owned(), _lock: lock, identity: Mutex::new(None) })
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

    pub(crate) fn path(&self) -> &Path {
        &self.path
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

impl Drop for DataDir {
    fn drop(&mut self) {
        // What root's engine and providers made would keep the user from opening it whose folder it is.
        for name in [STORE, "environments", "pods"] {
            if let Err(error) = ownership::give(&self.path, name) {
                tracing::warn!(%error, folder = name, "its owner may not be able to read all of the data folder");
            }
        }
    }
}

/// Tells the directory in which a control plane lived that it lives in another, if it is there and is that one. It is kept
/// locked meanwhile: who acts there is to be stopped first.
fn give_up(identity: &Identity, to: &Path) -> Result<Option<DataDir>> {
    let original = &identity.home.path;
    let Ok(to) = fs::canonicalize(to) else { return Ok(None) };
    let is_it = |found: &Identity| found.id == identity.id && found.moved_to.is_none();
    if *original == to || !Identity::read(original).ok().flatten().is_some_and(|found| is_it(&found)) {
        return Ok(None);
    }
    let data = DataDir::locked(original)?;
    if let Some(found) = Identity::read(original)?.filter(is_it) {
        Identity { moved_to: Some(to), ..found }.write(original)?;
    }
    Ok(Some(data))
}

fn lock_file(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(false).write(true).mode(0o600);
    let opened = options.open(path).and_then(|file| setpoint_store::keep_owner(&file, path).map(|()| file));
    opened.with_context(|| format!("cannot open {}", path.display()))
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
    fn a_copy_is_opened_to_look_and_acts_only_once_it_was_adopted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
        drop(DataDir::open(&original).expect("nobody uses it"));
        fs::create_dir(&copy).expect("the folder is writable");
        fs::copy(original.join(identity::FILE), copy.join(identity::FILE)).expect("it is there");
        let error = DataDir::open(&copy).expect_err("it is a copy").to_string();
        for word in ["is a copy of control plane", "original on this machine since", "setpoint data adopt --data-dir"] {
            assert!(error.contains(word), "{error}");
        }
        drop(DataDir::open_to_look(&copy).expect("who looks does no harm"));
        let held = DataDir::open(&original).expect("it still lives here");
        DataDir::adopt(&copy).expect_err("the original acts");
        drop(held);
        DataDir::adopt(&copy).expect("a person says so");
        drop(DataDir::open(&copy).expect("it lives here now"));
        let error = DataDir::open(&original).expect_err("it was given up").to_string();
        assert!(error.contains("was told to live in"), "{error}");
        let renamed = folder.path().join("renamed");
        fs::rename(&copy, &renamed).expect("the folder is writable");
        drop(DataDir::open(&renamed).expect("it was only renamed"));
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
