//! Rollouts in a small cluster, in which everything happens in any order and observations come late.
//!
//! What it does not model: lost answers to creations, and more than one writer of a ReplicaSet's spec. A controller
//! sees its own writes at once, and everything else only when it looks.

#![allow(clippy::unwrap_used, reason = "the objects are made here and have all their parts")]

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::{Value, json};
use setpoint_core::workload::deployment::status::{Happened, status};
use setpoint_core::workload::deployment::{self, Step, revision};
use setpoint_core::workload::ranking::DELETION_COST;
use setpoint_core::workload::replica_set::{self, Decision, Observed, Unseen};
use setpoint_core::workload::template_hash::{Identity, NameTaken, name_taken};
use setpoint_core::workload::{pod_state, selection};

/// The image that never becomes ready.
const BROKEN: u8 = 3;

#[derive(Debug, Clone)]
enum Event {
    /// The Deployment's controller looks at all ReplicaSets.
    LookAtSets,
    /// The ReplicaSets' controller looks at one of them and its pods.
    LookAtPods(usize),
    /// The Deployment's controller acts; of its steps, those whose bit is not set are lost.
    Deploy(u8),
    /// The ReplicaSets' controller acts on one of them; of its deletions, those whose bit is not set fail, and the
    /// status is lost if the first is not.
    Replicate(usize, u8),
    Ready(usize),
    /// A terminating pod ends.
    End(usize),
    Wait(i64),
    Template(u8),
    Fail(usize),
    Remove(usize),
    Scale(i32),
    Pause(bool),
}

/// How much may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    /// Pods that are ready stay so: what becomes unavailable is our doing.
    Calm,
    /// Pods fail and disappear.
    Stormy,
    /// And the Deployment is scaled, paused and resumed meanwhile.
    Wild,
}

fn event(weather: Weather) -> BoxedStrategy<Event> {
    let calm = prop_oneof![
        3 => Just(Event::LookAtSets),
        4 => (0..6_usize).prop_map(Event::LookAtPods),
        4 => any::<u8>().prop_map(Event::Deploy),
        6 => (0..6_usize, any::<u8>()).prop_map(|(set, kept)| Event::Replicate(set, kept)),
        6 => any::<usize>().prop_map(Event::Ready),
        2 => any::<usize>().prop_map(Event::End),
        2 => (1..20_i64).prop_map(Event::Wait),
        1 => (0..=BROKEN).prop_map(Event::Template),
    ];
    let storm = prop_oneof![any::<usize>().prop_map(Event::Fail), any::<usize>().prop_map(Event::Remove)];
    let orders = prop_oneof![(0..12_i32).prop_map(Event::Scale), any::<bool>().prop_map(Event::Pause)];
    match weather {
        Weather::Calm => calm.boxed(),
        Weather::Stormy => prop_oneof![8 => calm, 1 => storm].boxed(),
        Weather::Wild => prop_oneof![8 => calm, 1 => storm, 1 => orders].boxed(),
    }
}

/// What the ReplicaSets' controller last saw of one.
#[derive(Debug, Clone, Default)]
struct Seen {
    set: Option<ReplicaSet>,
    pods: Vec<Pod>,
    unseen: Unseen,
}

#[derive(Debug)]
struct Cluster {
    now: Timestamp,
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
    pods: Vec<Pod>,
    /// What the Deployment's controller last saw.
    seen_sets: Vec<ReplicaSet>,
    seen: BTreeMap<String, Seen>,
    serial: u64,
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn template(image: u8) -> PodTemplateSpec {
    object(json!({
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": format!("v{image}")}]},
    }))
}

fn image(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone()).unwrap()
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap()
}

fn is_kept(kept: u8, bit: usize) -> bool {
    kept >> (bit % 8) & 1 == 1
}

