//! An instance as it really is, and what can be observed of it at a time.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use setpoint_api::price::Price;
use setpoint_api::step::Effect;
use setpoint_core::observation::{Config, Guest, Mark, Reading};
use setpoint_core::value::{Fields, Value};

use super::blueprint::Body;
use super::fields::{self, RUNNING, STARTING, STOPPED, STOPPING};
use super::program::Program;
use crate::provider;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Instance {
    pub(super) name: Box<str>,
    pub(super) mark: Option<Ownership>,
    pub(super) body: Body,
    /// What takes effect when it starts again.
    pub(super) pending: Fields,
    pub(super) power: Power,
    /// Whether it was made by half: it is there and was not started.
    pub(super) is_unfinished: bool,
    pub(super) busy_until: Timestamp,
    pub(super) shows_from: Timestamp,
    /// Whether there is data on it, whatever its fields say.
    pub(super) holds_data: bool,
}

/// How much of an instance can be read for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    Clear,
    /// Whether it runs, and not how it is configured.
    State,
    Nothing,
}

/// A mark as it is kept: what many instances or an index share is there once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ownership {
    pub(super) cluster: Arc<str>,
    pub(super) owner: Arc<str>,
    pub(super) intent: Option<Arc<str>>,
    pub(super) spec_digest: Option<Box<str>>,
}

/// Whether an instance runs, and since or until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Power {
    /// Told to run at `asked`, it does from `runs_from`.
    On { asked: Timestamp, runs_from: Timestamp },
    /// Told to stop at `since`, it runs until `until`; before, it was on.
    Off { asked: Timestamp, runs_from: Timestamp, since: Timestamp, until: Timestamp },
}

impl Power {
    pub(super) fn asked_at(&self) -> Timestamp {
        let (Power::On { asked, .. } | Power::Off { asked, .. }) = self;
        *asked
    }

    pub(super) fn runs_from(&self) -> Timestamp {
        let (Power::On { runs_from, .. } | Power::Off { runs_from, .. }) = self;
        *runs_from
    }

    pub(super) fn asked_to_stop_at(&self) -> Option<Timestamp> {
        if let Power::Off { since, .. } = self { Some(*since) } else { None }
    }

    pub(super) fn stopped_at(&self) -> Option<Timestamp> {
        if let Power::Off { until, .. } = self { Some(*until) } else { None }
    }

    fn word(&self, now: Timestamp) -> &'static str {
        match self {
            Power::On { runs_from, .. } if now < *runs_from => STARTING,
            Power::On { .. } => RUNNING,
            Power::Off { until, .. } if now < *until => STOPPING,
            Power::Off { .. } => STOPPED,
        }
    }
}

