//! What holds of every plan, whatever the world is like.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use setpoint_api::step::{Action, Step};
use setpoint_core::check::{Violation, check};
use setpoint_core::desired::Desired;
use setpoint_core::observation::{Config, Guest, Observation};
use setpoint_core::plan::{ChangeSet, plan};
use setpoint_core::value::Value;
use setpoint_testkit::world::scenarios::{SECRET, Scenario, blinded, faults, scenario};

/// Longer than anything takes to show or to settle.
const LATER_SECONDS: i64 = 120;
const ROUNDS: usize = 40;

/// One turn of the loop: look, write down what became of earlier calls, plan, and check the plan.
fn turn(scenario: &mut Scenario) -> (Observation, ChangeSet) {
    let observation = scenario.world.observe();
    scenario.operator.settle(&scenario.world, &observation);
    let change_set = scenario.operator.plan(&scenario.world, &observation);
    assert_sound(scenario, &observation, &change_set);
    (observation, change_set)
}

fn assert_sound(scenario: &Scenario, observation: &Observation, change_set: &ChangeSet) {
    let violations = check(&scenario.operator.input(&scenario.world, observation), change_set);
    let told: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(told.is_empty(), "{}\n{change_set}", told.join("\n"));
}

fn planned(scenario: &Scenario) -> ChangeSet {
    scenario.operator.plan(&scenario.world, &scenario.world.observe())
}

