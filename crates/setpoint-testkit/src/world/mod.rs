//! A model world: guests at a provider, what can be done to them, what goes wrong, and what can be seen of it.
//!
//! It is deterministic: time moves when it is told to, and every fault is placed by the number of the call it hits. The
//! provider keeps values in its own way (its units, its line ends, its order), as its registry of fields says, so that
//! what comes back is not letter by letter what was sent.
//!
//! | module | what it holds |
//! | --- | --- |
//! | this one | the guests, the provider's verbs, faults |
//! | [`sight`] | what can be observed, and what cannot |
//! | [`operator`] | carries out change sets and keeps the records, as a controller would |
//! | [`scenarios`] | proptest strategies for worlds and desires |
//!
//! What it does not model: capacity and stock-outs, quotas, networks, volumes as things of their own, calls that overlap
//! in time, tasks that take time (a call is done when it returns, though a new guest may show later), and health.

pub mod operator;
pub mod scenarios;
pub mod sight;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::price::Price;
use setpoint_api::step::Effect;
use setpoint_core::desired::Run;
use setpoint_core::observation::Mark;
use setpoint_core::registry::{Capabilities, Field, Normalizer};
use setpoint_core::value::{Fields, Value};

pub use operator::Operator;
pub use sight::Sight;

/// A provider with its guests.
#[derive(Debug, Clone)]
pub struct World {
    pub capabilities: &'static Capabilities,
    pub guests: BTreeMap<Box<str>, Instance>,
    pub now: Timestamp,
    /// How long a new guest takes to show.
    pub appears_after_seconds: i64,
    /// What goes wrong, by the number of the call that it happens to; the first call is 1.
    pub faults: BTreeMap<u64, Fault>,
    /// What can be seen.
    pub sight: Sight,
    /// What a running guest with these fields costs; none where the provider has no prices.
    pub price: Option<fn(&Fields) -> Price>,
    calls: u64,
    next_id: u64,
}

/// A guest as it really is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub mark: Option<Mark>,
    /// What is in effect, as the provider keeps it.
    pub fields: Fields,
    /// What takes effect when the guest starts again.
    pub pending: Fields,
    pub is_running: bool,
    /// The provider's word for its state, where that is another than the first for running or stopped.
    pub word: Option<Box<str>>,
    pub holds_data: bool,
    pub busy: Option<Box<str>>,
    pub is_template: bool,
    pub shows_from: Timestamp,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is refused; nothing happens.
    Refused,
    /// It is done, and the answer is lost.
    ResponseLost,
    /// A part of it is done, and the answer is lost.
    HalfDone,
}

/// Why a call did not answer with success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Nothing was done.
    Refused(String),
    /// Nobody knows what was done.
    Unknown,
}

/// What a guest is made from.
#[derive(Debug, Clone)]
pub struct Blueprint<'a> {
    pub id: Option<&'a str>,
    pub mark: Mark,
    pub fields: &'a Fields,
    pub run: Option<Run>,
}

impl World {
    /// An empty world.
    pub fn new(capabilities: &'static Capabilities, now: Timestamp) -> World {
        World {
            capabilities,
            guests: BTreeMap::new(),
            now,
            appears_after_seconds: 0,
            faults: BTreeMap::new(),
            sight: Sight::default(),
            price: None,
            calls: 0,
            next_id: 1000,
        }
    }

