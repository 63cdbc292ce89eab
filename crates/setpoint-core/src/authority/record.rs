//! What is on record of a call that has ended.

use jiff::Timestamp;
use setpoint_api::machine::{DoneStep, Intent, MAX_DONE};
use setpoint_api::step::Action;

use crate::intent::Outcome;

/// The record of what was done after a call came to an end. What used an approval goes on record whatever came of it,
/// except where a look proves that there was no call: what would have been made is not there, or what would have gone is.
/// A replacement that got as far as the removal is on record as one that does not show.
/// Of what is changed in place, a look only shows whether it is as it is desired now.
pub fn close(done: Vec<DoneStep>, intent: Intent, outcome: &Outcome, at: Timestamp) -> Vec<DoneStep> {
    let was_seen = matches!(outcome, Outcome::Done { .. } | Outcome::Duplicated { .. });
    let would_show = matches!(intent.action, Action::Create | Action::Replace | Action::Delete);
    let is_halved = matches!(outcome, Outcome::Removed { .. });
    if !was_seen && ((would_show && !is_halved) || intent.change_set.is_none()) {
        return done;
    }
    let Intent { action, digest, change_set, hourly_price, .. } = intent;
    record_done(done, DoneStep { action, digest, at, change_set, unseen: !was_seen, hourly_price }, MAX_DONE)
}

/// The record of what was done with one step more, of `most` at most. What used an approval is remembered before what needed
/// none.
pub fn record_done(mut done: Vec<DoneStep>, step: DoneStep, most: usize) -> Vec<DoneStep> {
    done.retain(|recorded| recorded.digest != step.digest || recorded.change_set != step.change_set);
    done.push(step);
    while done.len() > most {
        let oldest = done.iter().position(|recorded| recorded.change_set.is_none()).unwrap_or_default();
        done.remove(oldest);
    }
    done
}