impl Cluster {
    /// A Deployment that is whole and at rest.
    fn new(replicas: i32, surge: &Value, unavailable: &Value, min_ready_seconds: i32) -> Cluster {
        let deployment = object(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "d-uid", "generation": 1},
            "spec": {
                "replicas": replicas, "minReadySeconds": min_ready_seconds, "progressDeadlineSeconds": 600,
                "revisionHistoryLimit": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template(0),
                "strategy": {
                    "type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
                },
            },
        }));
        let mut cluster = Cluster {
            now: "2026-03-01T12:00:00Z".parse().unwrap(),
            deployment,
            sets: Vec::new(),
            pods: Vec::new(),
            seen_sets: Vec::new(),
            seen: BTreeMap::new(),
            serial: 0,
        };
        cluster.settle();
        cluster
    }

    fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn replicas(&self) -> i64 {
        self.deployment.spec.as_ref().unwrap().replicas.unwrap().into()
    }

    fn active(&self) -> i64 {
        self.pods.iter().filter(|pod| pod_state::is_active(pod)).count() as i64
    }

    fn available(&self) -> i64 {
        let patience = self.deployment.spec.as_ref().unwrap().min_ready_seconds.unwrap();
        let counts = |pod: &&Pod| pod_state::is_active(pod) && pod_state::is_available(pod, patience, self.now);
        self.pods.iter().filter(counts).count() as i64
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::LookAtSets => self.seen_sets = self.sets.clone(),
            Event::LookAtPods(index) => self.look_at_pods(index),
            Event::Deploy(kept) => drop(self.deploy(kept)),
            Event::Replicate(index, kept) => drop(self.replicate(index, kept)),
            Event::Ready(index) => self.make_ready(index),
            Event::End(index) => self.with_pod(index, |pods, at| {
                if pods[at].metadata.deletion_timestamp.is_some() {
                    pods.remove(at);
                }
            }),
            Event::Wait(seconds) => self.now += SignedDuration::from_secs(seconds),
            Event::Template(image) => self.deployment.spec.as_mut().unwrap().template = template(image),
            Event::Fail(index) => self.with_pod(index, |pods, at| {
                pods[at].status.get_or_insert_default().phase = Some("Failed".to_owned());
            }),
            Event::Remove(index) => self.with_pod(index, |pods, at| drop(pods.remove(at))),
            Event::Scale(replicas) => self.deployment.spec.as_mut().unwrap().replicas = Some(replicas),
            Event::Pause(paused) => self.deployment.spec.as_mut().unwrap().paused = Some(paused),
        }
    }

    fn with_pod(&mut self, index: usize, change: impl FnOnce(&mut Vec<Pod>, usize)) {
        if !self.pods.is_empty() {
            let at = index % self.pods.len();
            change(&mut self.pods, at);
        }
    }

    fn make_ready(&mut self, index: usize) {
        let now = Time(self.now);
        self.with_pod(index, |pods, at| {
            let pod = &mut pods[at];
            if image(pod) != format!("v{BROKEN}") && pod_state::is_active(pod) && !pod_state::is_ready(pod) {
                let status = pod.status.get_or_insert_default();
                status.phase = Some("Running".to_owned());
                status.conditions = Some(vec![PodCondition {
                    type_: "Ready".to_owned(),
                    status: "True".to_owned(),
                    last_transition_time: Some(now),
                    ..PodCondition::default()
                }]);
            }
        });
    }

    fn look_at_pods(&mut self, index: usize) {
        if self.sets.is_empty() {
            return;
        }
        let set = &self.sets[index % self.sets.len()];
        let owner = selection::Owner::from(set);
        let own = |pod: &&Pod| owner.claim_pod(pod) == selection::Claim::Keep;
        let pods = self.pods.iter().filter(own).cloned().collect();
        let seen = Seen { set: Some(set.clone()), pods, unseen: Unseen::default() };
        self.seen.insert(set.metadata.uid.clone().unwrap(), seen);
    }

    /// A round of the Deployment's controller; whether it had anything to do.
    fn deploy(&mut self, kept: u8) -> bool {
        let seen = self.seen_sets.clone();
        let sets: Vec<&ReplicaSet> = seen.iter().collect();
        let reversed: Vec<&ReplicaSet> = seen.iter().rev().collect();
        let decision = deployment::decide(&self.deployment, &sets, &[]);
        assert_eq!(decision, deployment::decide(&self.deployment, &reversed, &[]), "order does not matter");
        for (bit, step) in decision.steps.iter().enumerate() {
            if is_kept(kept, bit) {
                self.take(step);
            }
        }
        let told = status(&self.deployment, &sets, Happened::Nothing, self.now).unwrap();
        self.deployment.status = Some(told.status);
        !decision.steps.is_empty() || decision.waits_on.is_some()
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Create(new) => {
                if let Some(existing) = self.sets.iter().find(|set| set.metadata.name.as_ref() == Some(&new.name)) {
                    assert_eq!(name_taken(&self.deployment, existing), NameTaken::ByItself, "no two have one name");
                    return;
                }
                let mut set = revision::replica_set(&self.deployment, new);
                let serial = self.next();
                set.metadata.uid = Some(format!("rs-{serial}"));
                set.metadata.generation = Some(1);
                set.metadata.resource_version = Some(serial.to_string());
                set.metadata.creation_timestamp = Some(Time(self.now));
                self.sets.push(set.clone());
                self.seen_sets.push(set);
            }
            Step::Update { name, annotations, min_ready_seconds } => self.write(name, |set| {
                set.metadata.annotations.get_or_insert_default().extend(annotations.clone());
                set.spec.as_mut().unwrap().min_ready_seconds = Some(*min_ready_seconds);
            }),
            Step::Scale { name, to, annotations, .. } => self.write(name, |set| {
                set.metadata.annotations.get_or_insert_default().extend(annotations.clone());
                set.spec.as_mut().unwrap().replicas = Some(i32::try_from(*to).unwrap());
            }),
            Step::Delete { name, .. } => {
                let is_it = |set: &ReplicaSet| set.metadata.name.as_ref() == Some(name);
                let set = self.sets.iter().find(|set| is_it(set));
                let owned = |pod: &Pod| {
                    let owner = selection::controller_of(&pod.metadata).map(|owner| &owner.uid);
                    set.is_some_and(|set| owner == set.metadata.uid.as_ref()) && pod_state::is_active(pod)
                };
                assert!(!self.pods.iter().any(owned), "{name} has pods and is deleted");
                self.sets.retain(|set| !is_it(set));
                self.seen_sets.retain(|set| !is_it(set));
            }
        }
    }

    /// Writes a ReplicaSet as the Deployment's controller does: only if it is as that controller saw it.
    fn write(&mut self, name: &str, change: impl FnOnce(&mut ReplicaSet)) {
        let serial = self.next().to_string();
        let named = |set: &&mut ReplicaSet| set.metadata.name.as_deref() == Some(name);
        let Some(seen) = self.seen_sets.iter_mut().find(named) else { return };
        let Some(set) = self.sets.iter_mut().find(named) else { return };
        if set.metadata.resource_version != seen.metadata.resource_version {
            return;
        }
        let before = set.spec.clone();
        change(set);
        set.metadata.resource_version = Some(serial);
        if set.spec != before {
            set.metadata.generation = set.metadata.generation.map(|generation| generation + 1);
        }
        *seen = set.clone();
    }

    /// A round of the ReplicaSets' controller for one of them; whether it had anything to do.
    fn replicate(&mut self, index: usize, kept: u8) -> bool {
        if self.sets.is_empty() {
            return false;
        }
        let uid_of_set = self.sets[index % self.sets.len()].metadata.uid.clone().unwrap();
        let Some(mut seen) = self.seen.remove(&uid_of_set) else { return false };
        let set = seen.set.clone().expect("what was looked at is there");
        let pods: Vec<&Pod> = seen.pods.iter().collect();
        let reversed: Vec<&Pod> = seen.pods.iter().rev().collect();
        let observed = Observed { pods: &pods, related: &pods, unseen: &seen.unseen };
        let decision = replica_set::decide(&set, &observed, self.now);
        let again = Observed { pods: &reversed, related: &reversed, unseen: &seen.unseen };
        assert_eq!(decision, replica_set::decide(&set, &again, self.now), "order does not matter");
        let mut unseen = seen.unseen.clone();
        match &decision {
            Decision::Nothing | Decision::Deleted => {}
            Decision::Create { count, .. } => {
                for _ in 0..*count {
                    unseen.created.insert(self.create_pod(&set));
                }
            }
            Decision::Delete { pods, .. } => {
                let now = Time(self.now);
                for (_, doomed) in pods.iter().enumerate().filter(|(bit, _)| is_kept(kept, bit + 1)) {
                    unseen.deleted.insert(uid(doomed));
                    if let Some(pod) = self.pods.iter_mut().find(|pod| pod.metadata.uid == doomed.metadata.uid) {
                        pod.metadata.deletion_timestamp.get_or_insert(now.clone());
                    }
                }
            }
        }
        let busy = !matches!(decision, Decision::Nothing | Decision::Deleted);
        let observed = Observed { pods: &pods, related: &pods, unseen: &unseen };
        let status = replica_set::status(&set, &observed, None, self.now).status;
        let serial = self.next().to_string();
        let is_same = |it: &&mut ReplicaSet| it.metadata.resource_version == set.metadata.resource_version;
        if let Some(stored) = self.sets.iter_mut().find(is_same).filter(|_| is_kept(kept, 0)) {
            if stored.status.as_ref() != Some(&status) {
                stored.status = Some(status);
                stored.metadata.resource_version = Some(serial);
            }
            seen.set = Some(stored.clone());
        }
        seen.unseen = unseen;
        self.seen.insert(uid_of_set, seen);
        busy
    }

    fn create_pod(&mut self, set: &ReplicaSet) -> String {
        let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap();
        let serial = self.next();
        let uid = format!("pod-{serial}");
        let mut pod = Pod { metadata: template.metadata.unwrap(), spec: template.spec, status: None };
        pod.metadata.name = Some(uid.clone());
        pod.metadata.uid = Some(uid.clone());
        pod.metadata.namespace = Some("shop".to_owned());
        pod.metadata.creation_timestamp = Some(Time(self.now));
        // The longer a pod has been there, the sooner it goes, as far as its price decides.
        pod.metadata.annotations = Some(BTreeMap::from([(DELETION_COST.to_owned(), serial.to_string())]));
        pod.metadata.owner_references = Some(vec![selection::Owner::from(set).reference()]);
        pod.spec.as_mut().unwrap().node_name = Some(format!("n{}", serial % 3));
        self.pods.push(pod);
        uid
    }

    /// Everything happens in good order until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..300 {
            self.seen_sets = self.sets.clone();
            let mut busy = self.deploy(u8::MAX);
            for index in 0..self.sets.len() {
                self.look_at_pods(index);
                busy |= self.replicate(index, u8::MAX);
            }
            self.pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
            (0..self.pods.len()).for_each(|index| self.make_ready(index));
            self.now += SignedDuration::from_secs(30);
            if !busy && self.seen_sets == self.sets && self.available() == self.replicas() {
                return;
            }
        }
        panic!("it does not come to rest: {self:#?}");
    }
}

