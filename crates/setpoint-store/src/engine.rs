//! Where batches become durable.

use std::fmt;
use std::ops::Range;

use crate::state::Change;
use crate::store::Revision;

/// Keeps what the committer hands it. Only the committer's thread calls it, and never again after a failure.
pub trait Engine: fmt::Debug + Send + 'static {
    /// Makes a batch durable, all of it or nothing: the changes, and that the history of some commits is forgotten.
    /// When it returns, the batch survives a loss of power.
    fn persist(&mut self, batch: Batch<'_>) -> Result<(), String>;
}

/// What one durable transaction holds.
#[derive(Debug)]
pub struct Batch<'a> {
    pub(crate) changes: &'a [Change],
    /// The oldest commits of history, to be forgotten; the last of them is the oldest revision that stays readable.
    pub(crate) forgotten: Range<Revision>,
}
