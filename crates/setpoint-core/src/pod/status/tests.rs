//! What a kubelet would write, row by row.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use serde_json::{Value, json};

use super::*;
use crate::pod::fixtures::{at, container, ended, exit, node, noon, pod, running, state, waiting};
use crate::pod::state::{ContainerState, Phase, Role};

fn made(pod: &Pod, state: Option<&PodState>, is_over: bool) -> PodStatus {
    status(pod, Sight { state, hold: None, rejection: None, is_over, node: &node(), now: noon() })
}

/// A Pod of these containers, as its spec names them: `i` an init container, `s` a sidecar, the rest main ones.
fn pod_of(containers: &[ContainerState], restart_policy: &str) -> Pod {
    let of = |role: Role| containers.iter().filter(move |container| container.role == role);
    let sidecars = of(Role::Sidecar).map(|container| json!({"name": container.name, "restartPolicy": "Always"}));
    let init: Vec<Value> = sidecars.chain(of(Role::Init).map(|container| json!({"name": container.name}))).collect();
    let main: Vec<Value> = of(Role::Main).map(|container| json!({"name": container.name})).collect();
    pod(json!({"spec": {"restartPolicy": restart_policy, "initContainers": init, "containers": main}}))
}

fn restarting(name: &str, code: i32) -> ContainerState {
    ContainerState {
        last_exit: Some(exit(code)),
        restarts: 1,
        ..container(name, Role::Main, waiting("CrashLoopBackOff"))
    }
}

fn main(name: &str, phase: Phase) -> ContainerState {
    container(name, Role::Main, phase)
}

fn condition<'a>(status: &'a PodStatus, type_: &str) -> (&'a str, Option<&'a str>, Option<&'a str>) {
    let condition = status.conditions.iter().flatten().find(|condition| condition.type_ == type_).unwrap();
    (&condition.status, condition.reason.as_deref(), condition.message.as_deref())
}

#[test]
fn the_phase_follows_from_the_containers() {
    let rows: Vec<(&str, Vec<ContainerState>, &str)> = vec![
        ("it is being made", vec![main("a", waiting("ContainerCreating"))], "Pending"),
        ("one of two runs", vec![main("a", running()), main("b", waiting("ContainerCreating"))], "Pending"),
        ("both run", vec![main("a", running()), main("b", running())], "Running"),
        ("one ended well, one runs", vec![main("a", ended(0)), main("b", running())], "Running"),
        ("one failed, one runs", vec![main("a", ended(1)), main("b", running())], "Running"),
        ("all ended well", vec![main("a", ended(0)), main("b", ended(0))], "Succeeded"),
        ("one failed in the end", vec![main("a", ended(0)), main("b", ended(3))], "Failed"),
        ("it waits to be started again", vec![restarting("a", 1)], "Running"),
        ("one ended, one is started again", vec![main("a", ended(0)), restarting("b", 1)], "Running"),
        (
            "an init container runs",
            vec![container("i", Role::Init, running()), main("a", waiting("PodInitializing"))],
            "Pending",
        ),
        (
            "an init container waits to be started again",
            vec![
                ContainerState { last_exit: Some(exit(1)), ..container("i", Role::Init, waiting("CrashLoopBackOff")) },
                main("a", waiting("PodInitializing")),
            ],
            "Pending",
        ),
        (
            "an init container failed for good",
            vec![container("i", Role::Init, ended(1)), main("a", waiting("PodInitializing"))],
            "Failed",
        ),
        ("init is done", vec![container("i", Role::Init, ended(0)), main("a", running())], "Running"),
        (
            "a sidecar has not started",
            vec![
                ContainerState { is_started: false, ..container("s", Role::Sidecar, running()) },
                main("a", waiting("PodInitializing")),
            ],
            "Pending",
        ),
        (
            "a sidecar is started again later",
            vec![
                ContainerState {
                    last_exit: Some(exit(1)),
                    ..container("s", Role::Sidecar, waiting("CrashLoopBackOff"))
                },
                main("a", running()),
            ],
            "Running",
        ),
        ("a sidecar outlives the rest", vec![container("s", Role::Sidecar, running()), main("a", ended(0))], "Running"),
        (
            "a sidecar's end does not count",
            vec![container("s", Role::Sidecar, ended(137)), main("a", ended(0))],
            "Succeeded",
        ),
    ];
    for (name, containers, expected) in rows {
        let pod = pod_of(&containers, "Always");
        let state = state(containers);
        assert_eq!(made(&pod, Some(&state), false).phase.as_deref(), Some(expected), "{name}");
    }
}

