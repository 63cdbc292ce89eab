//! The implementations under test.

use std::sync::Arc;

use setpoint_store::conformance::Subject;
use setpoint_store::{EmbeddedStore, MemoryStore, Options, Store};
use tempfile::TempDir;

pub(crate) struct Memory;

impl Subject for Memory {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(Options::default()))
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
