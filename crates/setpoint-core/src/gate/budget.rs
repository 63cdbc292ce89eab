//! Limits that hold whatever was approved: on what there is at once, and on what is done within an hour.
//!
//! There are limits of the environment and of single namespaces in it. A step needs room within both, and what is said of a
//! namespace's limit tells what that namespace uses, and nothing of others.
//!
//! What runs now uses up what is left, step by step, so that together they stay within every limit. What a step gives
//! back counts only once it was observed: a delete that fails frees nothing. So a step that only gives back is never
//! held by a limit on what there is.
//!
//! An adopted guest counts as an instance from then on. A replacement that is made before the old guest goes counts as one
//! more, with its GPUs; its cost counts as the difference.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use setpoint_api::environment::{Guardrails, LedgerEntry};
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Class, Step, Target};

use super::ledger::{Recent, Window, destroys, is_limited};
use super::limits::{Bound, Limit, Limits, Overrun};
use super::usage::{Amount, Level, Usage};
use super::{Need, Verdict};

/// The GPUs of an object's guest: what it holds now, and what it will hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gpus {
    pub held: u32,
    pub wanted: u32,
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
    pub usage: &'a Usage,
    /// The GPUs of every object that holds or wants any; one that is not listed has to do with none.
    pub gpus: &'a BTreeMap<Target, Gpus>,
    pub now: Timestamp,
}

/// What is left of each limit.
#[derive(Debug)]
pub(super) struct Budget<'a> {
    room: Room<'a>,
    recent: Recent<'a>,
    environment: Share,
    /// Of the namespaces that have limits and steps.
    namespaces: BTreeMap<&'a str, Share>,
    /// The GPUs that those that run now add by object, since several steps may serve one guest.
    gpus_of: BTreeMap<&'a Target, u32>,
}

/// What is left of the limits of the environment, or of one namespace.
#[derive(Debug)]
struct Share {
    /// The namespace; none for the environment.
    namespace: Option<String>,
    limits: Limits,
    level: Level,
    destroys: Option<Window>,
    added_cost: Option<Window>,
    /// What those that run now add.
    taken: Amount,
}

/// What a step adds to what there is, at most.
#[derive(Debug, Clone, Copy)]
struct Demand {
    instances: u32,
    gpus: u32,
    /// Absent where the step may cost something and the price is not known.
    hourly_cost: Option<Price>,
    destroys: bool,
}

impl<'a> Budget<'a> {
    pub(super) fn of(room: Room<'a>) -> Budget<'a> {
        let recent = Recent::of(room.ledger, room.now);
        let environment = Share::new(None, room.guardrails.into(), room.usage.all, &recent);
        Budget { room, recent, environment, namespaces: BTreeMap::new(), gpus_of: BTreeMap::new() }
    }

    /// The limit that the step exceeds even if nothing else is there.
    pub(super) fn exceeded_alone(&self, step: &Step) -> Option<Bound> {
        let demand = self.demand(step);
        let namespace = step.target.namespace.as_str();
        let own = self.room.guardrails.of_namespace(namespace).map(|limits| (Some(namespace), Limits::from(limits)));
        let all = [(None, Limits::from(self.room.guardrails))].into_iter().chain(own);
        all.into_iter().find_map(|(namespace, limits)| {
            let limit = exceeded_alone(&limits, &demand)?;
            Some(Bound { limit, namespace: namespace.map(str::to_owned) })
        })
    }

    /// Lets the step run and takes what it needs, or says what it waits for and takes nothing.
    pub(super) fn admit(&mut self, step: &'a Step) -> Verdict {
        let namespace = step.target.namespace.as_str();
        if let Some(limits) = self.room.guardrails.of_namespace(namespace) {
            let level = self.room.usage.of_namespace(namespace);
            let share = || Share::new(Some(namespace), limits.into(), level, &self.recent);
            self.namespaces.entry(namespace).or_insert_with(share);
        }
        let demand = self.demand(step);
        // A call that is under way is counted already: trying it again adds nothing.
        let is_counted = self.recent.has(&step.digest, self.room.under_way);
        let shares = || [&self.environment].into_iter().chain(self.namespaces.get(namespace));
        let mut needs: Vec<Need> = shares().flat_map(|share| share.levels(&demand)).collect();
        if !is_counted {
            needs.extend(shares().flat_map(|share| share.windows(&demand)));
            let full = self.recent.full_until().filter(|_| is_limited(step, self.room.guardrails));
            needs.extend(full.map(|until| Need::Ledger { until }));
        }
        if !needs.is_empty() {
            return Verdict::Wait { needs };
        }
        self.environment.take(&demand, is_counted);
        if let Some(share) = self.namespaces.get_mut(namespace) {
            share.take(&demand, is_counted);
        }
        *self.gpus_of.entry(&step.target).or_default() += demand.gpus;
        if !is_counted && is_limited(step, self.room.guardrails) {
            self.recent.add();
        }
        Verdict::Run
    }

    fn demand(&self, step: &Step) -> Demand {
        let gpus = self.room.gpus.get(&step.target).map(|gpus| added_gpus(step, *gpus)).unwrap_or_default();
        let counted = self.gpus_of.get(&step.target).copied().unwrap_or_default();
        Demand {
            instances: added_instances(step),
            gpus: gpus.saturating_sub(counted),
            hourly_cost: added_cost(step),
            destroys: destroys(step),
        }
    }
}

/// The limit that a step exceeds even if nothing else is there.
fn exceeded_alone(limits: &Limits, demand: &Demand) -> Option<Limit> {
    let cost = demand.hourly_cost.unwrap_or_default().max(Price::ZERO);
    let exceeded = [
        limits.max_destroys_per_hour.filter(|limit| demand.destroys && *limit == 0).map(Limit::DestroysPerHour),
        limits.max_added_cost_per_hour.filter(|limit| cost > *limit).map(Limit::AddedCostPerHour),
        limits.max_hourly_cost.filter(|limit| cost > *limit).map(Limit::HourlyCost),
        limits.max_gpus.filter(|limit| demand.gpus > *limit).map(Limit::Gpus),
        limits.max_instances.filter(|limit| demand.instances > *limit).map(Limit::Instances),
    ];
    exceeded.into_iter().flatten().next()
}

impl Share {
    fn new(namespace: Option<&str>, limits: Limits, level: Level, recent: &Recent<'_>) -> Share {
        let destroys = limits.max_destroys_per_hour;
        let added_cost = limits.max_added_cost_per_hour;
        Share {
            namespace: namespace.map(str::to_owned),
            limits,
            level,
            destroys: destroys.map(|limit| recent.window(namespace, limit.into(), |entry| entry.destroyed.into())),
            added_cost: added_cost
                .map(|limit| recent.window(namespace, amount(Some(limit)), |entry| amount(entry.hourly_cost_delta))),
            taken: Amount::default(),
        }
    }