#[test]
fn what_will_not_run_again_has_a_final_phase() {
    let rows: Vec<(&str, Option<Vec<ContainerState>>, &str)> = vec![
        ("it waited to be started again after a failure", Some(vec![restarting("a", 1)]), "Failed"),
        ("after a good end", Some(vec![restarting("a", 0)]), "Succeeded"),
        ("it never ran", Some(vec![main("a", waiting("ContainerCreating"))]), "Failed"),
        ("nothing of it is there", None, "Failed"),
    ];
    for (name, containers, expected) in rows {
        let pod = pod_of(containers.as_deref().unwrap_or(&[main("a", running())]), "Always");
        let state = containers.map(state);
        assert_eq!(made(&pod, state.as_ref(), true).phase.as_deref(), Some(expected), "{name}");
    }
}

#[test]
fn a_final_phase_stays() {
    for phase in ["Succeeded", "Failed"] {
        let pod = pod(json!({"status": {"phase": phase, "reason": "Evicted", "message": "no room"}}));
        let state = state(vec![main("web", running())]);
        let status = made(&pod, Some(&state), false);
        assert_eq!(status.phase.as_deref(), Some(phase));
        assert_eq!((status.reason.as_deref(), status.message.as_deref()), (Some("Evicted"), Some("no room")));
        assert_eq!(condition(&status, "Ready").0, "False", "{phase}");
    }
}

#[test]
fn conditions_say_how_far_it_is() {
    let unready = |name: &str| ContainerState { is_ready: false, ..main(name, running()) };
    type Row<'a> = (&'a str, Vec<ContainerState>, [(&'a str, (&'a str, Option<&'a str>, Option<&'a str>)); 3]);
    let rows: Vec<Row<'_>> = vec![
        (
            "ready",
            vec![main("a", running())],
            [
                ("Initialized", ("True", None, None)),
                ("ContainersReady", ("True", None, None)),
                ("Ready", ("True", None, None)),
            ],
        ),
        (
            "two are not ready",
            vec![unready("a"), unready("b"), main("c", running())],
            [
                ("Initialized", ("True", None, None)),
                (
                    "ContainersReady",
                    ("False", Some("ContainersNotReady"), Some("containers with unready status: [a b]")),
                ),
                ("Ready", ("False", Some("ContainersNotReady"), Some("containers with unready status: [a b]"))),
            ],
        ),
        (
            "an init container runs",
            vec![container("i", Role::Init, running()), main("a", waiting("PodInitializing"))],
            [
                (
                    "Initialized",
                    ("False", Some("ContainersNotInitialized"), Some("containers with incomplete status: [i]")),
                ),
                ("PodReadyToStartContainers", ("True", None, None)),
                ("Ready", ("False", Some("ContainersNotReady"), Some("containers with unready status: [a]"))),
            ],
        ),
        (
            "a sidecar is not ready",
            vec![ContainerState { is_ready: false, ..container("s", Role::Sidecar, running()) }, main("a", running())],
            [
                ("Initialized", ("True", None, None)),
                ("PodScheduled", ("True", None, None)),
                ("Ready", ("False", Some("ContainersNotReady"), Some("containers with unready status: [s]"))),
            ],
        ),
        (
            "all is done",
            vec![main("a", ended(0))],
            [
                ("Initialized", ("True", Some("PodCompleted"), None)),
                ("PodReadyToStartContainers", ("False", None, None)),
                ("Ready", ("False", Some("PodCompleted"), None)),
            ],
        ),
        (
            "it failed",
            vec![main("a", ended(1))],
            [
                ("Initialized", ("True", None, None)),
                ("ContainersReady", ("False", Some("PodFailed"), None)),
                ("Ready", ("False", Some("PodFailed"), None)),
            ],
        ),
    ];
    for (name, containers, expected) in rows {
        let pod = pod_of(&containers, "Never");
        let state = state(containers);
        let status = made(&pod, Some(&state), false);
        for (type_, verdict) in expected {
            assert_eq!(condition(&status, type_), verdict, "{name}: {type_}");
        }
    }
}

#[test]
fn readiness_gates_have_a_say() {
    let gate = |conditions: Value| {
        pod(
            json!({"spec": {"readinessGates": [{"conditionType": "example.com/ok"}]}, "status": {"conditions": conditions}}),
        )
    };
    let no = r#"corresponding condition of pod readiness gate "example.com/ok" does not exist."#;
    let not_true = r#"the status of pod readiness gate "example.com/ok" is not "True", but False"#;
    let rows = [
        ("nobody said anything", json!([]), ("False", Some("ReadinessGatesNotReady"), Some(no))),
        (
            "somebody says no",
            json!([{"type": "example.com/ok", "status": "False"}]),
            ("False", Some("ReadinessGatesNotReady"), Some(not_true)),
        ),
        ("somebody says yes", json!([{"type": "example.com/ok", "status": "True"}]), ("True", None, None)),
    ];
    for (name, conditions, expected) in rows {
        let state = state(vec![main("web", running())]);
        let status = made(&gate(conditions.clone()), Some(&state), false);
        assert_eq!(condition(&status, "Ready"), expected, "{name}");
        assert_eq!(condition(&status, "ContainersReady"), ("True", None, None), "{name}");
        let kept = status.conditions.unwrap().iter().filter(|kept| kept.type_ == "example.com/ok").count();
        assert_eq!(kept, conditions.as_array().unwrap().len(), "{name}: others' conditions stay");
    }
}

