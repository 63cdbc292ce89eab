//! Goals say which plan serves them, as the plans are now, and plans say whether they are valid.

use jiff::Timestamp;
use setpoint_api::planspec::{Goal, GoalPhase, Plan};
use setpoint_core::resolve::{CheckedPlan, first_error, goal_status, plan_status, resolve};

use crate::dev::simulate::ledger::Books;
use crate::dev::simulate::rules::title;

/// What a status would be now says whether it tells the truth. When it was first told does not matter.
pub(super) fn goal(books: &Books, goal: &Goal, unmet: &mut Vec<String>) {
    let title = title(&goal.metadata);
    let phase = goal.status.as_ref().and_then(|status| status.phase);
    if phase.is_some_and(GoalPhase::is_terminal) {
        return;
    }
    let errors: Vec<Option<String>> = books.plans.values().map(|plan| first_error(plan)).collect();
    let plans = books.plans.values().zip(&errors);
    let checked: Vec<CheckedPlan<'_>> =
        plans.map(|(plan, error)| CheckedPlan { plan, error: error.as_deref() }).collect();
    let resolution = resolve(goal, &checked);
    let due = goal_status(goal.status.as_ref(), goal.metadata.generation, &resolution, Timestamp::UNIX_EPOCH);
    if let Some(due) = due {
        unmet.push(format!("the Goal {title} says {:?}, and it is {due:?}", goal.status));
    }
}

pub(super) fn plan(plan: &Plan, unmet: &mut Vec<String>) {
    let (error, nodes) = (first_error(plan), plan.spec.graph.nodes.len());
    let now = Timestamp::UNIX_EPOCH;
    let due = plan_status(plan.status.as_ref(), plan.metadata.generation, nodes, error.as_deref(), now);
    if let Some(due) = due {
        unmet.push(format!("the Plan {} says {:?}, and it is {due:?}", title(&plan.metadata), plan.status));
    }
}
