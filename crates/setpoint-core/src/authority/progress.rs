//! How far a change set is: the state of each step, its phase and its conditions.
//!
//! What was done stays done: the record of a change set outlives that of its objects, since it is what keeps an approval
//! from being used again. What was begun for an object that is gone counts as done: nobody can tell any more.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use setpoint_api::change_set::{ChangeSet, ChangeSetStatus, Mode, Phase, StepState, StepStatus};
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::machine::{DoneStep, Intent};
use setpoint_api::step::{Action, Step, Target};

use super::ticket::{Spent, Ticket};
use crate::gate::{Decision, Discount, Judged, Outcome, Reviewed, Verdict};
use crate::plan::GUEST;
use crate::workload::selection::controller_of;
use crate::{conditions, machine};

/// The condition of a change set that is false while a limit holds one of its steps back. One that never was held lacks it.
pub const WITHIN_LIMITS: &str = "WithinLimits";

/// What is known of an object that a change set has steps for. Nothing is known of one that is not there.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// Which object it is: another may have had its name. None for a guest that belongs to nothing.
    pub uid: Option<&'a str>,
    /// The calls that are under way for it.
    pub intents: &'a [Intent],
    /// What was done for it.
    pub done: &'a [DoneStep],
    pub wanted: Wanted<'a>,
    /// Why people are not asked about it in this change set, if they are not.
    pub outdated: Option<&'a str>,
    /// Whether the change set brought it along, or that it goes, and it is as that says.
    pub is_brought: bool,
    /// How it stands to what the change set says of it; none where that is nothing.
    pub version: Option<Version>,
}

/// An object that a change set brings along or announces to go, or whose controller asks in it, as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub generation: i64,
    /// Whether it is as the change set says.
    pub is_as_said: bool,
}

impl Version {
    /// The generation with which the object is as the change set says: what is not written yet will be with the next write.
    pub fn asked(self) -> i64 {
        self.generation + i64::from(!self.is_as_said)
    }

    /// Whether what was asked for this generation is over: the object was written otherwise, or again, or is another. So it is
    /// where nobody knows for which it was.
    pub fn is_past(self, asked: Option<i64>) -> bool {
        match self.is_as_said {
            true => asked != Some(self.generation),
            false => asked <= Some(self.generation),
        }
    }
}

/// What an object still wants to be done.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// That is not known: it was not looked at since it was written, or what is asked for is not written yet.
    Unknown,
    /// The steps with these digests; none where it is as desired.
    Only(&'a BTreeSet<&'a str>),
}

/// What a gatekeeper writes down of a change set.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub phase: Phase,
    pub step_states: Vec<StepStatus>,
    pub conditions: Vec<Condition>,
    /// What the gate says of the steps on which people can decide: not of what is no longer to be done.
    pub decision: Decision,
}

/// How far a change set is, given what the gate says of its steps and what is known of its objects. `abandoned` says why
/// nobody will carry out what is left, if nobody will.
pub fn progress(
    change_set: &ChangeSet,
    decision: &Decision,
    objects: &BTreeMap<&Target, Work<'_>>,
    abandoned: Option<&str>,
    now: Timestamp,
) -> Progress {
    let nothing = ChangeSetStatus::default();
    let status = change_set.status.as_ref().unwrap_or(&nothing);
    let is_planned = status.digest.is_some();
    let judged: BTreeMap<&str, &Judged> = decision.steps.iter().map(|judged| (&*judged.digest, judged)).collect();
    let metadata = &change_set.metadata;
    let ticket = Ticket {
        uid: metadata.uid.as_deref().unwrap_or_default(),
        created_at: metadata.creation_timestamp.as_ref().map_or(Timestamp::MAX, |time| time.0),
    };
    // One of a Machine's own that does not say for which generation it was made is of none.
    let is_own = controller_of(metadata).is_some_and(|owner| owner.kind == machine::KIND);
    let asked_at = status.object_generation.or(is_own.then_some(0));
    let recorded = status.step_states.iter().map(|old| ((old.id.as_str(), old.digest.as_str()), old));
    let recorded: BTreeMap<(&str, &str), &StepStatus> = recorded.collect();
    let listed: BTreeSet<&str> = status.steps.iter().map(|step| step.id.as_str()).collect();
    let kept = status.step_states.iter().filter(|old| old.is_used_up() && !listed.contains(&*old.id));
    let mut step_states: Vec<StepStatus> = kept.cloned().collect();
    for step in &status.steps {
        let old = recorded.get(&(step.id.as_str(), step.digest.as_str())).copied();
        let subject = Subject {
            step,
            old,
            judged: judged.get(&*step.digest).copied(),
            work: objects.get(&step.target),
            planned: old.and_then(|old| old.generation).or(asked_at),
        };
        let (state, message) = subject.state(ticket, abandoned);
        let since = old.filter(|old| old.state == state).map_or(now, |old| old.since);
        let spent = subject.was_spent() || state == StepState::Stale && subject.is_spent(ticket, abandoned.is_some());
        let object = subject.object(state);
        step_states.push(StepStatus {
            id: step.id.clone(),
            digest: step.digest.clone(),
            state,
            message,
            since,
            spent,
            object: object.map(str::to_owned),
            generation: subject.planned,
        });
    }
    let is_gone = |step: &&Step| step.target.kind == GUEST && !objects.contains_key(&step.target);
    let gone = status.steps.iter().filter(is_gone).map(|step| step.id.as_str()).collect();
    let decision = undecided(decision, &gone, &step_states);
    let phase = match change_set.spec.mode {
        _ if !is_planned => Phase::Pending,
        Mode::Preview => Phase::Planned,
        Mode::Execute => phase(&step_states, &decision),
    };
    let conditions = conditions(change_set, status, phase, &decision, now);
    let step_states = if change_set.spec.mode == Mode::Preview { Vec::new() } else { step_states };
    Progress { phase, step_states, conditions, decision }
}

