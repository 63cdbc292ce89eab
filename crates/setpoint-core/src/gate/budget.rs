//! Limits that hold whatever was approved: on what there is at once, and on what is done within an hour.
//!
//! What runs now uses up what is left, step by step, so that together they stay within every limit. What a step gives
//! back counts only once it was observed: a delete that fails frees nothing. So a step that only gives back is never
//! held by a limit on what there is.
//!
//! An adopted guest counts as an instance from then on, a released one no longer. A replacement that is made before the
//! old guest goes counts as one more, with its GPUs; its cost counts as the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use setpoint_api::environment::{Guardrails, LedgerEntry};
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Class, Step, Target};

use super::ledger::{Recent, Window, destroys, is_limited};
use super::{Need, Verdict};

/// What there is in an environment now. What is not known leaves no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub instances: Option<u32>,
    pub gpus: Option<u32>,
    pub hourly_cost: Option<Price>,
}

/// The GPUs of an object's guest: what it holds now, and what it will hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gpus {
    pub held: u32,
    pub wanted: u32,
}

/// A limit of an environment, by what it limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Limit {
    DestroysPerHour(u32),
    AddedCostPerHour(Price),
    HourlyCost(Price),
    Gpus(u32),
    Instances(u32),
    MovedBpsPerHour(u32),
}

/// The limits of an environment, and what counts against them.
#[derive(Debug, Clone, Copy)]
pub struct Room<'a> {
    pub guardrails: &'a Guardrails,
    /// What was done lately and counts against a budget.
    pub ledger: &'a [LedgerEntry],
    /// The ids of calls whose outcome is not known: to try one of them again is not to do its step once more.
    pub under_way: &'a BTreeSet<String>,
    /// What is there now.
    pub usage: Usage,
    /// The GPUs of every object that holds or wants any; one that is not listed has to do with none.
    pub gpus: &'a BTreeMap<Target, Gpus>,
    pub now: Timestamp,
}

/// What is left of each limit.
#[derive(Debug)]
pub(super) struct Budget<'a> {
    room: Room<'a>,
    recent: Recent<'a>,
    destroys: Option<Window>,
    added_cost: Option<Window>,
    /// What those that run now add.
    instances: u32,
    gpus: u32,
    hourly_cost: Price,
    /// The GPUs that they add by object, since several steps may serve one guest.
    gpus_of: BTreeMap<&'a Target, u32>,
}

/// What a step adds to what there is, at most.
#[derive(Debug, Clone, Copy)]
struct Demand {
    instances: u32,
    gpus: u32,
    /// Absent where the step may cost something and the price is not known.
    hourly_cost: Option<Price>,
}

