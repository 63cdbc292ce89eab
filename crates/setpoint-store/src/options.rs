//! How much history a store keeps.

use std::time::Duration;

/// The bounds of history. Whichever is reached first makes the store forget its oldest commits.
#[derive(Debug, Clone)]
pub struct Options {
    /// The most commits history holds.
    pub history_commits: usize,
    /// How long history holds a commit, to the second.
    pub history_age: Duration,
    /// The most bytes of overwritten and deleted values history holds.
    pub history_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { history_commits: 100_000, history_age: Duration::from_secs(3600), history_bytes: 64 << 20 }
    }
}
