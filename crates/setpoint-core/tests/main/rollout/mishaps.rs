//! What goes wrong around a rollout: splits that are lost or never applied, ways back that lead nowhere, deployers that
//! divide coarsely. Whatever it is, what serves goes on serving, and there is a way out.

use setpoint_api::app::RolloutVerb::{self, Abort, Promote, Resume, Retry, Skip, Undo};
use setpoint_api::app::{
    Analysis, AskedSplit, Pause, Preview, Progress, RolloutPhase, RolloutState, RolloutStep, Strategy,
};
use setpoint_api::revision::RevisionPhase;
use setpoint_core::rollout::{Action, RevisionFacts, WaitsOn};
use setpoint_core::split::{Granularity, Split};

use super::world::{Fate, Nature, World};

fn weight(weight_bps: u32) -> RolloutStep {
    RolloutStep { weight_bps: Some(weight_bps), ..RolloutStep::default() }
}

/// Half of the traffic, and then whatever a person says.
fn half() -> Strategy {
    let until_told = RolloutStep { pause: Some(Pause { seconds: None }), ..RolloutStep::default() };
    Strategy { steps: vec![weight(5_000), until_told], ..Strategy::default() }
}

/// A rollout of which `web-2` has half of the traffic.
fn halfway(strategy: Strategy, replicas: u32) -> World {
    let mut world = World::serving(strategy, replicas);
    world.deploy("web-2", Nature::Good);
    world.run_until(|world| world.split.as_ref().is_some_and(|split| split.weight("web-2") == 5_000));
    world
}

/// A rollout that goes back to what died meanwhile.
fn aborting_to_the_dead(strategy: Strategy, replicas: u32) -> World {
    let mut world = halfway(strategy, replicas);
    world.natures.insert("web-1".to_owned(), Nature::Hangs);
    world.revisions.get_mut("web-1").expect("it served").ready = 0;
    world.ask(Abort, None);
    run(&mut world, 20);
    world
}

fn run(world: &mut World, ticks: usize) {
    for _ in 0..ticks {
        world.reconcile(Fate::default);
        world.tick();
    }
}

fn anyone_serves(world: &World) -> bool {
    world.split.as_ref().is_some_and(|split| split.routed().any(|entry| world.revisions[&entry.revision].ready > 0))
}

/// A world in the midst of rolling out the last of these, each of which is Ready with so many instances.
fn amid(strategy: Strategy, replicas: u32, instances: &[u32], split: Split) -> World {
    let mut world = World::new(strategy, replicas);
    let phase = RevisionPhase::Ready;
    for (number, &ready) in (1..).zip(instances) {
        let name = format!("web-{number}");
        world.deploy(&name, Nature::Good);
        world.revisions.insert(name, RevisionFacts { number, phase, asked: ready, existing: ready, ready });
    }
    let ready = world.revisions[&world.template].ready;
    let weight_bps = split.weight(&world.template);
    world.state = RolloutState {
        phase: RolloutPhase::Progressing,
        target: Some(world.template.clone()),
        from: Some(split.main().to_owned()),
        since: Some(world.now),
        asked: Some(AskedSplit { entries: split.entries().to_vec(), before: None }),
        progress: Some(Progress { phase, ready, weight_bps, at: world.now }),
        ..RolloutState::default()
    };
    world.split = Some(split);
    world
}

#[test]
fn a_split_that_is_lost_is_set_again_as_it_was() {
    let stages = Strategy { steps: vec![weight(1_000), weight(5_000)], ..Strategy::default() };
    let rows = [
        ("during a canary of one instance in ten", stages, 10, 1_000, 0),
        ("while a person is waited for", half(), 2, 5_000, 5),
    ];
    for (name, strategy, replicas, share, ticks) in rows {
        let mut world = World::serving(strategy, replicas);
        world.deploy("web-2", Nature::Good);
        world.run_until(|world| world.split.as_ref().is_some_and(|split| split.weight("web-2") == share));
        run(&mut world, ticks);
        world.log.clear();
        world.split = None;
        world.reconcile(Fate::default);
        let rest = 10_000 - share;
        let first = world.log.iter().find(|line| line.starts_with("split"));
        assert_eq!(first, Some(&format!("split web-1 {rest}, web-2 {share}")), "{name}: {:#?}", world.log);
    }
}

#[test]
fn a_split_that_is_lost_comes_back_only_to_what_can_bear_it() {
    let rows = [
        ("the canary died meanwhile", "web-2", 0, "web-1 10000"),
        ("what served died meanwhile", "web-1", 0, "web-2 10000"),
        ("the canary has a quarter of what it had", "web-2", 1, "web-1 7500, web-2 2500"),
    ];
    for (name, revision, ready, serving) in rows {
        let mut world = halfway(Strategy { surge: Some(0), max_unavailable: 4, ..half() }, 8);
        run(&mut world, 20);
        world.ask(RolloutVerb::Pause, None);
        world.reconcile(Fate::default);
        world.revisions.get_mut(revision).unwrap().ready = ready;
        world.split = None;
        world.reconcile(Fate::default);
        assert_eq!(world.served_by(), serving, "{name}: {:#?}", world.log);
    }
}

