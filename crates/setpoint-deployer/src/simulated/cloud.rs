//! What there is at a simulated place, and what each request does to it: a state machine without a clock or a network.
//!
//! Instances are found by id, by owner and by the intent that made them; nothing scans but a look at everything. Ids come
//! from a counter and are never used twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_core::observation::Mark;

use super::blueprint::{Blueprint, Body};
use super::instance::{Instance, Ownership, Power, gpus};
use super::program::Program;
use super::request::Effect;
use crate::error::Fault;

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Cloud {
    /// Tells the ids of one place from another's.
    tag: u16,
    instances: BTreeMap<u64, Instance>,
    by_owner: BTreeSet<(Arc<str>, u64)>,
    by_intent: BTreeMap<(Arc<str>, Arc<str>), u64>,
    /// The ids that instances brought with them.
    given_ids: BTreeMap<u64, Box<str>>,
    by_given_id: BTreeMap<Box<str>, u64>,
    /// The names of control planes, each kept once.
    clusters: BTreeSet<Arc<str>>,
    /// What is gone and still shows, and until when.
    ghosts: VecDeque<(Timestamp, u64, Instance)>,
    last: u64,
    /// What something was done to, for those who tell of it.
    touched: Vec<u64>,
}

/// What came of a request.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) serial: Option<u64>,
    pub(super) effect: Effect,
}

/// Why a request was refused, and in which words.
pub(super) type Refusal = (Fault, String);

/// How much of a request is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Half,
    Full,
}

impl Extent {
    fn effect(self, has_done_something: bool) -> Effect {
        match (has_done_something, self) {
            (false, _) => Effect::None,
            (true, Extent::Half) => Effect::Half,
            (true, Extent::Full) => Effect::Full,
        }
    }
}

impl Cloud {
    pub(super) fn new(tag: u16) -> Cloud {
        Cloud { tag, ..Cloud::default() }
    }

    pub(super) fn id(&self, serial: u64) -> Box<str> {
        self.given_ids.get(&serial).cloned().unwrap_or_else(|| format!("sim-{:04x}-{serial}", self.tag).into())
    }

    pub(super) fn tag(&self) -> u16 {
        self.tag
    }

    pub(super) fn given_id(&self, serial: u64) -> Option<&str> {
        self.given_ids.get(&serial).map(|id| &**id)
    }

    pub(super) fn serial(&self, id: &str) -> Option<u64> {
        if let Some(serial) = self.by_given_id.get(id) {
            return Some(*serial);
        }
        let (tag, serial) = id.strip_prefix("sim-")?.split_once('-')?;
        (u16::from_str_radix(tag, 16) == Ok(self.tag)).then_some(())?;
        serial.parse().ok()
    }

    pub(super) fn get(&self, serial: u64) -> Option<&Instance> {
        self.instances.get(&serial)
    }

    pub(super) fn get_mut(&mut self, serial: u64) -> Option<&mut Instance> {
        self.touched.push(serial);
        self.instances.get_mut(&serial)
    }

    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = (u64, &Instance)> {
        self.instances.iter().map(|(serial, instance)| (*serial, instance))
    }

    /// The first instance with this number or a later one.
    pub(super) fn at_or_after(&self, serial: u64) -> Option<u64> {
        self.instances.range(serial..).next().map(|(serial, _)| *serial)
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn len(&self) -> usize {
        self.instances.len()
    }

    /// The instances whose mark names an owner.
    pub(super) fn owned<'c>(&'c self, owner: &str) -> impl Iterator<Item = (u64, &'c Instance)> {
        let owner: Arc<str> = owner.into();
        let range = (owner.clone(), 0)..=(owner, u64::MAX);
        self.by_owner.range(range).filter_map(|(_, serial)| Some((*serial, self.instances.get(serial)?)))
    }

