//! What becomes of Pods whose way to a node is interrupted, in paused time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::client::Body;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_core::scheduling;
use tokio::task::JoinHandle;

use super::{Place, Scheduler, unschedulable};
use crate::runtime::{Caches, Clock, Context, Runner};

/// What the server answers to a binding: a code and a reason, or nothing at all.
type Answer = Option<(u16, &'static str)>;

const BOUND: Answer = Some((201, ""));

struct Rig {
    runner: Arc<Runner<Scheduler>>,
    answer: Arc<Mutex<Answer>>,
    /// The Pods that were bound, and what was said of which.
    heard: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    fn new(pods: &[&str], answer: Answer, place: Place) -> Rig {
        let (answer, heard): (_, Arc<Mutex<Vec<String>>>) = (Arc::new(Mutex::new(answer)), Arc::default());
        let service = tower::service_fn({
            let (answer, heard) = (answer.clone(), heard.clone());
            move |request| respond(request, answer.clone(), heard.clone())
        });
        let clock = Clock::simulated(Timestamp::constant(1_900_000_000, 0));
        let context = Context { seed: Some(1), ..Context::new(Client::new(service, "default"), clock) };
        let caches = Caches::default();
        let scheduler = Scheduler { place, ..Scheduler::new(&context, &caches) };
        let runner = Runner::new(scheduler, &caches, &context);
        caches.nodes.apply(Event::Apply(node()));
        pods.iter().for_each(|name| caches.pods.apply(Event::Apply(pod(name))));
        Rig { runner, answer, heard }
    }

    fn run(&self) -> JoinHandle<()> {
        tokio::spawn(self.runner.clone().run())
    }

    /// What is heard within so long, in order of names.
    async fn during(&self, time: Duration) -> Vec<String> {
        tokio::time::sleep(time).await;
        let mut heard = std::mem::take(&mut *self.heard.lock());
        heard.sort();
        heard
    }
}

async fn respond(
    request: Request<Body>,
    answer: Arc<Mutex<Answer>>,
    heard: Arc<Mutex<Vec<String>>>,
) -> Result<Response<Body>, Infallible> {
    let is_binding = request.uri().path().ends_with("/binding");
    let body = request.into_body().collect_bytes().await.unwrap();
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let mut status = (201, "");
    if is_binding {
        let answer = *answer.lock();
        let Some(answer) = answer else { return std::future::pending().await };
        status = answer;
        if answer.0 == 201 {
            heard.lock().push(format!("{} is bound", asked["metadata"]["name"].as_str().unwrap()));
        }
    } else if asked["reason"] != "Scheduled" {
        let about = asked["involvedObject"]["name"].as_str().unwrap();
        heard.lock().push(format!("{about}: {}", asked["reason"].as_str().unwrap()));
    }
    let refusal = json!({"kind": "Status", "status": "Failure", "code": status.0, "reason": status.1, "message": "no"});
    let body = if status.0 == 201 { asked } else { refusal };
    Ok(Response::builder().status(status.0).body(Body::from(body.to_string().into_bytes())).unwrap())
}

fn pod(name: &str) -> Pod {
    let metadata = json!({"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1"});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": []}})).unwrap()
}

fn node() -> Node {
    let status = json!({"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}});
    serde_json::from_value(json!({"metadata": {"name": "n", "resourceVersion": "1"}, "status": status})).unwrap()
}

const MOMENT: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn pods_that_are_under_way_when_the_work_is_cut_off_are_bound_by_whoever_goes_on() {
    let rig = Rig::new(&["a", "b", "c"], None, scheduling::place);
    let running = rig.run();
    assert_eq!(rig.during(MOMENT).await, [""; 0], "the server does not answer");
    running.abort();
    *rig.answer.lock() = BOUND;
    assert_eq!(rig.during(MOMENT).await, [""; 0]);
    let running = rig.run();
    assert_eq!(rig.during(MOMENT).await, ["a is bound", "b is bound", "c is bound"]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_refused_is_tried_again_while_the_pod_has_no_node() {
    let rows = [
        ("of one who does not lead", (412, "LeadershipLost")),
        ("a conflict", (409, "Conflict")),
        ("not found, though it is there", (404, "NotFound")),
        ("an error of the server", (500, "InternalError")),
        ("without the right", (403, "Forbidden")),
    ];
    for (name, refusal) in rows {
        let rig = Rig::new(&["a"], Some(refusal), scheduling::place);
        let running = rig.run();
        assert_eq!(rig.during(MOMENT).await, [""; 0], "{name}");
        *rig.answer.lock() = BOUND;
        assert_eq!(rig.during(Duration::from_secs(1)).await, ["a is bound"], "{name}");
        assert_eq!(rig.during(Duration::from_secs(60)).await, [""; 0], "{name}: once");
        running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_with_one_pod_is_told_on_it_and_keeps_no_other_from_its_node() {
    let faulty: Place = |pod, board| {
        assert_ne!(pod.metadata.name.as_deref(), Some("b"), "a fault");
        scheduling::place(pod, board)
    };
    let rig = Rig::new(&["a", "b", "c"], BOUND, faulty);
    let running = rig.run();
    assert_eq!(rig.during(MOMENT).await, ["a is bound", "b: InternalError", "c is bound"]);
    assert!(rig.runner.queue().next_due().is_some(), "it is tried again");
    running.abort();
}

#[test]
fn since_when_a_pod_fits_nowhere_moves_with_that_alone() {
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let said = |type_: &str, status: &str| json!([{"type": type_, "status": status, "message": "0/1", "lastTransitionTime": "2026-03-01T11:00:00Z"}]);
    let rows = [
        ("it said nothing", json!([]), "2026-03-01T12:00:00Z"),
        ("it did not fit before, for another reason", said("PodScheduled", "False"), "2026-03-01T11:00:00Z"),
        ("it said the contrary", said("PodScheduled", "True"), "2026-03-01T12:00:00Z"),
        ("something else is not so", said("Ready", "False"), "2026-03-01T12:00:00Z"),
        ("since nobody knows when", json!([{"type": "PodScheduled", "status": "False"}]), "2026-03-01T12:00:00Z"),
    ];
    for (name, conditions, expected) in rows {
        let status = serde_json::from_value(json!({"conditions": conditions})).unwrap();
        let condition = unschedulable(&Pod { status: Some(status), ..pod("a") }, "0/2", now);
        assert_eq!(
            (&condition["lastTransitionTime"], &condition["message"]),
            (&json!(expected), &json!("0/2")),
            "{name}"
        );
    }
}