#[test]
fn a_split_that_is_lost_after_a_rollout_is_set_again() {
    let mut world = World::serving(Strategy::default(), 2);
    world.split = None;
    world.reconcile(Fate::default);
    assert_eq!((world.state.phase, world.served_by().as_str()), (RolloutPhase::Complete, "web-1 10000"));
}

#[test]
fn an_abort_does_not_move_traffic_to_where_nobody_serves() {
    let world = aborting_to_the_dead(Strategy { surge: Some(1), max_unavailable: 1, ..half() }, 1);
    assert!(anyone_serves(&world), "{}: {:#?}", world.served_by(), world.log);
}

#[test]
fn an_abort_that_cannot_end_says_so_and_can_be_left() {
    let mut stuck = aborting_to_the_dead(half(), 2);
    run(&mut stuck, 100);
    let said = stuck.decide().reason;
    assert!(said.contains("going back to web-1 made no progress for 600 seconds"), "{said}");
    type Row = (&'static str, fn(&mut World), &'static str);
    let rows: [Row; 4] = [
        ("a new template", |world| world.deploy("web-3", Nature::Good), "web-3 10000"),
        ("an undo to what still works", |world| world.ask(Undo, Some("web-2")), "web-2 10000"),
        ("a retry", |world| world.ask(Retry, None), "web-2 10000"),
        (
            "the old comes back after all",
            |world| *world.natures.get_mut("web-1").unwrap() = Nature::Good,
            "web-1 10000",
        ),
    ];
    for (name, way_out, serving) in rows {
        let mut world = stuck.clone();
        way_out(&mut world);
        for _ in 0..300 {
            if world.reconcile(Fate::default).waits_on == WaitsOn::Person {
                world.ask(Resume, None);
            }
            world.tick();
        }
        assert_eq!(world.served_by(), serving, "{name}: {}\n{:#?}", world.decide(), world.log);
    }
}

#[test]
fn an_abort_of_what_has_no_traffic_ends_at_the_deadline() {
    let split = Split::all_to("web-1").with_weight("web-2", 0).with_weight("web-3", 0);
    let mut world = amid(Strategy { surge: Some(1), ..Strategy::default() }, 4, &[4, 1, 0], split);
    world.granularity = Granularity::slots(1);
    world.state.phase = RolloutPhase::Aborting;
    world.state.from = Some("web-2".to_owned());
    world.settle();
    assert_eq!((world.state.phase, world.served_by().as_str()), (RolloutPhase::Aborted, "web-1 10000"));
}

#[test]
fn a_new_template_ends_the_outage_of_a_machine_that_exists_once() {
    let mut world = World::serving(Strategy { surge: Some(0), max_unavailable: 1, ..Strategy::default() }, 1);
    world.deploy("web-2", Nature::Fails);
    world.natures.insert("web-1".to_owned(), Nature::Hangs);
    run(&mut world, 300);
    world.deploy("web-3", Nature::Good);
    world.settle();
    assert_eq!(world.served_by(), "web-3 10000");
}

#[test]
fn a_split_that_is_never_applied_runs_into_the_deadline() {
    let mut world = World::serving(half(), 2);
    world.deploy("web-2", Nature::Good);
    for _ in 0..100 {
        for _ in 0..50 {
            let decision = world.decide();
            let refused = |action: &Action| matches!(action, Action::SetSplit { .. });
            if decision.state == world.state && decision.actions.iter().all(refused) {
                break;
            }
            world.state = decision.state;
            decision.actions.iter().filter(|action| !refused(action)).for_each(|action| world.apply(action));
        }
        world.tick();
    }
    assert_eq!(world.state.phase, RolloutPhase::Aborted, "{}", world.decide());
    let said = world.state.message.unwrap_or_default();
    assert_eq!(said, "web-2 made no progress for 600 seconds: 1 of 1 instances of web-2 are ready");
}

#[test]
fn handing_over_keeps_the_promise() {
    let strategy = Strategy { surge: Some(1), steps: vec![weight(2_500)], ..Strategy::default() };
    let split = Split::all_to("web-1").moved("web-1", "web-2", 7_500).with_weight("web-3", 0);
    let mut world = amid(strategy, 5, &[1, 4, 1], split);
    world.granularity = Granularity::slots(4);
    assert!(world.promise_kept(), "{}", world.served_by());
    world.reconcile(Fate::default);
    assert!(world.promise_kept(), "{} serve: {:#?}", world.served_by(), world.log);
}

