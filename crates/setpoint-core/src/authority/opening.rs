//! Which steps are put into a new change set, and when it is opened.
//!
//! Setpoint waits until everything that was written together was planned, so that people are asked once and not once for
//! each object: until no object waits to be planned and nothing new came for a moment, and five seconds at most.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::change_set::{ChangeSet, EntryState, MAX_STEPS, Mode};
use setpoint_api::requester::UNKNOWN;
use setpoint_api::step::Step;

use super::entry;
use super::subject::Subject;

/// How long it is waited for others at most, from the first step that no change set lists.
const AT_MOST: SignedDuration = SignedDuration::from_secs(5);
/// How long nothing new must have come.
const QUIET: SignedDuration = SignedDuration::from_millis(300);

/// A step that an object wants and no change set lists yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    pub step: &'a Step,
    /// The object, by its uid.
    pub object: &'a str,
    /// The generation of the object that the step was planned for.
    pub generation: i64,
    /// Who asked for what the object says, each on a line.
    pub requested_by: &'a str,
}

/// When a change set is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    Now,
    At(Timestamp),
}

/// When a change set is opened for steps the first of which was seen at `first` and the last at `last`.
pub fn opening(first: Timestamp, last: Timestamp, is_all_planned: bool, now: Timestamp) -> Opening {
    let at_most = first.checked_add(AT_MOST).unwrap_or(now);
    let quiet = last.checked_add(QUIET).unwrap_or(now);
    let at = if is_all_planned { quiet.min(at_most) } else { at_most };
    if at <= now { Opening::Now } else { Opening::At(at) }
}

/// The steps that objects want and that no change set lists, as many as one holds. `listing` gives the change sets that list a
/// digest.
pub fn steps_to_open<'a, S: AsRef<ChangeSet>>(
    subjects: &[Subject<'a>],
    listing: impl Fn(&str) -> Vec<S>,
) -> Vec<Candidate<'a>> {
    let mut digests = BTreeSet::new();
    let candidates = subjects.iter().flat_map(|subject| {
        let steps = subject.pending.map_or(&[][..], |pending| &pending.steps);
        // What was planned for an earlier write may not be what is wanted.
        let is_current = subject.planned == subject.generation;
        steps.iter().filter(move |_| is_current).map(|step| Candidate {
            step,
            object: subject.uid,
            generation: subject.planned,
            requested_by: subject.requested_by(step),
        })
    });
    let is_listed = |candidate: &Candidate<'_>| {
        listing(&candidate.step.digest).iter().any(|set| is_asked_in(set.as_ref(), candidate))
    };
    // A step that is under way is asked about no more.
    let is_taken = |candidate: &Candidate<'_>| {
        subjects.iter().any(|subject| subject.uid == candidate.object && subject.is_under_way(&candidate.step.digest))
    };
    candidates
        .filter(|candidate| !is_listed(candidate) && !is_taken(candidate))
        .filter(|candidate| digests.insert(candidate.step.digest.as_str()))
        .take(MAX_STEPS)
        .collect()
}

/// Whether a change set asks about a step of an object, or has yet to say.
fn is_asked_in(set: &ChangeSet, candidate: &Candidate<'_>) -> bool {
    if set.spec.mode != Mode::Execute || set.metadata.deletion_timestamp.is_some() {
        return false;
    }
    match entry(set, &candidate.step.digest) {
        // A rejection holds for whatever object wants the step.
        Some(entry) if entry.state == EntryState::Rejected => true,
        Some(entry) => !entry.state.is_closed() && entry.object.as_deref() == Some(candidate.object),
        None => set.spec.steps.iter().any(|listed| listed == candidate.step),
    }
}

/// Who asks, of all who wrote what steps are for: the first, and how many more there are.
pub fn requesters(candidates: &[Candidate<'_>]) -> String {
    let users: BTreeSet<&str> = candidates.iter().flat_map(|candidate| candidate.requested_by.split('\n')).collect();
    let first = users.iter().find(|user| !user.is_empty()).copied().unwrap_or(UNKNOWN);
    match users.len().saturating_sub(1) {
        0 => first.to_owned(),
        more => format!("{first} and {more} more"),
    }
}
