//! What is recorded before something is done, and traffic, which counts without being a step.

use super::*;

fn all_limits() -> Guardrails {
    Guardrails {
        max_destroys_per_hour: Some(9),
        max_added_cost_per_hour: Some(price("9")),
        max_moved_bps_per_hour: Some(10_000),
        ..Guardrails::default()
    }
}

#[test]
fn what_a_limit_counts_is_recorded() {
    let saves = Step { hourly_cost_delta: Some(price("-1")), ..step("a", Action::Stop) };
    let none = Guardrails::default();
    let rows = [
        ("a destroy", destroy("a"), all_limits(), true),
        ("a destroy that no limit counts", destroy("a"), none.clone(), false),
        ("a rise of cost", spend("a", "1"), all_limits(), true),
        ("a rise of cost that no limit counts", spend("a", "1"), none, false),
        ("what saves", saves, all_limits(), false),
        ("what costs nothing", create("a"), all_limits(), false),
    ];
    for (name, step, limits, expected) in rows {
        let entry = ledger_entry(&step, "call", &limits, now());
        assert_eq!(entry.is_some(), expected, "{name}");
        assert!(entry.is_none_or(|entry| entry.time == now() && entry.digest == step.digest), "{name}");
    }
}

#[test]
fn the_ledger_keeps_an_hour_and_one_entry_for_a_call() {
    let call = |name: &str, intent: &str, seconds: i64| {
        ledger_entry(&destroy(name), intent, &all_limits(), ago(seconds)).unwrap()
    };
    let entry = |name: &str, seconds: i64| call(name, "1", seconds);
    let ledger = vec![entry("c", 10), entry("old", HOUR), entry("a", 1_800)];
    assert_eq!(prune(ledger.clone(), now()), [entry("a", 1_800), entry("c", 10)]);
    assert_eq!(record(ledger.clone(), entry("a", 0)), [entry("c", 10), entry("a", 0)]);
    let again = [entry("a", 1_800), entry("c", 10), call("a", "2", 0)];
    assert_eq!(record(ledger, call("a", "2", 0)), again, "the same step by another call counts again");
}

#[test]
fn no_more_traffic_is_moved_within_an_hour_than_allowed() {
    let app = target("app");
    let moved = |digest: &'static str, moved_bps: u32| TrafficMove { target: &app, digest, intent: "1", moved_bps };
    let limit = |limit: u32| Guardrails { max_moved_bps_per_hour: Some(limit), ..Guardrails::default() };
    let before = moved("x", 6_000).ledger_entry(&limit(1), ago(1_800)).unwrap();
    let rows = [
        ("no limit", moved("a", 10_000), None, "may run"),
        ("within it", moved("a", 4_000), Some(10_000), "may run"),
        (
            "beyond it",
            moved("a", 4_001),
            Some(10_000),
            "waits: maxMovedBpsPerHour 10000 is used up until 2026-11-15T12:30:00Z",
        ),
        (
            "more than it ever allows",
            moved("a", 5_000),
            Some(4_000),
            "refused: this step alone is more than maxMovedBpsPerHour 4000 allows",
        ),
        ("a move that is tried again", moved("x", 6_000), Some(6_000), "may run"),
        (
            "a split that is set once more, as two that alternate do",
            TrafficMove { intent: "2", ..moved("x", 6_000) },
            Some(6_000),
            "waits: maxMovedBpsPerHour 6000 is used up until 2026-11-15T12:30:00Z",
        ),
        ("nothing is moved", moved("a", 0), Some(0), "may run"),
    ];
    for (name, traffic, max, expected) in rows {
        let limits = max.map(limit);
        let verdict = gate_traffic(&traffic, limits.as_ref(), std::slice::from_ref(&before), now());
        assert_eq!(verdict.to_string(), expected, "{name}");
    }
    assert_eq!(moved("a", 1).ledger_entry(&Guardrails::default(), now()), None, "no limit counts it");
}
