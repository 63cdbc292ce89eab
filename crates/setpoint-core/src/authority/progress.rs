//! How far a change set is: its phase and its conditions, by its entries.

use jiff::Timestamp;
use setpoint_api::change_set::{ChangeSet, Entry, EntryState, Phase};
use setpoint_api::condition::{Condition, ConditionStatus};

use crate::conditions;
use crate::gate::Decision;

/// The condition of a change set that is false while a limit holds one of its steps back. One that never was held lacks it.
pub const WITHIN_LIMITS: &str = "WithinLimits";
/// How many steps a condition names.
const TOLD: usize = 3;

/// What is written down of a change set beside its entries.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub phase: Phase,
    pub conditions: Vec<Condition>,
}

/// How far a change set that executes is.
pub fn progress(change_set: &ChangeSet, entries: &[Entry], decision: &Decision, now: Timestamp) -> Progress {
    let phase = phase(entries);
    let mut all = change_set.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let was_held = all.iter().any(|condition| condition.type_ == WITHIN_LIMITS);
    let mut set = |type_: &str, is_true: bool, reason: &str, message: Option<String>| {
        let new = Condition {
            type_: type_.to_owned(),
            status: if is_true { ConditionStatus::True } else { ConditionStatus::False },
            reason: Some(reason.to_owned()),
            message,
            last_transition_time: None,
            observed_generation: change_set.metadata.generation,
        };
        conditions::set(&mut all, new, now);
    };
    let told = |state: EntryState| -> Vec<String> {
        let steps = change_set.spec.steps.iter().zip(entries).filter(|(_, entry)| entry.state == state);
        steps.map(|(step, entry)| format!("{}: {}", step.id, entry.message.as_deref().unwrap_or("waits"))).collect()
    };
    set("Planned", true, "Planned", None);
    let (waiting, rejected) = (told(EntryState::Waiting), told(EntryState::Rejected));
    match (rejected.is_empty(), waiting.is_empty()) {
        (_, false) => set("Approved", false, "Waiting", Some(summary(&waiting))),
        (false, true) => set("Approved", false, "Rejected", Some(summary(&rejected))),
        (true, true) if phase == Phase::Stale => set("Approved", false, "Stale", None),
        (true, true) => set("Approved", true, "Approved", None),
    }
    set("Complete", phase == Phase::Succeeded, &format!("{phase:?}"), None);
    let held = decision.steps.iter().filter(|judged| judged.verdict.waits_for_room());
    let held: Vec<String> = held.map(|judged| format!("{}: {}", judged.step, judged.verdict.message())).collect();
    match held.is_empty() {
        true if was_held => set(WITHIN_LIMITS, true, WITHIN_LIMITS, None),
        true => {}
        false => set(WITHIN_LIMITS, false, "HeldBack", Some(summary(&held))),
    }
    Progress { phase, conditions: all }
}

/// What is open decides; where nothing is, what became of it all.
fn phase(entries: &[Entry]) -> Phase {
    use EntryState::{Approved, Blocked, NotWanted, Rejected, Running, Superseded, Tried, Waiting};
    let has = |states: &[EntryState]| entries.iter().any(|entry| states.contains(&entry.state));
    match () {
        () if has(&[Approved, Running]) => Phase::Running,
        () if has(&[Waiting]) => Phase::Waiting,
        () if has(&[Blocked]) => Phase::Running,
        () if has(&[Rejected]) => Phase::Failed,
        () if has(&[Tried, NotWanted, Superseded]) => Phase::Stale,
        () => Phase::Succeeded,
    }
}

/// The first of many, and how many more there are.
fn summary(lines: &[String]) -> String {
    let told = lines.iter().take(TOLD).cloned().collect::<Vec<_>>().join("; ");
    match lines.len().saturating_sub(TOLD) {
        0 => told,
        more => format!("{told}; and {more} more"),
    }
}
