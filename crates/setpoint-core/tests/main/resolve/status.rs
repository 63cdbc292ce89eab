//! What a goal's status says after it was resolved.

use jiff::Timestamp;
use serde_json::json;
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::planspec::{GoalPhase, GoalStatus, Plan};
use setpoint_core::resolve::{Resolution, goal_status, plan_status};

use super::{goal, plan, resolved, superseding, version};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time near 1970")
}

/// A status in words: phase, active plan, generation, and each condition with its reason and since when.
fn said(status: &GoalStatus) -> String {
    let condition = |condition: &Condition| {
        let since = condition.last_transition_time.map(|time| time.as_second());
        let reason = condition.reason.as_deref().unwrap_or_default();
        format!("{}={:?}/{reason}@{}", condition.type_, condition.status, since.unwrap_or_default())
    };
    let active = status.active_plan_ref.as_ref().map(ToString::to_string);
    let conditions: Vec<String> = status.conditions.iter().map(condition).collect();
    let phase = status.phase.map(|phase| format!("{phase:?}"));
    format!(
        "{} {} g{} {}",
        phase.unwrap_or_default(),
        active.unwrap_or("-".to_owned()),
        status.observed_generation.unwrap_or_default(),
        conditions.join(" ")
    )
}

/// What is told, the status before, the goal's generation, what was resolved, and the status after in words.
type Row<'r> = (&'r str, Option<GoalStatus>, i64, &'r Resolution, Option<&'r str>);

#[test]
fn statuses_say_what_was_resolved() {
    let found = resolved(&goal(json!({})), &[version("a", "s", "1")]);
    let none = resolved(&goal(json!({})), &[]);
    let other = resolved(&goal(json!({})), &[version("b", "s", "1")]);
    let circle = resolved(&goal(json!({})), &[superseding("a", "s", "1", &["a"])]);
    let ready = goal_status(None, Some(1), &found, at(1)).expect("a first status");
    let pending = goal_status(None, Some(1), &none, at(1)).expect("a first status");
    let unsound = goal_status(None, Some(1), &circle, at(1)).expect("a first status");
    let in_phase = |phase| Some(GoalStatus { phase: Some(phase), ..ready.clone() });
    let rows: Vec<Row<'_>> = vec![
        ("a plan is found", None, 1, &found, Some("Ready shop/a g1 PlanResolved=True/PlanFound@9")),
        ("no plan is found", None, 1, &none, Some("Pending - g1 PlanResolved=False/NoPlanFound@9")),
        ("the same result writes nothing", Some(ready.clone()), 1, &found, None),
        ("the same lack writes nothing", Some(pending.clone()), 1, &none, None),
        (
            "a plan comes, and the transition time moves",
            Some(pending),
            1,
            &found,
            Some("Ready shop/a g1 PlanResolved=True/PlanFound@9"),
        ),
        (
            "another plan comes, and it does not",
            Some(ready.clone()),
            1,
            &other,
            Some("Ready shop/b g1 PlanResolved=True/PlanFound@1"),
        ),
        (
            "a stale active plan is not kept when nothing matches",
            Some(ready.clone()),
            1,
            &none,
            Some("Pending - g1 PlanResolved=False/NoPlanFound@9"),
        ),
        (
            "another generation is noted, and the transition time stays",
            Some(ready.clone()),
            2,
            &found,
            Some("Ready shop/a g2 PlanResolved=True/PlanFound@1"),
        ),
        ("a goal that succeeded is not reset", in_phase(GoalPhase::Succeeded), 2, &none, None),
        ("nor one that failed", in_phase(GoalPhase::Failed), 2, &other, None),
        ("nor one that was cancelled", in_phase(GoalPhase::Cancelled), 2, &found, None),
        ("a goal that is being executed is not called ready again", in_phase(GoalPhase::Executing), 1, &found, None),
        (
            "a goal whose plan was being made has one",
            in_phase(GoalPhase::Planning),
            1,
            &found,
            Some("Ready shop/a g1 PlanResolved=True/PlanFound@1"),
        ),
        (
            "a circle of supersession is reported",
            Some(ready.clone()),
            1,
            &circle,
            Some("Ready shop/a g1 PlanResolved=True/PlanFound@1 SupersessionSound=False/CyclicSupersession@9"),
        ),
        (
            "and taken back when it is gone",
            Some(unsound),
            1,
            &found,
            Some("Ready shop/a g1 PlanResolved=True/PlanFound@1 SupersessionSound=True/NoCycle@9"),
        ),
    ];
    for (name, current, generation, resolution, expected) in rows {
        let status = goal_status(current.as_ref(), Some(generation), resolution, at(9));
        assert_eq!(status.as_ref().map(said).as_deref(), expected, "{name}");
        if let Some(status) = status {
            assert_eq!(
                goal_status(Some(&status), Some(generation), resolution, at(10)),
                None,
                "{name}: once is enough"
            );
        }
    }
}