/// What is left of a decision: nothing of the steps that are stale, and of those that are done that they could be. What came
/// after that, such as another policy or the end of an approval, asks nobody about them again. Of what a review counts for,
/// that is left which still has leave by it. `gone` are the steps for guests that belonged to nothing and are gone, perhaps by
/// just this approval.
fn undecided(decision: &Decision, gone: &BTreeSet<&str>, states: &[StepStatus]) -> Decision {
    let states: BTreeMap<(&str, &str), (StepState, bool)> =
        states.iter().map(|step| ((&*step.id, &*step.digest), (step.state, step.spent))).collect();
    let state = |judged: &Judged| states.get(&(&*judged.step, &*judged.digest)).copied();
    let left = |judged: &Judged| match state(judged).map(|(state, _)| state) {
        Some(StepState::Stale) => None,
        Some(StepState::Done) => Some(Judged { verdict: Verdict::Run, ..judged.clone() }),
        _ => Some(judged.clone()),
    };
    // A rejection holds all the same.
    let is_void = |judged: &&Judged| {
        let is_spent = state(judged).is_some_and(|(_, is_spent)| is_spent);
        is_spent && !judged.verdict.is_rejected() && !gone.contains(judged.step.as_str())
    };
    let void = decision.steps.iter().filter(is_void).map(|judged| judged.step.as_str()).collect();
    let told = |review: &Reviewed| Reviewed { outcome: left_of(&review.outcome, &void), ..review.clone() };
    Decision {
        steps: decision.steps.iter().filter_map(left).collect(),
        reviews: decision.reviews.iter().map(told).collect(),
        approved_until: decision.approved_until,
    }
}

/// What a review counts for, given the steps that have no leave by it any more.
fn left_of(outcome: &Outcome, void: &BTreeSet<&str>) -> Outcome {
    let Outcome::Counted { steps } = outcome else { return outcome.clone() };
    let steps: BTreeSet<String> = steps.iter().filter(|step| !void.contains(step.as_str())).cloned().collect();
    match steps.is_empty() {
        true => Outcome::Ignored { reason: Discount::Outdated },
        false => Outcome::Counted { steps },
    }
}

/// A step and all that its state depends on.
struct Subject<'a> {
    step: &'a Step,
    old: Option<&'a StepStatus>,
    judged: Option<&'a Judged>,
    work: Option<&'a Work<'a>>,
    /// The generation of the object that it is for, as it is on record since the step was planned.
    planned: Option<i64>,
}