    pub fn advance(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// Puts a guest there, not by a call of ours.
    pub fn place(&mut self, id: &str, instance: Instance) {
        let fields = self.kept(&instance.fields);
        self.guests.insert(id.into(), Instance { fields, ..instance });
    }

    /// Changes a field behind our back.
    pub fn drift(&mut self, id: &str, name: &'static str, value: Value) {
        let kept = self.capabilities.field(name).map(|field| kept(field, &value));
        if let (Some(guest), Some(kept)) = (self.guests.get_mut(id), kept) {
            guest.fields.set(name, kept);
        }
    }

    /// Makes a guest, once for an intent.
    pub fn create(&mut self, blueprint: &Blueprint<'_>) -> Result<Box<str>, Failure> {
        let fault = self.call()?;
        let intent = &blueprint.mark.intent;
        let made = |guest: &Instance| guest.mark.as_ref().is_some_and(|mark| mark.intent == *intent);
        if let Some((id, _)) = self.guests.iter().find(|(_, guest)| intent.is_some() && made(guest)) {
            return answer(fault, id.clone());
        }
        let id: Box<str> = match blueprint.id {
            Some(id) if self.guests.contains_key(id) => return Err(Failure::Refused(format!("{id} is taken"))),
            Some(id) => id.into(),
            None => self.free_id(),
        };
        let runs = blueprint.run != Some(Run::Stopped) && fault != Some(Fault::HalfDone);
        let instance = Instance {
            mark: Some(blueprint.mark.clone()),
            fields: self.kept(blueprint.fields),
            is_running: runs && self.capabilities.has_run_state,
            shows_from: self.now + SignedDuration::from_secs(self.appears_after_seconds),
            ..Instance::new(self.now)
        };
        self.guests.insert(id.clone(), instance);
        answer(fault, id)
    }

    /// Writes fields; half done, it writes the first of them. What needs a restart waits for one, if the guest runs.
    pub fn update(&mut self, id: &str, fields: &Fields, spec_digest: &str) -> Result<(), Failure> {
        let fault = self.call()?;
        let capabilities = self.capabilities;
        let guest = self.guest(id)?;
        let count = if fault == Some(Fault::HalfDone) { fields.len().div_ceil(2) } else { fields.len() };
        for (name, value) in fields.iter().take(count) {
            let Some(field) = capabilities.field(name) else {
                return Err(Failure::Refused(format!("{name} is not a field")));
            };
            let waits = field.effect == Effect::Restart && guest.is_running && !capabilities.update_restarts;
            let kept = kept(field, value);
            if waits {
                guest.pending.set(field.name, kept);
            } else {
                guest.pending.remove(name);
                guest.fields.set(field.name, kept);
            }
        }
        if let Some(mark) = guest.mark.as_mut().filter(|_| fault != Some(Fault::HalfDone)) {
            mark.spec_digest = Some(spec_digest.into());
        }
        answer(fault, ())
    }

    /// Makes amounts larger; smaller is refused.
    pub fn grow(&mut self, id: &str, fields: &Fields) -> Result<(), Failure> {
        let fault = self.call()?;
        let capabilities = self.capabilities;
        let guest = self.guest(id)?;
        for (name, value) in fields.iter() {
            let field = capabilities.field(name).filter(|field| field.effect == Effect::Grow);
            let Some(field) = field else { return Err(Failure::Refused(format!("{name} does not grow"))) };
            let kept = kept(field, value);
            if guest.fields.get(name).is_some_and(|now| *now > kept) {
                return Err(Failure::Refused(format!("{name} does not shrink")));
            }
            guest.fields.set(field.name, kept);
        }
        answer(fault, ())
    }

    pub fn start(&mut self, id: &str) -> Result<(), Failure> {
        let fault = self.call()?;
        let capabilities = self.capabilities;
        self.guest(id)?.set_running(true, capabilities);
        answer(fault, ())
    }

    pub fn stop(&mut self, id: &str) -> Result<(), Failure> {
        let fault = self.call()?;
        let capabilities = self.capabilities;
        self.guest(id)?.set_running(false, capabilities);
        answer(fault, ())
    }

    /// Writes a mark, or takes it off.
    pub fn mark(&mut self, id: &str, mark: Option<Mark>) -> Result<(), Failure> {
        let fault = self.call()?;
        self.guest(id)?.mark = mark;
        answer(fault, ())
    }

    /// Removes a guest; what is gone already is a success.
    pub fn delete(&mut self, id: &str) -> Result<(), Failure> {
        let fault = self.call()?;
        if self.guests.contains_key(id) {
            self.guest(id)?;
            self.guests.remove(id);
        }
        answer(fault, ())
    }

    /// Fields as this provider keeps them.
    pub fn kept(&self, fields: &Fields) -> Fields {
        let known = fields.iter().filter_map(|(name, value)| Some((self.capabilities.field(name)?, value)));
        known.map(|(field, value)| (field.name, kept(field, value))).collect()
    }

    /// What a call meets; a refusal ends it here.
    fn call(&mut self) -> Result<Option<Fault>, Failure> {
        self.calls += 1;
        match self.faults.get(&self.calls).copied() {
            Some(Fault::Refused) => Err(Failure::Refused("the provider refuses for now".to_owned())),
            fault => Ok(fault),
        }
    }

    /// A guest that can be changed.
    fn guest(&mut self, id: &str) -> Result<&mut Instance, Failure> {
        match self.guests.get_mut(id) {
            None => Err(Failure::Refused(format!("there is no {id}"))),
            Some(guest) if guest.busy.is_some() => Err(Failure::Refused(format!("{id} is busy"))),
            Some(guest) if guest.is_template => Err(Failure::Refused(format!("{id} is a template"))),
            Some(guest) => Ok(guest),
        }
    }

    fn free_id(&mut self) -> Box<str> {
        loop {
            self.next_id += 1;
            let id =
                if self.capabilities.chooses_ids { self.next_id.to_string() } else { format!("g-{}", self.next_id) };
            if !self.guests.contains_key(&*id) {
                return id.into();
            }
        }
    }
}

impl Instance {
    /// A stopped guest that is nobody's and of which nothing is known.
    pub fn new(now: Timestamp) -> Instance {
        Instance {
            mark: None,
            fields: Fields::default(),
            pending: Fields::default(),
            is_running: false,
            word: None,
            holds_data: false,
            busy: None,
            is_template: false,
            shows_from: now,
        }
    }

