//! An ordered, revisioned key-value store with durable group commit and lossless watches.

pub mod store;

pub use store::{
    Answer, At, Commit, Committed, Entry, Error, Event, Expected, Page, Range, Result, Revision, Snapshot, Statistics,
    Store, Watch,
};
