//! The honest caller: it keeps a place as desired and may die between any two of its steps.
//!
//! What it holds to, each of which some seed would find missing:
//!
//! - It looks first and reads what is desired after that. Otherwise a guest of an object that was made in between would
//!   pass for an orphan.
//! - It writes every call down before it makes it, on the version of the object that it thought about, so that of two
//!   operators one wins.
//! - It makes no guest under an intent that has become old: another operator may have given it up for lost.
//! - What was refused without any effect is struck off; all else stays on record until a look shows what became of it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use rand::Rng;
use rand::rngs::SmallRng;
use setpoint_api::step::{Action, Step};
use setpoint_core::desired::{Create, Desired, Intent};
use setpoint_core::diff::diff;
use setpoint_core::digest::Key;
use setpoint_core::intent::{self, Evidence, Settled};
use setpoint_core::observation::{Mark, Observation};
use setpoint_core::plan::{ChangeSet, Input, Orphans, Policy, plan};
use setpoint_core::value::Fields;
use setpoint_deployer::provider::{Body, Order, PodOrder, Scope};
use setpoint_deployer::simulated::{Place, Simulated};
use setpoint_deployer::{Error, Provider};

use super::ledger::{Kind, Ledger, Object};

pub(super) const CLUSTER: &str = "ours";
/// How old an intent may be when a guest is made under it.
pub(super) const FRESH: Duration = Duration::from_secs(5);
const PERIOD: Duration = Duration::from_secs(4);
const GRACE: Duration = Duration::from_secs(2);

/// What an operator forgets on purpose, to see that it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sin {
    None,
    /// A call is not written down.
    NoIntent,
    /// What is desired is read before the look.
    ReadsFirst,
    /// A call is struck off as soon as it was answered.
    BelievesAnswers,
    /// A guest is made however old the intent is.
    CallsLate,
    /// Two operators write over each other.
    NoFence,
}

#[derive(Debug)]
pub(super) struct Operator<'l> {
    pub(super) ledger: &'l RefCell<Ledger>,
    pub(super) place: &'l Place,
    pub(super) client: Simulated,
    pub(super) key: Key,
    pub(super) dice: SmallRng,
    pub(super) sin: Sin,
}

