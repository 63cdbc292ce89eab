//! When a change set has been there for long enough, and when to look at it again although nothing changes: pure.

use jiff::{SignedDuration, Timestamp};
use setpoint_api::change_set::{ChangeSet, Mode, Phase};
use setpoint_core::authority::Progress;
use setpoint_core::gate::Decision;

use super::until;
use super::work::Objects;
use crate::runtime::Next;

/// How long a preview is shown, what is over is kept, and objects that are asked about may take to be written.
const SHORT: SignedDuration = SignedDuration::from_hours(1);
/// How long what people decided on is kept.
const LONG: SignedDuration = SignedDuration::from_hours(24);

/// Whether a preview has been shown for long enough.
pub(super) fn is_over(change_set: &ChangeSet, now: Timestamp) -> bool {
    preview_end(change_set).is_some_and(|end| end <= now)
}

/// When to look again at a change set of which nothing can be said.
pub(super) fn next(change_set: &ChangeSet, now: Timestamp) -> Next {
    preview_end(change_set).map_or(Next::Idle, |end| Next::After(until(end, now)))
}

fn preview_end(change_set: &ChangeSet) -> Option<Timestamp> {
    let is_preview = change_set.spec.mode == Mode::Preview;
    made_at(change_set).filter(|_| is_preview).and_then(|made| made.checked_add(SHORT).ok())
}

/// When a change set that is over may go; none for one that is not over.
pub(super) fn end(change_set: &ChangeSet, progress: &Progress, is_reviewed: bool) -> Option<Timestamp> {
    if !matches!(progress.phase, Phase::Succeeded | Phase::Failed | Phase::Stale) {
        return None;
    }
    let last = progress.step_states.iter().map(|step| step.since).max();
    let kept = if is_reviewed { LONG } else { SHORT };
    last.or(made_at(change_set))?.checked_add(kept).ok()
}

/// Why nobody will carry out what is left: what was asked about was never written.
pub(super) fn abandoned(change_set: &ChangeSet, objects: &Objects<'_>, now: Timestamp) -> Option<&'static str> {
    let is_late = made_at(change_set).and_then(|made| made.checked_add(SHORT).ok()).is_some_and(|end| end <= now);
    (is_late && objects.is_unwritten()).then_some("what it is about was not written within an hour")
}

/// When something changes by itself: an approval ends, a budget has room again, or nobody is waited for any longer.
pub(super) fn wake(
    change_set: &ChangeSet,
    decision: &Decision,
    objects: &Objects<'_>,
    now: Timestamp,
) -> Option<Timestamp> {
    let rooms = decision.steps.iter().filter_map(|judged| judged.verdict.until());
    let unwritten =
        made_at(change_set).filter(|_| objects.is_unwritten()).and_then(|made| made.checked_add(SHORT).ok());
    rooms.chain(decision.approved_until).chain(unwritten).filter(|at| *at > now).min()
}

fn made_at(change_set: &ChangeSet) -> Option<Timestamp> {
    change_set.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_api::change_set::{StepState, StepStatus};

    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::constant(1_794_744_000, 0) + SignedDuration::from_mins(minutes)
    }

    fn change_set(mode: &str) -> ChangeSet {
        let change_set = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet",
            "metadata": {"name": "web", "creationTimestamp": at(0).to_string()},
            "spec": {"environment": "lab", "mode": mode, "requestedBy": "carol"},
        });
        serde_json::from_value(change_set).unwrap()
    }

    fn progress(phase: Phase, since: i64) -> Progress {
        let (id, digest) = ("step".to_owned(), "sha256:a".to_owned());
        let step = StepStatus { id, digest, state: StepState::Done, message: None, since: at(since) };
        Progress { phase, step_states: vec![step], conditions: Vec::new() }
    }

    #[test]
    fn a_preview_is_shown_for_an_hour() {
        let rows = [("Preview", 59, false), ("Preview", 60, true), ("Execute", 600, false)];
        for (mode, minutes, over) in rows {
            assert_eq!(is_over(&change_set(mode), at(minutes)), over, "{mode} after {minutes} minutes");
        }
    }

    #[test]
    fn what_is_over_is_kept_for_longer_where_people_decided() {
        let rows = [
            (Phase::Waiting, true, None),
            (Phase::Running, false, None),
            (Phase::Succeeded, false, Some(10 + 60)),
            (Phase::Succeeded, true, Some(10 + 24 * 60)),
            (Phase::Stale, false, Some(10 + 60)),
            (Phase::Failed, true, Some(10 + 24 * 60)),
        ];
        for (phase, is_reviewed, expected) in rows {
            let found = end(&change_set("Execute"), &progress(phase, 10), is_reviewed);
            assert_eq!(found, expected.map(at), "{phase:?}, reviewed: {is_reviewed}");
        }
    }
}
