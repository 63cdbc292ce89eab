//! Whether traffic may be moved now.
//!
//! Moving traffic is no step of a change set: a rollout decides on it. It counts against a budget all the same.

use std::collections::BTreeSet;

use jiff::Timestamp;
use setpoint_api::environment::{Guardrails, LedgerEntry};
use setpoint_api::step::Target;

use super::ledger::Recent;
use super::{Limit, Need, Refusal, Verdict};

/// A change of how much traffic goes where.
#[derive(Debug, Clone, Copy)]
pub struct TrafficMove<'a> {
    /// The object whose traffic is moved.
    pub target: &'a Target,
    /// The digest of the split before and after.
    pub digest: &'a str,
    /// The id of this move. One that is tried again keeps its id and counts once; the same split set once more has
    /// another.
    pub intent: &'a str,
    /// How many basis points go elsewhere than before.
    pub moved_bps: u32,
}

impl TrafficMove<'_> {
    /// The entry to record before the move is begun; none where no limit counts it.
    pub fn ledger_entry(&self, guardrails: &Guardrails, now: Timestamp) -> Option<LedgerEntry> {
        let counts = guardrails.max_moved_bps_per_hour.is_some() && self.moved_bps > 0;
        counts.then(|| LedgerEntry {
            time: now,
            action: None,
            target: self.target.clone(),
            digest: self.digest.to_owned(),
            intent: Some(self.intent.to_owned()),
            destroyed: false,
            hourly_cost_delta: None,
            moved_bps: Some(self.moved_bps),
        })
    }
}

/// Whether traffic may be moved now, waits, or is refused because the limit is less than the move.
pub fn gate_traffic(
    traffic: &TrafficMove<'_>,
    guardrails: Option<&Guardrails>,
    ledger: &[LedgerEntry],
    now: Timestamp,
) -> Verdict {
    let limit = guardrails.and_then(|guardrails| guardrails.max_moved_bps_per_hour);
    let Some(limit) = limit.filter(|_| traffic.moved_bps > 0) else { return Verdict::Run };
    let budget = Limit::MovedBpsPerHour(limit);
    if traffic.moved_bps > limit {
        return Verdict::Refuse { reason: Refusal::OverLimit { limit: budget } };
    }
    let recent = Recent::of(ledger, now);
    if recent.has(traffic.digest, &BTreeSet::from([traffic.intent.to_owned()])) {
        return Verdict::Run;
    }
    let window = recent.window(limit.into(), |entry| entry.moved_bps.unwrap_or_default().into());
    let used_up = window.full_until(traffic.moved_bps.into());
    let used_up = used_up.map(|until| Need::Budget { limit: budget, until: Some(until) });
    let full = recent.full_until().map(|until| Need::Ledger { until });
    let needs: Vec<Need> = [used_up, full].into_iter().flatten().collect();
    if needs.is_empty() { Verdict::Run } else { Verdict::Wait { needs } }
}
