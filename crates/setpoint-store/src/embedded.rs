//! A store in a folder of this machine, on the fjall engine.
//!
//! The engine is written to and never read after the start, so its caches are as small as it allows. The folder holds
//! `format`, the version of what is in it, and `engine`, which appears under that name only when it is complete.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fjall::config::{BlockSizePolicy, FilterPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::engine::{Batch, Engine};
use crate::history::History;
use crate::journal;
use crate::options::Options;
use crate::record;
use crate::resident::Resident;
use crate::state::State;
use crate::store::Revision;

/// The newest version of the data folder that this code reads, and the one it writes.
const FORMAT: u32 = 1;

/// No store counts so far; a larger revision is damage, and counting on from it could overflow.
const LARGEST_REVISION: Revision = u64::MAX >> 1;

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
    #[error("the data folder cannot be read or written")]
    Folder(#[from] io::Error),
    #[error("the storage engine cannot open its files")]
    Engine(#[from] fjall::Error),
}

impl EmbeddedStore {
    /// Opens the store in a folder, and creates both if they are missing.
    ///
    /// One process at a time: the caller holds a lock on the folder for as long as the store lives.
    pub fn open(folder: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let folder = folder.as_ref();
        let started = Instant::now();
        prepare(folder)?;
        let engine = journal::open(&folder.join("engine"), Fjall::open)?;
        let state = engine.load()?;
        let (revision, keys) = (state.revision(), state.len());
        let oldest = state.history.oldest();
        tracing::info!(revision, oldest, keys, elapsed = ?started.elapsed(), "store opened");
        Ok(Self::start(engine, state, options)?)
    }
}

/// Checks the folder's format, or makes the folder.
fn prepare(folder: &Path) -> Result<(), OpenError> {
    let (format, engine) = (folder.join("format"), folder.join("engine"));
    match fs::read_to_string(&format) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(found) if found > FORMAT => return Err(OpenError::Newer { found }),
            Ok(_) => {}
            Err(_) => return Err(OpenError::Damaged("the file `format` holds no number".into())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound && engine.exists() => {
            return Err(OpenError::Damaged("the file `format` is missing".into()));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(folder)?,
        Err(error) => return Err(error.into()),
    }
    if engine.exists() {
        return Ok(());
    }
    // The engine cannot finish its own half-made files, should the process end in between; so make them aside.
    let aside = folder.join("engine.new");
    match fs::remove_dir_all(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => drop(Fjall::open(&aside)?),
    }
    let mut file = File::create(&format)?;
    writeln!(file, "{FORMAT}")?;
    file.sync_all()?;
    fs::rename(&aside, &engine)?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// The engine of the embedded store.
pub struct Fjall {
    database: Database,
    objects: Keyspace,
    history: Keyspace,
}

impl std::fmt::Debug for Fjall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fjall").finish_non_exhaustive()
    }
}

impl Fjall {
    fn open(folder: &Path) -> Result<Self, fjall::Error> {
        let database = Database::builder(folder)
            .cache_size(1 << 20)
            .max_cached_files(Some(32))
            .max_journaling_size(64 << 20)
            .manual_journal_persist(true)
            // One writes tables while the other merges them.
            .worker_threads(2)
            .open()?;
        // Written once and read in order at the start: large blocks, nothing to find single keys with.
        let table = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(8 << 20)
                .data_block_size_policy(BlockSizePolicy::all(32 << 10))
                .filter_policy(FilterPolicy::disabled())
                .manual_journal_persist(true)
        };
        let objects = database.keyspace("objects", table)?;
        let history = database.keyspace("history", table)?;
        Ok(Self { database, objects, history })
    }

    fn load(&self) -> Result<State, OpenError> {
        let current = self.load_objects()?;
        let history = self.load_history(&current)?;
        if let Some((key, (_, written))) = current.iter().find(|(_, (_, written))| *written > history.newest()) {
            return Err(OpenError::Damaged(format!("{key} has revision {written}, which history does not know")));
        }
        Ok(State::restored(current, history))
    }

    fn load_objects(&self) -> Result<BTreeMap<Arc<str>, (Bytes, Revision)>, OpenError> {
        let objects = self.objects.iter().map(|object| {
            let (key, value) = object.into_inner()?;
            let key = std::str::from_utf8(&key).map_err(|_| OpenError::Damaged("a key is not text".into()))?;
            let value = record::decode_object(&value)
                .ok_or_else(|| OpenError::Damaged(format!("the record of {key} cannot be read")))?;
            Ok((Arc::from(key), value))
        });
        objects.collect()
    }

    fn load_history(&self, current: &BTreeMap<Arc<str>, (Bytes, Revision)>) -> Result<History, OpenError> {
        let damaged = |key: &[u8]| OpenError::Damaged(format!("the history record {key:02x?} cannot be read"));
        let mut history = History::default();
        for record in self.history.iter() {
            let (key, value) = record.into_inner()?;
            if *key == record::HORIZON {
                let oldest = record::decode_revision(&value).filter(|oldest| *oldest <= LARGEST_REVISION);
                history = History::after(oldest.ok_or_else(|| damaged(&key))?);
                continue;
            }
            let replaced = record::decode_replaced(&value).ok_or_else(|| damaged(&key))?;
            if record::decode_revision(&key) != Some(history.newest() + 1) {
                return Err(OpenError::Damaged(format!("history breaks off after revision {}", history.newest())));
            }
            if replaced.previous.as_ref().is_some_and(|(_, written)| *written > history.newest()) {
                return Err(damaged(&key));
            }
            let known = current.get_key_value(replaced.key).map(|(known, _)| known);
            let known = known.or_else(|| history.known(replaced.key)).cloned();
            history.remember(known.unwrap_or_else(|| replaced.key.into()), replaced.time_s, replaced.previous);
        }
        Ok(history)
    }
}

