//! The engine's files: a journal, and a table each for objects and for history.

use std::path::Path;

use fjall::config::{BlockSizePolicy, FilterPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions};

pub(crate) struct Tables {
    pub(crate) database: Database,
    pub(crate) objects: Keyspace,
    pub(crate) history: Keyspace,
}

impl Tables {
    /// Opens the files in a folder, or makes them. They are written to and never read after the start, so caches are
    /// as small as the engine allows.
    pub(crate) fn open(folder: &Path) -> Result<Self, fjall::Error> {
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
}
