//! What becomes of a request on its way: drawn from the program's shares, or arranged for the next one.

use rand::Rng;
use rand::rngs::SmallRng;

use super::program::Program;
use crate::error::Operation;

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives, is done and answered.
    Fine,
    /// It never arrives, and its sender knows.
    Unreachable,
    /// It never arrives, and its sender waits in vain.
    LostRequest,
    /// It arrives after its sender has given up.
    Late,
    /// It fails, and nothing was done.
    FailedBefore,
    /// It fails, and half of it was done.
    HalfDone,
    /// It fails, and all of it was done.
    FailedAfter,
    /// It is done, and the answer is lost.
    LostResponse,
    /// It is done, and the answer is nonsense.
    Garbled,
}

/// A fate for the next request of a kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arranged {
    pub(super) fate: Fate,
    /// Only for requests that change something.
    pub(super) spares_looks: bool,
}

impl Arranged {
    pub(super) fn fits(&self, operation: Operation) -> bool {
        !(self.spares_looks && operation == Operation::Observe)
    }
}

/// Draws the fate of a request.
pub(super) fn draw(program: &Program, dice: &mut SmallRng) -> Fate {
    let shares = [
        (Fate::Unreachable, program.unreachable_rate),
        (Fate::LostRequest, program.lost_request_rate),
        (Fate::Late, program.late_request_rate),
        (Fate::FailedBefore, program.failure_rate),
        (Fate::HalfDone, program.half_done_rate),
        (Fate::FailedAfter, program.failure_after_rate),
        (Fate::LostResponse, program.lost_response_rate),
        (Fate::Garbled, program.garbled_rate),
    ];
    let mut thrown: f64 = dice.random();
    for (fate, share) in shares {
        if thrown < share {
            return fate;
        }
        thrown -= share;
    }
    Fate::Fine
}
