//! What a Pod's containers do, told as tables: what comes in, what is done, how it looks afterwards.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::*;
use crate::pod::{ContainerState, PodState};

/// A Pod under a supervisor, and its clock.
struct Pod {
    supervisor: Supervisor,
    now: Timestamp,
    actions: Vec<String>,
}

impl Pod {
    fn new(spec: Value) -> Pod {
        let now = Timestamp::UNIX_EPOCH;
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let plan = Plan::new("default", "web", "u1", &spec);
        let supervisor = Supervisor::new(plan.clone(), fresh(&plan, now), now);
        let mut pod = Pod { supervisor, now, actions: Vec::new() };
        pod.step(Input::Tick);
        pod
    }

    fn step(&mut self, input: Input) {
        let actions = self.supervisor.step(self.now, input);
        let shown: Vec<String> = actions.iter().map(|action| self.show(action)).collect();
        self.actions.extend(shown);
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.step(Input::Tick);
    }

    /// What was to be done since the last time.
    fn done(&mut self) -> String {
        std::mem::take(&mut self.actions).join(", ")
    }

    fn key(&self, name: &str) -> RunKey {
        let container = self.supervisor.plan().containers.iter().position(|plan| plan.name == name).unwrap();
        RunKey { container, run: self.supervisor.state().containers[container].restarts }
    }

    fn spawned(&mut self, name: &str) {
        let run = self.key(name);
        self.step(Input::Spawned { run, id: "1".to_owned() });
    }

    fn exited(&mut self, name: &str, code: i32) {
        let (run, ending) = (self.key(name), Ending { code, ..Ending::default() });
        self.step(Input::Exited { run, ending });
    }

    fn probed(&mut self, name: &str, kind: ProbeKind, outcome: ProbeOutcome) {
        let run = self.key(name);
        self.step(Input::Probed { run, kind, outcome });
    }

    fn hook(&mut self, name: &str, hook: Hook, succeeded: bool) {
        let run = self.key(name);
        self.step(Input::HookEnded { run, hook, succeeded });
    }

    fn stop(&mut self, seconds: u64) {
        self.step(Input::Stop { deadline: self.now + Duration::from_secs(seconds) });
    }

    fn state(&self, name: &str) -> &ContainerState {
        self.supervisor.state().container(name).unwrap()
    }

    fn phase(&self, name: &str) -> String {
        match &self.state(name).phase {
            Phase::Waiting { reason, .. } => reason.clone(),
            Phase::Running { .. } => "Running".to_owned(),
            Phase::Ended(exit) => format!("{} {}", exit.reason, exit.code),
        }
    }

    fn notices(&self) -> Vec<String> {
        let notices = self.supervisor.state().notices.iter();
        notices.map(|notice| format!("{}: {}", notice.reason, notice.message)).collect()
    }

    fn show(&self, action: &Action) -> String {
        let name = |key: &RunKey| self.supervisor.plan().containers[key.container].name.clone();
        match action {
            Action::Spawn(key) => format!("spawn {}", name(key)),
            Action::RunHook(key, hook) => format!("{hook:?} {}", name(key)),
            Action::Probe(key, kind) => format!("{kind} {}", name(key)),
            Action::Terminate(key) => format!("terminate {}", name(key)),
            Action::Kill(key) => format!("kill {}", name(key)),
        }
    }
}

pub(super) fn fresh(plan: &Plan, now: Timestamp) -> PodState {
    let waiting = |plan: &ContainerPlan| ContainerState::waiting(&plan.name, plan.role, "PodInitializing");
    PodState {
        started_at: now,
        ip: None,
        containers: plan.containers.iter().map(waiting).collect(),
        ports: Vec::new(),
        stopping_since: None,
        notices: Vec::new(),
    }
}

#[test]
fn what_ends_is_started_again_as_its_policy_says() {
    let rows = [
        ("Always, after a success", "Always", 0, "spawn a", "ContainerCreating"),
        ("Always, after a failure", "Always", 1, "spawn a", "ContainerCreating"),
        ("OnFailure, after a success", "OnFailure", 0, "", "Completed 0"),
        ("OnFailure, after a failure", "OnFailure", 3, "spawn a", "ContainerCreating"),
        ("Never, after a failure", "Never", 3, "", "Error 3"),
    ];
    for (what, policy, code, done, phase) in rows {
        let mut pod = Pod::new(json!({"restartPolicy": policy, "containers": [{"name": "a"}]}));
        pod.spawned("a");
        pod.done();
        pod.exited("a", code);
        assert_eq!((pod.done().as_str(), pod.phase("a").as_str()), (done, phase), "{what}");
    }
}