impl Instance {
    /// The provider's word for the state it is in.
    pub(super) fn word(&self, now: Timestamp) -> &'static str {
        match &self.body {
            Body::Pod(plan) if plan.has_ended(&self.power, now) => STOPPED,
            _ => self.power.word(now),
        }
    }

    /// When it is next observed to be another than at `now`, if nobody does anything to it.
    pub(super) fn turns_at(&self, program: &Program, now: Timestamp) -> Option<Timestamp> {
        let of_pod = match &self.body {
            Body::Pod(plan) => plan.turns_at(&self.power, Duration::from_millis(program.ready_ms), now),
            Body::Machine(_) => None,
        };
        let of_power = [Some(self.power.runs_from()), self.power.stopped_at(), Some(self.shows_from), of_pod];
        of_power.into_iter().flatten().filter(|at| now < *at).min()
    }

    /// Starts it, unless it runs or is about to. What was pending takes effect. Whether anything was done.
    pub(super) fn start(&mut self, program: &Program, now: Timestamp) -> bool {
        let is_on = matches!(self.power, Power::On { .. });
        if is_on && self.word(now) != STOPPED {
            return false;
        }
        // What is still stopping starts once it has stopped.
        let from = self.power.stopped_at().unwrap_or(now).max(now);
        self.power = Power::On { asked: now, runs_from: from + Duration::from_millis(program.start_ms) };
        self.is_unfinished = false;
        if let Body::Machine(fields) = &mut self.body {
            for (name, value) in std::mem::take(&mut self.pending).iter() {
                fields.set(fields::field(name).expect("only known fields are pending").name, value.clone());
            }
        }
        true
    }

    /// Asks it to stop, and makes it after `grace`. A later call may shorten the time that is left.
    pub(super) fn stop(&mut self, program: &Program, grace: Duration, now: Timestamp) -> bool {
        let ends = now + self.stops_after(program).min(grace);
        match &mut self.power {
            Power::On { asked, runs_from } => {
                self.power = Power::Off { asked: *asked, runs_from: *runs_from, since: now, until: ends };
                true
            }
            Power::Off { until, .. } if ends < *until => {
                *until = ends;
                true
            }
            Power::Off { .. } => false,
        }
    }

    fn stops_after(&self, program: &Program) -> Duration {
        let own = match &self.body {
            Body::Pod(plan) => plan.containers.iter().filter_map(|container| container.stops_after).max(),
            Body::Machine(_) => None,
        };
        own.unwrap_or(Duration::from_millis(program.stop_ms))
    }

    /// Writes fields, or the first `count` of them. What needs a restart waits for one. Whether anything was done.
    pub(super) fn write(&mut self, given: &Body, count: usize) -> bool {
        let is_on = matches!(self.power, Power::On { .. });
        match (&mut self.body, given) {
            (Body::Machine(own), Body::Machine(given)) => {
                let before = (own.clone(), self.pending.clone());
                for (name, value) in given.iter().take(count) {
                    let Some(field) = fields::field(name) else { continue };
                    self.pending.remove(name);
                    if field.effect == Effect::Restart && is_on && own.get(name) != Some(value) {
                        self.pending.set(field.name, value.clone());
                    } else {
                        own.set(field.name, value.clone());
                    }
                }
                before != (own.clone(), self.pending.clone())
            }
            (Body::Pod(own), Body::Pod(given)) if own != given => {
                *own = given.clone();
                true
            }
            _ => false,
        }
    }

    /// Why fields cannot be changed like this, if they cannot.
    pub(super) fn unchangeable(&self, given: &Body) -> Option<String> {
        let (own, given) = match (&self.body, given) {
            (Body::Machine(own), Body::Machine(given)) => (own, given),
            (Body::Pod(_), Body::Pod(_)) => return None,
            _ => return Some("a Pod does not become a Machine, nor a Machine a Pod".to_owned()),
        };
        given.iter().find_map(|(name, value)| {
            let field = fields::field(name)?;
            let differs = !setpoint_core::diff::same(field, own.get(name), Some(value));
            match field.effect {
                Effect::Replace | Effect::Unsupported if differs => Some(format!("{name} cannot be changed")),
                Effect::Grow if own.get(name).is_some_and(|now| now > value) => Some(format!("{name} cannot shrink")),
                _ => None,
            }
        })
    }

    /// What it costs as it is.
    fn price(&self, program: &Program, now: Timestamp) -> Option<Price> {
        running_price(program, None)?;
        if self.word(now) == STOPPED {
            return Some(Price::ZERO);
        }
        match &self.body {
            Body::Machine(fields) => running_price(program, Some(fields)),
            Body::Pod(_) => running_price(program, None),
        }
    }

    /// What is observed of it.
    pub(super) fn observe(
        &self,
        id: Box<str>,
        serial: u64,
        program: &Program,
        sight: Sight,
        now: Timestamp,
    ) -> provider::Instance {
        let (fields, pod) = match &self.body {
            Body::Machine(fields) => (fields.clone(), None),
            Body::Pod(plan) => {
                let ready_after = Duration::from_millis(program.ready_ms);
                (Fields::default(), Some(plan.state(serial, &self.power, ready_after, now)))
            }
        };
        let has_volumes = matches!(fields.get("volumes"), Some(Value::Map(volumes)) if !volumes.is_empty());
        let config = match sight {
            Sight::Clear => Config::Read { known: fields, pending: self.pending.clone(), unknown: Vec::new() },
            Sight::State | Sight::Nothing => Config::Unreadable("the place does not say for now".into()),
        };
        let is_readable = sight != Sight::Nothing;
        let holds_data = self.holds_data || has_volumes;
        let guest = Guest {
            id,
            name: self.name.clone(),
            mark: self.mark.as_ref().map(Ownership::mark),
            config,
            run: if is_readable { Reading::Known(self.word(now).into()) } else { Reading::Unknown },
            holds_data: if is_readable { Reading::Known(holds_data) } else { Reading::Unknown },
            busy: (now < self.busy_until).then(|| "locked".into()),
            is_template: false,
            hourly_price: self.price(program, now),
        };
        provider::Instance { guest, pod: pod.filter(|_| is_readable) }
    }
}

/// What an instance costs while it runs: a Machine with these fields, or a Pod.
pub(super) fn running_price(program: &Program, fields: Option<&Fields>) -> Option<Price> {
    let base = program.hourly_price;
    if base.is_none() && program.gpu_hourly_prices.is_empty() {
        return None;
    }
    let gpu_price = fields.and_then(gpus).and_then(|(kind, count)| {
        let price = program.gpu_hourly_prices.get(kind)?;
        Some(Price::from_micros(price.micros().saturating_mul(count)))
    });
    Some(base.unwrap_or_default() + gpu_price.unwrap_or_default())
}

/// The type and number of a Machine's GPUs.
pub(super) fn gpus(fields: &Fields) -> Option<(&str, i64)> {
    let count = match fields.get("gpu.count") {
        Some(Value::Integer(count)) => *count,
        _ => 1,
    };
    Some((fields.get("gpu.type")?.as_text()?, count))
}

impl Ownership {
    fn mark(&self) -> Mark {
        Mark {
            cluster: (*self.cluster).into(),
            owner_uid: (*self.owner).into(),
            intent: self.intent.as_deref().map(Into::into),
            spec_digest: self.spec_digest.clone(),
        }
    }
}
