//! A store in a folder of this machine, on the fjall engine.

use std::io;
use std::path::Path;
use std::time::Instant;

use fjall::PersistMode;

use crate::engine::{Batch, Engine};
use crate::folder::{FORMAT, Folder};
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
        sealer.drop_old_keys()?;
        let (revision, oldest, keys) = (state.revision(), state.history.oldest(), state.len());
        tracing::info!(revision, oldest, keys, elapsed = ?started.elapsed(), "store opened");
        Ok(Self::start(Fjall { tables, sealer }, state, options)?)
    }
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
        transaction.commit().map_err(|error| error.to_string())
    }
}
