//! What wakes Goals, and what they write, with a server that only notes what it is asked.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_api::planspec::{Goal, Plan};

use super::Goals;
use crate::plan::Outline;
use crate::runtime::{Caches, Clock, Context, Name, Report, Runner};

/// A server that takes every patch, but for those of goals with a name that it refuses, and notes it.
struct Rig {
    caches: Caches,
    runner: Arc<Runner<Goals>>,
    patches: Arc<Mutex<Vec<(String, Value)>>>,
}

const REFUSED: &str = "refused";
const MOVED: &str = "moved";

/// What a status says of nothing it does not say.
fn goal(name: &str, version: u64, generation: i64, mut status: Value) -> Goal {
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    serde_json::from_value(json!({
        "apiVersion": "planspec.io/v1alpha1", "kind": "Goal",
        "metadata": {
            "name": name, "namespace": "shop", "uid": name, "generation": generation,
            "resourceVersion": version.to_string(),
        },
        "spec": {"description": "d"}, "status": status,
    }))
    .unwrap()
}

struct Written {
    namespace: &'static str,
    goal: Option<(&'static str, &'static str)>,
    generation: i64,
    label: &'static str,
    uid: &'static str,
    phase: &'static str,
}

const PLAN: Written =
    Written { namespace: "shop", goal: Some(("shop", "sso")), generation: 1, label: "gold", uid: "p", phase: "Ready" };

fn plan(version: u64, plan: &Written) -> Outline {
    let goal = plan.goal.map(|(namespace, name)| json!({"namespace": namespace, "name": name}));
    let plan: Plan = serde_json::from_value(json!({
        "apiVersion": "planspec.io/v1alpha1", "kind": "Plan",
        "metadata": {
            "name": "p", "namespace": plan.namespace, "uid": plan.uid, "generation": plan.generation,
            "resourceVersion": version.to_string(), "labels": {"tier": plan.label},
        },
        "spec": {"description": "d", "goalRef": goal, "graph": {"nodes": [{"id": "a", "kind": "Task"}]}},
        "status": {"phase": plan.phase},
    }))
    .unwrap();
    plan.into()
}

