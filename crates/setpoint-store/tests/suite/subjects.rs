//! The implementations under test.

use std::path::PathBuf;
use std::sync::Arc;

use setpoint_store::conformance::Subject;
use setpoint_store::{EmbeddedStore, KeyFile, MemoryStore, OpenError, Options, Sealing, Store};
use tempfile::TempDir;

pub(crate) struct Memory;

impl Subject for Memory {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(Options::default()))
    }
}

/// The store in memory that has no threads.
pub(crate) struct Inline;

impl Subject for Inline {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::inline(Options::default()))
    }
}

pub(crate) struct Embedded {
    pub(crate) folder: TempDir,
    pub(crate) options: Options,
}

impl Embedded {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), options }
    }

    pub(crate) fn store(&self) -> EmbeddedStore {
        EmbeddedStore::open(self.folder.path(), self.options.clone()).unwrap()
    }
}

impl Subject for Embedded {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store())
    }
}

/// A store that seals what is in one directory, with its key file beside it.
pub(crate) struct Sealed {
    pub(crate) folder: TempDir,
    directory: &'static str,
}

impl Sealed {
    pub(crate) fn new(directory: &'static str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub(crate) fn key_file(&self) -> KeyFile {
        KeyFile::at(self.folder.path().join("secrets.key"))
    }

    pub(crate) fn try_store(&self) -> Result<EmbeddedStore, OpenError> {
        let sealing = Sealing { directories: vec![self.directory.to_owned()], key_file: self.key_file() };
        EmbeddedStore::open_sealed(self.path(), Options::default(), sealing)
    }

    pub(crate) fn store(&self) -> EmbeddedStore {
        self.try_store().unwrap()
    }

    /// The store as it was before there was sealing.
    pub(crate) fn plain_store(&self) -> EmbeddedStore {
        EmbeddedStore::open(self.path(), Options::default()).unwrap()
    }
}

impl Subject for Sealed {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store())
    }
}
