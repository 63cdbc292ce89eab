//! Objects for the tables of this directory, made from JSON as a person would write it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::fields::NodeFacts;
use super::state::{ContainerState, Exit, Phase, PodState, Role};
pub(crate) use crate::workload::fixtures::{at, laid_over, noon, object};

/// A Pod on node `local` with one container `web`, with changes.
pub(crate) fn pod(over: Value) -> Pod {
    let base = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "pod-uid", "generation": 1,
            "creationTimestamp": "2026-03-01T11:59:00Z",
        },
        "spec": {
            "nodeName": "local", "serviceAccountName": "default", "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "web", "command": ["sleep", "9"]}],
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T11:59:01Z"},
        ]},
    });
    object(laid_over(base, over))
}

pub(crate) fn node() -> NodeFacts {
    NodeFacts {
        name: "local".to_owned(),
        labels: object(json!({"kubernetes.io/hostname": "local", "kubernetes.io/os": "linux"})),
        addresses: ["10.0.0.7", "fd00::7"].map(|address| address.parse().unwrap()).to_vec(),
        pod_address: Some("127.0.0.1".parse().unwrap()),
        cpu_millicores: 4000,
        memory_bytes: 8 << 30,
        ephemeral_storage_bytes: 100 << 30,
        pods: 110,
        runtime: "process".to_owned(),
    }
}

pub(crate) fn waiting(reason: &str) -> Phase {
    Phase::Waiting { reason: reason.to_owned(), message: String::new() }
}

/// Running since a second before noon.
pub(crate) fn running() -> Phase {
    Phase::Running { started_at: at(-1) }
}

pub(crate) fn ended(code: i32) -> Phase {
    Phase::Ended(exit(code))
}

pub(crate) fn exit(code: i32) -> Exit {
    let reason = if code == 0 { "Completed" } else { "Error" };
    Exit {
        code,
        signal: None,
        reason: reason.to_owned(),
        message: String::new(),
        started_at: Some(at(-2)),
        finished_at: at(-1),
    }
}

/// A container that is ready if it runs.
pub(crate) fn container(name: &str, role: Role, phase: Phase) -> ContainerState {
    let runs = matches!(phase, Phase::Running { .. });
    let run_id = (!matches!(phase, Phase::Waiting { .. })).then(|| format!("{name}-1"));
    ContainerState { phase, is_started: runs, is_ready: runs, run_id, ..ContainerState::waiting(name, role, "") }
}

pub(crate) fn state(containers: Vec<ContainerState>) -> PodState {
    PodState {
        started_at: started(),
        ip: Some("127.0.0.1".parse().unwrap()),
        containers,
        ports: Vec::new(),
        stopping_since: None,
        notices: Vec::new(),
    }
}

pub(crate) fn started() -> Timestamp {
    at(-5)
}
