//! A store that forgets everything when it ends.

use std::path::Path;

use crate::embedded::{self, OpenError};
use crate::engine::{Batch, Engine};
use crate::options::Options;
use crate::resident::Resident;
use crate::sealing::Sealing;
use crate::state::State;

/// A store in memory alone: for tests, and for what need not survive.
pub type MemoryStore = Resident<Volatile>;

/// The engine that keeps nothing.
#[derive(Debug)]
pub struct Volatile;

impl Engine for Volatile {
    fn persist(&mut self, _: Batch<'_>) -> Result<(), String> {
        Ok(())
    }
}

impl MemoryStore {
    /// # Panics
    ///
    /// If the system has no room for two more threads.
    pub fn new(options: Options) -> Self {
        Self::start(Volatile, State::default(), options).expect("two threads can be started")
    }

    /// A copy of the store in a folder, at the same revision and with its history; `None` if there is none. The engine is
    /// closed again when this returns, and what is written to the copy goes nowhere.
    ///
    /// Nobody may have the store open: the caller holds a lock on the folder for as long as this takes.
    pub fn copy_of(folder: impl AsRef<Path>, options: Options, sealing: Sealing) -> Result<Option<Self>, OpenError> {
        match embedded::read(folder.as_ref(), sealing)? {
            Some(state) => Ok(Some(Self::start(Volatile, state, options)?)),
            None => Ok(None),
        }
    }

    /// One without threads: whoever commits makes the commit visible and tells those who watch, before it is answered. So
    /// everything that happens follows from the order of the calls, as simulations need it.
    pub fn inline(options: Options) -> Self {
        Self::without_threads(Volatile, State::default(), options)
    }
}
