//! The answer never depends on the order of the question, and never on what does not concern it.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use setpoint_api::planspec::{Goal, Plan};
use setpoint_core::resolve::{CheckedPlan, first_error, resolve};

use super::{goal, plan_with, resolved, superseding};

fn any_plan(name: String) -> impl Strategy<Value = Plan> {
    let series = select(vec![None, Some("s"), Some("t"), Some("u")]);
    let version = select(vec!["0", "1", "v1", "2", "2-rc.1", "10"]);
    let supersedes = proptest::collection::vec(0..8_usize, 0..3);
    let fate = select(vec!["good", "good", "good", "good", "invalid", "other", "unlabelled"]);
    (series, version, supersedes, fate).prop_map(move |(series, version, supersedes, fate)| {
        let mut spec =
            json!({"supersedes": supersedes.iter().map(|at| json!({"name": format!("p{at}")})).collect::<Value>()});
        if let Some(series) = series {
            spec["series"] = json!(series);
            spec["version"] = json!(version);
        }
        match fate {
            "invalid" => spec["description"] = json!(""),
            "other" => spec["goalRef"] = json!({"name": "other"}),
            _ => {}
        }
        let labels = if fate == "unlabelled" { json!({}) } else { json!({"tier": "gold"}) };
        plan_with(&name, spec, json!({"labels": labels}))
    })
}

fn any_plans() -> impl Strategy<Value = Vec<Plan>> {
    (0..8_usize).prop_flat_map(|count| (0..count).map(|at| any_plan(format!("p{at}"))).collect::<Vec<_>>())
}

fn gold() -> Goal {
    goal(json!({"planSelector": {"matchLabels": {"tier": "gold"}}}))
}

fn is_eligible(plan: &Plan) -> bool {
    let named = plan.spec.goal_ref.as_ref().is_some_and(|goal| goal.name == "sso");
    named && first_error(plan).is_none() && plan.metadata.labels.as_ref().is_some_and(|labels| !labels.is_empty())
}

proptest! {
    #[test]
    fn any_order_of_plans_gives_the_same_answer(plans in any_plans(), swaps in proptest::collection::vec(any::<(Index, Index)>(), 8)) {
        let expected = resolved(&gold(), &plans);
        let mut shuffled = plans.clone();
        if !plans.is_empty() {
            swaps.iter().for_each(|(left, right)| shuffled.swap(left.index(plans.len()), right.index(plans.len())));
        }
        prop_assert_eq!(resolved(&gold(), &shuffled), expected);
    }

    #[test]
    fn every_plan_gets_one_verdict_and_one_serves_if_any_could(plans in any_plans()) {
        let resolution = resolved(&gold(), &plans);
        let mut told: Vec<&str> = resolution.candidates.iter().map(|candidate| candidate.plan.name.as_str()).collect();
        told.sort_unstable();
        let mut names: Vec<&str> = plans.iter().map(|plan| plan.metadata.name.as_deref().unwrap_or_default()).collect();
        names.sort_unstable();
        prop_assert_eq!(told, names);
        prop_assert_eq!(resolution.active.is_some(), plans.iter().any(is_eligible));
        let active = resolution.candidates.iter().filter(|candidate| candidate.verdict.word() == "Active");
        prop_assert_eq!(active.map(|candidate| &candidate.plan).collect::<Vec<_>>(), resolution.active.iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_plan_that_cannot_serve_changes_nothing_for_the_others(plans in any_plans(), stranger in any_plan("x".to_owned())) {
        prop_assume!(!is_eligible(&stranger));
        let before = resolved(&gold(), &plans);
        let mut after = resolved(&gold(), &[plans, vec![stranger]].concat());
        after.candidates.retain(|candidate| candidate.plan.name != "x");
        prop_assert_eq!(after, before);
    }

    #[test]
    fn a_plan_that_loses_and_claims_nothing_is_not_missed(plans in any_plans(), mut loser in any_plan("x".to_owned())) {
        loser.spec.supersedes.clear();
        let without = resolved(&gold(), &plans).active;
        let with = resolved(&gold(), &[plans, vec![loser]].concat()).active;
        if with.as_ref().is_none_or(|active| active.name != "x") {
            prop_assert_eq!(with, without);
        }
    }
}

/// Long series whose plans supersede each other across series: the worst that "every lower version" can ask for.
#[test]
fn ten_thousand_plans_that_supersede_each_other_are_resolved() {
    let plans: Vec<Plan> = (0..10_000)
        .map(|at| {
            let older = format!("p{}", (at + 9_900) % 10_000);
            superseding(&format!("p{at}"), &format!("s{}", at % 7), &(at / 7).to_string(), &[&older])
        })
        .collect();
    let checked: Vec<CheckedPlan<'_>> = plans.iter().map(|plan| CheckedPlan { plan, error: None }).collect();
    let resolution = resolve(&goal(json!({})), &checked);
    assert_eq!(resolution.candidates.len(), plans.len());
    assert!(resolution.active.is_some());
}
