//! How controllers are driven, in paused time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::client::Body;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::feed::follow;
use super::*;
use crate::queue::Queue;

/// Wakes for Pods and for ReplicaSets of the same name, and notes what it is asked to look at. A Pod's name says how that
/// goes.
struct Noting {
    caches: Caches,
    looks: Arc<Mutex<Vec<String>>>,
}

impl Controller for Noting {
    type Key = Name;
    const NAME: &'static str = "noting";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Name>>) {
        let pods = queue.clone();
        caches.pods.listen(move |change| pods.add(Name::of(&**change.latest())));
        let sets = queue.clone();
        caches.replica_sets.listen(move |change| sets.add(Name::of(&**change.latest())));
    }

    async fn reconcile(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        self.looks.lock().push(key.name.to_string());
        match &*key.name {
            "panics" => panic!("a fault"),
            "fails" => Err(Error::Api(kube::Error::LinesCodecMaxLineLengthExceeded)),
            "writes" => {
                round.wrote(&self.caches.pods, &object::<Pod>("writes", 1000));
                Ok(Next::Idle)
            }
            _ => Ok(Next::Idle),
        }
    }

    fn about(&self, key: &Name) -> Option<ObjectReference> {
        self.caches.pods.get(key).map(|pod| pod.object_ref(&()))
    }

    fn keys(&self) -> Vec<Name> {
        self.caches.pods.names()
    }

    fn configuration() -> Configuration {
        Configuration { sweep: None, ..Configuration::default() }
    }
}

struct Rig {
    caches: Caches,
    runner: Arc<Runner<Noting>>,
    looks: Arc<Mutex<Vec<String>>>,
    context: Context,
    said: Arc<Mutex<Vec<String>>>,
}

fn object<K: DeserializeOwned>(name: &str, version: u64) -> K {
    let meta = json!({"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string()});
    serde_json::from_value(json!({"metadata": meta})).unwrap()
}

impl Rig {
    fn new(pods: &[&str], configuration: Configuration) -> Rig {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = said.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let heard = heard.clone();
            async move {
                let body = request.into_body().collect_bytes().await.unwrap();
                let event: serde_json::Value = serde_json::from_slice(&body).unwrap();
                heard.lock().push(format!("{}: {}", event["involvedObject"]["name"], event["reason"]));
                Ok::<_, Infallible>(Response::builder().status(201).body(Body::from(body.to_vec())).unwrap())
            }
        });
        let context = Context { seed: Some(1), ..Context::new(Client::new(service, "default"), clock()) };
        let (caches, looks) = (Caches::default(), Arc::default());
        let controller = Noting { caches: caches.clone(), looks: Arc::clone(&looks) };
        let runner = Runner::configured(controller, &caches, &context, configuration);
        let rig = Rig { caches, runner, looks, context, said };
        rig.list(pods.iter().map(|name| object(name, 1)).collect());
        rig
    }

    fn list(&self, pods: Vec<Pod>) {
        let objects = pods.into_iter().map(Event::InitApply);
        [Event::Init]
            .into_iter()
            .chain(objects)
            .chain([Event::InitDone])
            .for_each(|event| self.caches.pods.apply(event));
    }

    fn run(&self) -> JoinHandle<()> {
        tokio::spawn(self.runner.clone().run())
    }

    /// What is looked at within so long.
    async fn during(&self, time: Duration) -> Vec<String> {
        tokio::time::sleep(time).await;
        std::mem::take(&mut *self.looks.lock())
    }
}

fn clock() -> Clock {
    Clock::simulated(Timestamp::constant(1_900_000_000, 0))
}

