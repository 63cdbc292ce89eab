//! Which steps may be taken now, and how each entry of a change set goes on.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`authorize`] | which steps of an object may be taken now, by the approvals of which change set |
//! | [`entries`] | the state of each step of a change set: entries only close |
//! | `subject` | what is known of the object that a step is for |
//! | `policy` | the approval rules that hold: the stricter of those at opening and those in force |
//! | `opening` | which steps are put into a new change set, and when |
//! | `progress` | the phase and the conditions of a change set |
//! | `record` | what is on record of a call that has ended |
//!
//! An approval is an approval of a step's digest in one change set, and is used once: by the intent that names both. A
//! rejection is of a digest, and holds in whatever change set it was given until it is withdrawn.

mod authorize;
mod entries;
mod opening;
mod policy;
mod progress;
mod record;
mod subject;

pub use self::authorize::{Authorized, Input, Set, authorize};
pub use self::entries::{Fact, REJECTION_KEPT, UNWANTED_FOR, entries};
pub use self::opening::{Candidate, Opening, opening, requesters, steps_to_open};
pub use self::policy::{needs_approval, rules, stricter};
pub use self::progress::{Progress, WITHIN_LIMITS, progress};
pub use self::record::{close, record_done};
pub use self::subject::{Subject, Wanted};

use setpoint_api::change_set::{ChangeSet, Entry};
use setpoint_api::step::{Class, Step};

/// The entry of a step, by its digest.
pub fn entry<'s>(change_set: &'s ChangeSet, digest: &str) -> Option<&'s Entry> {
    change_set.status.as_ref()?.entries.iter().find(|entry| entry.digest == digest)
}

/// Whether a step costs at most what was shown of it. What can add no cost has no price that matters; a price that is not known
/// is within one that was not known either.
pub fn is_within_price(shown: &Step, now: &Step) -> bool {
    let adds_cost = |step: &Step| step.classes().contains(&Class::Spend);
    match (shown.hourly_cost_delta, now.hourly_cost_delta) {
        _ if !adds_cost(now) => true,
        (Some(shown), Some(now)) => now <= shown,
        (None, None) => adds_cost(shown),
        (Some(_), None) | (None, Some(_)) => false,
    }
}
