//! What is on record of the calls for a Machine: begun before they are made, settled by what a look shows.

use jiff::Timestamp;
use setpoint_api::machine::{DoneStep, Intent, MAX_INTENTS, MachineStatus};
use setpoint_api::step::{Action, Step};

use super::sight::Seen;
use crate::authority;
use crate::derived_name;
use crate::desired::Desired;
use crate::intent::{self, Evidence, Outcome, Settled};
use crate::plan::ChangeSet;

const MAX_INTENT_ID: usize = 63;

/// What is on record after a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    pub provider_id: Option<String>,
    /// The calls whose outcome is still not known.
    pub intents: Vec<Intent>,
    pub done: Vec<DoneStep>,
}

/// Settles the calls that were begun for a Machine by what a look shows.
pub fn settle(status: &MachineStatus, desired: &Desired, seen: &Seen<'_>) -> Settlement {
    let unsettled = Settlement {
        provider_id: status.provider_id.clone(),
        intents: status.intents.clone(),
        done: status.done.clone(),
    };
    if status.intents.is_empty() {
        return unsettled;
    }
    let evidence = Evidence { guests: seen.concerning(desired), ..seen.evidence() };
    let Settled::Proceed { provider_id, open, .. } = intent::settle(desired, &evidence) else { return unsettled };
    let (open, closed): (Vec<Intent>, Vec<Intent>) =
        status.intents.iter().cloned().partition(|intent| open.iter().any(|id| **id == *intent.id));
    let outcome = |intent: &Intent| {
        let call = desired.record.intents.iter().find(|call| *call.id == *intent.id);
        call.map_or(Outcome::Lost, |call| intent::recover(call, desired, &evidence))
    };
    let at = seen.observation.observed_at;
    let done = closed.into_iter().fold(status.done.clone(), |done, intent| {
        let outcome = outcome(&intent);
        authority::close(done, intent, &outcome, at)
    });
    Settlement { provider_id: provider_id.map(String::from), intents: open, done }
}

/// Writes down a call before it is made. Its id follows from the step and from what was done before, so that whoever
/// writes down the same call again gives it the same id. None where too many are on record already. `change_set` is the
/// one whose approvals the step uses, by its uid.
pub fn begin(
    status: &MachineStatus,
    uid: &str,
    step: &Step,
    change_set: Option<String>,
    epoch: i64,
    now: Timestamp,
) -> Option<Intent> {
    if status.intents.len() >= MAX_INTENTS {
        return None;
    }
    let earlier = status.done.last().map(|done| done.at.to_string()).unwrap_or_default();
    let number = status.intents.len().to_string();
    Some(Intent {
        id: derived_name::derive(&step.target.name, MAX_INTENT_ID, &[uid, &step.digest, &earlier, &number]),
        action: step.action,
        class: Some(step.class),
        digest: step.digest.clone(),
        started_at: now,
        epoch,
        provider_id: step.provider_id.clone().filter(|_| step.action != Action::Create),
        change_set,
    })
}

/// Takes a call off the record that surely had no effect.
pub fn strike_off(status: &mut MachineStatus, id: &str) {
    status.intents.retain(|intent| intent.id != id);
}

/// Whether nothing of a Machine is left that is being deleted: everything was seen, nothing carries its mark, and no call
/// is under way.
pub fn is_released(desired: &Desired, change_set: &ChangeSet, settlement: &Settlement, seen: &Seen<'_>) -> bool {
    let is_untouched = !change_set.has_changes() && change_set.waiting.is_empty();
    desired.deletion.is_some()
        && desired.expired_at.is_none()
        && is_untouched
        && settlement.intents.is_empty()
        && seen.observation.completeness.is_complete()
        && seen.owned(desired).next().is_none()
}