const MOMENT: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn everything_there_is_is_looked_at_in_the_beginning_and_then_only_what_changes() {
    let rig = Rig::new(&["a", "b", "c"], Noting::configuration());
    let running = rig.run();
    assert_eq!(rig.during(MOMENT).await, ["a", "b", "c"]);
    assert_eq!(rig.during(Duration::from_secs(3600)).await, [""; 0]);
    for version in 2..50 {
        rig.caches.pods.apply(Event::Apply(object("b", version)));
    }
    assert_eq!(rig.during(MOMENT).await, ["b"], "a burst is one round");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn it_is_said_which_kinds_wake_it_to_the_letter() {
    let rows = [
        ("all", Kinds::All, true, true),
        ("Pods", Kinds::only(["Pod"]), true, false),
        ("another case", Kinds::only(["pod", "REPLICASET"]), false, false),
        ("none", Kinds::only([]), false, false),
    ];
    for (name, kinds, pods, sets) in rows {
        let rig = Rig::new(&[], Configuration { kinds, ..Noting::configuration() });
        rig.caches.pods.apply(Event::Apply(object("a", 2)));
        assert_eq!(rig.runner.ready().len(), usize::from(pods), "{name}: a Pod");
        rig.caches.replica_sets.apply(Event::Apply(object::<ReplicaSet>("b", 2)));
        assert_eq!(rig.runner.ready().len(), usize::from(pods) + usize::from(sets), "{name}: a ReplicaSet");
    }
}

#[tokio::test(start_paused = true)]
async fn everything_is_swept_now_and_then_a_few_at_a_time() {
    let names: Vec<String> = (0..100).map(|number| format!("p-{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(Configuration::default().sweep, Some(Duration::from_secs(30)));
    let rig = Rig::new(&names, Configuration::default());
    let running = rig.run();
    assert_eq!(rig.during(Duration::from_secs(29)).await.len(), 100, "the beginning");
    let first = rig.during(Duration::from_secs(1) + MOMENT).await.len();
    assert!((1..=20).contains(&first), "not all at once: {first}");
    assert_eq!(rig.during(Duration::from_secs(15)).await.len() + first, 100, "but all");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_failure_and_a_panic_end_nothing_and_the_panic_is_told_on_the_object() {
    let rig = Rig::new(&["a", "fails", "panics"], Noting::configuration());
    let running = rig.run();
    let looks = rig.during(Duration::from_secs(5)).await;
    let times = |name: &str| looks.iter().filter(|look| *look == name).count();
    assert_eq!(times("a"), 1);
    assert!((3..8).contains(&times("fails")) && (3..8).contains(&times("panics")), "{looks:?}");
    assert_eq!(rig.said.lock()[0], "\"panics\": \"InternalError\"");
    let meter = rig.context.metrics.of(Noting::NAME);
    assert_eq!(meter.panics.get(), times("panics") as u64);
    assert_eq!(meter.retries.get(), (times("panics") + times("fails")) as u64);
    rig.caches.pods.apply(Event::Apply(object("a", 2)));
    assert_eq!(rig.during(MOMENT).await.iter().filter(|look| *look == "a").count(), 1, "it goes on");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn the_next_round_waits_for_what_the_last_one_wrote_but_not_for_ever() {
    let rig = Rig::new(&["writes"], Noting::configuration());
    let running = rig.run();
    assert_eq!(rig.during(MOMENT).await, ["writes"]);
    rig.caches.pods.apply(Event::Apply(object("writes", 2)));
    assert_eq!(rig.during(Duration::from_secs(60)).await, [""; 0], "the cache is behind");
    assert!(rig.context.metrics.of(Noting::NAME).retries.get() >= 1, "which is a failure after a while");
    rig.caches.pods.apply(Event::Apply(object("writes", 1000)));
    assert_eq!(rig.during(Duration::from_secs(60)).await, ["writes"]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_gap_in_the_watch_is_counted_and_what_differs_is_looked_at_at_once() {
    let rig = Rig::new(&[], Noting::configuration());
    let running = rig.run();
    let (sender, receiver) = futures::channel::mpsc::unbounded::<watcher::Result<Event<Pod>>>();
    let gaps = rig.context.metrics.gaps("Pod");
    let feed = tokio::spawn(follow(receiver, rig.caches.pods.clone(), gaps.clone()));
    let list = |versions: &[(&str, u64)]| {
        sender.unbounded_send(Ok(Event::Init)).unwrap();
        for (name, version) in versions {
            sender.unbounded_send(Ok(Event::InitApply(object(name, *version)))).unwrap();
        }
        sender.unbounded_send(Ok(Event::InitDone)).unwrap();
    };
    list(&[("a", 1), ("b", 2), ("c", 3)]);
    assert_eq!(rig.during(MOMENT).await, ["a", "b", "c"]);
    sender.unbounded_send(Err(watcher::Error::NoResourceVersion)).unwrap();
    list(&[("a", 1), ("c", 9), ("d", 10)]);
    assert_eq!(rig.during(MOMENT).await, ["b", "c", "d"], "gone, changed, new");
    assert_eq!(gaps.get(), 1);
    sender.close_channel();
    feed.await.expect("a watch that ends is followed to its end");
    rig.runner.queue().close();
    running.await.expect("and who works stops in good order");
}

#[tokio::test(start_paused = true)]
async fn what_was_written_and_went_before_a_list_is_looked_at_again() {
    let rig = Rig::new(&["a", "writes"], Noting::configuration());
    let running = rig.run();
    assert_eq!(rig.during(MOMENT).await, ["a", "writes"]);
    rig.list(vec![object("a", 1), object("writes", 1)]);
    assert_eq!(rig.during(MOMENT).await, ["writes"], "what it wrote is not there: somebody deleted it");
    rig.caches.pods.apply(Event::Apply(object("writes", 1000)));
    assert_eq!(rig.during(MOMENT).await, ["writes"]);
    rig.list(vec![object("a", 1), object("writes", 1000)]);
    assert_eq!(rig.during(MOMENT).await, [""; 0], "what it wrote was there before the list");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn one_round_by_hand_says_what_it_came_to() {
    let rig = Rig::new(&["a", "fails", "panics", "writes"], Noting::configuration());
    let driven: Arc<dyn Driven> = rig.runner.clone();
    assert_eq!(driven.ready(), ["default/a", "default/fails", "default/panics", "default/writes"]);
    let report = rig.runner.reconcile_all_once().await;
    let (examined, changed, skipped) = (report.examined, report.changed, report.skipped);
    assert_eq!((examined, changed, skipped), (4, 1, 0));
    assert!(!report.note.is_empty(), "what went wrong first");
    assert_eq!(driven.ready(), [""; 0]);
    let again = rig.runner.reconcile_all_once().await;
    assert_eq!((again.examined, again.changed, again.skipped), (3, 0, 1), "what was written is not seen yet");
    let due = driven.next_due().expect("what failed comes again");
    assert!(due > Instant::now());
    tokio::time::sleep_until(due).await;
    assert_eq!(driven.turn(0).await.examined, 1);
    assert_eq!(driven.turn(7).await, Report::default(), "there is none");
}