proptest! {
    #[test]
    fn every_change_set_passes_the_check(scenario in blinded()) {
        assert_sound(&scenario, &scenario.world.observe(), &planned(&scenario));
    }

    #[test]
    fn planning_after_applying_yields_nothing(mut scenario in scenario()) {
        scenario.world.advance(LATER_SECONDS);
        let (_, first) = turn(&mut scenario);
        let undone = scenario.operator.apply(&mut scenario.world, &first);
        prop_assert_eq!(undone, 0, "the world refuses what was planned:\n{}", first);
        scenario.world.advance(LATER_SECONDS);
        let (_, second) = turn(&mut scenario);
        prop_assert!(!second.has_changes(), "first:\n{}\nthen:\n{}", first, second);
    }

    #[test]
    fn it_converges_through_faults_without_a_second_guest(
        mut scenario in scenario(),
        faults in faults(),
        appears_after_seconds in 0i64..100,
        pause_seconds in 1i64..LATER_SECONDS,
    ) {
        scenario.world.faults = faults;
        scenario.world.appears_after_seconds = appears_after_seconds.min(scenario.world.capabilities.settle_seconds);
        let before = guests_by_owner(&scenario);
        let mut ran = unmanaged_that_run(&scenario);
        ran.retain(|uid| before.get(uid) == Some(&1));
        let mut last = None;
        for round in 0..ROUNDS {
            // In a hurry at first; in the end there is time for everything to show.
            scenario.world.advance(if round < ROUNDS / 2 { pause_seconds } else { LATER_SECONDS });
            let (_, change_set) = turn(&mut scenario);
            scenario.operator.apply(&mut scenario.world, &change_set);
            last = Some(change_set);
        }
        scenario.world.advance(LATER_SECONDS);
        let (_, end) = turn(&mut scenario);
        prop_assert!(!end.has_changes(), "still:\n{}\nafter:\n{}", end, last.expect("there were rounds"));
        for (uid, count) in guests_by_owner(&scenario) {
            let allowed = before.get(&uid).copied().unwrap_or(0).max(1);
            prop_assert!(count <= allowed, "{} has {} guests", uid, count);
        }
        let runs = unmanaged_that_run(&scenario);
        prop_assert!(ran.is_subset(&runs), "ran before: {:?}, run now: {:?}", ran, runs);
    }

    #[test]
    fn the_order_of_the_input_does_not_show(scenario in blinded(), places in prop::collection::vec(any::<Index>(), 64)) {
        let observation = scenario.world.observe();
        let expected = scenario.operator.plan(&scenario.world, &observation);
        let mut shuffled = scenario.operator.clone();
        let mut seen = observation;
        shuffle(&mut shuffled.desired, &places);
        for desired in &mut shuffled.desired {
            shuffle(&mut desired.depends_on, &places);
            shuffle(&mut desired.muted, &places);
            shuffle(&mut desired.record.intents, &places);
        }
        shuffle(&mut seen.guests, &places);
        for guest in &mut seen.guests {
            if let Config::Read { unknown, .. } = &mut guest.config {
                shuffle(unknown, &places);
            }
        }
        let actual = shuffled.plan(&scenario.world, &seen);
        prop_assert_eq!(bytes(&expected), bytes(&actual));
        prop_assert_eq!(expected.to_string(), actual.to_string());
    }

    #[test]
    fn what_could_not_be_read_is_not_written(mut scenario in blinded()) {
        let change_set = planned(&scenario);
        let before = scenario.world.clone();
        for step in &change_set.steps {
            let Some(id) = step.provider_id.as_deref() else { continue };
            let sight = &before.sight;
            let moves = matches!(step.action, Action::Start | Action::Stop);
            prop_assert!(!(moves && sight.unknown_run.contains(id)), "{} is {:?}", step.id, step.action);
            prop_assert!(!sight.hidden.contains(id), "{} is done to what was not seen", step.id);
        }
        if before.sight.partial.is_some() {
            prop_assert!(change_set.steps.iter().all(|step| step.action != Action::Create), "{}", change_set);
        }
        scenario.operator.apply(&mut scenario.world, &change_set);
        for (id, guest) in &before.guests {
            let removes = |step: &Step| matches!(step.action, Action::Replace | Action::Delete);
            let is_of = |step: &Step| step.provider_id.as_deref() == Some(&**id);
            if change_set.steps.iter().any(|step| is_of(step) && removes(step)) {
                continue;
            }
            let after = &scenario.world.guests[id];
            let all = before.sight.unreadable.contains(id);
            for field in before.capabilities.fields {
                if all || before.sight.unreadable_fields.contains(&(id.clone(), field.name)) {
                    prop_assert_eq!(guest.fields.get(field.name), after.fields.get(field.name), "{} of {}", field.name, id);
                }
            }
        }
    }

    #[test]
    fn a_class_never_drops_when_more_is_at_stake(scenario in scenario(), worse in prop::collection::vec(0u8..4, 12)) {
        let calm = planned(&scenario);
        let mut graver = scenario;
        let ids: Vec<Box<str>> = graver.world.guests.keys().cloned().collect();
        for (id, worse) in ids.iter().zip(worse) {
            let guest = graver.world.guests.get_mut(id).expect("its id is listed");
            match (worse, &mut guest.mark) {
                (1, _) => guest.holds_data = true,
                (2, Some(mark)) => mark.intent = None,
                (3, _) => drop(graver.world.sight.unknown_data.insert(id.clone())),
                _ => {}
            }
        }
        let grave = planned(&graver);
        for (id, step) in by_id(&grave) {
            if let Some(before) = by_id(&calm).get(id) {
                prop_assert!(step.class >= before.class, "{}: {:?} -> {:?}", id, before.class, step.class);
            }
        }
    }

    #[test]
    fn a_digest_stands_for_one_content_only(one in scenario(), other in scenario()) {
        let (first, second) = (planned(&one), planned(&other));
        let second = by_id(&second);
        for step in &first.steps {
            let Some(twin) = second.get(step.id.as_str()) else { continue };
            if twin.digest == step.digest {
                prop_assert_eq!(content(twin), content(step));
            } else {
                prop_assert_ne!(twin.digest.as_str(), step.digest.as_str());
            }
        }
    }

    #[test]
    fn a_changed_secret_costs_the_approval_of_the_steps_that_write_it(scenario in scenario()) {
        let before = planned(&scenario);
        let mut rotated = scenario;
        for desired in &mut rotated.operator.desired {
            for field in rotated.world.capabilities.fields {
                if let Some(value) = desired.fields.remove(field.name) {
                    desired.fields.set(field.name, rotate(&value));
                }
            }
        }
        let after = planned(&rotated);
        let after = by_id(&after);
        for step in &before.steps {
            let writes = step.changes.iter().any(|change| change.to.as_deref().is_some_and(|to| to.contains("(sensitive)")));
            if let (true, Some(twin)) = (writes, after.get(step.id.as_str())) {
                prop_assert_ne!(&step.digest, &twin.digest, "{}", step.id);
            }
        }
    }

    #[test]
    fn secrets_are_shown_nowhere(scenario in blinded()) {
        let change_set = planned(&scenario);
        let json = bytes(&change_set);
        for text in [change_set.to_string(), json, format!("{change_set:?}"), change_set.lines().join("\n")] {
            prop_assert!(!text.contains(SECRET), "{}", text);
        }
        let desires = format!("{:?}", scenario.operator.desired);
        prop_assert!(!desires.contains(SECRET), "{}", desires);
    }

    #[test]
    fn a_change_set_survives_its_journey_as_json(scenario in blinded()) {
        let change_set = planned(&scenario);
        let back: ChangeSet = serde_json::from_str(&bytes(&change_set)).expect("it was a change set");
        prop_assert_eq!(back, change_set);
    }

    #[test]
    fn every_object_is_accounted_for(scenario in blinded()) {
        let observation = scenario.world.observe();
        let input = scenario.operator.input(&scenario.world, &observation);
        let change_set = plan(&input);
        let is_mentioned = |desired: &&Desired| {
            change_set.steps.iter().any(|step| step.target == desired.target)
                || change_set.waiting.iter().any(|waiting| waiting.target == desired.target)
                || change_set.refused.iter().any(|refusal| refusal.target == desired.target)
        };
        let silent = input.desired.iter().filter(|desired| !is_mentioned(desired)).count();
        prop_assert_eq!(silent, change_set.counts.unchanged as usize);
    }
}