impl<'a> Budget<'a> {
    pub(super) fn of(room: Room<'a>) -> Budget<'a> {
        let recent = Recent::of(room.ledger, room.now);
        let destroys = room.guardrails.max_destroys_per_hour;
        let added_cost = room.guardrails.max_added_cost_per_hour;
        Budget {
            room,
            destroys: destroys.map(|limit| recent.window(limit.into(), |entry| entry.destroyed.into())),
            added_cost: added_cost
                .map(|limit| recent.window(amount(Some(limit)), |entry| amount(entry.hourly_cost_delta))),
            recent,
            instances: 0,
            gpus: 0,
            hourly_cost: Price::ZERO,
            gpus_of: BTreeMap::new(),
        }
    }

    /// The limit that the step exceeds even if nothing else is there.
    pub(super) fn exceeded_alone(&self, step: &Step) -> Option<Limit> {
        let demand = self.demand(step);
        let cost = demand.hourly_cost.unwrap_or_default().max(Price::ZERO);
        let limits = self.room.guardrails;
        let exceeded = [
            limits.max_destroys_per_hour.filter(|limit| destroys(step) && *limit == 0).map(Limit::DestroysPerHour),
            limits.max_added_cost_per_hour.filter(|limit| cost > *limit).map(Limit::AddedCostPerHour),
            limits.max_hourly_cost.filter(|limit| cost > *limit).map(Limit::HourlyCost),
            limits.max_gpus.filter(|limit| demand.gpus > *limit).map(Limit::Gpus),
            limits.max_instances.filter(|limit| demand.instances > *limit).map(Limit::Instances),
        ];
        exceeded.into_iter().flatten().next()
    }

    /// Lets the step run and takes what it needs, or says what it waits for and takes nothing.
    pub(super) fn admit(&mut self, step: &'a Step) -> Verdict {
        let demand = self.demand(step);
        let mut needs = self.levels(&demand);
        // A call that is under way is counted already: trying it again adds nothing.
        if !self.is_counted(step) {
            needs.extend(self.windows(step, &demand));
        }
        if !needs.is_empty() {
            return Verdict::Wait { needs };
        }
        self.take(step, &demand);
        Verdict::Run
    }

    fn demand(&self, step: &Step) -> Demand {
        let gpus = self.room.gpus.get(&step.target).map(|gpus| added_gpus(step, *gpus)).unwrap_or_default();
        let counted = self.gpus_of.get(&step.target).copied().unwrap_or_default();
        Demand { instances: added_instances(step), gpus: gpus.saturating_sub(counted), hourly_cost: added_cost(step) }
    }

    /// What the step waits for, of what there may be at once.
    fn levels(&self, demand: &Demand) -> Vec<Need> {
        let (limits, usage) = (self.room.guardrails, self.room.usage);
        let instances = limits.max_instances.filter(|_| demand.instances > 0).and_then(|limit| {
            let after = usage.instances.map(|now| total(now, self.instances, demand.instances));
            over(after, limit.into(), Limit::Instances(limit))
        });
        let gpus = limits.max_gpus.filter(|_| demand.gpus > 0).and_then(|limit| {
            let after = usage.gpus.map(|now| total(now, self.gpus, demand.gpus));
            over(after, limit.into(), Limit::Gpus(limit))
        });
        [self.cost_level(demand), gpus, instances].into_iter().flatten().collect()
    }

    fn cost_level(&self, demand: &Demand) -> Option<Need> {
        let limits = self.room.guardrails;
        let hourly = limits.max_hourly_cost.map(Limit::HourlyCost);
        let Some(cost) = demand.hourly_cost else {
            let limit = hourly.or(limits.max_added_cost_per_hour.map(Limit::AddedCostPerHour));
            return limit.map(|limit| Need::Price { limit });
        };
        let limit = limits.max_hourly_cost.filter(|_| cost > Price::ZERO)?;
        let after = self.room.usage.hourly_cost.map(|now| now + self.hourly_cost + cost);
        over(after, limit, Limit::HourlyCost(limit))
    }

    /// What the step waits for, of what may be done within an hour.
    fn windows(&self, step: &Step, demand: &Demand) -> Vec<Need> {
        let destroys = self.destroys.as_ref().filter(|_| destroys(step)).and_then(|window| window.full_until(1));
        let cost = amount(demand.hourly_cost);
        let added_cost = self.added_cost.as_ref().filter(|_| cost > 0).and_then(|window| window.full_until(cost));
        let full = self.recent.full_until().filter(|_| is_limited(step, self.room.guardrails));
        let limits = self.room.guardrails;
        let budget =
            |limit: Option<Limit>, until: Option<Timestamp>| Some(Need::Budget { limit: limit?, until: Some(until?) });
        let needs = [
            budget(limits.max_destroys_per_hour.map(Limit::DestroysPerHour), destroys),
            budget(limits.max_added_cost_per_hour.map(Limit::AddedCostPerHour), added_cost),
            full.map(|until| Need::Ledger { until }),
        ];
        needs.into_iter().flatten().collect()
    }

    fn take(&mut self, step: &'a Step, demand: &Demand) {
        self.instances = self.instances.saturating_add(demand.instances);
        self.gpus = self.gpus.saturating_add(demand.gpus);
        *self.gpus_of.entry(&step.target).or_default() += demand.gpus;
        let cost = demand.hourly_cost.unwrap_or_default().max(Price::ZERO);
        self.hourly_cost = self.hourly_cost + cost;
        if self.is_counted(step) {
            return;
        }
        if let Some(window) = self.destroys.as_mut().filter(|_| destroys(step)) {
            window.take(1);
        }
        if let Some(window) = self.added_cost.as_mut().filter(|_| cost > Price::ZERO) {
            window.take(amount(Some(cost)));
        }
        if is_limited(step, self.room.guardrails) {
            self.recent.add();
        }
    }

    fn is_counted(&self, step: &Step) -> bool {
        self.recent.has(&step.digest, self.room.under_way)
    }
}

pub(super) fn added_instances(step: &Step) -> u32 {
    match step.action {
        Action::Create | Action::Adopt => 1,
        Action::Replace => step.create_first.into(),
        _ => 0,
    }
}

pub(super) fn added_gpus(step: &Step, gpus: Gpus) -> u32 {
    match step.action {
        Action::Create => gpus.wanted,
        Action::Replace if step.create_first => gpus.wanted,
        Action::Replace | Action::Update | Action::Start | Action::Adopt => gpus.wanted.saturating_sub(gpus.held),
        Action::Grow | Action::Stop | Action::Restart | Action::Release | Action::Delete => 0,
    }
}

/// By how much the step changes the hourly cost; none where it may cost something and nobody knows how much.
pub(super) fn added_cost(step: &Step) -> Option<Price> {
    let runs_more = matches!(step.action, Action::Create | Action::Start | Action::Grow | Action::Replace);
    let may_cost = runs_more || step.classes().contains(&Class::Spend);
    step.hourly_cost_delta.or((!may_cost).then_some(Price::ZERO))
}

/// What is added of a price, in whole millionths. What is saved adds nothing.
fn amount(price: Option<Price>) -> u64 {
    price.and_then(|price| u64::try_from(price.micros()).ok()).unwrap_or_default()
}

fn total(now: u32, running: u32, more: u32) -> u64 {
    u64::from(now) + u64::from(running) + u64::from(more)
}

fn over<T: PartialOrd>(after: Option<T>, most: T, limit: Limit) -> Option<Need> {
    match after {
        None => Some(Need::Usage { limit }),
        Some(after) => (after > most).then_some(Need::Budget { limit, until: None }),
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::DestroysPerHour(limit) => write!(f, "maxDestroysPerHour {limit}"),
            Limit::AddedCostPerHour(limit) => write!(f, "maxAddedCostPerHour ${limit}"),
            Limit::HourlyCost(limit) => write!(f, "maxHourlyCost ${limit}"),
            Limit::Gpus(limit) => write!(f, "maxGpus {limit}"),
            Limit::Instances(limit) => write!(f, "maxInstances {limit}"),
            Limit::MovedBpsPerHour(limit) => write!(f, "maxMovedBpsPerHour {limit}"),
        }
    }
}