#[test]
fn a_status_of_others_is_kept() {
    let resolution = resolved(&goal(json!({})), &[version("a", "s", "1")]);
    let foreign = Condition {
        type_: "Audited".to_owned(),
        status: ConditionStatus::Unknown,
        reason: None,
        message: None,
        last_transition_time: None,
        observed_generation: None,
    };
    let current = GoalStatus { conditions: vec![foreign.clone()], ..GoalStatus::default() };
    let status = goal_status(Some(&current), None, &resolution, at(9)).expect("a plan was found");
    assert_eq!(status.conditions[0], foreign);
}

#[test]
fn candidates_are_listed_up_to_a_bound_and_without_other_goals() {
    let mut plans: Vec<Plan> = (0..80).map(|at| version(&format!("p{at}"), "s", &at.to_string())).collect();
    plans.push(plan("z", json!({"goalRef": {"name": "other"}})));
    let status = goal_status(None, Some(1), &resolved(&goal(json!({})), &plans), at(9)).expect("a first status");
    assert_eq!(status.candidates.len(), 50);
    assert_eq!(status.candidates[0].reason, "LowerVersion");
    assert_eq!(status.candidates[0].message, "shop/p78 has version 78, and shop/p79 has the higher version 79");
    let resolved = &status.conditions[0];
    assert_eq!(resolved.message.as_deref(), Some("shop/p79 serves the goal; 79 more could not or need not"));
}

#[test]
fn circles_are_told_of_up_to_a_bound() {
    let ring = |of: &str, size: usize| -> Vec<Plan> {
        let name = |at: usize| format!("{of}{:04}", at % size);
        (0..size).map(|at| superseding(&name(at), &name(at), "1", &[&name(at + 1)])).collect()
    };
    let rows: [(&str, Vec<Plan>, &str); 2] = [
        (
            "many plans",
            ring("p", 3_000),
            "shop/p0000, shop/p0001, shop/p0002, shop/p0003, shop/p0004, shop/p0005, shop/p0006, shop/p0007, shop/p0008, \
             shop/p0009 and 2990 more supersede each other, which is not obeyed",
        ),
        (
            "many circles",
            (0..9).flat_map(|at| ring(&format!("c{at}-"), 1)).collect(),
            "shop/c0-0000 supersedes itself, which is not obeyed; shop/c1-0000 supersedes itself, which is not obeyed; \
             shop/c2-0000 supersedes itself, which is not obeyed; shop/c3-0000 supersedes itself, which is not obeyed; \
             shop/c4-0000 supersedes itself, which is not obeyed; 4 more circles",
        ),
    ];
    for (name, plans, message) in rows {
        let status = goal_status(None, Some(1), &resolved(&goal(json!({})), &plans), at(9)).expect("a first status");
        let sound = status.conditions.iter().find(|condition| condition.type_ == "SupersessionSound");
        assert_eq!(sound.and_then(|sound| sound.message.as_deref()), Some(message), "{name}");
    }
}

#[test]
fn plans_say_whether_they_are_valid() {
    let sound = plan_status(None, Some(1), 3, None, at(1)).expect("a first status");
    let wrong = plan_status(None, Some(1), 3, Some("spec.graph: no"), at(1)).expect("a first status");
    let rows = [
        ("a first look", None, 1, None, Some("Ready 3 g1 Valid=True/Valid@9")),
        ("the same again writes nothing", Some(sound.clone()), 1, None, None),
        ("the same fault again writes nothing", Some(wrong.clone()), 1, Some("spec.graph: no"), None),
        ("it breaks", Some(sound.clone()), 2, Some("spec.graph: no"), Some("Invalid 3 g2 Valid=False/Invalid@9")),
        ("another fault", Some(wrong.clone()), 2, Some("spec.series: no"), Some("Invalid 3 g2 Valid=False/Invalid@1")),
        ("it is set right", Some(wrong), 2, None, Some("Ready 3 g2 Valid=True/Valid@9")),
        ("another generation alone", Some(sound), 2, None, Some("Ready 3 g2 Valid=True/Valid@1")),
    ];
    for (name, current, generation, error, expected) in rows {
        let status = plan_status(current.as_ref(), Some(generation), 3, error, at(9));
        let said = status.as_ref().map(|status| {
            let valid = &status.conditions[0];
            let since = valid.last_transition_time.map_or(0, |time| time.as_second());
            format!(
                "{:?} {} g{} {}={:?}/{}@{since}",
                status.phase.expect("a phase"),
                status.node_count.unwrap_or_default(),
                status.observed_generation.unwrap_or_default(),
                valid.type_,
                valid.status,
                valid.reason.as_deref().unwrap_or_default(),
            )
        });
        assert_eq!(said.as_deref(), expected, "{name}");
        if let (Some(status), Some(error)) = (&status, error) {
            assert_eq!(status.conditions[0].message.as_deref(), Some(error), "{name}");
        }
    }
}
