//! What a decision looks like to others: the status of the Gate, text, and JSON.

use setpoint_api::planspec::GatePhase;
use setpoint_api::planspec::gate::GateOutcome;

use super::*;

#[test]
fn the_gate_tells_what_people_decided() {
    let web = |evidence: Vec<Given>| World::of(vec![destroy("web"), destroy("db")]).reviews(evidence);
    let no_destroys = Guardrails { max_destroys_per_hour: Some(1), ..Guardrails::default() };
    let both = || approve("alice", &["web", "db"]);
    let rows = [
        ("nothing to decide on yet", World::of(vec![]), GatePhase::Pending, None),
        ("nobody decided", web(vec![]), GatePhase::Waiting, None),
        ("one step is approved, another is not", web(vec![approve("alice", &["web"])]), GatePhase::Waiting, None),
        ("one step is rejected, another is open", web(vec![reject("alice", &["web"])]), GatePhase::Waiting, None),
        ("all are approved", web(vec![both()]), GatePhase::Approved, Some((GateOutcome::Approved, "alice"))),
        (
            "one is approved, another rejected",
            web(vec![approve("alice", &["web"]), reject("bob", &["db"])]),
            GatePhase::Rejected,
            Some((GateOutcome::Rejected, "bob")),
        ),
        ("nobody is asked", World::of(vec![create("web")]), GatePhase::Approved, None),
        (
            "people approved, and a budget holds it",
            web(vec![both()]).limits(no_destroys),
            GatePhase::Approved,
            Some((GateOutcome::Approved, "alice")),
        ),
    ];
    for (name, world, phase, resolution) in rows {
        let status = world.ask(|input| gate_status(input.evidence, &gate(input)));
        assert_eq!(status.phase, Some(phase), "{name}");
        let resolved = status.resolution.as_ref().map(|resolved| (resolved.outcome, resolved.actors.join(" ")));
        assert_eq!(resolved, resolution.map(|(outcome, who)| (outcome, who.to_owned())), "{name}");
        assert_eq!(status.review_history.len(), world.evidence.len(), "{name}");
    }
}

#[test]
fn a_decision_reads_line_by_line_and_survives_json() {
    let limits = Guardrails { max_hourly_cost: Some(price("5")), max_instances: Some(1), ..Guardrails::default() };
    let steps =
        vec![destroy("a"), destroy("b"), after(create("c"), &["b"]), spend("d", "1"), spend("e", "6"), create("f")];
    let reviews = vec![approve("alice", &["a"]), approve("bob", &["old"]), reject("dan", &["f"])];
    let decision = World::of(steps).limits(limits).reviews(reviews).decide();
    let expected = "\
a: may run
b: waits: Destructive: 0 of 1 approval
c: waits: b must be done first
d: may run
e: refused: this step alone is more than maxHourlyCost $5.00 allows
f: refused: rejected by dan
review alice by alice counts for a
review bob by bob does not count: what was reviewed has changed since
review dan by dan counts for f
";
    assert_eq!(decision.to_string(), expected);
    assert_eq!(decision.runs().collect::<Vec<_>>(), ["a", "d"]);
    let json = serde_json::to_string(&decision).unwrap();
    assert_eq!(serde_json::from_str::<Decision>(&json).unwrap(), decision);
}
