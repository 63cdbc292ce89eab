//! The ledger: what was done within the last hour and counts against a budget.
//!
//! An entry is written before the step is begun, so that a crash forgets nothing. A call that is tried again replaces
//! its entry: it counts once, and for an hour from the last time that it may have been done. The same step by another
//! call counts again: what is done over and over is done that often.

use std::collections::BTreeSet;

use jiff::Timestamp;
use setpoint_api::environment::{Guardrails, LedgerEntry, MAX_LEDGER};
use setpoint_api::price::Price;
use setpoint_api::step::{Class, Step};

use super::review::later;

const WINDOW_S: i64 = 3_600;

/// The entry to record before a step is begun by the call `intent`; none where no limit counts the step.
pub fn ledger_entry(step: &Step, intent: &str, guardrails: &Guardrails, now: Timestamp) -> Option<LedgerEntry> {
    is_limited(step, guardrails).then(|| LedgerEntry {
        time: now,
        action: Some(step.action),
        target: step.target.clone(),
        digest: step.digest.clone(),
        intent: Some(intent.to_owned()),
        destroyed: destroys(step),
        hourly_cost_delta: step.hourly_cost_delta,
        moved_bps: None,
    })
}

/// Whether a limit on what is done within an hour counts the step.
pub(super) fn is_limited(step: &Step, guardrails: &Guardrails) -> bool {
    let adds_cost = step.hourly_cost_delta.is_some_and(|delta| delta > Price::ZERO);
    (guardrails.max_destroys_per_hour.is_some() && destroys(step))
        || (guardrails.max_added_cost_per_hour.is_some() && adds_cost)
}

/// The ledger with an entry more, oldest first, without what no longer counts.
pub fn record(mut ledger: Vec<LedgerEntry>, entry: LedgerEntry) -> Vec<LedgerEntry> {
    let now = entry.time;
    ledger.retain(|recorded| !is_same_call(recorded, &entry));
    ledger.push(entry);
    prune(ledger, now)
}

/// The ledger, oldest first, without what no longer counts.
pub fn prune(mut ledger: Vec<LedgerEntry>, now: Timestamp) -> Vec<LedgerEntry> {
    ledger.retain(|entry| counts(entry, now));
    ledger.sort_by(|one, other| (one.time, &one.digest, &one.intent).cmp(&(other.time, &other.digest, &other.intent)));
    ledger
}

/// Whether two entries are of one call that was tried twice. Of what names no call, nobody can say so.
fn is_same_call(one: &LedgerEntry, other: &LedgerEntry) -> bool {
    one.intent.is_some() && one.intent == other.intent && one.digest == other.digest
}

/// Whether a step destroys something, as limits count it.
pub(super) fn destroys(step: &Step) -> bool {
    step.classes().contains(&Class::Destructive)
}

/// An entry from the future counts: a clock that was set back must not make room.
fn counts(entry: &LedgerEntry, now: Timestamp) -> bool {
    lapses(entry.time) > now
}

/// When what was done at a time no longer counts.
fn lapses(time: Timestamp) -> Timestamp {
    later(time, WINDOW_S)
}

/// What counts now: one entry for each call, the last.
#[derive(Debug)]
pub(super) struct Recent<'a> {
    now: Timestamp,
    entries: Vec<&'a LedgerEntry>,
    /// How many more are recorded by what runs now.
    added: usize,
}

impl<'a> Recent<'a> {
    pub(super) fn of(ledger: &'a [LedgerEntry], now: Timestamp) -> Recent<'a> {
        let mut entries: Vec<&LedgerEntry> = ledger.iter().filter(|entry| counts(entry, now)).collect();
        entries.sort_by_key(|entry| (&entry.digest, &entry.intent, std::cmp::Reverse(weight(entry))));
        entries.dedup_by(|later, kept| is_same_call(later, kept));
        Recent { now, entries, added: 0 }
    }

    /// Whether a step was begun within the hour by a call that is still under way, so that it is counted already.
    pub(super) fn has(&self, digest: &str, under_way: &BTreeSet<String>) -> bool {
        let is_under_way = |entry: &LedgerEntry| entry.intent.as_ref().is_some_and(|id| under_way.contains(id));
        self.entries.iter().any(|entry| entry.digest == digest && is_under_way(entry))
    }

    /// What was used up, and when.
    pub(super) fn window(&self, limit: u64, amount: impl Fn(&LedgerEntry) -> u64) -> Window {
        let used = self.entries.iter().map(|entry| (entry.time, amount(entry))).filter(|(_, amount)| *amount > 0);
        let mut used: Vec<(Timestamp, u64)> = used.collect();
        used.sort_unstable();
        Window { limit, now: self.now, used }
    }

    /// Until when there is no room for another entry, if there is none.
    pub(super) fn full_until(&self) -> Option<Timestamp> {
        if self.entries.len() + self.added < MAX_LEDGER {
            return None;
        }
        let oldest = self.entries.iter().map(|entry| entry.time).min();
        Some(lapses(oldest.unwrap_or(self.now)))
    }

    pub(super) fn add(&mut self) {
        self.added += 1;
    }
}

/// The later entry of a call holds; of two of one time, the one that counts more.
fn weight(entry: &LedgerEntry) -> impl Ord {
    (entry.time, entry.destroyed, entry.hourly_cost_delta, entry.moved_bps)
}

/// A limit on how much may be done within any hour.
#[derive(Debug)]
pub(super) struct Window {
    limit: u64,
    now: Timestamp,
    /// Oldest first.
    used: Vec<(Timestamp, u64)>,
}

impl Window {
    /// From when on an amount can be done; none where it can be now.
    pub(super) fn full_until(&self, amount: u64) -> Option<Timestamp> {
        let room = u128::from(self.limit.saturating_sub(amount));
        let mut left: u128 = self.used.iter().map(|(_, used)| u128::from(*used)).sum();
        let mut until = None;
        for (time, used) in &self.used {
            if left <= room {
                break;
            }
            left -= u128::from(*used);
            until = Some(lapses(*time));
        }
        until
    }

    pub(super) fn take(&mut self, amount: u64) {
        // What is taken now lapses after everything but what is dated in the future.
        let place = self.used.partition_point(|(time, _)| *time <= self.now);
        self.used.insert(place, (self.now, amount));
    }
}
