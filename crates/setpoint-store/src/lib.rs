//! An ordered, revisioned key-value store with durable group commit and lossless watches.
//!
//! - [`store`]: the contract, which is all that users of a store need to read
//! - [`MemoryStore`] and [`EmbeddedStore`]: its implementations
//! - [`conformance`]: what every implementation must pass
//!
//! Within: `state` is the truth in memory, with its `history`; `committer` changes it, one batch at a time (in a thread of its own, or inline), after an
//! `engine` has made the change durable; `watching` brings every event to the `queue` of whom it concerns, who reads
//! it through a `subscription`; `resident` puts them together.
//!
//! On disk: `folder` says which engine counts, `tables` are the engine's, `record` is what they hold, `acknowledged` what must
//! be in them, `loading` reads it, and `sealing` says what of it is sealed, with a `key` of the `key_file`.

mod acknowledged;
mod committer;
pub mod conformance;
mod disk;
mod embedded;
mod engine;
mod folder;
mod histogram;
mod history;
mod journal;
mod key;
mod key_file;
mod loading;
mod memory;
mod options;
mod queue;
mod record;
mod resident;
mod scope;
mod sealing;
mod state;
pub mod store;
mod subscription;
mod tables;
mod watching;

pub use disk::{close_to_others, keep_owner, make_folder, make_private, write as write_private, write_own};
pub use embedded::{EmbeddedStore, OpenError};
pub use histogram::Histogram;
pub use key::{KeyId, NoRandomness};
pub use key_file::{KeyFile, KeyFileError};
pub use memory::MemoryStore;
pub use options::Options;
pub use sealing::{SealError, Sealing};
pub use store::{
    Answer, At, Commit, Committed, Entry, Error, Event, Expected, Page, Range, Result, Revision, Snapshot, Statistics,
    Store, Watch,
};
