//! What becomes of the Pods of nodes that are silent or gone, round by round.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::client::Body;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::NodeLifecycle;
use crate::node::Providers;
use crate::runtime::{Caches, Clock, Context, Controller, Error, Name, Next, Round};

struct Rig {
    caches: Caches,
    lifecycle: NodeLifecycle,
    /// The writes, each as a method and the name of the Pod.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    /// A server that knows no Node, and refuses whatever is asked of the Pod `a`.
    fn new(pods: &[&str]) -> Rig {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let service = tower::service_fn({
            let asked = asked.clone();
            move |request| respond(request, asked.clone())
        });
        let context = Context::new(Client::new(service, "default"), Clock::simulated(at(0)));
        let caches = Caches::default();
        pods.iter().for_each(|name| caches.pods.apply(Event::Apply(pod(name))));
        let lifecycle = NodeLifecycle::new(&context, &caches, Providers::default());
        Rig { caches, lifecycle, asked }
    }

    async fn look(&self, second: i64) -> Result<Next, Error> {
        self.lifecycle.reconcile(&Name::new("", "n"), &mut Round::new(at(second))).await
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock())
    }
}

async fn respond(request: Request<Body>, asked: Arc<Mutex<Vec<String>>>) -> Result<Response<Body>, Infallible> {
    let name = request.uri().path().trim_end_matches("/status").rsplit('/').next().unwrap_or_default().to_owned();
    let is_event = request.uri().path().ends_with("/events");
    let status = |code: u16, status: &str| json!({"kind": "Status", "status": status, "code": code, "message": "no", "reason": ""});
    let (code, answer): (u16, Value) = match request.method() {
        &Method::GET => {
            (404, json!({"kind": "Status", "status": "Failure", "code": 404, "message": "", "reason": "NotFound"}))
        }
        _ if is_event => (201, status(201, "Success")),
        method => {
            asked.lock().push(format!("{method} {name}"));
            match method {
                _ if name == "a" => (403, status(403, "Failure")),
                &Method::DELETE => (200, status(200, "Success")),
                _ => (200, json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": "9"}})),
            }
        }
    };
    Ok(Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap())
}

fn at(second: i64) -> Timestamp {
    Timestamp::constant(1_900_000_000, 0) + SignedDuration::from_secs(second)
}

fn pod(name: &str) -> Pod {
    let metadata = json!({"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1"});
    let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let spec = json!({"nodeName": "n", "containers": []});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

/// A node that nothing was heard of for long, and that is told.
fn silent() -> Node {
    let taint = |effect: &str| json!({"key": "node.kubernetes.io/unreachable", "effect": effect});
    serde_json::from_value(json!({
        "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
        "spec": {"taints": [taint("NoSchedule"), taint("NoExecute")]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    }))
    .unwrap()
}

#[tokio::test]
async fn one_pod_that_cannot_be_changed_or_deleted_keeps_no_other() {
    let rig = Rig::new(&["a", "b", "c"]);
    rig.caches.nodes.apply(Event::Apply(silent()));
    assert!(rig.look(0).await.is_err(), "it is tried again");
    assert_eq!(rig.asked(), ["PATCH a", "PATCH b", "PATCH c", "DELETE a", "DELETE b", "DELETE c"]);
}

#[tokio::test]
async fn one_pod_that_cannot_go_does_not_slow_down_those_that_have_yet_to() {
    let names: Vec<String> =
        ["a".to_owned()].into_iter().chain((0..60).map(|number| format!("b{number:02}"))).collect();
    let rig = Rig::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(rig.look(0).await.is_ok());
    assert_eq!(rig.look(40).await.unwrap(), Next::After(Duration::from_secs(1)));
    assert_eq!(rig.asked().len(), 50);
}

#[tokio::test]
async fn a_node_has_to_be_gone_for_a_while_each_time() {
    let rig = Rig::new(&["b"]);
    let all = Next::After(Duration::from_secs(40));
    assert_eq!(rig.look(0).await.unwrap(), all);
    assert_eq!(rig.look(30).await.unwrap(), Next::After(Duration::from_secs(10)));
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .unwrap();
    rig.caches.nodes.apply(Event::Apply(node.clone()));
    assert!(rig.look(35).await.is_ok());
    rig.caches.nodes.apply(Event::Delete(node));
    assert_eq!(rig.look(50).await.unwrap(), all, "it was back");
    assert_eq!(rig.asked(), [""; 0]);
    assert_eq!(rig.look(90).await.unwrap(), Next::Idle);
    assert_eq!(rig.asked(), ["DELETE b"]);
}

#[tokio::test]
async fn whoever_begins_looks_after_the_pods_of_nodes_that_are_gone() {
    let rig = Rig::new(&["b"]);
    let mut unbound = pod("c");
    unbound.spec.as_mut().unwrap().node_name = None;
    rig.caches.pods.apply(Event::Apply(unbound));
    assert_eq!(rig.lifecycle.keys(), [Name::new("", "n")]);
    rig.caches.nodes.apply(Event::Apply(silent()));
    assert_eq!(rig.lifecycle.keys(), [Name::new("", "n")], "each once");
}
