//! What a Goal's status says after it was resolved.

use jiff::Timestamp;
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::planspec::{GoalCandidate, GoalPhase, GoalStatus};

use super::supersession::cycle_sentence;
use super::{Candidate, Resolution, Verdict};
use crate::conditions;
use crate::count::counted;

/// How many candidates a status lists: an object has bounds, and so has a reader's patience.
const CANDIDATES_MAX: usize = 50;
/// How many circles a message tells of.
const CIRCLES_SHOWN: usize = 5;
const PLAN_RESOLVED: &str = "PlanResolved";
const SUPERSESSION_SOUND: &str = "SupersessionSound";

/// The goal's new status, or none where it would say the same: an unchanged result writes nothing.
///
/// A goal that is over stays as it ended. One that is being executed is not called ready again.
pub fn goal_status(
    current: Option<&GoalStatus>,
    generation: Option<i64>,
    resolution: &Resolution,
    now: Timestamp,
) -> Option<GoalStatus> {
    let mut status = current.cloned().unwrap_or_default();
    if status.phase.is_some_and(GoalPhase::is_terminal) {
        return None;
    }
    status.phase = Some(match (&resolution.active, status.phase) {
        (Some(_), Some(GoalPhase::Executing)) => GoalPhase::Executing,
        (Some(_), _) => GoalPhase::Ready,
        (None, _) => GoalPhase::Pending,
    });
    status.active_plan_ref = resolution.active.as_ref().map(|plan| plan.reference());
    status.candidates = others(resolution).take(CANDIDATES_MAX).map(listed).collect();
    status.observed_generation = generation;
    let set = |status: &mut GoalStatus, condition| conditions::set(&mut status.conditions, condition, now);
    set(&mut status, plan_resolved(resolution, generation));
    let was_unsound = status.conditions.iter().any(|condition| condition.type_ == SUPERSESSION_SOUND);
    if was_unsound || !resolution.cycles.is_empty() {
        set(&mut status, supersession_sound(resolution, generation));
    }
    (Some(&status) != current).then_some(status)
}

/// The plans that name the goal and do not serve it.
fn others(resolution: &Resolution) -> impl Iterator<Item = &Candidate> {
    let other = |verdict: &Verdict| !matches!(verdict, Verdict::Active | Verdict::OtherGoal { .. });
    resolution.candidates.iter().filter(move |candidate| other(&candidate.verdict))
}

fn listed(candidate: &Candidate) -> GoalCandidate {
    GoalCandidate {
        plan_ref: candidate.plan.reference(),
        reason: candidate.verdict.word().to_owned(),
        message: format!("{} {}", candidate.plan, candidate.verdict),
    }
}

fn plan_resolved(resolution: &Resolution, generation: Option<i64>) -> Condition {
    let others = others(resolution).count();
    let (holds, reason, message) = match &resolution.active {
        Some(plan) if others == 0 => (ConditionStatus::True, "PlanFound", format!("{plan} serves the goal")),
        Some(plan) => {
            (ConditionStatus::True, "PlanFound", format!("{plan} serves the goal; {others} more could not or need not"))
        }
        None if others == 0 => (ConditionStatus::False, "NoPlanFound", "no plan names this goal".to_owned()),
        None => {
            (ConditionStatus::False, "NoPlanFound", format!("of {others} that name this goal, no plan can serve it"))
        }
    };
    condition(PLAN_RESOLVED, holds, reason, message, generation)
}

fn supersession_sound(resolution: &Resolution, generation: Option<i64>) -> Condition {
    if resolution.cycles.is_empty() {
        let message = "no plans supersede each other in a circle".to_owned();
        return condition(SUPERSESSION_SOUND, ConditionStatus::True, "NoCycle", message, generation);
    }
    let shown = resolution.cycles.iter().take(CIRCLES_SHOWN);
    let sentences: Vec<String> = shown.map(|cycle| cycle_sentence(cycle)).collect();
    let message = match resolution.cycles.len() - sentences.len() {
        0 => sentences.join("; "),
        more => format!("{}; {}", sentences.join("; "), counted(more, "more circle")),
    };
    condition(SUPERSESSION_SOUND, ConditionStatus::False, "CyclicSupersession", message, generation)
}

pub(super) fn condition(
    type_: &str,
    status: ConditionStatus,
    reason: &str,
    message: String,
    observed_generation: Option<i64>,
) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status,
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: None,
        observed_generation,
    }
}
