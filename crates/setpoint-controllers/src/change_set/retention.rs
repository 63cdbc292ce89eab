//! When a change set has been there for long enough, and when to look at it again although nothing changes: pure.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::change_set::{ChangeSet, Mode, Phase, StepState};
use setpoint_api::step::Step;
use setpoint_core::authority::Progress;
use setpoint_core::gate::Decision;

use super::work::Objects;
use super::{is_unplanned, until};
use crate::runtime::Next;

/// How long a preview is shown, what is over is kept, and objects that are asked about may take to be written.
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

/// When a change set goes that nobody carries out: a preview, one of which nobody said what is to be done, and one whose
/// environment is not there.
fn idle_end(change_set: &ChangeSet, has_environment: bool) -> Option<Timestamp> {
    let is_shown = change_set.spec.mode == Mode::Preview || is_unplanned(change_set);
    let kept = if is_shown { Some(SHORT) } else { (!has_environment).then_some(LONG) };
    made_at(change_set)?.checked_add(kept?).ok()
}

/// Whether somebody rejected a step of a change set that is still wanted: the rejection holds for as long as the change set
/// is there.
pub(super) fn is_rejection_needed(
    steps: &[Step],
    decision: &Decision,
    progress: &Progress,
    objects: &Objects<'_>,
) -> bool {
    let failed = progress.step_states.iter().filter(|step| step.state == StepState::Failed);
    let failed: BTreeSet<&str> = failed.map(|step| step.digest.as_str()).collect();
    let mut rejected = steps.iter().zip(&decision.steps).filter(|(_, judged)| judged.verdict.is_rejected());
    rejected.any(|(step, _)| failed.contains(step.digest.as_str()) && objects.may_want(step))
}

/// When a change set that is over may go; none for one that is not over, or whose rejection is still needed.
pub(super) fn end(
    change_set: &ChangeSet,
    progress: &Progress,
    is_reviewed: bool,
    is_rejection_needed: bool,
) -> Option<Timestamp> {
    let is_over = matches!(progress.phase, Phase::Succeeded | Phase::Failed | Phase::Stale);
    if !is_over || is_rejection_needed {
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
    use setpoint_api::change_set::StepStatus;

    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::constant(1_794_744_000, 0) + SignedDuration::from_mins(minutes)
    }

    fn change_set(mode: &str, is_planned: bool) -> ChangeSet {
        let change_set = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet",
            "metadata": {"name": "web", "creationTimestamp": at(0).to_string()},
            "spec": {"environment": "lab", "mode": mode, "requestedBy": "carol"},
            "status": {"digest": is_planned.then_some("sha256:all")},
        });
        serde_json::from_value(change_set).unwrap()
    }

    fn progress(phase: Phase, since: i64) -> Progress {
        let (id, digest) = ("step".to_owned(), "sha256:a".to_owned());
        let state = StepState::Done;
        let step = StepStatus {
            id,
            digest,
            state,
            message: None,
            since: at(since),
            spent: false,
            object: None,
            generation: None,
        };
        let decision = Decision { steps: Vec::new(), reviews: Vec::new(), approved_until: None };
        Progress { phase, step_states: vec![step], conditions: Vec::new(), decision }
    }

    #[test]
    fn what_nobody_carries_out_goes() {
        let rows = [
            ("a preview", "Preview", true, true, Some(60)),
            ("a preview that was never planned", "Preview", false, true, Some(60)),
            ("a preview of an environment that is not there", "Preview", false, false, Some(60)),
            ("one of which nobody says what is to be done", "Execute", false, true, Some(60)),
            ("one for an environment that never was", "Execute", false, false, Some(60)),
            ("one whose environment is gone", "Execute", true, false, Some(24 * 60)),
            ("one that is carried out", "Execute", true, true, None),
        ];
        for (name, mode, is_planned, has_environment, end) in rows {
            let set = change_set(mode, is_planned);
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
        let rows = [
            (Phase::Waiting, true, false, None),
            (Phase::Running, false, false, None),
            (Phase::Succeeded, false, false, Some(10 + 60)),
            (Phase::Succeeded, true, false, Some(10 + 24 * 60)),
            (Phase::Stale, false, false, Some(10 + 60)),
            (Phase::Failed, true, false, Some(10 + 24 * 60)),
            (Phase::Failed, true, true, None),
        ];
        for (phase, is_reviewed, is_rejection_needed, expected) in rows {
            let found = end(&change_set("Execute", true), &progress(phase, 10), is_reviewed, is_rejection_needed);
            assert_eq!(found, expected.map(at), "{phase:?}, reviewed: {is_reviewed}, needed: {is_rejection_needed}");
        }
    }
}
