//! A store in a folder of this machine, on the fjall engine.

use std::io;
use std::path::Path;
use std::time::Instant;

use fjall::PersistMode;

use crate::acknowledged::{Acknowledged, AcknowledgedFile};
use crate::engine::{Batch, Engine};
use crate::folder::{ACKNOWLEDGED, FIRST_ACKNOWLEDGED, FORMAT, Folder};
use crate::journal;
use crate::key::NoRandomness;
use crate::key_file::KeyFileError;
use crate::loading::{Loaded, load};
use crate::options::Options;
use crate::record::{self, Replaced};
use crate::resident::Resident;
use crate::sealing::{SealError, Sealer, Sealing};
use crate::state::State;
use crate::tables::Tables;

/// A durable store in a folder. Reads come from memory, which holds all values.
pub type EmbeddedStore = Resident<Fjall>;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the data folder was written by format {found}, this binary reads up to {FORMAT}; use the newer binary or \
         restore a backup"
    )]
    Newer { found: u32 },
    #[error("the data folder is damaged: {0}; restore a backup")]
    Damaged(String),
    #[error("the store is not whole: {0}; restore the whole folder from one backup")]
    Missing(String),
    #[error("the data folder cannot be read or written")]
    Folder(#[from] io::Error),
    #[error("the storage engine cannot open its files")]
    Engine(#[from] fjall::Error),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    #[error(transparent)]
    Random(#[from] NoRandomness),
}

impl EmbeddedStore {
    /// Opens the store in a folder, and creates both if they are missing.
    ///
    /// One process at a time: the caller holds a lock on the folder for as long as the store lives.
    pub fn open(folder: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        Self::open_with(folder.as_ref(), options, Sealer::default())
    }

    /// Opens a store that seals some of its values on disk.
    ///
    /// Values that are there in plain or under an old key are sealed with the newest before it returns, and the old
    /// keys are dropped: that takes as long as writing the whole store, and as much room.
    pub fn open_sealed(folder: impl AsRef<Path>, options: Options, sealing: Sealing) -> Result<Self, OpenError> {
        Self::open_with(folder.as_ref(), options, Sealer::new(sealing)?)
    }

    fn open_with(folder: &Path, options: Options, mut sealer: Sealer) -> Result<Self, OpenError> {
        let started = Instant::now();
        let folder = Folder::prepare(folder, |aside| Ok(Tables::open(aside).map(drop)?))?;
        let mut tables = journal::open(&folder.engine(), Tables::open)?;
        let Loaded { mut state, stale } = load(&tables, &sealer)?;
        check(&folder, &state)?;
        sealer.save_keys()?;
        if stale > 0 {
            tracing::info!(values = stale, "sealing what is plain or under an old key");
            drop(tables);
            folder.replace_engine(|aside| write(&Tables::open(aside)?, &sealer, state))?;
            tables = journal::open(&folder.engine(), Tables::open)?;
            let again = load(&tables, &sealer)?;
            assert_eq!(again.stale, 0, "what was written just now is under the newest key");
            state = again.state;
        }
        sealer.settle()?;
        let acknowledged = acknowledge(&folder, &state)?;
        let (revision, oldest, keys) = (state.revision(), state.history.oldest(), state.len());
        tracing::info!(revision, oldest, keys, elapsed = ?started.elapsed(), "store opened");
        Ok(Self::start(Fjall { tables, sealer, acknowledged }, state, options)?)
    }
}

/// What the store in a folder holds; `None` if there is none. Nothing is sealed anew and no key is made.
pub(crate) fn read(folder: &Path, sealing: Sealing) -> Result<Option<State>, OpenError> {
    let sealer = Sealer::new(sealing)?;
    let Some(folder) = Folder::existing(folder)? else { return Ok(None) };
    let tables = journal::open(&folder.engine(), Tables::open)?;
    let loaded = load(&tables, &sealer)?;
    check(&folder, &loaded.state)?;
    Ok(Some(loaded.state))
}

/// Sees that everything is there that was acknowledged.
fn check(folder: &Folder, state: &State) -> Result<(), OpenError> {
    match folder.found >= FIRST_ACKNOWLEDGED {
        true => Acknowledged::read(folder.path())?.check(state),
        false => Ok(()),
    }
}

/// Opens the file that says what is acknowledged from now on. A folder of before gets one.
fn acknowledge(folder: &Folder, state: &State) -> Result<AcknowledgedFile, OpenError> {
    let acknowledged = Acknowledged::of(state);
    if folder.found < FIRST_ACKNOWLEDGED {
        acknowledged.write(folder.path())?;
        folder.settle()?;
    }
    Ok(AcknowledgedFile::open(folder.path(), acknowledged)?)
}

/// How many records of a whole state are written at once.
const RECORDS: usize = 1024;

/// Writes a whole state to tables that are empty, and returns when it survives a loss of power.
fn write(tables: &Tables, sealer: &Sealer, state: State) -> Result<(), OpenError> {
    let mut batch = tables.database.batch();
    for (key, (value, written)) in state.iter() {
        let kept = sealer.keep(key, value, *written)?;
        batch.insert(&tables.objects, key.as_bytes(), record::encode_object(&kept));
        if batch.len() == RECORDS {
            std::mem::replace(&mut batch, tables.database.batch()).commit()?;
        }
    }
    let history = &state.history;
    batch.insert(&tables.history, record::HORIZON, history.oldest().to_be_bytes());
    for revision in history.oldest() + 1..=history.newest() {
        let key = history.key(revision);
        let previous = history.ended_by(key, revision);
        let previous = previous.map(|version| sealer.keep(key, &version.value, version.written)).transpose()?;
        let replaced = Replaced { time_s: history.time_s(revision), key, previous };
        batch.insert(&tables.history, revision.to_be_bytes(), record::encode_replaced(&replaced));
        if batch.len() >= RECORDS {
            std::mem::replace(&mut batch, tables.database.batch()).commit()?;
        }
    }
    batch.commit()?;
    Ok(tables.database.persist(PersistMode::SyncAll)?)
}

/// The engine of the embedded store.
pub struct Fjall {
    tables: Tables,
    sealer: Sealer,
    acknowledged: AcknowledgedFile,
}

impl std::fmt::Debug for Fjall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fjall").finish_non_exhaustive()
    }
}