impl Subject<'_> {
    /// Whether it is for an object that is gone, or was for another of its name.
    fn is_for_another(&self) -> bool {
        let is_there_no_more = self.work.is_none() && self.step.target.kind != GUEST;
        match self.old.and_then(|old| old.object.as_deref()) {
            Some(uid) => is_there_no_more || self.work.is_some_and(|work| work.uid.is_some_and(|other| other != uid)),
            // What is asked about before an object is there is for its first generation.
            None => is_there_no_more && (self.removes() || self.planned > Some(1)),
        }
    }

    /// Whether it is for an object that goes.
    fn removes(&self) -> bool {
        matches!(self.step.action, Action::Delete | Action::Release)
    }

    /// Whether the object was written otherwise than the change set says since that was asked about.
    fn has_moved(&self) -> bool {
        self.work.and_then(|work| work.version).is_some_and(|now| now.is_past(self.planned))
    }

    fn is_rejected(&self) -> bool {
        self.judged.is_some_and(|judged| judged.verdict.is_rejected())
    }

    /// The object that it is taken for, or that was as the change set says once.
    fn object(&self, state: StepState) -> Option<&str> {
        let is_its_own = |work: &&Work<'_>| state == StepState::Running || work.is_brought;
        let own = || self.work.filter(is_its_own).and_then(|work| work.uid);
        // What was begun and surely had no effect was for nobody.
        let is_given_up = |old: &&StepStatus| old.state == StepState::Running && state != StepState::Done;
        let known = self.old.filter(|old| !is_given_up(old)).and_then(|old| old.object.as_deref());
        known.or_else(own)
    }

    fn spent(&self, ticket: Ticket<'_>) -> Option<Spent> {
        ticket.spent(&self.step.digest, self.work.map_or(&[][..], |work| work.done))
    }

    /// Whether it is on record that its approvals are used up. That stays so, also while somebody rejects it.
    fn was_spent(&self) -> bool {
        self.old.is_some_and(|old| old.spent)
    }

    /// Whether it was done or tried, by whoever's leave.
    fn was_taken(&self, ticket: Ticket<'_>) -> bool {
        matches!(self.spent(ticket), Some(Spent::Done | Spent::Tried | Spent::Elsewhere))
    }

    /// Whether it can be done by the leave of this change set no more. What was abandoned is asked about elsewhere, also where
    /// a part of it was written; but what somebody rejects is over only once it was taken.
    fn is_spent(&self, ticket: Ticket<'_>, is_abandoned: bool) -> bool {
        let is_void =
            is_abandoned || self.has_moved() || self.is_for_another() || self.spent(ticket) == Some(Spent::Forgotten);
        self.was_taken(ticket) || (is_void && !self.is_rejected())
    }

    /// Whether nothing more comes of it by the leave of this change set, whatever happens to its object.
    fn is_final(&self, ticket: Ticket<'_>) -> bool {
        let is_done = self.old.is_some_and(|old| old.state == StepState::Done);
        is_done || self.was_spent() && (self.was_taken(ticket) || !self.is_rejected())
    }

    /// Whether it was stale, and it is not known that it is wanted again. A guest that belongs to nothing is wanted by nobody.
    fn stays_stale(&self) -> bool {
        let is_unknown =
            self.step.target.kind != GUEST && self.work.is_some_and(|work| matches!(work.wanted, Wanted::Unknown));
        is_unknown && self.old.is_some_and(|old| old.state == StepState::Stale)
    }

    fn state(&self, ticket: Ticket<'_>, abandoned: Option<&str>) -> (StepState, Option<String>) {
        match self.old.filter(|_| self.is_final(ticket)) {
            Some(old) if old.state == StepState::Failed => {
                return (StepState::Stale, Some("its approvals are used up".to_owned()));
            }
            Some(old) => return (old.state, old.message.clone()),
            None => {}
        }
        let spent = self.spent(ticket);
        match spent {
            Some(Spent::Done) => return (StepState::Done, None),
            Some(Spent::Tried) => {
                return (
                    StepState::Stale,
                    Some("it was tried, and does not show: it has to be approved anew".to_owned()),
                );
            }
            _ => {}
        }
        if self.is_for_another() {
            let is_begun = self.old.is_some_and(|old| old.state == StepState::Running);
            let gone = match () {
                () if is_begun => Some((StepState::Done, "it was begun for an object that is gone")),
                () if self.removes() => Some((StepState::Done, "the object is gone")),
                () => (!self.is_rejected()).then_some((StepState::Stale, "it was for an object that is gone")),
            };
            if let Some((state, why)) = gone {
                return (state, Some(why.to_owned()));
            }
        }
        let intents = self.work.map_or(&[][..], |work| work.intents);
        if intents.iter().any(|intent| intent.digest == self.step.digest) {
            return (StepState::Running, None);
        }
        // What is over and was not taken is here because somebody rejects it, which holds whether or not it is wanted now.
        if let Some(verdict) = self.judged.map(|judged| &judged.verdict).filter(|_| self.was_spent()) {
            return (StepState::Failed, Some(verdict.to_string()));
        }
        // It gives no leave for it any more, so whoever still wants it must ask anew.
        match spent {
            Some(Spent::Elsewhere) => {
                return (StepState::Stale, Some("it was done by the leave of another change set".to_owned()));
            }
            // What somebody rejected is not forgotten, however much is done since.
            Some(Spent::Forgotten) if !self.is_rejected() => {
                return (StepState::Stale, Some("so much was done since that it may have been, too".to_owned()));
            }
            Some(Spent::Done | Spent::Tried | Spent::Forgotten) | None => {}
        }
        // A guest that belongs to nothing has nobody who keeps a record.
        if self.work.is_none() && self.step.target.kind == GUEST {
            let is_let = self.old.is_some_and(|old| matches!(old.state, StepState::Approved | StepState::Running));
            let state = if is_let { StepState::Done } else { StepState::Stale };
            return (state, Some("the guest is gone".to_owned()));
        }
        if self.has_moved() && !self.is_rejected() {
            return (StepState::Stale, Some("it was written otherwise since".to_owned()));
        }
        let is_wanted = self.work.is_none_or(|work| match work.wanted {
            Wanted::Unknown => true,
            Wanted::Only(digests) => digests.contains(self.step.digest.as_str()),
        });
        if !is_wanted {
            return (StepState::Stale, Some("it is no longer what is to be done".to_owned()));
        }
        let outdated = self.work.and_then(|work| work.outdated).or(abandoned);
        match self.judged.map(|judged| &judged.verdict) {
            Some(verdict @ Verdict::Refuse { .. }) => (StepState::Failed, Some(verdict.to_string())),
            _ if outdated.is_some() => (StepState::Stale, outdated.map(str::to_owned)),
            _ if self.stays_stale() => (StepState::Stale, self.old.and_then(|old| old.message.clone())),
            Some(Verdict::Run) => (StepState::Approved, None),
            Some(verdict @ Verdict::Wait { .. }) => (StepState::Waiting, Some(verdict.to_string())),
            None => (StepState::Pending, None),
        }
    }
}

