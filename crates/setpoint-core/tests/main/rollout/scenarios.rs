//! Rollouts that a person would meet, from beginning to end: what was done, and who serves.

use setpoint_api::app::RolloutVerb::{self, Abort, Pause, Promote, Resume, Retry, Skip, Undo};
use setpoint_api::app::{Analysis, InconclusivePolicy, PauseReason, Preview, RolloutPhase, RolloutStep, Strategy};
use setpoint_api::revision::RevisionPhase;
use setpoint_core::rollout::{Stock, WaitsOn};
use setpoint_core::split::Split;

use super::world::{Fate, Nature, World};

fn weight(weight_bps: u32) -> RolloutStep {
    RolloutStep { weight_bps: Some(weight_bps), ..RolloutStep::default() }
}

fn pause(seconds: Option<u32>) -> RolloutStep {
    RolloutStep { pause: Some(setpoint_api::app::Pause { seconds }), ..RolloutStep::default() }
}

fn measured(inconclusive: InconclusivePolicy) -> RolloutStep {
    let analysis = Analysis { min_success_bps: Some(9_900), seconds: 30, inconclusive, ..Analysis::default() };
    RolloutStep { analysis: Some(analysis), ..RolloutStep::default() }
}

fn canary(steps: Vec<RolloutStep>) -> Strategy {
    Strategy { steps, ..Strategy::default() }
}

fn no_surge(max_unavailable: u32) -> Strategy {
    Strategy { surge: Some(0), max_unavailable, ..Strategy::default() }
}

/// What was done, without what was only remembered.
fn done(world: &World) -> Vec<&str> {
    world.log.iter().filter(|line| !line.starts_with('[')).map(String::as_str).collect()
}

#[test]
fn rollouts_from_beginning_to_end() {
    let rows: [(&str, Strategy, u32, Nature, &[&str]); 10] = [
        (
            "without steps all traffic moves once the new revision is ready, and the old goes last",
            Strategy::default(),
            2,
            Nature::Good,
            &["stage web-2", "warm web-2 with 2", "split web-1 0, web-2 10000", "split web-2 10000", "drain web-1"],
        ),
        (
            "a canary below one per cent",
            canary(vec![weight(5), pause(Some(20))]),
            2,
            Nature::Good,
            &[
                "stage web-2",
                "warm web-2 with 1",
                "split web-1 9995, web-2 5",
                "scale web-2 to 2",
                "split web-1 0, web-2 10000",
                "split web-2 10000",
                "drain web-1",
            ],
        ),
        (
            "blue/green: a preview before, and the old is kept for a while after",
            Strategy { preview: Some(Preview { seconds: Some(30) }), keep_seconds: 60, ..Strategy::default() },
            2,
            Nature::Good,
            &[
                "stage web-2",
                "warm web-2 with 2",
                "split web-1 10000, web-2 0",
                "split web-1 0, web-2 10000",
                "split web-2 10000",
                "drain web-1",
            ],
        ),
        (
            "without spare capacity the old shrinks as the new grows, never first to 0",
            no_surge(1),
            3,
            Nature::Good,
            &[
                "stage web-2",
                "scale web-1 to 2",
                "warm web-2 with 1",
                "split web-1 5000, web-2 5000",
                "scale web-1 to 1",
                "scale web-2 to 2",
                "split web-1 0, web-2 10000",
                "scale web-1 to 0",
                "split web-2 10000",
                "drain web-1",
                "scale web-2 to 3",
            ],
        ),
        (
            "one GPU that exists once: the old stops before the new starts, and traffic moves when it is ready",
            no_surge(1),
            1,
            Nature::Good,
            &[
                "stage web-2",
                "scale web-1 to 0",
                "warm web-2 with 1",
                "split web-1 0, web-2 10000",
                "split web-2 10000",
                "drain web-1",
            ],
        ),
        (
            "one GPU that exists once, and the new one fails: the old comes back",
            no_surge(1),
            1,
            Nature::Fails,
            &["stage web-2", "scale web-1 to 0", "warm web-2 with 1", "scale web-2 to 0", "scale web-1 to 1"],
        ),
        (
            "a revision that fails to warm changes nothing for the serving one",
            Strategy::default(),
            2,
            Nature::Fails,
            &["stage web-2", "warm web-2 with 2", "scale web-2 to 0"],
        ),
        (
            "one that never becomes ready is given up at the deadline",
            Strategy { progress_deadline_seconds: 60, ..Strategy::default() },
            2,
            Nature::Hangs,
            &["stage web-2", "warm web-2 with 2", "drain web-2"],
        ),
        (
            "one that serves errors loses its traffic by its analysis",
            canary(vec![weight(1_000), measured(InconclusivePolicy::Pause)]),
            2,
            Nature::Errs,
            &[
                "stage web-2",
                "warm web-2 with 1",
                "split web-1 9000, web-2 1000",
                "split web-1 10000, web-2 0",
                "split web-1 10000",
                "drain web-2",
            ],
        ),
        (
            "an analysis judges what was counted since the split, also before the pause ahead of it",
            canary(vec![weight(1_000), pause(Some(40)), measured(InconclusivePolicy::Wait)]),
            2,
            Nature::Good,
            &[
                "stage web-2",
                "warm web-2 with 1",
                "split web-1 9000, web-2 1000",
                "scale web-2 to 2",
                "split web-1 0, web-2 10000",
                "split web-2 10000",
                "drain web-1",
            ],
        ),
    ];
    for (name, strategy, replicas, nature, expected) in rows {
        let mut world = World::serving(strategy, replicas);
        world.deploy("web-2", nature);
        world.settle();
        assert_eq!(done(&world), expected, "{name}");
    }
}