impl<'l> Operator<'l> {
    pub(super) fn new(ledger: &'l RefCell<Ledger>, place: &'l Place, dice: SmallRng, sin: Sin) -> Operator<'l> {
        Operator { ledger, place, client: Simulated::new(place, CLUSTER), key: Key::new([7; 32]), dice, sin }
    }

    /// Works until it is dropped.
    pub(super) async fn work(&mut self) {
        loop {
            self.round().await;
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Looks, plans and acts once. Whether there was nothing to do nor to wait for.
    pub(super) async fn round(&mut self) -> bool {
        let early = (self.sin == Sin::ReadsFirst).then(|| self.read());
        self.breathe().await;
        let Ok(observed) = Provider::observe(&self.client, &Scope::Everything).await else { return false };
        let observation = observed.into_observation();
        self.breathe().await;
        let mut objects = early.unwrap_or_else(|| self.read());
        self.settle(&mut objects, &observation);
        self.breathe().await;
        let change_set = self.plan(&objects, &observation);
        self.collect(&objects, &observation, &change_set);
        let mut failed: BTreeSet<&str> = BTreeSet::new();
        for step in &change_set.steps {
            let is_blocked = step.depends_on.iter().any(|dependency| failed.contains(dependency.as_str()));
            if is_blocked || self.take(step, &mut objects, &observation).await.is_err() {
                failed.insert(&step.id);
            }
        }
        let has_open = objects.iter().any(|object| !object.desired.record.intents.is_empty());
        !change_set.has_changes() && change_set.waiting.is_empty() && change_set.refused.is_empty() && !has_open
    }

    /// A moment in which it can die, or be slow: mostly short, at times longer than it should.
    async fn breathe(&mut self) {
        let milliseconds = match self.dice.random_range(0..200) {
            0 => self.dice.random_range(1_000..40_000),
            1..10 => self.dice.random_range(100..1_000),
            _ => self.dice.random_range(0..4),
        };
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }

    fn read(&self) -> Vec<Object> {
        self.ledger.borrow().objects.values().cloned().collect()
    }

    fn plan(&self, objects: &[Object], observation: &Observation) -> ChangeSet {
        let desired: Vec<Desired> = objects.iter().map(|object| object.desired.clone()).collect();
        plan(&Input {
            environment: "simulated",
            cluster: CLUSTER,
            capabilities: &self.client.abilities().guests,
            desired: &desired,
            observation,
            policy: Policy { create: Create::Always, orphans: Orphans::Delete },
            key: &self.key,
        })
    }

    /// Writes down what became of earlier calls.
    fn settle(&mut self, objects: &mut [Object], observation: &Observation) {
        for object in objects.iter_mut().filter(|object| !object.desired.record.intents.is_empty()) {
            let capabilities = &self.client.abilities().guests;
            let evidence = Evidence::new(CLUSTER, capabilities, &self.key, observation);
            let Settled::Proceed { provider_id, open, .. } = intent::settle(&object.desired, &evidence) else {
                continue;
            };
            let settle = |desired: &mut Desired| {
                desired.record.provider_id = provider_id;
                desired.record.intents.retain(|intent| open.contains(&intent.id));
                desired.record.observed_at = Some(observation.observed_at).max(desired.record.observed_at);
            };
            let mut settled = object.desired.clone();
            settle(&mut settled);
            if settled == object.desired {
                continue;
            }
            let uid = object.desired.uid.clone();
            let version = self.version(object);
            if let Some(version) = self.ledger.borrow_mut().write(&uid, version, |desired| *desired = settled.clone()) {
                (object.version, object.desired) = (version, settled);
            }
        }
    }

    /// The version that a write is compared with.
    fn version(&self, object: &Object) -> u64 {
        let ledger = self.ledger.borrow();
        let current = ledger.objects.get(&object.desired.uid).map(|object| object.version);
        if self.sin == Sin::NoFence { current.unwrap_or(object.version) } else { object.version }
    }

    /// Forgets objects that were being deleted, once it is proven that nothing of them is left.
    fn collect(&mut self, objects: &[Object], observation: &Observation, change_set: &ChangeSet) {
        let concerned = change_set.actionable();
        for Object { version, desired, .. } in objects.iter().filter(|object| object.desired.deletion.is_some()) {
            let marks = observation.guests.iter().filter_map(|guest| guest.mark.as_ref());
            let has_guest = marks.filter(|mark| *mark.cluster == *CLUSTER).any(|mark| mark.owner_uid == desired.uid);
            let waits = change_set.waiting.iter().any(|waiting| waiting.target == desired.target);
            let is_busy = waits || concerned.contains(&desired.target) || !desired.record.intents.is_empty();
            if observation.completeness.is_complete() && !has_guest && !is_busy {
                self.ledger.borrow_mut().remove(&desired.uid, *version);
            }
        }
    }

    /// Takes one step: writes it down, calls, and strikes it off only if it surely had no effect.
    async fn take(&mut self, step: &Step, objects: &mut [Object], observation: &Observation) -> Result<(), ()> {
        let guest = step.provider_id.as_deref().and_then(|id| observation.guests.iter().find(|guest| *guest.id == *id));
        let owner = guest.and_then(|guest| guest.mark.as_ref()).map(|mark| &mark.owner_uid);
        let of_step = objects.iter().position(|object| object.desired.target == step.target);
        let of_guest = || objects.iter().position(|object| Some(&object.desired.uid) == owner);
        self.breathe().await;
        let Some(at) = of_step.or_else(of_guest) else {
            let id = step.provider_id.as_deref().unwrap_or_default();
            return self.client.delete("sweep", id).await.map_err(drop);
        };
        let object = &mut objects[at];
        object.version = self.version(object);
        let now = self.place.now();
        let promised = self.ledger.borrow_mut().promise(object, step.action, step.provider_id.as_deref(), now);
        let Some(intent) = promised else { return Err(()) };
        let object = object.clone();
        let uid = object.desired.uid.clone();
        if self.sin == Sin::NoIntent {
            self.strike_off(&uid, &intent);
        }
        self.breathe().await;
        let done = self.act(step, &object, &intent, observation).await;
        match &done {
            Err(Failed::Surely) => self.strike_off(&uid, &intent),
            Ok(()) if self.sin == Sin::BelievesAnswers => self.strike_off(&uid, &intent),
            _ => {}
        }
        done.map_err(drop)
    }

    fn strike_off(&self, uid: &str, intent: &Intent) {
        let strike_off = |desired: &mut Desired| desired.record.intents.retain(|other| other.id != intent.id);
        self.ledger.borrow_mut().amend(uid, strike_off);
    }

    async fn act(&mut self, step: &Step, object: &Object, intent: &Intent, look: &Observation) -> Result<(), Failed> {
        let id: Box<str> = step.provider_id.as_deref().unwrap_or_default().into();
        match step.action {
            Action::Create => self.make(object, intent).await,
            Action::Replace if step.create_first => {
                self.make(object, intent).await?;
                self.breathe().await;
                self.client.delete(&intent.id, &id).await.map_err(|_| Failed::Perhaps)
            }
            Action::Replace => {
                self.client.delete(&intent.id, &id).await?;
                self.breathe().await;
                self.make(object, intent).await.map_err(|_| Failed::Perhaps)
            }
            Action::Update | Action::Grow => {
                let guest = look.guests.iter().find(|guest| guest.id == id).ok_or(Failed::Surely)?;
                let diff = diff(&object.desired, &guest.config, &self.client.abilities().guests);
                let takes = |path: &str| step.changes.iter().any(|shown| shown.field == path);
                let patch = diff.patch(&guest.config, |change| takes(&change.path()));
                let order = self.order(object, intent, patch);
                Ok(self.client.update(&intent.id, &id, &order).await?)
            }
            Action::Start => Ok(self.client.start(&intent.id, &id).await?),
            Action::Stop => Ok(self.client.stop(&intent.id, &id, GRACE).await?),
            Action::Restart => {
                self.client.stop(&intent.id, &id, GRACE).await?;
                self.breathe().await;
                self.client.start(&intent.id, &id).await.map_err(|_| Failed::Perhaps)
            }
            Action::Delete => Ok(self.client.delete(&intent.id, &id).await?),
            Action::Adopt | Action::Release => unreachable!("it can neither adopt nor release"),
        }
    }

    /// Makes a guest, unless the intent is so old that somebody may have given it up for lost.
    async fn make(&mut self, object: &Object, intent: &Intent) -> Result<(), Failed> {
        let age = self.place.now().duration_since(intent.started_at);
        if age.unsigned_abs() > FRESH && self.sin != Sin::CallsLate {
            return Err(Failed::Perhaps);
        }
        let order = self.order(object, intent, object.desired.fields.clone());
        self.client.create(&order).await?;
        Ok(())
    }

    fn order(&self, object: &Object, intent: &Intent, fields: Fields) -> Order {
        let desired = &object.desired;
        let mark = Mark {
            cluster: CLUSTER.into(),
            owner_uid: desired.uid.clone(),
            intent: Some(intent.id.clone()),
            spec_digest: Some(desired.spec_digest(&self.key).into()),
        };
        let body = match object.kind {
            Kind::Machine => Body::Machine(fields),
            Kind::Pod => Body::Pod(Box::new(pod(desired))),
        };
        Order { mark, name: desired.target.name.clone(), provider_id: None, body }
    }
}

/// How sure it is that a call had no effect.
#[derive(Debug)]
enum Failed {
    Surely,
    Perhaps,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        if error.is_ambiguous() { Failed::Perhaps } else { Failed::Surely }
    }
}

fn pod(desired: &Desired) -> PodOrder {
    let container = Container { name: "main".to_owned(), ..Container::default() };
    PodOrder {
        namespace: desired.target.namespace.clone(),
        name: desired.target.name.clone(),
        uid: desired.uid.to_string(),
        spec: PodSpec { containers: vec![container], ..PodSpec::default() },
        variables: Default::default(),
        volumes: Default::default(),
    }
}