impl Rig {
    fn new(goals: Vec<Goal>) -> Rig {
        let patches: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let noted = patches.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let noted = noted.clone();
            async move {
                let name = request.uri().path().split('/').nth_back(1).unwrap_or_default().to_owned();
                let body = request.into_body().collect_bytes().await.unwrap();
                let patch: Value = serde_json::from_slice(&body).unwrap();
                let code = match name.as_str() {
                    REFUSED => 422,
                    MOVED => 409,
                    _ => 200,
                };
                let answer = match code {
                    200 => json!(goal(&name, 100, 1, patch["status"].clone())),
                    code => json!({"kind": "Status", "status": "Failure", "code": code, "reason": "", "message": ""}),
                };
                noted.lock().push((name, patch));
                let answer = Body::from(serde_json::to_vec(&answer).unwrap());
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        let clock = Clock::simulated(Timestamp::constant(1_900_000_000, 700_000_000));
        let context = Context { seed: Some(1), ..Context::new(Client::new(service, "default"), clock) };
        let caches = Caches::default();
        let runner = Runner::new(Goals::new(&context, &caches), &caches, &context);
        caches.goals.apply(Event::Init);
        goals.into_iter().for_each(|goal| caches.goals.apply(Event::InitApply(goal)));
        caches.goals.apply(Event::InitDone);
        Rig { caches, runner, patches }
    }

    /// The goals that are to be looked at, which are looked at then.
    async fn woken(&self) -> Vec<String> {
        // What changes at the same time is gathered.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let ready = self.runner.ready();
        for key in &ready {
            self.runner.reconcile_once(key).await;
            if let Some((_, patch)) = self.patches.lock().pop() {
                let seen = self.caches.goals.get(key).expect("it is there");
                let version: u64 = seen.metadata.resource_version.as_deref().unwrap().parse().unwrap();
                let generation = seen.metadata.generation.unwrap();
                let written = goal(&key.name, version.max(99) + 1, generation, patch["status"].clone());
                self.caches.goals.apply(Event::Apply(written));
            }
        }
        ready.iter().map(ToString::to_string).collect()
    }

    async fn look(&self, name: &str) -> Report {
        self.runner.reconcile_once(&Name::new("shop", name)).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_wakes_exactly_the_goals_that_it_names_before_and_after() {
    let none: &[&str] = &[];
    let rows: [(&str, Written, &[&str]); 9] = [
        ("another spec", Written { generation: 2, ..PLAN }, &["shop/sso"]),
        ("other labels", Written { label: "tin", ..PLAN }, &["shop/sso"]),
        ("a successor of its name", Written { uid: "q", ..PLAN }, &["shop/sso"]),
        ("what is said of it", Written { phase: "Invalid", ..PLAN }, none),
        (
            "it turns to another goal",
            Written { goal: Some(("shop", "cart")), generation: 2, ..PLAN },
            &["shop/cart", "shop/sso"],
        ),
        ("it turns away", Written { goal: None, generation: 2, ..PLAN }, &["shop/sso"]),
        (
            "it turns to a goal that is not there",
            Written { goal: Some(("shop", "none")), generation: 2, ..PLAN },
            &["shop/sso"],
        ),
        (
            "one of another namespace that names it",
            Written { namespace: "ops", goal: Some(("shop", "cart")), ..PLAN },
            &["shop/cart"],
        ),
        (
            "one of another namespace that does not",
            Written { namespace: "ops", goal: Some(("ops", "sso")), ..PLAN },
            none,
        ),
    ];
    for (name, after, expected) in rows {
        let rig = Rig::new(vec![goal("cart", 1, 1, Value::Null), goal("sso", 2, 1, Value::Null)]);
        assert_eq!(rig.woken().await, ["shop/cart", "shop/sso"], "{name}: in the beginning");
        rig.caches.plans.apply(Event::Apply(plan(3, &PLAN)));
        assert_eq!(rig.woken().await, ["shop/sso"], "{name}: a new plan");
        rig.caches.plans.apply(Event::Apply(plan(4, &after)));
        assert_eq!(rig.woken().await, expected, "{name}");
        assert_eq!(rig.woken().await, [""; 0], "{name}: once is enough");
    }
}

#[tokio::test(start_paused = true)]
async fn a_goal_wakes_for_itself_and_for_what_others_say_of_it() {
    let rig = Rig::new(vec![goal("sso", 1, 1, Value::Null)]);
    assert_eq!(rig.woken().await, ["shop/sso"]);
    rig.caches.goals.apply(Event::Apply(goal("sso", 101, 1, json!({"phase": "Executing"}))));
    assert_eq!(rig.woken().await, ["shop/sso"], "somebody else's word");
    assert_eq!(rig.woken().await, [""; 0], "its own");
    rig.caches.goals.apply(Event::Apply(goal("sso", 150, 2, json!({"phase": "Executing"}))));
    assert_eq!(rig.woken().await, ["shop/sso"], "a spec");
    rig.caches.goals.apply(Event::Delete(goal("sso", 200, 2, Value::Null)));
    assert_eq!(rig.woken().await, ["shop/sso"], "its end, to forget it");
}

#[tokio::test(start_paused = true)]
async fn a_result_is_written_once_and_names_the_goal_that_was_seen() {
    let rig = Rig::new(vec![goal("sso", 7, 1, Value::Null)]);
    rig.caches.plans.apply(Event::Apply(plan(3, &PLAN)));
    assert_eq!(rig.look("sso").await.changed, 1);
    let (_, patch) = rig.patches.lock().pop().unwrap();
    assert_eq!(patch["metadata"], json!({"uid": "sso", "resourceVersion": "7"}));
    assert_eq!(patch["status"]["activePlanRef"], json!({"name": "p", "namespace": "shop"}));
    assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], "2030-03-17T17:46:40Z", "no fractions");
    rig.caches.goals.apply(Event::Apply(goal("sso", 100, 1, patch["status"].clone())));
    assert_eq!((rig.look("sso").await.changed, rig.patches.lock().len()), (0, 0), "nothing is new");

    rig.caches.plans.apply(Event::Delete(plan(3, &PLAN)));
    assert_eq!(rig.look("sso").await.changed, 1);
    let (_, patch) = rig.patches.lock().pop().unwrap();
    let said = patch["status"].as_object().unwrap();
    assert_eq!(said.get("activePlanRef"), Some(&Value::Null), "what no longer holds is taken out");
    assert_eq!(said["phase"], "Pending");
}

#[tokio::test(start_paused = true)]
async fn what_is_over_stays_and_a_bad_goal_stops_no_other() {
    let over = json!({"phase": "Succeeded"});
    let goals = vec![
        goal("done", 1, 9, over),
        goal(MOVED, 2, 1, Value::Null),
        goal(REFUSED, 3, 1, Value::Null),
        goal("sso", 4, 1, Value::Null),
    ];
    let rig = Rig::new(goals);
    let report = rig.runner.reconcile_all_once().await;
    assert_eq!((report.examined, report.changed), (4, 1), "{report:?}");
    let asked: Vec<String> = rig.patches.lock().iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(asked, [MOVED, REFUSED, "sso"]);
    assert!(rig.runner.queue().next_due().is_some(), "what was refused, or changed meanwhile, is tried again");
}