    /// Starts or stops it, and what was pending takes effect.
    pub fn set_running(&mut self, runs: bool, capabilities: &Capabilities) {
        self.is_running = runs;
        self.word = None;
        for field in capabilities.fields {
            if let Some(value) = self.pending.remove(field.name) {
                self.fields.set(field.name, value);
            }
        }
    }
}

fn answer<T>(fault: Option<Fault>, value: T) -> Result<T, Failure> {
    match fault {
        None | Some(Fault::Refused) => Ok(value),
        Some(Fault::ResponseLost | Fault::HalfDone) => Err(Failure::Unknown),
    }
}

/// A value as a provider with these habits keeps it: floored to its unit, with a line end, in its own case and order,
/// and without a memory of what was secret.
fn kept(field: &Field, value: &Value) -> Value {
    let has = |normalizer| field.normalizers.contains(&normalizer);
    match value {
        Value::Bool(value) => Value::Bool(*value),
        Value::Integer(amount) => Value::Integer(amount.div_euclid(field.unit.size()) * field.unit.size()),
        Value::Text(_) | Value::Secret(_) => {
            let text = value.as_text().unwrap_or_default();
            let text = if has(Normalizer::Case) { text.to_lowercase() } else { text.to_owned() };
            let end = if has(Normalizer::TrailingNewline) && !text.ends_with('\n') { "\n" } else { "" };
            Value::from(format!("{text}{end}").as_str())
        }
        Value::List(items) => {
            let mut items: Vec<Value> = items.iter().map(|item| kept(field, item)).collect();
            if has(Normalizer::Order) {
                items.sort_by(|one, other| other.cmp(one));
            }
            Value::List(items)
        }
        Value::Map(entries) => Value::Map(entries.iter().map(|(key, entry)| (key, kept(field, entry))).collect()),
    }
}
