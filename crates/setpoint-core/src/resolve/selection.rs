//! Whether a plan could serve a goal at all: it names the goal, is selected, and is valid.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use setpoint_api::planspec::Goal;

use super::{CheckedPlan, Verdict};

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
    let no_labels = BTreeMap::new();
    let labels = checked.plan.metadata.labels.as_ref().unwrap_or(&no_labels);
    let requirement = unmet(goal.spec.plan_selector.as_ref()?, labels)?;
    Some(Verdict::NotSelected { requirement })
}

fn invalid(checked: &CheckedPlan<'_>) -> Option<Verdict> {
    checked.error.map(|error| Verdict::Invalid { error: error.to_owned() })
}

/// The first requirement of a selector that labels do not meet.
fn unmet(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> Option<String> {
    let mut equal = selector.match_labels.iter().flatten();
    if let Some((key, value)) = equal.find(|(key, value)| labels.get(*key) != Some(value)) {
        return Some(format!("the label {key} must be {value:?}"));
    }
    let mut expressions = selector.match_expressions.iter().flatten();
    expressions.find_map(|expression| unmet_expression(expression, labels.get(&expression.key)))
}

fn unmet_expression(expression: &LabelSelectorRequirement, label: Option<&String>) -> Option<String> {
    let key = &expression.key;
    let values = expression.values.as_deref().unwrap_or_default();
    let listed = label.is_some_and(|label| values.contains(label));
    let (met, rule) = match expression.operator.as_str() {
        "In" => (listed, format!("must be one of {values:?}")),
        "NotIn" => (!listed, format!("must be none of {values:?}")),
        "Exists" => (label.is_some(), "must exist".to_owned()),
        "DoesNotExist" => (label.is_none(), "must not exist".to_owned()),
        operator => (false, format!("is asked for with the unknown operator {operator:?}")),
    };
    (!met).then(|| format!("the label {key} {rule}"))
}