#[test]
fn a_coarse_deployer_rolls_out_a_good_revision() {
    for slots in [2, 3, 4, 10] {
        for replicas in [2, 3, 4, 6, 8] {
            let mut world = World::serving(Strategy { surge: Some(1), ..Strategy::default() }, replicas);
            world.granularity = Granularity::slots(slots);
            world.deploy("web-2", Nature::Good);
            world.settle();
            assert_eq!(world.served_by(), "web-2 10000", "{slots} slots, {replicas} replicas: {:#?}", world.log);
        }
    }
}

#[test]
fn a_deployer_that_cannot_move_a_part_is_given_up_with_the_reason() {
    let mut world = World::serving(Strategy { surge: Some(1), ..Strategy::default() }, 4);
    world.granularity = Granularity::slots(1);
    world.deploy("web-2", Nature::Good);
    world.settle();
    assert_eq!(
        world.state.message.as_deref(),
        Some(
            "web-2 made no progress for 600 seconds: no ready instance can be spared for web-2: the least that can be \
             moved is 10000 basis points, which 4 instances bear, and surge and maxUnavailable allow 1"
        )
    );
}

/// 3 or 7 000 slots do not divide 10 000: what is asked for is what comes about, so that it is not asked for again.
#[test]
fn a_split_that_is_asked_for_can_be_applied_as_it_is() {
    for slots in [3, 7, 30, 64, 128, 256, 333, 1_000, 1_024, 3_000, 4_096, 6_667, 7_000, 9_999] {
        let mut world = World::serving(Strategy { steps: vec![weight(5_000)], ..Strategy::default() }, 2);
        world.granularity = Granularity::slots(slots);
        world.deploy("web-2", Nature::Good);
        for _ in 0..30 {
            world.reconcile(Fate::default);
            let split = world.split.clone().unwrap();
            assert_eq!(split, split.rounded(world.granularity), "{slots} slots: {:#?}", world.log);
            world.tick();
        }
        assert_eq!(world.served_by(), "web-2 10000", "{slots} slots");
    }
}

#[test]
fn a_machine_that_exists_once_is_not_given_up_for_a_preview_or_a_share() {
    let once = Strategy { surge: Some(0), max_unavailable: 1, ..Strategy::default() };
    let rows = [
        ("a preview", Strategy { preview: Some(Preview { seconds: None }), ..once.clone() }, "web-2 10000"),
        ("half of the traffic", Strategy { steps: half().steps, ..once }, "web-1 0, web-2 10000"),
    ];
    for (name, strategy, serving) in rows {
        let mut world = World::serving(strategy, 1);
        world.deploy("web-2", Nature::Good);
        run(&mut world, 40);
        assert!(anyone_serves(&world), "{name}: {}", world.decide());
        assert_eq!(world.served_by(), serving, "{name}: {:#?}", world.log);
    }
}

#[test]
fn a_machine_that_exists_once_is_guarded_while_it_has_everything() {
    let guard = Some(Analysis { min_success_bps: Some(9_900), ..Analysis::default() });
    let mut world = World::serving(Strategy { surge: Some(0), max_unavailable: 1, guard, ..half() }, 1);
    world.deploy("web-2", Nature::Errs);
    world.settle();
    assert_eq!((world.state.phase, world.served_by().as_str()), (RolloutPhase::Aborted, "web-1 10000"));
}

#[test]
fn a_preview_that_is_left_out_is_said() {
    let preview = Some(Preview { seconds: None });
    let mut world = World::serving(Strategy { surge: Some(0), max_unavailable: 1, preview, ..Strategy::default() }, 1);
    world.deploy("web-2", Nature::Good);
    world.reconcile(Fate::default);
    let said = "web-2 is not previewed: with no surge that would take away all that serves";
    assert_eq!(world.state.message.as_deref(), Some(said));
}

#[test]
fn a_stage_beyond_all_is_the_last() {
    let mut world = World::serving(half(), 2);
    world.deploy("web-2", Nature::Good);
    world.reconcile(Fate::default);
    world.state.stage = u32::MAX;
    for verb in [Skip, Resume, Promote] {
        let mut world = world.clone();
        world.ask(verb, None);
        world.settle();
        assert_eq!(world.served_by(), "web-2 10000", "{verb}");
    }
}

/// Whoever counts them one by one never comes to the end of this.
#[test]
fn a_decision_takes_no_longer_for_billions_of_replicas() {
    const MANY: u32 = 4_000_000_000;
    let split = Split::all_to("web-1").moved("web-1", "web-2", 1);
    let world = amid(Strategy { surge: Some(1), ..Strategy::default() }, MANY, &[MANY, 1], split);
    for _ in 0..100 {
        let replicas = MANY - 1;
        assert_eq!(world.decide().actions, [Action::Scale { revision: "web-1".to_owned(), replicas }]);
    }
}
