//! A provider in memory that is strict about its contract and does as tests tell it.
//!
//! What it does not do: it runs nothing, keeps no time, restarts no container and has no logs. A container runs from the
//! instant it is made until a test or a stop ends it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_core::observation::{Completeness, Config, Guest, Mark, Reading};
use setpoint_core::pod::{ContainerState, Exit, NoticeKind, Phase, PodState, Role};
use setpoint_core::value::Fields;
use setpoint_deployer::provider::{Abilities, Answer, Body, Change, Instance, Observed, Order, PodOrder, Scope};
use setpoint_deployer::{Error, Fault, Operation, Provider};
use tokio::sync::mpsc;

#[derive(Debug)]
pub(super) struct FakeProvider {
    abilities: Abilities,
    place: Mutex<Place>,
}

#[derive(Debug, Default)]
struct Place {
    instances: BTreeMap<String, Made>,
    calls: Vec<String>,
    listeners: Vec<mpsc::Sender<Change>>,
}

#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) mark: Mark,
    pub(super) order: Option<PodOrder>,
    pub(super) is_looked_after: bool,
    pub(super) state: PodState,
}

impl FakeProvider {
    pub(super) fn new() -> Arc<FakeProvider> {
        let abilities = Abilities::of_pods("fake");
        Arc::new(FakeProvider { abilities, place: Mutex::default() })
    }

    /// Puts something there that was made before, by us or by others.
    pub(super) fn put(&self, cluster: &str, uid: &str) {
        let mark = Mark { cluster: cluster.into(), owner_uid: uid.into(), intent: Some(uid.into()), spec_digest: None };
        let state = running(&["web".to_owned()]);
        let made = Made { mark, order: None, is_looked_after: true, state };
        self.place.lock().instances.insert(id_of(uid), made);
    }

    /// What was made for a Pod.
    pub(super) fn made_for(&self, uid: &str) -> Option<Made> {
        self.place.lock().instances.get(&id_of(uid)).cloned()
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.place.lock().calls.clone()
    }

    /// Changes what is there of a Pod, and tells whoever listens.
    pub(super) fn change(&self, uid: &str, change: impl FnOnce(&mut Made)) {
        let mut place = self.place.lock();
        change(place.instances.get_mut(&id_of(uid)).expect("it was made"));
        place.tell(&id_of(uid));
    }

    /// Loses what is there of a Pod without a trace.
    pub(super) fn lose(&self, uid: &str) {
        let mut place = self.place.lock();
        place.instances.remove(&id_of(uid)).expect("it was made");
        place.tell(&id_of(uid));
    }

    fn done<T: Send + 'static>(&self, call: String, act: impl FnOnce(&mut Place) -> Result<T, Error>) -> Answer<'_, T> {
        let mut place = self.place.lock();
        place.calls.push(call);
        let answer = act(&mut place);
        Box::pin(async move { answer })
    }
}

impl Place {
    fn tell(&mut self, id: &str) {
        self.listeners.retain(|listener| listener.try_send(Change::Instance(id.into())).is_ok());
    }
}

impl Provider for FakeProvider {
    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn observe<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Observed> {
        let place = self.place.lock();
        let is_in = |id: &String, made: &Made| match scope {
            Scope::Everything => true,
            Scope::Instance(wanted) => **id == **wanted,
            Scope::Owner(uid) => made.mark.owner_uid == *uid,
        };
        let shown = place.instances.iter().filter(|(id, made)| is_in(id, made));
        let instances = shown.map(|(id, made)| instance(id, made)).collect();
        let observed = Observed { completeness: Completeness::Complete, instances, observed_at: Timestamp::now() };
        Box::pin(async move { Ok(observed) })
    }