fn share() -> impl Strategy<Value = Value> {
    prop_oneof![(0..4_i32).prop_map(|count| json!(count)), (0..60_i32).prop_map(|share| json!(format!("{share}%")))]
}

/// A Deployment, and what happens to it.
fn story(weather: Weather) -> impl Strategy<Value = (i32, Value, Value, i32, Vec<Event>)> {
    let patience = prop_oneof![Just(0), Just(10)];
    (1..12_i32, share(), share(), patience, prop::collection::vec(event(weather), 1..150))
}

/// The bounds, worked out once more: surge rounds up, unavailability down, and not both are nothing.
fn bounds(replicas: i64, surge: &Value, unavailable: &Value) -> (i64, i64) {
    let of = |value: &Value, up: i64| match value.as_str() {
        Some(text) => (text.trim_end_matches('%').parse::<i64>().unwrap() * replicas + up) / 100,
        None => value.as_i64().unwrap(),
    };
    let (surge, unavailable) = (of(surge, 99), of(unavailable, 0));
    if surge == 0 && unavailable == 0 { (0, 1.min(replicas)) } else { (surge, unavailable.min(replicas)) }
}

fn live((replicas, surge, unavailable, patience, events): (i32, Value, Value, i32, Vec<Event>), weather: Weather) {
    let mut cluster = Cluster::new(replicas, &surge, &unavailable, patience);
    let (max_surge, max_unavailable) = bounds(replicas.into(), &surge, &unavailable);
    for event in &events {
        cluster.happen(event);
        if weather != Weather::Wild {
            let most = i64::from(replicas) + max_surge;
            assert!(cluster.active() <= most, "{} pods, {most} at most, after {event:?}", cluster.active());
        }
        if weather == Weather::Calm {
            let least = i64::from(replicas) - max_unavailable;
            assert!(
                cluster.available() >= least,
                "{} available, {least} at least, after {event:?}",
                cluster.available()
            );
        }
    }
    cluster.happen(&Event::Pause(false));
    cluster.happen(&Event::Template(1));
    cluster.settle();
    let active = || cluster.pods.iter().filter(|pod| pod_state::is_active(pod));
    assert!(active().all(|pod| image(pod) == "v1"), "all pods are of the last template");
    assert!(cluster.sets.len() <= 3, "history is cleaned up: {}", cluster.sets.len());
    let sets: Vec<&ReplicaSet> = cluster.sets.iter().collect();
    assert_eq!(deployment::decide(&cluster.deployment, &sets, &[]).steps, [], "at rest there is nothing to do");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_rollout_keeps_its_promises_and_ends(story in story(Weather::Calm)) {
        live(story, Weather::Calm);
    }

    #[test]
    fn a_rollout_among_failing_pods_never_exceeds_its_surge_and_ends(story in story(Weather::Stormy)) {
        live(story, Weather::Stormy);
    }

    #[test]
    fn whatever_happens_it_ends(story in story(Weather::Wild)) {
        live(story, Weather::Wild);
    }

    #[test]
    fn any_lost_replica_heals(replicas in 1..12_i32, lost in prop::collection::vec(any::<usize>(), 1..12)) {
        let mut cluster = Cluster::new(replicas, &json!("25%"), &json!("25%"), 0);
        lost.iter().for_each(|index| cluster.happen(&Event::Remove(*index)));
        cluster.settle();
        prop_assert_eq!(cluster.available(), i64::from(replicas));
    }

    #[test]
    fn a_hash_depends_on_the_template_and_the_collisions_alone(
        labels in prop::collection::vec(("[a-z]{1,8}", "[a-z]{0,8}"), 0..6), image in "[a-z]{1,8}", count in 0..1000_i32,
    ) {
        let template = |labels: &mut dyn Iterator<Item = &(String, String)>| -> PodTemplateSpec {
            let labels: Vec<String> = labels.map(|(key, value)| format!("{key:?}:{value:?}")).collect();
            let spec = format!(r#"{{"containers":[{{"name":"c","image":{image:?}}}]}}"#);
            serde_json::from_str(&format!(r#"{{"metadata":{{"labels":{{{}}}}},"spec":{spec}}}"#, labels.join(","))).unwrap()
        };
        let distinct: BTreeMap<String, String> = labels.into_iter().collect();
        let labels: Vec<(String, String)> = distinct.into_iter().collect();
        let identity = Identity::of(&template(&mut labels.iter()));
        prop_assert_eq!(identity, Identity::of(&template(&mut labels.iter().rev())), "the order of keys does not matter");
        prop_assert_ne!(identity.hash(count), identity.hash(count + 1));
        let mut more = labels.clone();
        more.push(("app.kubernetes.io/more".to_owned(), String::new()));
        prop_assert_ne!(identity, Identity::of(&template(&mut more.iter())));
    }
}