#[test]
fn transition_times_move_with_the_status_alone() {
    let pod = pod(json!({}));
    let ready = state(vec![main("web", running())]);
    let first = Pod { status: Some(made(&pod, Some(&ready), false)), ..pod };
    let later = |state: &PodState| {
        let sight =
            Sight { state: Some(state), hold: None, rejection: None, is_over: false, node: &node(), now: at(60) };
        status(&first, sight)
    };
    assert_eq!(later(&ready), first.status.clone().unwrap(), "what did not change is not written");
    let unready = state(vec![ContainerState { is_ready: false, ..main("web", running()) }]);
    let status = later(&unready);
    let since = |type_: &str| {
        let condition = status.conditions.iter().flatten().find(|condition| condition.type_ == type_);
        condition.unwrap().last_transition_time.clone().unwrap().0
    };
    assert_eq!(since("Ready"), at(60));
    assert_eq!(since("Initialized"), noon());
    assert_eq!(since("PodScheduled").to_string(), "2026-03-01T11:59:01Z", "since it was bound");
}

#[test]
fn the_whole_status_of_a_running_pod() {
    let pod = pod(json!({"spec": {"containers": [{
        "name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true}],
    }]}}));
    let web = ContainerState { last_exit: Some(exit(1)), restarts: 2, ..main("web", running()) };
    let status = serde_json::to_value(made(&pod, Some(&state(vec![web])), false)).unwrap();
    let condition = |type_: &str, since: &str| json!({"type": type_, "status": "True", "observedGeneration": 1, "lastTransitionTime": since});
    let noon = "2026-03-01T12:00:00Z";
    let expected = json!({
        "phase": "Running",
        "qosClass": "BestEffort",
        "observedGeneration": 1,
        "startTime": "2026-03-01T11:59:55Z",
        "hostIP": "10.0.0.7",
        "hostIPs": [{"ip": "10.0.0.7"}, {"ip": "fd00::7"}],
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "conditions": [
            condition("PodReadyToStartContainers", noon),
            condition("Initialized", noon),
            condition("Ready", noon),
            condition("ContainersReady", noon),
            condition("PodScheduled", "2026-03-01T11:59:01Z"),
        ],
        "containerStatuses": [{
            "name": "web", "image": "web:1", "imageID": "", "containerID": "process://web-1",
            "ready": true, "started": true, "restartCount": 2,
            "state": {"running": {"startedAt": "2026-03-01T11:59:59Z"}},
            "lastState": {"terminated": {
                "exitCode": 1, "reason": "Error",
                "startedAt": "2026-03-01T11:59:58Z", "finishedAt": "2026-03-01T11:59:59Z",
            }},
            "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"},
            "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true, "recursiveReadOnly": "Disabled"}],
        }],
    });
    assert_eq!(status, expected);
}

#[test]
fn a_container_of_which_nothing_is_there() {
    let old = |state: Value| {
        json!({"status": {"phase": "Running", "containerStatuses": [{
            "name": "web", "ready": true, "image": "", "imageID": "", "restartCount": 3, "state": state,
        }]}})
    };
    let told = |status: &ContainerStatus| {
        let state = status.state.clone().unwrap();
        let last = status.last_state.clone().and_then(|last| last.terminated).and_then(|last| last.reason);
        let now = state.waiting.and_then(|waiting| waiting.reason);
        let ended = state.terminated.and_then(|ended| ended.reason);
        (now.or(ended).unwrap(), last, status.restart_count)
    };
    let unknown = || "ContainerStatusUnknown".to_owned();
    let rows = [
        ("it is new", json!({}), false, ("ContainerCreating".to_owned(), None, 0)),
        (
            "it ran and is made anew",
            old(json!({"running": {}})),
            false,
            ("ContainerCreating".to_owned(), Some(unknown()), 4),
        ),
        ("it ran and is over", old(json!({"running": {}})), true, (unknown(), None, 3)),
        (
            "how it ended is known",
            old(json!({"terminated": {"exitCode": 0, "reason": "Completed"}})),
            true,
            ("Completed".to_owned(), None, 3),
        ),
    ];
    for (name, over, is_over, expected) in rows {
        let status = made(&pod(over), None, is_over);
        assert_eq!(told(&status.container_statuses.unwrap()[0]), expected, "{name}");
    }
}
