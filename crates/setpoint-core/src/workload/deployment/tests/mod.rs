//! Tables of what a Deployment does next, and the objects they are about.

mod numbers;
mod progress;
mod rollout;
mod size;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::revision::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use super::{Step, decide};
use crate::workload::fixtures::{at, laid_over, object};

/// A Deployment of ten, a quarter may be more and a quarter missing, whose template is `v3`.
fn deployment(over: Value) -> Deployment {
    let base = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "d-uid", "generation": 7, "annotations": {REVISION: "3"},
        },
        "spec": {
            "replicas": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": template("v3"),
            "progressDeadlineSeconds": 600,
        },
    });
    object(laid_over(base, over))
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// The ReplicaSet of revision N, whose template is `vN`: so many replicas, so many of its pods available.
fn set(number: i64, replicas: i64, available: i64, over: Value) -> ReplicaSet {
    let base = json!({
        "metadata": {
            "name": format!("web-{number}"), "namespace": "shop", "uid": format!("rs-{number}"), "generation": 2,
            "creationTimestamp": at(number - 1000).to_string(),
            "annotations": {REVISION: number.to_string(), DESIRED_REPLICAS: "10", MAX_REPLICAS: "13"},
        },
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(&format!("v{number}")),
        },
        "status": {
            "observedGeneration": 2, "replicas": replicas, "readyReplicas": available,
            "availableReplicas": available, "terminatingReplicas": 0,
        },
    });
    object(laid_over(base, over))
}

fn plain(number: i64, replicas: i64, available: i64) -> ReplicaSet {
    set(number, replicas, available, json!({}))
}

/// The decision in words, whatever order the ReplicaSets come in. Hashes of created ones are left out.
fn decided(deployment: &Deployment, sets: &[ReplicaSet], pods: &[&Pod]) -> String {
    let sets: Vec<&ReplicaSet> = sets.iter().collect();
    let reversed: Vec<&ReplicaSet> = sets.iter().rev().copied().collect();
    let decision = decide(deployment, &sets, pods);
    assert_eq!(decision, decide(deployment, &reversed, pods), "the order of the input does not matter");
    let mut words = decision.to_string();
    for step in &decision.steps {
        if let Step::Create(new) = step {
            words = words.replace(&new.name, "NEW");
        }
    }
    words.trim_end().replace('\n', "; ")
}

fn check(rows: Vec<(&str, Value, Vec<ReplicaSet>, &str)>) {
    for (name, over, sets, expected) in rows {
        assert_eq!(decided(&deployment(over), &sets, &[]), expected, "{name}");
    }
}

fn bounds(surge: Value, unavailable: Value) -> Value {
    json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}})
}
