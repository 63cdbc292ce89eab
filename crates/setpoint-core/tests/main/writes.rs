//! What is approved is one write of an object: what becomes of it when the object is written again, or somebody rejects it.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use setpoint_api::change_set::{ChangeSet, Mode, StepState, StepStatus};
use setpoint_api::step::Action;
use setpoint_core::authority::Version;
use setpoint_core::gate::Verdict;

use crate::progress::{Known, NOW, ask, change_set, done, intent, recorded, rejected, step};

/// An object with this generation, which may be as the change set says.
fn known(generation: i64, is_as_said: bool) -> Known {
    Known { version: Some(Version { generation, is_as_said }), ..Known::default() }
}

/// What becomes of the one step, and whether its approvals are used up.
fn told(change_set: &ChangeSet, verdict: Verdict, known: &Known) -> (StepState, bool) {
    let state = ask(change_set, verdict, Some(known), None).step_states.remove(0);
    (state.state, state.spent)
}

#[test]
fn a_change_set_is_about_one_write_of_an_object() {
    let asked = |generation: Option<i64>, known: &Known| {
        let planned = StepStatus { generation, ..recorded("sha256:a", StepState::Pending) };
        let change_set = change_set(Mode::Execute, vec![step(Action::Create)], vec![planned]);
        let state = ask(&change_set, Verdict::Run, Some(known), None).step_states.remove(0);
        assert_eq!(state.generation, generation, "what was asked stays on record");
        state.spent
    };
    let rows = [
        ("it is written next", Some(4), known(3, false), false),
        ("it was written", Some(4), known(4, true), false),
        ("it was written otherwise", Some(4), known(4, false), true),
        ("what comes later is another question", Some(4), known(6, true), true),
        ("one that was made anew is another object", Some(4), known(1, true), true),
        ("nobody knows for which write it was asked", None, known(4, true), true),
        ("nor for which it will be", None, known(3, false), true),
    ];
    for (name, generation, known, is_over) in rows {
        assert_eq!(asked(generation, &known), is_over, "{name}");
    }
}

#[test]
fn what_is_asked_is_of_what_is_there_or_of_the_next_write() {
    let asked = |generation, is_as_said| Version { generation, is_as_said }.asked();
    assert_eq!(asked(4, true), 4);
    assert_eq!(asked(4, false), 5);
}

#[test]
fn a_controller_asks_about_what_is_there() {
    let mut asks = change_set(Mode::Execute, vec![step(Action::Update)], vec![]);
    let owner = OwnerReference { kind: "Machine".to_owned(), controller: Some(true), ..OwnerReference::default() };
    asks.metadata.owner_references = Some(vec![owner]);
    assert_eq!(told(&asks, Verdict::Run, &known(4, true)), (StepState::Stale, true), "nobody knows about which write");
    asks.status.as_mut().expect("a status").object_generation = Some(4);
    assert_eq!(told(&asks, Verdict::Run, &known(4, true)), (StepState::Approved, false));
    assert_eq!(told(&asks, Verdict::Run, &known(5, true)), (StepState::Stale, true), "it was written again");
    let begun = Known { intents: intent(), ..known(5, true) };
    assert_eq!(told(&asks, Verdict::Run, &begun), (StepState::Running, false), "what was begun before is seen through");
}

#[test]
fn what_is_over_can_be_rejected_and_not_approved() {
    let over = |state: StepState| {
        let spent = StepStatus { generation: Some(4), spent: true, ..recorded("sha256:a", state) };
        change_set(Mode::Execute, vec![step(Action::Update)], vec![spent])
    };
    let wanted = || Known { wanted: Some(BTreeSet::from(["sha256:a"])), ..known(5, true) };
    let unwanted = || Known { wanted: Some(BTreeSet::new()), ..known(5, true) };
    let taken = || Known { done: done(Some("other"), NOW), ..known(5, true) };
    use StepState::{Failed, Stale};
    let rows = [
        ("what is over stays so", Stale, Verdict::Run, wanted(), Stale),
        ("but a rejection is heard", Stale, rejected(), wanted(), Failed),
        ("also where it is wanted later", Stale, rejected(), unwanted(), Failed),
        ("unless it was taken meanwhile", Stale, rejected(), taken(), Stale),
        ("no leave comes back with a rejection that is gone", Failed, Verdict::Run, known(4, true), Stale),
    ];
    for (name, before, verdict, known, after) in rows {
        assert_eq!(told(&over(before), verdict, &known), (after, true), "{name}");
    }
}
