//! Whole rollouts under every kind of mishap: what holds at every moment, and where they end.

use proptest::prelude::{Just, ProptestConfig, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;
use setpoint_api::app::{Analysis, Pause, Preview, RolloutPhase, RolloutStep, RolloutVerb, Strategy};
use setpoint_core::split::{Granularity, Split};

use super::world::{Fate, Nature, World};

/// Something that happens to a rollout from outside.
#[derive(Debug, Clone)]
enum Incident {
    Nothing,
    Ask(RolloutVerb),
    Undo,
    Deploy(Nature),
    Replicas(u32),
    /// An instance of every revision stops being ready.
    Flap,
    /// A person divides traffic evenly among what is ready.
    SplitByHand,
    /// A person deletes the split.
    SplitLost,
}

fn weight() -> impl Generator<Value = RolloutStep> {
    prop_oneof![1..=10_000_u32, Just(1), Just(50), Just(5_000)]
        .prop_map(|weight| RolloutStep { weight_bps: Some(weight), ..RolloutStep::default() })
}

fn wait() -> impl Generator<Value = RolloutStep> {
    let analysis = Analysis { min_success_bps: Some(9_900), seconds: 30, ..Analysis::default() };
    prop_oneof![
        prop::option::of(0..60_u32)
            .prop_map(|seconds| RolloutStep { pause: Some(Pause { seconds }), ..RolloutStep::default() }),
        Just(RolloutStep { analysis: Some(analysis), ..RolloutStep::default() }),
    ]
}

fn strategies() -> impl Generator<Value = Strategy> {
    let steps = prop::collection::vec((weight(), prop::option::of(wait())), 0..5).prop_map(|mut steps| {
        steps.sort_by_key(|(weight, _)| weight.weight_bps);
        steps.into_iter().flat_map(|(weight, wait)| [Some(weight), wait]).flatten().collect::<Vec<_>>()
    });
    let surge = prop::option::of(0..4_u32);
    let preview = prop::option::of(prop::option::of(0..40_u32).prop_map(|seconds| Preview { seconds }));
    (steps, surge, 0..3_u32, preview, any::<bool>(), 0..100_u32).prop_map(
        |(steps, surge, unavailable, preview, auto_promote, keep_seconds)| Strategy {
            max_unavailable: if surge == Some(0) { unavailable.max(1) } else { unavailable },
            steps,
            surge,
            preview,
            auto_promote,
            keep_seconds,
            ..Strategy::default()
        },
    )
}

fn granularities() -> impl Generator<Value = Granularity> {
    prop_oneof![Just(Granularity::EXACT), Just(Granularity::PERCENT)]
}

/// Also those that divide coarsely, or do not divide 10 000. One that cannot divide at all is told of, and may not get on.
fn odd_granularities() -> impl Generator<Value = Granularity> {
    prop_oneof![granularities(), prop::sample::select(vec![2, 3, 7, 333, 6_667, 9_999]).prop_map(Granularity::slots)]
}

fn fates() -> impl Generator<Value = Vec<Fate>> {
    let fate = prop_oneof![
        4 => Just(Fate::Done),
        1 => Just(Fate::Refused),
        1 => Just(Fate::AnswerLost),
        1 => Just(Fate::Repeated),
    ];
    prop::collection::vec(fate, 0..60)
}

fn natures() -> impl Generator<Value = Nature> {
    prop_oneof![3 => Just(Nature::Good), 1 => Just(Nature::Fails), 1 => Just(Nature::Hangs), 1 => Just(Nature::Errs)]
}

fn incidents() -> impl Generator<Value = Vec<Incident>> {
    use RolloutVerb::{Abort, Pause, Promote, Resume, Retry, Skip};
    let verbs = prop::sample::select(vec![Abort, Pause, Promote, Resume, Retry, Skip]);
    let incident = prop_oneof![
        12 => Just(Incident::Nothing),
        2 => verbs.prop_map(Incident::Ask),
        1 => Just(Incident::Undo),
        1 => natures().prop_map(Incident::Deploy),
        1 => (1..7_u32).prop_map(Incident::Replicas),
        1 => Just(Incident::Flap),
        1 => Just(Incident::SplitByHand),
        1 => Just(Incident::SplitLost),
    ];
    prop::collection::vec(incident, 0..40)
}

fn happen(world: &mut World, incident: &Incident) {
    match incident {
        Incident::Nothing => {}
        Incident::Ask(verb) => world.ask(*verb, None),
        Incident::Undo => world.ask(RolloutVerb::Undo, Some("web-1")),
        Incident::Deploy(nature) => {
            let name = format!("web-{}", world.revisions.len() + 1);
            world.deploy(&name, *nature);
        }
        Incident::Replicas(replicas) => world.replicas = *replicas,
        Incident::Flap => {
            for revision in world.revisions.values_mut() {
                revision.ready = revision.ready.saturating_sub(1);
            }
        }
        Incident::SplitByHand => split_by_hand(world),
        Incident::SplitLost => world.split = None,
    }
}

fn split_by_hand(world: &mut World) {
    use setpoint_api::revision::RevisionPhase::Ready;
    let ready = world.revisions.iter().filter(|(_, revision)| revision.phase == Ready && revision.ready > 0);
    let names: Vec<String> = ready.map(|(name, _)| name.clone()).collect();
    if let Some((first, rest)) = names.split_first() {
        let share = 10_000 / u32::try_from(names.len()).expect("few revisions");
        world.split = Some(rest.iter().fold(Split::all_to(first), |split, name| split.moved(first, name, share)));
    }
}

/// The one that serves has all it needs, and nobody else has anything.
fn assert_settled(world: &World) {
    let total: u32 = world.revisions.values().map(|revision| revision.asked).sum();
    let routed = world.split.iter().flat_map(Split::routed).count();
    assert!(total as usize >= world.replicas as usize, "{:#?}", world.log);
    assert!(total as usize <= world.replicas as usize + routed.saturating_sub(1), "{:#?}", world.revisions);
    assert!(world.promise_kept(), "{:#?}", world.log);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_rollout_keeps_its_promise_whatever_becomes_of_its_writes(
        strategy in strategies(),
        replicas in 1..7_u32,
        granularity in granularities(),
        nature in natures(),
        fates in fates(),
    ) {
        let mut world = World::serving(strategy, replicas);
        world.granularity = granularity;
        let measured = world.strategy.steps.iter().any(|step| step.analysis.is_some());
        world.deploy("web-2", nature);
        let mut fates = fates.into_iter();
        while fates.len() > 0 {
            world.reconcile(|| fates.next().unwrap_or_default());
            prop_assert!(world.promise_kept(), "{:#?}", world.log);
            world.tick();
            prop_assert!(world.promise_kept(), "{:#?}", world.log);
            fates.next();
        }
        world.settle();
        let works = match nature {
            Nature::Good => true,
            Nature::Fails | Nature::Hangs => false,
            Nature::Errs | Nature::Unused => !measured,
        };
        let (phase, serving) = if works {
            (RolloutPhase::Complete, "web-2 10000")
        } else {
            (RolloutPhase::Aborted, "web-1 10000")
        };
        prop_assert_eq!(world.state.phase, phase, "{:#?}", world.log);
        prop_assert_eq!(world.served_by(), serving, "{:#?}", world.log);
        assert_settled(&world);
        prop_assert_eq!(world.revisions.values().map(|revision| revision.asked).sum::<u32>(), replicas);
    }

    #[test]
    fn no_more_exists_than_the_surge_allows(
        strategy in strategies(),
        replicas in 1..7_u32,
        nature in natures(),
        fates in fates(),
    ) {
        let mut world = World::serving(strategy, replicas);
        world.deploy("web-2", nature);
        let mut fates = fates.into_iter();
        for _ in 0..60 {
            world.reconcile(|| fates.next().unwrap_or_default());
            let held: u32 = world.revisions.values().map(|revision| revision.asked.max(revision.existing)).sum();
            prop_assert!(held <= world.promise().limit(), "{} of {}: {:#?}", held, world.promise(), world.log);
            world.tick();
        }
    }

    #[test]
    fn whatever_happens_it_stays_sound_and_settles(
        strategy in strategies(),
        replicas in 1..7_u32,
        granularity in odd_granularities(),
        incidents in incidents(),
        fates in fates(),
    ) {
        let mut world = World::serving(strategy, replicas);
        world.granularity = granularity;
        world.deploy("web-2", Nature::Good);
        let mut fates = fates.into_iter();
        for incident in &incidents {
            happen(&mut world, incident);
            world.reconcile(|| fates.next().unwrap_or_default());
            world.assert_sound();
            world.tick();
        }
        world.settle();
        assert_settled(&world);
        let settled = world.decide();
        prop_assert!(settled.actions.is_empty() && settled.state == world.state, "{}", settled);
    }

    #[test]
    fn a_bad_revision_never_ends_up_serving(
        strategy in strategies(),
        replicas in 1..7_u32,
        nature in prop_oneof![Just(Nature::Fails), Just(Nature::Hangs)],
        incidents in incidents(),
    ) {
        let mut world = World::serving(strategy, replicas);
        world.deploy("web-2", nature);
        for incident in &incidents {
            let harmless = !matches!(incident, Incident::Deploy(_) | Incident::Replicas(_));
            if harmless {
                happen(&mut world, incident);
            }
            world.reconcile(Fate::default);
            let weight = world.split.as_ref().map_or(0, |split| split.weight("web-2"));
            prop_assert_eq!(weight, 0, "{:#?}", world.log);
            world.tick();
        }
        world.settle();
        prop_assert_eq!(world.served_by(), "web-1 10000");
        prop_assert_eq!(world.revisions["web-1"].ready, replicas);
    }
}