impl Engine for Fjall {
    fn persist(&mut self, batch: Batch<'_>) -> Result<(), String> {
        let Tables { database, objects, history } = &self.tables;
        // The journal is preallocated, and what a file's data needs to be found is synced with the data.
        let mut transaction = database.batch().durability(Some(PersistMode::SyncData));
        for change in batch.changes {
            let keep =
                |value, written| self.sealer.keep(&change.key, value, written).map_err(|error| error.to_string());
            match &change.value {
                Some(value) => {
                    let kept = keep(value, change.revision)?;
                    transaction.insert(objects, change.key.as_bytes(), record::encode_object(&kept));
                }
                None => transaction.remove(objects, change.key.as_bytes()),
            }
            let previous = change.previous.as_ref().map(|(value, written)| keep(value, *written)).transpose()?;
            let replaced = Replaced { time_s: change.time_s, key: &change.key, previous };
            transaction.insert(history, change.revision.to_be_bytes(), record::encode_replaced(&replaced));
        }
        if !batch.forgotten.is_empty() {
            let oldest = batch.forgotten.end - 1;
            transaction.insert(history, record::HORIZON, oldest.to_be_bytes());
            for revision in batch.forgotten {
                transaction.remove(history, revision.to_be_bytes());
            }
        }
        transaction.commit().map_err(|error| error.to_string())?;
        batch.changes.iter().for_each(|change| self.acknowledged.last.add(change));
        self.acknowledged.write().map_err(|error| format!("the file `{ACKNOWLEDGED}` cannot be written: {error}"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::PathBuf;

    use bytes::Bytes;

    use super::*;
    use crate::key_file::KeyFile;
    use crate::store::{At, Commit, Expected, Store};

    struct Subject {
        folder: tempfile::TempDir,
    }

    impl Subject {
        fn sealing(&self) -> Sealing {
            let key_file = KeyFile::at(self.folder.path().join("secrets.key"));
            Sealing { directories: vec!["/secrets/".to_owned()], key_file }
        }

        fn store(&self) -> PathBuf {
            self.folder.path().join("store")
        }

        fn open(&self) -> Result<EmbeddedStore, OpenError> {
            EmbeddedStore::open_sealed(self.store(), Options::default(), self.sealing())
        }

        fn tables(&self) -> Tables {
            Tables::open(&self.store().join("engine")).unwrap()
        }

        /// A store in which `/secrets/a` was written twice and everything else once.
        async fn filled() -> Self {
            let subject = Self { folder: tempfile::tempdir().unwrap() };
            let store = subject.open().unwrap();
            for (key, value, expected) in [
                ("/secrets/a", "first", Expected::Absent),
                ("/secrets/a", "second", Expected::Revision(1)),
                ("/secrets/b", "other", Expected::Absent),
                ("/plain/c", "plain", Expected::Absent),
            ] {
                let value = Some(Bytes::from_static(value.as_bytes()));
                store.commit(Commit { key: key.into(), value, expected }).await.unwrap();
            }
            subject
        }
    }

    /// A change that somebody makes to the engine's records.
    type Tampering = fn(&Tables);

    fn object(tables: &Tables, key: &str) -> Vec<u8> {
        tables.objects.get(key).unwrap().unwrap().to_vec()
    }

    #[tokio::test]
    async fn what_was_not_sealed_there_is_refused_by_name() {
        const FOREIGN: &str = "is not what was sealed there with key";
        let rows: &[(&str, Tampering, &str, &str)] = &[
            (
                "another object's value",
                |tables| tables.objects.insert("/secrets/a", object(tables, "/secrets/b")).unwrap(),
                "/secrets/a at revision 3",
                FOREIGN,
            ),
            (
                "another object's value under its own revision",
                |tables| {
                    let record = [&object(tables, "/secrets/a")[..8], &object(tables, "/secrets/b")[8..]].concat();
                    tables.objects.insert("/secrets/a", record).unwrap();
                },
                "/secrets/a at revision 2",
                FOREIGN,
            ),
            (
                "its own value of before",
                |tables| {
                    let replaced = tables.history.get(2u64.to_be_bytes()).unwrap().unwrap();
                    let before = &replaced[8 + 8 + 4 + "/secrets/a".len()..];
                    let record = [&object(tables, "/secrets/a")[..8], before].concat();
                    tables.objects.insert("/secrets/a", record).unwrap();
                },
                "/secrets/a at revision 2",
                FOREIGN,
            ),
            (
                "a flipped bit",
                |tables| {
                    let mut record = object(tables, "/secrets/a");
                    *record.last_mut().unwrap() ^= 1;
                    tables.objects.insert("/secrets/a", record).unwrap();
                },
                "/secrets/a at revision 2",
                FOREIGN,
            ),
            (
                "a flipped bit in history",
                |tables| {
                    let mut record = tables.history.get(2u64.to_be_bytes()).unwrap().unwrap().to_vec();
                    *record.last_mut().unwrap() ^= 1;
                    tables.history.insert(2u64.to_be_bytes(), record).unwrap();
                },
                "/secrets/a at revision 1",
                FOREIGN,
            ),
            (
                "a plain value that is said to be sealed",
                |tables| {
                    let mut record = object(tables, "/plain/c");
                    record[0] |= 0x80;
                    tables.objects.insert("/plain/c", record).unwrap();
                },
                "/plain/c at revision 4",
                "is cut short",
            ),
            (
                "a value in plain",
                |tables| tables.objects.insert("/secrets/a", [&2u64.to_be_bytes()[..], b"mine"].concat()).unwrap(),
                "/secrets/a at revision 2",
                "is in plain, and all of /secrets/ was sealed",
            ),
            (
                "a sealed value that is said to be plain",
                |tables| {
                    let mut record = object(tables, "/secrets/a");
                    record[0] &= 0x7f;
                    tables.objects.insert("/secrets/a", record).unwrap();
                },
                "/secrets/a at revision 2",
                "is in plain, and all of /secrets/ was sealed",
            ),
            (
                "less than the name of a key",
                |tables| tables.objects.insert("/secrets/a", &object(tables, "/secrets/a")[..15]).unwrap(),
                "/secrets/a at revision 2",
                "is cut short",
            ),
            (
                "a key that nobody has",
                |tables| {
                    let mut record = object(tables, "/secrets/a");
                    record[8..16].copy_from_slice(&[0xab; 8]);
                    tables.objects.insert("/secrets/a", record).unwrap();
                },
                "/secrets/a is sealed with key abababababababab",
                "does not hold; restore the key file",
            ),
        ];
        for (name, tamper, place, fault) in rows {
            let subject = Subject::filled().await;
            tamper(&subject.tables());
            let error = subject.open().expect_err(name).to_string();
            assert!(error.contains(place) && error.contains(fault) && error.contains("restore"), "{name}: {error}");
            assert!(!error.contains("second") && !error.contains("other"), "{name}: {error}");
        }
    }

    #[tokio::test]
    async fn a_value_that_looks_sealed_is_a_value_like_any_other() {
        let subject = Subject::filled().await;
        let sealed = Bytes::from(object(&subject.tables(), "/secrets/a").split_off(8));
        let store = subject.open().unwrap();
        for key in ["/plain/x", "/secrets/x"] {
            let commit = Commit { key: key.into(), value: Some(sealed.clone()), expected: Expected::Absent };
            store.commit(commit).await.unwrap();
        }
        drop(store);
        let store = subject.open().unwrap();
        for key in ["/plain/x", "/secrets/x"] {
            assert_eq!(store.get(key, At::Now).await.unwrap().value.unwrap().value, sealed, "{key}");
        }
    }

    #[tokio::test]
    async fn only_what_is_to_be_sealed_is_sealed() {
        let subject = Subject::filled().await;
        let tables = subject.tables();
        for (key, sealed) in [("/secrets/a", true), ("/secrets/b", true), ("/plain/c", false)] {
            assert_eq!(record::decode_object(&object(&tables, key)).unwrap().sealed, sealed, "{key}");
        }
        let replaced = tables.history.get(2u64.to_be_bytes()).unwrap().unwrap();
        assert!(record::decode_replaced(&replaced).unwrap().previous.unwrap().sealed);
    }
}