    /// What a step waits for, of what there may be at once.
    fn levels(&self, demand: &Demand) -> Vec<Need> {
        let (limits, level, taken) = (&self.limits, &self.level, &self.taken);
        let counts = |limit: Option<u32>, which: fn(u32) -> Limit, now: Option<u32>, taken: u32, more: u32| {
            let limit = limit.filter(|_| more > 0)?;
            let in_use = now.map(|now| u64::from(now) + u64::from(taken));
            self.unless_within(which(limit), in_use, more.into(), limit.into())
        };
        let gpus = counts(limits.max_gpus, Limit::Gpus, level.gpus, taken.gpus, demand.gpus);
        let instances =
            counts(limits.max_instances, Limit::Instances, level.instances, taken.instances, demand.instances);
        [self.cost_level(demand), gpus, instances].into_iter().flatten().collect()
    }

    fn cost_level(&self, demand: &Demand) -> Option<Need> {
        let hourly = self.limits.max_hourly_cost.map(Limit::HourlyCost);
        let Some(cost) = demand.hourly_cost else {
            let limit = hourly.or(self.limits.max_added_cost_per_hour.map(Limit::AddedCostPerHour));
            return limit.map(|limit| Need::Price { limit: self.bound(limit) });
        };
        let limit = self.limits.max_hourly_cost.filter(|_| cost > Price::ZERO)?;
        let in_use = self.level.hourly_cost.map(|now| amount(Some(now + self.taken.hourly_cost)));
        self.unless_within(Limit::HourlyCost(limit), in_use, amount(Some(cost)), amount(Some(limit)))
    }

    fn unless_within(&self, limit: Limit, in_use: Option<u64>, step: u64, most: u64) -> Option<Need> {
        let bound = self.bound(limit);
        let Some(in_use) = in_use else { return Some(Need::Usage { limit: bound }) };
        (in_use.saturating_add(step) > most).then_some(Need::Budget(Overrun { bound, in_use, step, until: None }))
    }

    /// What a step waits for, of what may be done within an hour.
    fn windows(&self, demand: &Demand) -> Vec<Need> {
        let need = |limit: Option<Limit>, window: &Option<Window>, step: u64| {
            let (limit, window) = (limit?, window.as_ref().filter(|_| step > 0)?);
            let until = Some(window.full_until(step)?);
            Some(Need::Budget(Overrun { bound: self.bound(limit), in_use: window.used(), step, until }))
        };
        let limits = &self.limits;
        let destroys = limits.max_destroys_per_hour.map(Limit::DestroysPerHour);
        let added_cost = limits.max_added_cost_per_hour.map(Limit::AddedCostPerHour);
        let needs = [
            need(destroys, &self.destroys, demand.destroys.into()),
            need(added_cost, &self.added_cost, amount(demand.hourly_cost)),
        ];
        needs.into_iter().flatten().collect()
    }

    fn take(&mut self, demand: &Demand, is_counted: bool) {
        let hourly_cost = demand.hourly_cost.unwrap_or_default().max(Price::ZERO);
        let Demand { instances, gpus, .. } = *demand;
        self.taken = self.taken.and(Amount { instances, gpus, hourly_cost });
        if is_counted {
            return;
        }
        if let Some(window) = self.destroys.as_mut().filter(|_| demand.destroys) {
            window.take(1);
        }
        if let Some(window) = self.added_cost.as_mut().filter(|_| hourly_cost > Price::ZERO) {
            window.take(amount(Some(hourly_cost)));
        }
    }

    fn bound(&self, limit: Limit) -> Bound {
        Bound { limit, namespace: self.namespace.clone() }
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
        Action::Grow | Action::Stop | Action::Restart | Action::Release | Action::Delete | Action::Loosen => 0,
    }
}

/// By how much the step changes the hourly cost; none where it may cost something and nobody knows how much.
pub(super) fn added_cost(step: &Step) -> Option<Price> {
    let runs_more = matches!(step.action, Action::Create | Action::Start | Action::Grow | Action::Replace);
    let may_cost = runs_more || step.classes().contains(&Class::Spend);
    // What is released costs what it did before.
    let may_cost = may_cost && step.action != Action::Release;
    step.hourly_cost_delta.or((!may_cost).then_some(Price::ZERO))
}

/// What is added of a price, in whole millionths. What is saved adds nothing.
fn amount(price: Option<Price>) -> u64 {
    price.and_then(|price| u64::try_from(price.micros()).ok()).unwrap_or_default()
}
