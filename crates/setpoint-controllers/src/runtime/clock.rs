//! What time it is: the system's, or one that stands still until it is moved.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Cheap to copy.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    System,
    /// An epoch, and when it was: it goes with tokio's time, also while that is paused.
    Simulated(Timestamp, Instant),
}

impl Clock {
    /// A clock that shows `epoch` now.
    pub fn simulated(epoch: Timestamp) -> Clock {
        Clock::Simulated(epoch, Instant::now())
    }

    pub fn now(&self) -> Timestamp {
        match self {
            Clock::System => Timestamp::now(),
            Clock::Simulated(epoch, start) => {
                let passed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
                epoch.checked_add(passed).unwrap_or(Timestamp::MAX)
            }
        }
    }
}