#[test]
fn a_container_that_ends_again_and_again_is_held_back() {
    let mut pod = Pod::new(json!({"containers": [{"name": "a"}]}));
    pod.spawned("a");
    pod.exited("a", 1);
    pod.spawned("a");
    pod.exited("a", 1);
    assert_eq!(pod.done(), "spawn a, spawn a", "the first time it is started again at once");
    let Phase::Waiting { reason, message } = &pod.state("a").phase else { panic!("it waits") };
    assert_eq!(reason, "CrashLoopBackOff");
    assert_eq!(message, "back-off 10s restarting failed container=a pod=web_default(u1)");
    let back_off = "BackOff: Back-off restarting failed container a in pod web_default(u1)";
    assert_eq!(pod.notices().last().unwrap(), back_off);
    pod.wait(9);
    assert_eq!(pod.done(), "");
    pod.wait(1);
    assert_eq!((pod.done().as_str(), pod.state("a").restarts), ("spawn a", 2));
}

#[test]
fn init_containers_run_in_order_and_sidecars_only_have_to_start() {
    let mut pod = Pod::new(json!({
        "initContainers": [{"name": "one"}, {"name": "side", "restartPolicy": "Always"}, {"name": "two"}],
        "containers": [{"name": "main"}, {"name": "other"}],
    }));
    assert_eq!(pod.done(), "spawn one");
    pod.spawned("one");
    assert_eq!(pod.done(), "");
    pod.exited("one", 0);
    assert_eq!(pod.done(), "spawn side");
    pod.spawned("side");
    assert_eq!(pod.done(), "spawn two");
    pod.spawned("two");
    pod.exited("two", 0);
    assert_eq!(pod.done(), "spawn main, spawn other");
    pod.exited("side", 0);
    assert_eq!(pod.done(), "spawn side", "a sidecar goes on whatever happens");
}

#[test]
fn an_init_container_that_fails_for_good_ends_the_pod() {
    let mut pod = Pod::new(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}],
        "containers": [{"name": "main"}],
    }));
    pod.spawned("side");
    pod.spawned("init");
    pod.done();
    pod.exited("init", 2);
    assert_eq!(pod.done(), "terminate side");
    assert_eq!((pod.phase("init").as_str(), pod.phase("main").as_str()), ("Error 2", "NeverStarted 137"));
    pod.exited("side", 143);
    assert!(pod.supervisor.state().has_ended());
}

#[test]
fn a_pod_stops_its_main_containers_first_and_its_sidecars_backwards() {
    let mut pod = Pod::new(json!({
        "initContainers": [{"name": "s1", "restartPolicy": "Always"}, {"name": "s2", "restartPolicy": "Always"}],
        "containers": [{"name": "a", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}, {"name": "b"}],
    }));
    for name in ["s1", "s2", "a", "b"] {
        pod.spawned(name);
    }
    pod.done();
    pod.stop(30);
    assert_eq!(pod.done(), "PreStop a, terminate b");
    pod.hook("a", Hook::PreStop, true);
    assert_eq!(pod.done(), "terminate a");
    pod.exited("a", 143);
    assert_eq!(pod.done(), "");
    pod.exited("b", 143);
    assert_eq!(pod.done(), "terminate s2");
    pod.exited("s2", 143);
    assert_eq!(pod.done(), "terminate s1");
    pod.wait(29);
    assert_eq!(pod.done(), "");
    pod.wait(1);
    assert_eq!(pod.done(), "kill s1");
    pod.exited("s1", 137);
    assert!(pod.supervisor.state().has_ended());
    assert!(pod.notices().contains(&"Killing: Stopping container a".to_owned()));
}

#[test]
fn a_second_stop_can_only_be_sooner() {
    let mut pod = Pod::new(json!({"containers": [{"name": "a"}]}));
    pod.spawned("a");
    pod.stop(30);
    pod.stop(100);
    assert_eq!(pod.supervisor.next_deadline(), Some(pod.now + Duration::from_secs(30)));
    pod.done();
    pod.stop(0);
    assert_eq!(pod.done(), "kill a");
}

#[test]
fn without_grace_nobody_is_asked() {
    let lifecycle = json!({"preStop": {"exec": {"command": ["x"]}}});
    let mut pod = Pod::new(json!({"containers": [{"name": "a", "lifecycle": lifecycle}]}));
    pod.spawned("a");
    pod.done();
    pod.stop(0);
    assert_eq!(pod.done(), "kill a");
}