    /// What is gone and still shows.
    pub(super) fn ghosts(&self) -> impl Iterator<Item = (u64, &Instance)> {
        self.ghosts.iter().map(|(_, serial, instance)| (*serial, instance))
    }

    /// Forgets what no longer shows.
    pub(super) fn forget(&mut self, now: Timestamp) {
        while self.ghosts.front().is_some_and(|(until, ..)| *until <= now) {
            let gone = self.ghosts.pop_front();
            self.touched.extend(gone.map(|(_, serial, _)| serial));
        }
    }

    /// When the next of those who are gone ceases to show.
    pub(super) fn next_to_forget(&self) -> Option<Timestamp> {
        self.ghosts.front().map(|(until, ..)| *until)
    }

    /// Has an instance told of.
    pub(super) fn touch(&mut self, serial: u64) {
        self.touched.push(serial);
    }

    /// What something was done to since it was last told.
    pub(super) fn touched(&self) -> &[u64] {
        &self.touched
    }

    /// What something was done to since this was last asked.
    pub(super) fn take_touched(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.touched)
    }

    /// Makes an instance, once for an intent; half done, it does not run.
    pub(super) fn create(
        &mut self,
        blueprint: &Blueprint,
        program: &Program,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Done, Refusal> {
        let mark = self.ownership(&blueprint.mark);
        if let Some(made) = mark.intent.as_ref().and_then(|intent| self.made(&mark.cluster, intent)) {
            let unfinished = self.get_mut(made).filter(|instance| instance.is_unfinished);
            let finishes = extent == Extent::Full && unfinished.is_some_and(|instance| instance.start(program, now));
            return Ok(Done { serial: Some(made), effect: extent.effect(finishes) });
        }
        in_stock(blueprint, program, self.len())?;
        let asked = now;
        let runs_from = now + Duration::from_millis(program.start_ms);
        let power = match extent {
            Extent::Full => Power::On { asked, runs_from },
            Extent::Half => Power::Off { asked, runs_from, since: now, until: now },
        };
        let instance = Instance {
            name: blueprint.name.clone(),
            mark: None,
            body: blueprint.body.clone(),
            pending: Default::default(),
            power,
            is_unfinished: extent == Extent::Half,
            busy_until: busy_until(program, now),
            shows_from: now + Duration::from_millis(program.listed_after_ms),
            holds_data: false,
        };
        let serial = self.put(instance);
        self.set_mark(serial, Some(mark));
        Ok(Done { serial: Some(serial), effect: extent.effect(true) })
    }

    pub(super) fn update(
        &mut self,
        id: &str,
        blueprint: &Blueprint,
        program: &Program,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Done, Refusal> {
        let cluster = &*blueprint.mark.cluster;
        let Some((serial, instance)) = self.own(id, cluster, now)? else { return Err(not_found(id)) };
        let is_same_owner = instance.mark.as_ref().is_some_and(|mark| *mark.owner == *blueprint.mark.owner_uid);
        if !is_same_owner {
            return Err((Fault::Refused, format!("{id} belongs to another object")));
        }
        if let Some(problem) = instance.unchangeable(&blueprint.body) {
            return Err((Fault::Refused, problem));
        }
        let count = match &blueprint.body {
            Body::Machine(fields) if extent == Extent::Half => fields.len().div_ceil(2),
            _ => usize::MAX,
        };
        let mut has_changed = instance.write(&blueprint.body, count);
        if let Some(mark) = instance.mark.as_mut().filter(|_| extent == Extent::Full) {
            has_changed |= mark.spec_digest != blueprint.mark.spec_digest;
            mark.spec_digest.clone_from(&blueprint.mark.spec_digest);
        }
        instance.busy_until = busy_until(program, now);
        Ok(Done { serial: Some(serial), effect: extent.effect(has_changed) })
    }

    /// Half a start is none.
    pub(super) fn start(
        &mut self,
        id: &str,
        cluster: &str,
        program: &Program,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Done, Refusal> {
        let Some((serial, instance)) = self.own(id, cluster, now)? else { return Err(not_found(id)) };
        let has_started = extent == Extent::Full && instance.start(program, now);
        instance.busy_until = busy_until(program, now);
        Ok(Done { serial: Some(serial), effect: extent.effect(has_started) })
    }

    /// Half a stop is none.
    pub(super) fn stop(
        &mut self,
        id: &str,
        cluster: &str,
        grace: Duration,
        program: &Program,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Done, Refusal> {
        let Some((serial, instance)) = self.own(id, cluster, now)? else {
            return Ok(Done { serial: None, effect: Effect::None });
        };
        let has_stopped = extent == Extent::Full && instance.stop(program, grace, now);
        instance.busy_until = busy_until(program, now);
        Ok(Done { serial: Some(serial), effect: extent.effect(has_stopped) })
    }

    /// Removes an instance; half done, it only stops.
    pub(super) fn delete(
        &mut self,
        id: &str,
        cluster: &str,
        program: &Program,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Done, Refusal> {
        let Some((serial, instance)) = self.own(id, cluster, now)? else {
            return Ok(Done { serial: None, effect: Effect::None });
        };
        match extent {
            Extent::Half => drop(instance.stop(program, Duration::ZERO, now)),
            Extent::Full => drop(self.remove(serial, Duration::from_millis(program.delisted_after_ms), now)),
        }
        Ok(Done { serial: Some(serial), effect: extent.effect(true) })
    }

    /// Writes a mark on an instance that is nobody's, or takes ours off. Half of that is none.
    pub(super) fn mark(
        &mut self,
        id: &str,
        cluster: &str,
        mark: Option<&Mark>,
        program: &Program,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Done, Refusal> {
        let found = self.serial(id).and_then(|serial| Some((serial, self.instances.get(&serial)?)));
        let Some((serial, instance)) = found else {
            return if mark.is_some() { Err(not_found(id)) } else { Ok(Done { serial: None, effect: Effect::None }) };
        };
        let refused = |whose: &str| Err((Fault::Refused, format!("{id} belongs to another {whose}")));
        let is_so = match (&instance.mark, mark) {
            (Some(own), _) if *own.cluster != *cluster => return refused("control plane"),
            (Some(own), Some(new)) if *own.owner != *new.owner_uid => return refused("object"),
            (own, new) => own.is_some() == new.is_some(),
        };
        if now < instance.busy_until {
            return Err((Fault::Busy, format!("{id} is locked")));
        }
        let changes = !is_so && extent == Extent::Full;
        if changes {
            let mark = mark.map(|mark| self.ownership(mark));
            self.set_mark(serial, mark);
        }
        if let Some(instance) = self.get_mut(serial) {
            instance.busy_until = busy_until(program, now);
        }
        Ok(Done { serial: Some(serial), effect: extent.effect(changes) })
    }

    /// Gives an instance an id of its own.
    pub(super) fn name(&mut self, serial: u64, id: &str) {
        self.given_ids.insert(serial, id.into());
        self.by_given_id.insert(id.into(), serial);
    }

    /// Puts an instance there, and returns its number.
    pub(super) fn put(&mut self, instance: Instance) -> u64 {
        self.last += 1;
        let mark = instance.mark.clone();
        self.instances.insert(self.last, Instance { mark: None, ..instance });
        self.set_mark(self.last, mark);
        self.last
    }

    /// Puts an instance where it was before the process began.
    pub(super) fn put_back(&mut self, serial: u64, instance: Instance) {
        let mark = instance.mark.clone();
        self.last = self.last.max(serial);
        self.instances.insert(serial, Instance { mark: None, ..instance });
        self.set_mark(serial, mark);
    }

    /// Gives no number again that was given before.
    pub(super) fn resume_after(&mut self, last: u64) {
        self.last = self.last.max(last);
        self.touched.clear();
    }

    /// Takes an instance away. It shows for a while yet.
    pub(super) fn remove(&mut self, serial: u64, shows_for: Duration, now: Timestamp) -> Option<Instance> {
        let mark = self.instances.get(&serial)?.mark.clone();
        self.set_mark(serial, None);
        let removed = Instance { mark, ..self.instances.remove(&serial)? };
        if !shows_for.is_zero() && removed.shows_from <= now {
            self.ghosts.push_back((now + shows_for, serial, removed.clone()));
        }
        Some(removed)
    }

    /// Writes a mark on an instance, or takes it off.
    pub(super) fn set_mark(&mut self, serial: u64, mark: Option<Ownership>) {
        self.touched.push(serial);
        let Some(instance) = self.instances.get_mut(&serial) else { return };
        if let Some(old) = instance.mark.take() {
            self.by_owner.remove(&(old.owner, serial));
            if let Some(intent) = old.intent {
                self.by_intent.remove(&(old.cluster, intent));
            }
        }
        if let Some(new) = &mark {
            self.by_owner.insert((new.owner.clone(), serial));
            if let Some(intent) = &new.intent {
                self.by_intent.insert((new.cluster.clone(), intent.clone()), serial);
            }
        }
        instance.mark = mark;
    }

    pub(super) fn ownership(&mut self, mark: &Mark) -> Ownership {
        let known = self.clusters.get(&*mark.cluster).cloned();
        let cluster = known.unwrap_or_else(|| {
            let cluster: Arc<str> = (*mark.cluster).into();
            self.clusters.insert(cluster.clone());
            cluster
        });
        Ownership {
            cluster,
            owner: (*mark.owner_uid).into(),
            intent: mark.intent.as_deref().map(Into::into),
            spec_digest: mark.spec_digest.clone(),
        }
    }

    fn made(&self, cluster: &Arc<str>, intent: &Arc<str>) -> Option<u64> {
        self.by_intent.get(&(cluster.clone(), intent.clone())).copied()
    }

    /// An instance that may be changed, unless it is gone.
    fn own(&mut self, id: &str, cluster: &str, now: Timestamp) -> Result<Option<(u64, &mut Instance)>, Refusal> {
        let Some(serial) = self.serial(id) else { return Ok(None) };
        match self.instances.get_mut(&serial) {
            None => Ok(None),
            Some(instance) => match &instance.mark {
                Some(mark) if *mark.cluster != *cluster => {
                    Err((Fault::Refused, format!("{id} belongs to another control plane")))
                }
                None => Err((Fault::Refused, format!("{id} carries no mark and is nobody's to change"))),
                Some(_) if now < instance.busy_until => Err((Fault::Busy, format!("{id} is locked"))),
                Some(_) => {
                    self.touched.push(serial);
                    Ok(Some((serial, instance)))
                }
            },
        }
    }
}

fn in_stock(blueprint: &Blueprint, program: &Program, count: usize) -> Result<(), Refusal> {
    if program.capacity.is_some_and(|capacity| count as u64 >= capacity) {
        return Err((Fault::OutOfStock, format!("the place is full: it holds {count} instances")));
    }
    let gpu = match &blueprint.body {
        Body::Machine(fields) => gpus(fields).map(|(kind, _)| kind),
        Body::Pod(_) => None,
    };
    let missing = ["*"].into_iter().chain(gpu).find(|kind| program.stock_out.contains(*kind));
    match missing {
        Some("*") => Err((Fault::OutOfStock, "nothing is left".to_owned())),
        Some(kind) => Err((Fault::OutOfStock, format!("no {kind} is left"))),
        None => Ok(()),
    }
}

fn busy_until(program: &Program, now: Timestamp) -> Timestamp {
    now + Duration::from_millis(program.busy_ms)
}

fn not_found(id: &str) -> Refusal {
    (Fault::NotFound, format!("there is no {id}"))
}