#[test]
fn a_revision_of_which_nothing_is_asked_waits_to_be_proven() {
    let mut world = World::serving(Strategy { progress_deadline_seconds: 60, ..Strategy::default() }, 2);
    world.replicas = 0;
    world.deploy("web-2", Nature::Good);
    for _ in 0..20 {
        world.reconcile(Fate::default);
        world.tick();
    }
    let decision = world.decide();
    assert_eq!(decision.reason, "no replicas are asked for: web-2 takes over once there are some to prove it");
    assert_eq!((world.state.phase, world.served_by().as_str()), (RolloutPhase::Progressing, "web-1 10000"));
    world.replicas = 2;
    world.settle();
    assert_eq!((world.state.phase, world.served_by().as_str()), (RolloutPhase::Complete, "web-2 10000"));
}

#[test]
fn the_first_revision_goes_straight() {
    let mut world = World::new(canary(vec![weight(100), pause(None)]), 3);
    world.settle();
    assert_eq!(done(&world), ["stage web-1", "warm web-1 with 3", "split web-1 10000"]);
}

#[test]
fn a_first_revision_that_fails_serves_nothing_and_can_be_retried() {
    let mut world = World::new(Strategy::default(), 2);
    world.natures.insert("web-1".to_owned(), Nature::Fails);
    world.settle();
    assert_eq!((world.state.phase, world.served_by().as_str()), (RolloutPhase::Aborted, "nothing"));
    world.natures.insert("web-1".to_owned(), Nature::Good);
    world.ask(Retry, None);
    world.settle();
    assert_eq!((world.state.phase, world.served_by().as_str()), (RolloutPhase::Complete, "web-1 10000"));
}

#[test]
fn a_guard_aborts_at_once() {
    let guard = Some(Analysis { min_success_bps: Some(9_900), ..Analysis::default() });
    let mut world = World::serving(Strategy { guard, ..canary(vec![weight(1_000), pause(None)]) }, 2);
    world.deploy("web-2", Nature::Errs);
    world.settle();
    assert_eq!(world.served_by(), "web-1 10000");
    assert_eq!(world.state.message.as_deref(), Some("web-2 is given up: 50 % of requests succeed, below 99 %"));
}

/// A canary that waits for a person at ten per cent.
fn waiting(replicas: u32) -> World {
    let mut world = World::serving(canary(vec![weight(1_000), pause(None), weight(5_000), pause(None)]), replicas);
    world.deploy("web-2", Nature::Good);
    world.run_until(|world| world.decide().waits_on == WaitsOn::Person);
    assert_eq!(world.served_by(), "web-1 9000, web-2 1000");
    world
}

