//! What a change set gives leave with: it serves for each step once, and this says whether it has.

use jiff::{SignedDuration, Timestamp};
use setpoint_api::machine::{DoneStep, MAX_DONE};

/// A change set as far as its being used is concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket<'a> {
    pub(super) uid: &'a str,
    pub(super) created_at: Timestamp,
}

/// How a change set came to serve for a step no longer; what says most comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spent {
    /// The step was done by its leave, or by nobody's after it was made: what people were asked for has happened.
    Done,
    /// The step was tried by its leave, and no effect of it was seen.
    Tried,
    /// The step was done by the leave of another after it was made.
    Elsewhere,
    /// So much was done since it was made that nobody remembers whether the step was.
    Forgotten,
}

impl Ticket<'_> {
    /// How it was used for the step with this digest, by the record of what was done for the object; none if it was not.
    pub(super) fn spent(&self, digest: &str, done: &[DoneStep]) -> Option<Spent> {
        let uses = done.iter().filter(|step| step.digest == digest).filter_map(|step| self.use_of(step));
        let has_forgotten = || done.len() >= MAX_DONE && done.iter().all(|step| self.is_before(step));
        uses.min().or_else(|| has_forgotten().then_some(Spent::Forgotten))
    }

    fn use_of(&self, step: &DoneStep) -> Option<Spent> {
        match step.change_set.as_deref() {
            Some(uid) if uid == self.uid => Some(if step.unseen { Spent::Tried } else { Spent::Done }),
            Some(_) => self.is_before(step).then_some(Spent::Elsewhere),
            // Within the second in which it was made, what needs no leave is done as soon as it is asked for.
            None => (step.at >= self.created_at).then_some(Spent::Done),
        }
    }

    /// Whether it was made before a step was done. Its date is in whole seconds, so what was done within that second may
    /// have been done before.
    fn is_before(&self, step: &DoneStep) -> bool {
        step.at >= self.created_at.checked_add(SignedDuration::from_secs(1)).unwrap_or(Timestamp::MAX)
    }
}