/// The objects that do not manage whether their guest runs, and whose guest does.
fn unmanaged_that_run(scenario: &Scenario) -> BTreeSet<Box<str>> {
    let words = scenario.world.capabilities.running_words;
    let observation = scenario.world.observe();
    let runs = |uid: &str| {
        let owned = |guest: &&Guest| guest.mark.as_ref().is_some_and(|mark| *mark.owner_uid == *uid);
        let mut guests = observation.guests.iter().filter(owned);
        guests.any(|guest| guest.run.known().is_some_and(|word| words.contains(&&**word)))
    };
    let unmanaged =
        scenario.operator.desired.iter().filter(|desired| desired.run.is_none() && desired.deletion.is_none());
    unmanaged.map(|desired| desired.uid.clone()).filter(|uid| runs(uid)).collect()
}

fn guests_by_owner(scenario: &Scenario) -> BTreeMap<Box<str>, usize> {
    let mut counts = BTreeMap::new();
    for desired in &scenario.operator.desired {
        let guests = scenario.world.guests.values().filter_map(|guest| guest.mark.as_ref());
        let own = guests.filter(|mark| *mark.cluster == *scenario.operator.cluster && mark.owner_uid == desired.uid);
        counts.insert(desired.uid.clone(), own.count());
    }
    counts
}

fn shuffle<T>(items: &mut [T], places: &[Index]) {
    for (at, place) in (0..items.len()).zip(places) {
        items.swap(at, place.index(items.len()));
    }
}

fn bytes(change_set: &ChangeSet) -> String {
    serde_json::to_string(change_set).expect("a change set is JSON")
}

fn by_id(change_set: &ChangeSet) -> BTreeMap<&str, &Step> {
    change_set.steps.iter().map(|step| (step.id.as_str(), step)).collect()
}

/// What a person approves: everything but the words for why, what comes before, and what it was made from.
fn content(step: &Step) -> Step {
    Step {
        reason: String::new(),
        depends_on: Vec::new(),
        old_spec_digest: None,
        new_spec_digest: None,
        origin: setpoint_api::step::Origin::Desired,
        ..step.clone()
    }
}

fn rotate(value: &Value) -> Value {
    match value {
        Value::Secret(text) => Value::secret(&format!("{text}-rotated")),
        Value::List(items) => Value::List(items.iter().map(rotate).collect()),
        Value::Map(entries) => Value::Map(entries.iter().map(|(key, entry)| (key, rotate(entry))).collect()),
        other => other.clone(),
    }
}
