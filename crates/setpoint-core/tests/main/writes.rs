//! What is approved is one write of an object: what becomes of it when the object is written again, or somebody rejects it.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value};
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
    let object: Map<String, Value> = [("kind".to_owned(), "Machine".into())].into_iter().collect();
    let asked = |states: Vec<StepStatus>, known: Option<&Known>| {
        let mut change_set = change_set(Mode::Execute, vec![step(Action::Create)], states);
        change_set.spec.objects = vec![object.clone()];
        let state = ask(&change_set, Verdict::Run, known, None).step_states.remove(0);
        (state.generation, state.spent)
    };
    let planned = || vec![StepStatus { generation: Some(4), ..recorded("sha256:a", StepState::Waiting) }];
    assert_eq!(asked(vec![], None), (Some(1), false), "one that is not there yet");
    assert_eq!(asked(vec![], Some(&known(3, false))), (Some(4), false), "one that is there is written next");
    assert_eq!(asked(vec![], Some(&known(4, true))), (Some(4), false), "or was already");
    assert_eq!(asked(planned(), Some(&known(4, true))), (Some(4), false), "it was written");
    assert_eq!(asked(planned(), Some(&known(4, false))), (Some(4), true), "it was written otherwise");
    assert_eq!(asked(planned(), Some(&known(6, true))), (Some(4), true), "and what comes later is another question");
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
