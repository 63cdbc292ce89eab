//! What holds for every Pod, whatever happens to it and whenever.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodSpec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::fresh;
use super::*;

/// What the world does next. Numbers choose among what is possible.
#[derive(Debug, Clone)]
enum Happening {
    Wait(u64),
    Spawned(usize),
    SpawnFailed(usize),
    Exited(usize, i32),
    HookEnded(usize, bool),
    Probed(usize, bool),
    Stop(u64),
    Crash,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let happening = prop_oneof![
        6 => (0..400u64).prop_map(Happening::Wait),
        10 => any::<usize>().prop_map(Happening::Spawned),
        1 => any::<usize>().prop_map(Happening::SpawnFailed),
        6 => (any::<usize>(), 0..3).prop_map(|(which, code)| Happening::Exited(which, code)),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(which, good)| Happening::HookEnded(which, good)),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(which, good)| Happening::Probed(which, good)),
        1 => (0..60u64).prop_map(Happening::Stop),
        1 => Just(Happening::Crash),
    ];
    prop::collection::vec(happening, 1..80)
}

fn container(index: usize) -> impl Strategy<Value = (Value, u8)> {
    (any::<[bool; 5]>(), 0..3u8).prop_map(move |([startup, readiness, liveness, post, pre], role)| {
        let probe = |is_there: bool| is_there.then(|| json!({"tcpSocket": {"port": 1}, "failureThreshold": 2}));
        let hook = |is_there: bool| is_there.then(|| json!({"exec": {"command": ["x"]}}));
        let mut value =
            json!({"name": format!("c{index}"), "lifecycle": {"postStart": hook(post), "preStop": hook(pre)}});
        if role != 0 {
            value["startupProbe"] = json!(probe(startup));
            value["readinessProbe"] = json!(probe(readiness));
            value["livenessProbe"] = json!(probe(liveness));
        }
        if role == 1 {
            value["restartPolicy"] = json!("Always");
        }
        (value, role)
    })
}

fn pods() -> impl Strategy<Value = PodSpec> {
    let policy = prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")];
    (policy, container(0), container(1), container(2), container(3)).prop_map(|(policy, a, b, c, d)| {
        let (main, init): (Vec<_>, Vec<_>) = [a, b, c, d].into_iter().partition(|(_, role)| *role == 2);
        let mut main: Vec<Value> = main.into_iter().map(|(value, _)| value).collect();
        main.push(json!({"name": "main"}));
        let init: Vec<Value> = init.into_iter().map(|(value, _)| value).collect();
        let spec = json!({"restartPolicy": policy, "initContainers": init, "containers": main});
        serde_json::from_value(spec).unwrap()
    })
}

/// What was asked for and has not been answered.
#[derive(Debug, Default)]
struct World {
    starting: Vec<RunKey>,
    running: Vec<RunKey>,
    hooks: Vec<(RunKey, Hook)>,
    probes: Vec<(RunKey, ProbeKind)>,
    killed: BTreeSet<RunKey>,
}

fn take<T>(from: &mut Vec<T>, which: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(which % from.len()))
}

impl World {
    /// Whether nothing goes on that was not killed.
    fn is_killed(&self) -> bool {
        self.starting.iter().chain(&self.running).all(|run| self.killed.contains(run))
    }

    fn input(&mut self, happening: &Happening, now: Timestamp) -> Option<Input> {
        Some(match happening {
            Happening::Wait(_) | Happening::Crash => Input::Tick,
            Happening::Spawned(which) => {
                let run = take(&mut self.starting, *which)?;
                self.running.push(run);
                Input::Spawned { run, id: String::new() }
            }
            Happening::SpawnFailed(which) => {
                Input::SpawnFailed { run: take(&mut self.starting, *which)?, message: String::new() }
            }
            Happening::Exited(which, code) => {
                let ending = Ending { code: *code, ..Ending::default() };
                Input::Exited { run: take(&mut self.running, *which)?, ending }
            }
            Happening::HookEnded(which, succeeded) => {
                let (run, hook) = take(&mut self.hooks, *which)?;
                Input::HookEnded { run, hook, succeeded: *succeeded }
            }
            Happening::Probed(which, success) => {
                let (run, kind) = take(&mut self.probes, *which)?;
                let outcome = if *success { ProbeOutcome::Success } else { ProbeOutcome::Failure(String::new()) };
                Input::Probed { run, kind, outcome }
            }
            Happening::Stop(seconds) => Input::Stop { deadline: now + Duration::from_secs(*seconds) },
        })
    }