impl Engine for Fjall {
    fn persist(&mut self, batch: Batch<'_>) -> Result<(), String> {
        // The journal is preallocated, and what a file's data needs to be found is synced with the data.
        let mut transaction = self.database.batch().durability(Some(PersistMode::SyncData));
        for change in batch.changes {
            let key = change.key.as_bytes();
            match &change.value {
                Some(value) => {
                    transaction.insert(&self.objects, key, record::encode_object(change.revision, value));
                }
                None => transaction.remove(&self.objects, key),
            }
            let replaced = record::encode_replaced(change);
            transaction.insert(&self.history, change.revision.to_be_bytes(), replaced);
        }
        if !batch.forgotten.is_empty() {
            let oldest = batch.forgotten.end - 1;
            transaction.insert(&self.history, record::HORIZON, oldest.to_be_bytes());
            for revision in batch.forgotten {
                transaction.remove(&self.history, revision.to_be_bytes());
            }
        }
        transaction.commit().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A record of history that says what the first version of `/a` was.
    fn replaced(written: Revision) -> Vec<u8> {
        [&[0; 8][..], &written.to_be_bytes(), &2u32.to_be_bytes(), b"/a", b"old"].concat()
    }

    #[test]
    fn records_that_cannot_be_are_damage() {
        const FIRST: [u8; 8] = 1u64.to_be_bytes();
        const SECOND: [u8; 8] = 2u64.to_be_bytes();
        let horizon = |revision: Revision| (record::HORIZON.to_vec(), revision.to_be_bytes().to_vec());
        for (name, objects, history) in [
            ("a horizon at the end of numbers", vec![], vec![horizon(u64::MAX), (FIRST.to_vec(), replaced(0))]),
            ("a horizon that leaves no room", vec![], vec![horizon(u64::MAX - 1)]),
            ("a short horizon", vec![], vec![(record::HORIZON.to_vec(), vec![1])]),
            ("a gap after the horizon", vec![], vec![horizon(1), (FIRST.to_vec(), replaced(0))]),
            ("a gap", vec![], vec![(SECOND.to_vec(), replaced(0))]),
            ("a key that is no revision", vec![], vec![(vec![1], replaced(0))]),
            ("a short record", vec![], vec![(FIRST.to_vec(), vec![0; 19])]),
            ("a value from the future", vec![], vec![(FIRST.to_vec(), replaced(1))]),
            ("a short object", vec![(b"/a".to_vec(), vec![0; 7])], vec![]),
            ("an object that history does not know", vec![(b"/a".to_vec(), FIRST.to_vec())], vec![]),
            ("a key that is no text", vec![(vec![0xff], FIRST.to_vec())], vec![]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let engine = Fjall::open(folder.path()).unwrap();
            for (table, records) in [(&engine.objects, objects), (&engine.history, history)] {
                for (key, value) in records {
                    table.insert(key, value).unwrap();
                }
            }
            let loaded = engine.load().map(|state| state.revision());
            assert!(matches!(loaded, Err(OpenError::Damaged(_))), "{name}: {loaded:?}");
        }
    }
}
