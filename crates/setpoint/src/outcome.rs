//! How a command that compares desire and reality ends.

use std::process::ExitCode;

/// What a command leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Nothing is left to do.
    Settled,
    /// Something is yet to change, waits for a person, or has drifted.
    Pending,
}

impl Outcome {
    pub(crate) fn pending_if(pending: bool) -> Outcome {
        if pending { Outcome::Pending } else { Outcome::Settled }
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Outcome {
        Outcome::Settled
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        match outcome {
            Outcome::Settled => ExitCode::SUCCESS,
            Outcome::Pending => ExitCode::from(2),
        }
    }
}