    fn act(&mut self, action: Action) -> Result<(), TestCaseError> {
        match action {
            Action::Spawn(run) => {
                let is_there = |other: &RunKey| other.container == run.container;
                prop_assert!(!self.starting.iter().chain(&self.running).any(is_there), "two runs at once: {:?}", run);
                self.starting.push(run);
            }
            Action::RunHook(run, hook) => self.hooks.push((run, hook)),
            Action::Probe(run, kind) => {
                prop_assert!(!self.probes.contains(&(run, kind)), "asked twice at once: {:?} {:?}", run, kind);
                self.probes.push((run, kind));
            }
            Action::Terminate(run) => prop_assert!(self.running.contains(&run)),
            Action::Kill(run) => {
                prop_assert!(self.starting.contains(&run) || self.running.contains(&run));
                prop_assert!(self.killed.insert(run), "killed twice: {:?}", run);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_promises_hold_whatever_happens(spec in pods(), happenings in happenings()) {
        let mut now = Timestamp::UNIX_EPOCH;
        let plan = Plan::new("default", "web", "u1", &spec);
        let mut supervisor = Supervisor::new(plan.clone(), fresh(&plan, now), now);
        let (mut world, mut stop_at) = (World::default(), None::<Timestamp>);
        let mut before = supervisor.state().clone();
        for happening in happenings.iter().chain(&[Happening::Stop(30), Happening::Wait(31)]) {
            match happening {
                Happening::Wait(seconds) => now += Duration::from_secs(*seconds),
                Happening::Stop(seconds) => {
                    let deadline = now + Duration::from_secs(*seconds);
                    stop_at = Some(stop_at.map_or(deadline, |earlier| earlier.min(deadline)));
                }
                Happening::Crash => {
                    supervisor = Supervisor::new(plan.clone(), supervisor.state().clone(), now);
                    world = World::default();
                }
                _ => {}
            }
            let Some(input) = world.input(happening, now) else { continue };
            for action in supervisor.step(now, input) {
                world.act(action)?;
            }
            let after = supervisor.state();
            for (index, (old, new)) in before.containers.iter().zip(&after.containers).enumerate() {
                prop_assert!(new.restarts >= old.restarts, "restarts went back");
                if plan.containers[index].policy == RestartPolicy::Never {
                    prop_assert_eq!(new.restarts, 0, "what never restarts was restarted");
                }
                if matches!(old.phase, Phase::Ended(_)) {
                    prop_assert_eq!(&new.phase, &old.phase, "what had ended for good did not stay so");
                }
                prop_assert!(!new.is_ready || new.is_running() || new.role == Role::Init);
            }
            if stop_at.is_some_and(|deadline| deadline <= now) {
                prop_assert!(world.is_killed(), "goes on after the deadline: {:?}", world);
            } else if let Some(stop_at) = stop_at.filter(|_| !world.is_killed()) {
                let wake = supervisor.next_deadline();
                prop_assert!(wake.is_some_and(|wake| wake <= stop_at), "it would sleep through the deadline: {:?}", wake);
            }
            if let Some(deadline) = supervisor.next_deadline() {
                prop_assert!(deadline > now, "it would come back for ever: {:?} at {:?}", deadline, now);
            }
            before = after.clone();
        }
        while let Some(run) = world.starting.pop() {
            let actions = supervisor.step(now, Input::Spawned { run, id: String::new() });
            prop_assert!(actions.is_empty(), "it was killed already: {:?}", actions);
            world.running.push(run);
        }
        for run in world.running {
            supervisor.step(now, Input::Exited { run, ending: Ending::default() });
        }
        prop_assert!(supervisor.state().has_ended());
    }
}