#[test]
fn what_a_person_asks_is_heeded_once() {
    let rows: [(&str, RolloutVerb, RolloutPhase, &str, &str); 7] = [
        (
            "resume goes on to the next pause",
            Resume,
            RolloutPhase::Progressing,
            "web-1 5000, web-2 5000",
            "web-2 has 5000 basis points",
        ),
        (
            "skip leaves the pause behind",
            Skip,
            RolloutPhase::Progressing,
            "web-1 5000, web-2 5000",
            "web-2 has 5000 basis points",
        ),
        ("promote leaves all steps behind", Promote, RolloutPhase::Complete, "web-2 10000", "web-2 serves"),
        ("abort goes back and stays", Abort, RolloutPhase::Aborted, "web-1 10000", "aborted by a person"),
        ("pause stands still", Pause, RolloutPhase::Progressing, "web-1 9000, web-2 1000", "paused by a person"),
        (
            "retry has nothing to do",
            Retry,
            RolloutPhase::Progressing,
            "web-1 9000, web-2 1000",
            "Retry: nothing was aborted",
        ),
        ("undo goes back to what served", Undo, RolloutPhase::Complete, "web-1 10000", "web-1 serves"),
    ];
    for (name, verb, phase, serving, message) in rows {
        let mut world = waiting(4);
        world.ask(verb, None);
        for _ in 0..20 {
            world.reconcile(Fate::default);
            world.tick();
        }
        assert_eq!((world.state.phase, world.served_by().as_str()), (phase, serving), "{name}");
        assert_eq!(world.state.message.as_deref(), Some(message), "{name}");
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_in_words() {
    let rows = [
        ("promote", Promote, None, "Promote: no rollout is going on"),
        ("abort", Abort, None, "Abort: no rollout is going on"),
        ("resume", Resume, None, "Resume: nothing is paused"),
        ("undo of the first", Undo, None, "Undo: nothing served before"),
        ("undo to nothing", Undo, Some("web-9"), "Undo: there is no revision web-9"),
    ];
    for (name, verb, revision, message) in rows {
        let mut world = World::serving(Strategy::default(), 1);
        world.ask(verb, revision);
        world.settle();
        assert_eq!(world.state.message.as_deref(), Some(message), "{name}");
        assert_eq!((world.served_by().as_str(), done(&world).len()), ("web-1 10000", 0), "{name}");
    }
}

#[test]
fn an_undo_goes_to_any_kept_revision_and_stays_until_the_template_changes() {
    let mut world = World::serving(Strategy::default(), 2);
    for name in ["web-2", "web-3"] {
        world.deploy(name, Nature::Good);
        world.settle();
    }
    assert_eq!(world.revisions["web-1"].phase, RevisionPhase::Inactive, "it was drained two rollouts ago");
    world.ask(Undo, Some("web-1"));
    world.settle();
    assert_eq!(world.served_by(), "web-1 10000", "a drained revision comes back");
    world.deploy("web-4", Nature::Good);
    world.settle();
    assert_eq!(world.served_by(), "web-4 10000", "a new template ends the undo");
}

#[test]
fn an_undo_to_what_is_still_ready_takes_no_time() {
    let mut world = World::serving(Strategy { keep_seconds: 600, ..Strategy::default() }, 2);
    world.deploy("web-2", Nature::Good);
    world.run_until(|world| world.state.phase == RolloutPhase::Complete);
    world.log.clear();
    world.ask(Undo, None);
    world.reconcile(Fate::default);
    assert_eq!(world.served_by(), "web-1 10000, web-2 0", "without a single tick");
}

#[test]
fn nothing_is_given_up_for_what_cannot_be_placed() {
    let rows = [
        ("out of stock", Stock::Exhausted("no A100 left".to_owned()), WaitsOn::Stock, 1),
        ("not known yet", Stock::Unknown, WaitsOn::Stock, 1),
        ("in stock", Stock::Available, WaitsOn::Room, 0),
        ("no notion of stock", Stock::Unchecked, WaitsOn::Room, 0),
    ];
    for (name, stock, waits_on, old) in rows {
        let mut world = World::serving(no_surge(1), 1);
        world.stock = stock;
        world.deploy("web-2", Nature::Good);
        let decision = world.reconcile(Fate::default);
        assert_eq!(decision.waits_on, waits_on, "{name}: {decision}");
        assert_eq!(world.revisions["web-1"].asked, old, "{name}");
    }
}

#[test]
fn a_split_by_hand_pauses_until_a_person_says_how_to_go_on() {
    let rows = [
        ("resume goes on from there", Resume, "web-2 10000"),
        ("promote", Promote, "web-2 10000"),
        ("abort", Abort, "web-1 10000"),
    ];
    for (name, verb, serving) in rows {
        let mut world = waiting(4);
        world.split = Some(Split::all_to("web-1").with_weight("web-2", 200));
        for _ in 0..5 {
            world.reconcile(Fate::default);
            world.tick();
        }
        assert_eq!(world.state.paused, Some(PauseReason::ManualSplit), "{name}");
        assert_eq!(world.served_by(), "web-1 9800, web-2 200", "{name}: it is left alone");
        world.ask(verb, None);
        world.settle();
        assert_eq!(world.served_by(), serving, "{name}");
    }
}

#[test]
fn a_split_by_hand_after_a_rollout_is_left_alone_and_served() {
    let mut world = World::serving(Strategy { keep_seconds: 600, ..Strategy::default() }, 4);
    world.deploy("web-2", Nature::Good);
    world.run_until(|world| world.state.phase == RolloutPhase::Complete);
    world.split = Some(Split::all_to("web-1").with_weight("web-2", 5_000));
    world.settle();
    assert_eq!(world.served_by(), "web-1 5000, web-2 5000");
    let ready = |name: &str| world.revisions[name].ready;
    assert_eq!((ready("web-1"), ready("web-2")), (2, 2), "each has its share");
}

#[test]
fn a_new_template_abandons_what_is_half_way() {
    let mut world = waiting(4);
    world.log.clear();
    world.deploy("web-3", Nature::Good);
    world.run_until(|world| world.decide().waits_on == WaitsOn::Person);
    assert_eq!(world.served_by(), "web-1 9000, web-3 1000");
    assert_eq!(
        done(&world),
        [
            "split web-1 10000, web-2 0",
            "stage web-3",
            "warm web-3 with 1",
            "split web-1 9000, web-3 1000",
            "drain web-2"
        ]
    );
}

#[test]
fn a_pause_is_not_ended_by_a_template() {
    let mut world = waiting(4);
    world.ask(Pause, None);
    world.reconcile(Fate::default);
    world.deploy("web-3", Nature::Good);
    for _ in 0..5 {
        world.reconcile(Fate::default);
        world.tick();
    }
    assert_eq!(world.served_by(), "web-1 9000, web-2 1000");
    world.settle();
    assert_eq!(world.served_by(), "web-3 10000", "after it was resumed");
}

#[test]
fn replicas_that_change_half_way_are_followed() {
    for (name, replicas) in [("more", 8), ("fewer", 2), ("one", 1)] {
        let mut world = waiting(4);
        world.replicas = replicas;
        world.settle();
        let asked: u32 = world.revisions.values().map(|revision| revision.asked).sum();
        assert_eq!((world.served_by().as_str(), asked), ("web-2 10000", replicas), "{name}");
    }
}

#[test]
fn too_few_requests_pause_or_wait_but_never_decide() {
    let rows =
        [("pause", InconclusivePolicy::Pause, WaitsOn::Person), ("wait", InconclusivePolicy::Wait, WaitsOn::Analysis)];
    for (name, policy, waits_on) in rows {
        let mut world = World::serving(canary(vec![weight(1_000), measured(policy)]), 2);
        world.deploy("web-2", Nature::Unused);
        for _ in 0..20 {
            world.reconcile(Fate::default);
            world.tick();
        }
        assert_eq!(world.decide().waits_on, waits_on, "{name}");
        assert_eq!(world.served_by(), "web-1 9000, web-2 1000", "{name}");
    }
}

#[test]
fn without_auto_promote_a_person_has_the_last_word() {
    let mut world = World::serving(Strategy { auto_promote: false, ..canary(vec![weight(1_000), weight(10_000)]) }, 2);
    world.deploy("web-2", Nature::Good);
    for _ in 0..20 {
        world.reconcile(Fate::default);
        world.tick();
    }
    assert_eq!((world.served_by().as_str(), world.decide().waits_on), ("web-1 9000, web-2 1000", WaitsOn::Person));
}

#[test]
fn a_split_that_somebody_deleted_is_set_again() {
    let mut world = World::serving(Strategy::default(), 2);
    world.split = None;
    world.settle();
    assert_eq!(world.served_by(), "web-1 10000");
}

#[test]
fn history_is_kept_to_its_limit_and_what_is_remembered_does_not_grow() {
    let mut world = World::serving(Strategy::default(), 1);
    world.history_limit = 2;
    let mut size = 0;
    for number in 2..12 {
        world.deploy(&format!("web-{number:02}"), Nature::Good);
        world.settle();
        size = serde_json::to_string(&world.state).unwrap().len();
    }
    let phases = |phase| world.revisions.values().filter(|revision| revision.phase == phase).count();
    assert_eq!((phases(RevisionPhase::Ready), phases(RevisionPhase::Inactive)), (1, 3), "the last and two before");
    assert_eq!(phases(RevisionPhase::Archived), 7);
    assert!(size < 600, "previous splits do not nest: {size} bytes");
}

#[test]
fn flapping_readiness_is_no_progress() {
    let strategy = Strategy { progress_deadline_seconds: 120, ..Strategy::default() };
    let mut world = World::serving(strategy, 2);
    world.deploy("web-2", Nature::Hangs);
    for round in 0..30 {
        world.revisions.get_mut("web-2").unwrap().ready = round % 2;
        world.reconcile(Fate::default);
        world.tick();
    }
    assert_eq!((world.state.phase, world.served_by().as_str()), (RolloutPhase::Aborted, "web-1 10000"));
}