/// What is left decides; where nothing is, what became of it all.
fn phase(states: &[StepStatus], decision: &Decision) -> Phase {
    let has = |state: StepState| states.iter().any(|step| step.state == state);
    let is_open = [StepState::Pending, StepState::Waiting, StepState::Approved, StepState::Running];
    let goes_on = has(StepState::Running) || has(StepState::Approved);
    if is_open.into_iter().any(has) {
        return if goes_on || !decision.waits_for_people() { Phase::Running } else { Phase::Waiting };
    }
    if has(StepState::Failed) {
        Phase::Failed
    } else if has(StepState::Stale) {
        Phase::Stale
    } else {
        Phase::Succeeded
    }
}

fn conditions(
    change_set: &ChangeSet,
    status: &ChangeSetStatus,
    phase: Phase,
    decision: &Decision,
    now: Timestamp,
) -> Vec<Condition> {
    let mut all = status.conditions.clone();
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
    let is_planned = phase != Phase::Pending;
    set("Planned", is_planned, if is_planned { "Planned" } else { "Pending" }, None);
    if is_planned && change_set.spec.mode == Mode::Execute {
        let waiting = decision.steps.iter().filter(|judged| judged.verdict.waits_for_people());
        let waiting: Vec<String> = waiting.map(|judged| format!("{}: {}", judged.step, judged.verdict)).collect();
        let rejected = decision.steps.iter().find(|judged| judged.verdict.is_rejected());
        match (rejected, waiting.is_empty()) {
            (Some(judged), _) => {
                set("Approved", false, "Rejected", Some(format!("{}: {}", judged.step, judged.verdict)))
            }
            (None, true) if phase == Phase::Stale => set("Approved", false, "Stale", None),
            (None, false) => set("Approved", false, "Waiting", Some(summary(&waiting))),
            (None, true) => set("Approved", true, "Approved", None),
        }
        set("Complete", phase == Phase::Succeeded, &format!("{phase:?}"), None);
        let held = decision.steps.iter().filter(|judged| judged.verdict.waits_for_room());
        let held: Vec<String> = held.map(|judged| format!("{}: {}", judged.step, judged.verdict)).collect();
        let was_held = status.conditions.iter().any(|condition| condition.type_ == WITHIN_LIMITS);
        match held.is_empty() {
            true if was_held => set(WITHIN_LIMITS, true, WITHIN_LIMITS, None),
            true => {}
            false => set(WITHIN_LIMITS, false, "HeldBack", Some(summary(&held))),
        }
    }
    all
}

const TOLD: usize = 3;

/// The first of many, and how many more there are.
fn summary(lines: &[String]) -> String {
    let told = lines.iter().take(TOLD).cloned().collect::<Vec<_>>().join("; ");
    match lines.len().saturating_sub(TOLD) {
        0 => told,
        more => format!("{told}; and {more} more"),
    }
}
