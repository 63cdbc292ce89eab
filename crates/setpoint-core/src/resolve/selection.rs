//! Whether a plan could serve a goal at all: it names the goal, is selected, and is valid.

use setpoint_api::planspec::Goal;

use super::{CheckedPlan, Verdict};
use crate::labels;

/// Why a plan could not serve the goal, if it could not.
pub(super) fn ruled_out(goal: &Goal, checked: &CheckedPlan<'_>) -> Option<Verdict> {
    other_goal(goal, checked).or_else(|| not_selected(goal, checked)).or_else(|| invalid(checked))
}

/// A goalRef without a namespace means the plan's own. With a uid, it means that very goal.
fn other_goal(goal: &Goal, checked: &CheckedPlan<'_>) -> Option<Verdict> {
    let Some(named) = &checked.plan.spec.goal_ref else { return Some(Verdict::OtherGoal { goal: None }) };
    let own = checked.plan.metadata.namespace.as_deref().unwrap_or_default();
    let namespace = named.namespace.as_deref().unwrap_or(own);
    let same = goal.metadata.name.as_deref() == Some(named.name.as_str())
        && goal.metadata.namespace.as_deref().unwrap_or_default() == namespace
        && (named.uid.is_none() || named.uid == goal.metadata.uid);
    (!same).then(|| {
        let uid = named.uid.as_ref().map(|uid| format!(" (uid {uid})")).unwrap_or_default();
        Verdict::OtherGoal { goal: Some(format!("{namespace}/{}{uid}", named.name)) }
    })
}

fn not_selected(goal: &Goal, checked: &CheckedPlan<'_>) -> Option<Verdict> {
    let unmet = labels::unmet(goal.spec.plan_selector.as_ref()?, checked.plan.metadata.labels.as_ref())?;
    Some(Verdict::NotSelected { requirement: unmet.to_string() })
}

fn invalid(checked: &CheckedPlan<'_>) -> Option<Verdict> {
    checked.error.map(|error| Verdict::Invalid { error: error.to_owned() })
}
