//! When a change set has been there for long enough: pure.

use jiff::{SignedDuration, Timestamp};
use setpoint_api::change_set::{ChangeSet, Entry, EntryState, Mode};

use super::until;
use crate::runtime::Next;

/// How long a preview is shown, and what is over is kept.
const SHORT: SignedDuration = SignedDuration::from_hours(1);
/// How long what people decided on is kept.
const LONG: SignedDuration = SignedDuration::from_hours(24);

/// Whether a change set of which nothing is to come has been there for long enough.
pub(super) fn is_over(change_set: &ChangeSet, has_environment: bool, now: Timestamp) -> bool {
    idle_end(change_set, has_environment).is_some_and(|end| end <= now)
}

/// When to look again at a change set of which nothing can be said.
pub(super) fn next(change_set: &ChangeSet, has_environment: bool, now: Timestamp) -> Next {
    idle_end(change_set, has_environment).map_or(Next::Idle, |end| Next::After(until(end, now)))
}

/// When a change set goes that nobody carries out: a preview, one that lists nothing, and one whose Environment is not there.
/// A rejection outlives them.
fn idle_end(change_set: &ChangeSet, has_environment: bool) -> Option<Timestamp> {
    let entries = change_set.status.as_ref().map_or(&[][..], |status| &status.entries);
    if entries.iter().any(|entry| entry.state == EntryState::Rejected) {
        return None;
    }
    let is_shown = change_set.spec.mode == Mode::Preview || change_set.spec.steps.is_empty();
    let kept = if is_shown { Some(SHORT) } else { (!has_environment).then_some(LONG) };
    made_at(change_set)?.checked_add(kept?).ok()
}

/// When a change set that is over may go; none for one that is not over, or in which a rejection holds.
pub(super) fn end(change_set: &ChangeSet, entries: &[Entry], is_reviewed: bool) -> Option<Timestamp> {
    if entries.iter().any(|entry| !entry.state.is_closed()) {
        return None;
    }
    let last = entries.iter().map(|entry| entry.since).max();
    let kept = if is_reviewed { LONG } else { SHORT };
    last.or(made_at(change_set))?.checked_add(kept).ok()
}

fn made_at(change_set: &ChangeSet) -> Option<Timestamp> {
    change_set.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::constant(1_794_744_000, 0) + SignedDuration::from_mins(minutes)
    }

    /// States of entries, and since which minute.
    type States = &'static [(&'static str, i64)];

    fn change_set(mode: &str, states: &[(&str, i64)]) -> ChangeSet {
        let step = |state: &&(&str, i64)| {
            json!({
                "id": state.0, "target": {"namespace": "shop", "name": "web", "kind": "Machine"}, "action": "Delete",
                "reason": "r", "origin": "Desired", "class": "Destructive", "classReason": "data", "digest": state.0,
            })
        };
        let entry =
            |state: &(&str, i64)| json!({"digest": state.0, "state": state.0, "since": at(state.1).to_string()});
        let (steps, entries): (Vec<Value>, Vec<Value>) = (
            states.iter().filter(|_| mode == "Execute").map(|state| step(&state)).collect(),
            states.iter().map(entry).collect(),
        );
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet",
            "metadata": {"name": "web", "creationTimestamp": at(0).to_string()},
            "spec": {"environment": "lab", "mode": mode, "requestedBy": "carol", "steps": steps},
            "status": {"entries": entries},
        }))
        .unwrap()
    }

    #[test]
    fn what_nobody_carries_out_goes() {
        let rows: [(&str, &str, States, bool, Option<i64>); 6] = [
            ("a preview", "Preview", &[], true, Some(60)),
            ("a preview of an environment that is not there", "Preview", &[], false, Some(60)),
            ("one that lists nothing", "Execute", &[], true, Some(60)),
            ("one whose environment is gone", "Execute", &[("Waiting", 0)], false, Some(24 * 60)),
            ("a rejection outlives its environment", "Execute", &[("Rejected", 0)], false, None),
            ("one that is carried out", "Execute", &[("Waiting", 0)], true, None),
        ];
        for (name, mode, states, has_environment, end) in rows {
            let set = change_set(mode, states);
            let minutes = end.unwrap_or(30 * 24 * 60);
            assert!(!is_over(&set, has_environment, at(minutes - 1)), "{name}, a minute before");
            assert_eq!(is_over(&set, has_environment, at(minutes)), end.is_some(), "{name}");
            assert_eq!(
                next(&set, has_environment, at(0)) == Next::Idle,
                end.is_none(),
                "{name}: it is looked at again"
            );
        }
    }

    #[test]
    fn what_is_over_is_kept_for_longer_where_people_decided() {
        let rows: [(&str, States, bool, Option<i64>); 5] = [
            ("it waits", &[("Waiting", 10)], true, None),
            ("it was done", &[("Done", 10)], false, Some(10 + 60)),
            ("it was approved and done", &[("Done", 5), ("Tried", 10)], true, Some(10 + 24 * 60)),
            ("it is not wanted", &[("NotWanted", 10)], false, Some(10 + 60)),
            ("it was rejected", &[("Rejected", 10), ("Done", 10)], true, None),
        ];
        for (name, states, is_reviewed, expected) in rows {
            let set = change_set("Execute", states);
            let entries = &set.status.as_ref().expect("a status").entries;
            assert_eq!(end(&set, entries, is_reviewed), expected.map(at), "{name}");
        }
    }
}
