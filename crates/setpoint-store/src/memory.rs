//! A store that forgets everything when it ends.

use crate::engine::{Batch, Engine};
use crate::options::Options;
use crate::resident::Resident;
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

    /// One without threads: whoever commits makes the commit visible and tells those who watch, before it is answered. So
    /// everything that happens follows from the order of the calls, as simulations need it.
    pub fn inline(options: Options) -> Self {
        Self::without_threads(Volatile, State::default(), options)
    }
}