#[test]
fn what_is_still_starting_is_killed_at_the_deadline() {
    let mut pod = Pod::new(json!({"containers": [{"name": "a"}]}));
    pod.done();
    pod.stop(30);
    assert_eq!(pod.supervisor.next_deadline(), Some(pod.now + Duration::from_secs(30)));
    assert_eq!(pod.done(), "");
    pod.wait(30);
    assert_eq!((pod.done().as_str(), pod.supervisor.next_deadline()), ("kill a", None));
    pod.spawned("a");
    assert_eq!(pod.done(), "", "it was killed already");
    pod.exited("a", 137);
    assert_eq!(pod.phase("a"), "Error 137");
}

#[test]
fn what_is_stopped_while_it_waits_never_runs() {
    let mut pod = Pod::new(json!({"initContainers": [{"name": "init"}], "containers": [{"name": "main"}]}));
    pod.done();
    pod.stop(30);
    pod.spawned("init");
    assert_eq!(pod.done(), "terminate init", "what was being started is ended at once");
    pod.exited("init", 0);
    assert_eq!((pod.done().as_str(), pod.phase("main").as_str()), ("", "NeverStarted 137"));
}

#[test]
fn a_failing_liveness_probe_restarts_the_container() {
    let probe = json!({"tcpSocket": {"port": 1}, "failureThreshold": 2, "terminationGracePeriodSeconds": 5});
    let mut pod = Pod::new(json!({"containers": [{"name": "a", "livenessProbe": probe}]}));
    pod.spawned("a");
    assert_eq!(pod.done(), "spawn a, Liveness a");
    let failure = || ProbeOutcome::Failure("refused".to_owned());
    pod.probed("a", ProbeKind::Liveness, failure());
    pod.wait(10);
    assert_eq!(pod.done(), "Liveness a");
    pod.probed("a", ProbeKind::Liveness, failure());
    assert_eq!(pod.done(), "terminate a");
    let told =
        ["Unhealthy: Liveness probe failed: refused", "Killing: Container a failed liveness probe, will be restarted"];
    assert_eq!(pod.notices()[1..], told);
    pod.wait(5);
    assert_eq!(pod.done(), "kill a", "the probe's own grace");
    pod.exited("a", 137);
    assert_eq!((pod.done().as_str(), pod.state("a").restarts), ("spawn a", 1));
}

#[test]
fn the_startup_probe_holds_the_others_back() {
    let probe = json!({"tcpSocket": {"port": 1}});
    let container = json!({"name": "a", "startupProbe": probe, "readinessProbe": probe, "livenessProbe": probe});
    let mut pod = Pod::new(json!({"containers": [container]}));
    pod.spawned("a");
    assert_eq!(pod.done(), "spawn a, Startup a");
    assert!(!pod.state("a").is_started && !pod.state("a").is_ready);
    pod.probed("a", ProbeKind::Startup, ProbeOutcome::Success);
    assert_eq!(pod.done(), "Readiness a, Liveness a");
    assert!(pod.state("a").is_started && !pod.state("a").is_ready);
    pod.probed("a", ProbeKind::Readiness, ProbeOutcome::Success);
    assert!(pod.state("a").is_ready);
}

#[test]
fn readiness_comes_and_goes() {
    let probe = json!({"tcpSocket": {"port": 1}, "failureThreshold": 1});
    let mut pod = Pod::new(json!({"containers": [{"name": "a", "readinessProbe": probe}, {"name": "b"}]}));
    pod.spawned("a");
    pod.spawned("b");
    assert!(!pod.state("a").is_ready && pod.state("b").is_ready, "who is not asked is ready when it has started");
    for (outcome, is_ready) in [
        (ProbeOutcome::Success, true),
        (ProbeOutcome::Unknown("?".to_owned()), true),
        (ProbeOutcome::Failure("no".to_owned()), false),
    ] {
        pod.wait(10);
        pod.probed("a", ProbeKind::Readiness, outcome.clone());
        assert_eq!(pod.state("a").is_ready, is_ready, "{outcome:?}");
    }
    pod.exited("b", 1);
    assert!(!pod.state("b").is_ready);
}