    fn create<'a>(&'a self, order: &'a Order) -> Answer<'a, Box<str>> {
        let Body::Pod(pod) = &order.body else { panic!("the node agent orders Pods") };
        assert_eq!(order.intent(), pod.uid, "the intent can be made again from the Pod");
        assert!(pod.name != "panics", "this Pod makes us panic");
        self.done(format!("create {}", pod.name), |place| {
            if pod.name == "refused" {
                return Err(Error::field(&pod.name, "spec.containers[0].image", "is not known here"));
            }
            let containers: Vec<String> = pod.spec.containers.iter().map(|container| container.name.clone()).collect();
            let mut state = running(&containers);
            state.note(
                Timestamp::now(),
                NoticeKind::Normal,
                "Started",
                Some(&containers[0]),
                "Container started".to_owned(),
            );
            let (mark, order) = (order.mark.clone(), Some((**pod).clone()));
            let made = Made { mark, order, is_looked_after: true, state };
            let id = id_of(&pod.uid);
            place.instances.entry(id.clone()).or_insert(made);
            place.tell(&id);
            Ok(id.into())
        })
    }

    fn update<'a>(&'a self, _: &'a str, id: &'a str, _: &'a Order) -> Answer<'a, ()> {
        self.done(format!("update {id}"), |_| Ok(()))
    }

    fn start<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        self.done("start".to_owned(), |place| {
            let missing = || Error::provider(Operation::Start, id, Fault::NotFound, "");
            place.instances.get_mut(id).ok_or_else(missing)?.is_looked_after = true;
            place.tell(id);
            Ok(())
        })
    }

    fn stop<'a>(&'a self, _: &'a str, id: &'a str, grace: Duration) -> Answer<'a, ()> {
        self.done(format!("stop within {} s", grace.as_secs()), |place| {
            if let Some(made) = place.instances.get_mut(id) {
                made.state.stopping_since.get_or_insert(Timestamp::now());
                // Those that are called stubborn end when they are killed, and no test waits for that.
                let is_stubborn = made.order.as_ref().is_some_and(|order| order.name.starts_with("stubborn"));
                if !is_stubborn || grace <= Duration::from_secs(1) {
                    end(made, 143);
                }
            }
            place.tell(id);
            Ok(())
        })
    }

    fn delete<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        self.done("delete".to_owned(), |place| {
            place.instances.remove(id);
            place.tell(id);
            Ok(())
        })
    }

    fn events(&self) -> Option<mpsc::Receiver<Change>> {
        let (sender, receiver) = mpsc::channel(1024);
        self.place.lock().listeners.push(sender);
        Some(receiver)
    }
}

/// Ends all containers.
pub(super) fn end(made: &mut Made, code: i32) {
    for container in &mut made.state.containers {
        let Phase::Running { started_at } = container.phase else { continue };
        container.phase = Phase::Ended(exit(code, Some(started_at)));
    }
    made.is_looked_after = false;
}

pub(super) fn exit(code: i32, started_at: Option<Timestamp>) -> Exit {
    let reason = if code == 0 { "Completed" } else { "Error" }.to_owned();
    Exit { code, signal: None, reason, message: String::new(), started_at, finished_at: Timestamp::now() }
}

fn running(containers: &[String]) -> PodState {
    let now = Timestamp::now();
    let run = |name: &String| ContainerState {
        phase: Phase::Running { started_at: now },
        is_started: true,
        is_ready: true,
        run_id: Some(format!("{name}-1")),
        ..ContainerState::waiting(name, Role::Main, "")
    };
    PodState {
        started_at: now,
        ip: Some([127, 0, 0, 1].into()),
        containers: containers.iter().map(run).collect(),
        ports: Vec::new(),
        stopping_since: None,
        notices: Vec::new(),
    }
}

fn instance(id: &str, made: &Made) -> Instance {
    let run = if made.is_looked_after { "running" } else { "stopped" };
    Instance {
        guest: Guest {
            id: id.into(),
            name: id.into(),
            mark: Some(made.mark.clone()),
            config: Config::known(Fields::default()),
            run: Reading::Known(run.into()),
            holds_data: Reading::Known(false),
            busy: None,
            is_template: false,
            hourly_price: None,
        },
        pod: Some(made.state.clone()),
    }
}

fn id_of(uid: &str) -> String {
    format!("i-{uid}")
}