#[test]
fn the_same_complaint_of_a_probe_is_told_once_a_minute() {
    let probe = json!({"tcpSocket": {"port": 1}, "periodSeconds": 20});
    let mut pod = Pod::new(json!({"containers": [{"name": "a", "readinessProbe": probe}]}));
    pod.spawned("a");
    let mut told = |message: &str| {
        let before = pod.notices().len();
        pod.wait(20);
        pod.probed("a", ProbeKind::Readiness, ProbeOutcome::Failure(message.to_owned()));
        pod.notices().len() - before
    };
    let complaints = ["refused", "refused", "no answer", "refused", "refused"];
    assert_eq!(complaints.map(&mut told), [1, 0, 1, 1, 0]);
}

#[test]
fn a_failing_post_start_hook_ends_the_container() {
    let lifecycle = json!({"postStart": {"exec": {"command": ["x"]}}});
    let mut pod = Pod::new(json!({"containers": [{"name": "a", "lifecycle": lifecycle}]}));
    pod.spawned("a");
    assert_eq!(pod.done(), "spawn a, PostStart a");
    assert!(!pod.state("a").is_started);
    pod.hook("a", Hook::PostStart, false);
    assert_eq!(pod.done(), "terminate a");
    assert!(pod.notices().contains(&"FailedPostStartHook: PostStartHook failed".to_owned()));
}

#[test]
fn answers_about_an_earlier_run_change_nothing() {
    let mut pod = Pod::new(json!({"containers": [{"name": "a"}]}));
    pod.spawned("a");
    let old = pod.key("a");
    pod.exited("a", 1);
    pod.spawned("a");
    pod.done();
    let before = pod.supervisor.state().clone();
    pod.step(Input::Exited { run: old, ending: Ending::default() });
    pod.step(Input::SpawnFailed { run: old, message: String::new() });
    pod.step(Input::Spawned { run: RunKey { container: 7, run: 0 }, id: String::new() });
    assert_eq!((pod.done().as_str(), pod.supervisor.state()), ("", &before));
}

#[test]
fn how_a_run_ended_is_told() {
    let rows = [
        ("a success", 0, false, "Completed 0"),
        ("a failure", 7, false, "Error 7"),
        ("out of memory", 137, true, "OOMKilled 137"),
    ];
    for (what, code, was_out_of_memory, phase) in rows {
        let mut pod = Pod::new(json!({"restartPolicy": "Never", "containers": [{"name": "a"}]}));
        pod.spawned("a");
        let run = pod.key("a");
        pod.step(Input::Exited { run, ending: Ending { code, was_out_of_memory, ..Ending::default() } });
        assert_eq!(pod.phase("a"), phase, "{what}");
    }
    let mut pod = Pod::new(json!({"restartPolicy": "Never", "containers": [{"name": "a"}]}));
    let run = pod.key("a");
    pod.step(Input::SpawnFailed { run, message: "no such file".to_owned() });
    assert_eq!(
        (pod.phase("a").as_str(), pod.notices()),
        ("StartError 128", vec!["Failed: Error: no such file".to_owned()])
    );
}

#[test]
fn a_new_supervisor_goes_on_where_the_lost_one_was() {
    let rows = [
        ("Always", "ContainerCreating", "spawn a", "ContainerStatusUnknown"),
        ("Never", "ContainerStatusUnknown 137", "", "ContainerStatusUnknown"),
    ];
    for (policy, phase, done, reason) in rows {
        let mut pod = Pod::new(json!({"restartPolicy": policy, "containers": [{"name": "a"}]}));
        pod.spawned("a");
        pod.done();
        let (plan, state) = (pod.supervisor.plan().clone(), pod.supervisor.state().clone());
        pod.supervisor = Supervisor::new(plan, state, pod.now);
        pod.step(Input::Tick);
        assert_eq!((pod.done().as_str(), pod.phase("a").as_str()), (done, phase), "{policy}");
        let state = pod.state("a");
        let exit = match &state.phase {
            Phase::Ended(exit) => exit,
            _ => state.last_exit.as_ref().unwrap(),
        };
        assert_eq!((exit.reason.as_str(), exit.code), (reason, 137), "{policy}");
    }
}

#[test]
fn a_stop_survives_the_supervisor() {
    let mut pod = Pod::new(json!({"containers": [{"name": "a"}]}));
    pod.spawned("a");
    pod.stop(30);
    let (plan, state) = (pod.supervisor.plan().clone(), pod.supervisor.state().clone());
    pod.supervisor = Supervisor::new(plan, state, pod.now);
    pod.done();
    pod.step(Input::Tick);
    assert_eq!(pod.done(), "");
    assert!(pod.supervisor.state().has_ended());
}
