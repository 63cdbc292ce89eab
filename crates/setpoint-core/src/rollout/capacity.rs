//! What a rollout promises while it runs, in instances.

use std::fmt;

use serde::{Deserialize, Serialize};
use setpoint_api::app::Strategy;
use setpoint_api::traffic_split::ALL_BPS;

use crate::split::{Granularity, Split};

/// The promise of a rollout.
///
/// At least `replicas - max_unavailable` ready instances serve at any time ([`Promise::owed`]), and each revision has as
/// many of them as its share of the traffic asks for ([`Promise::need`]). At most `replicas + surge` instances exist
/// ([`Promise::limit`]), except where fewer replicas were asked for meanwhile.
///
/// The two cannot both be strict: with `surge` 0 something must go before something can come, so `max_unavailable` is at
/// least 1. For a single instance (one GPU that exists once) that promises nothing while it is replaced; it is replaced
/// only if the provider says that the new one can be placed, and comes back if the new one fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    pub replicas: u32,
    pub surge: u32,
    pub max_unavailable: u32,
    pub granularity: Granularity,
}

impl Promise {
    pub fn of(strategy: &Strategy, replicas: u32, granularity: Granularity) -> Promise {
        let surge = strategy.surge.unwrap_or(replicas);
        Promise { replicas, surge, max_unavailable: strategy.max_unavailable, granularity }
    }

    /// How many ready instances serve at least.
    pub fn owed(&self) -> u32 {
        self.replicas.saturating_sub(self.max_unavailable)
    }

    /// How many instances exist at most.
    pub fn limit(&self) -> u32 {
        self.replicas.saturating_add(self.surge)
    }

    /// How many instances a revision of this weight is given, where there is room: its part of `replicas`, rounded up. One
    /// that gets no traffic yet is given one to prove itself.
    pub fn share(&self, weight_bps: u32) -> u32 {
        part(self.replicas, weight_bps).max(self.replicas.min(1))
    }

    /// How many ready instances a revision of this weight must have: its part of what is owed. A weight is only as exact
    /// as the granularity, so one grain is forgiven.
    pub fn need(&self, weight_bps: u32) -> u32 {
        if weight_bps == 0 {
            return 0;
        }
        part(self.owed(), weight_bps.saturating_sub(self.granularity.grain_bps())).max(self.owed().min(1))
    }

    /// The largest weight that so many ready instances can bear. None bear nothing, even where none are owed, unless none
    /// are wanted.
    pub fn bearable(&self, ready: u32) -> u32 {
        if ready == 0 && self.replicas > 0 {
            return 0;
        }
        let owed = u64::from(self.owed());
        let bearable = (u64::from(ready) * u64::from(ALL_BPS)).checked_div(owed).unwrap_or(ALL_BPS.into());
        self.granularity.floor(u32::try_from(bearable).unwrap_or(ALL_BPS))
    }

    /// The largest weight whose need is met by so many ready instances, the forgiven grain included.
    pub fn forgiven(&self, ready: u32) -> u32 {
        let grain = if ready > 0 { self.granularity.grain_bps() } else { 0 };
        self.granularity.floor(self.bearable(ready).saturating_add(grain))
    }

    /// Why a rollout cannot move, where a slot of traffic is more than can be moved at once.
    pub fn too_coarse(&self) -> Option<String> {
        let slot = part(self.owed(), self.granularity.grain_bps());
        let spare = self.surge.saturating_add(self.max_unavailable);
        (slot > spare).then(|| {
            let grain = self.granularity.grain_bps();
            format!("the least that can be moved is {grain} basis points, which {slot} instances bear, and surge and maxUnavailable allow {spare}")
        })
    }

    /// Whether the promise is kept by this split and these ready instances.
    pub fn kept(&self, split: &Split, ready: impl Fn(&str) -> u32) -> bool {
        let serving: u64 = split.routed().map(|entry| u64::from(ready(&entry.revision))).sum();
        serving >= u64::from(self.owed())
            && split.routed().all(|entry| ready(&entry.revision) >= self.need(entry.weight_bps))
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at least {} of {} serve and at most {} exist", self.owed(), self.replicas, self.limit())
    }
}

fn part(whole: u32, weight_bps: u32) -> u32 {
    let part = (u64::from(whole) * u64::from(weight_bps)).div_ceil(u64::from(ALL_BPS));
    u32::try_from(part).unwrap_or(u32::MAX)
}

/// Whether an instance of the new revision can be placed where one of the old makes room. It is asked before anything is
/// given up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Stock {
    /// It can.
    Available,
    /// It cannot, for this reason.
    Exhausted(String),
    /// The provider has no notion of it: where one stopped, another starts.
    #[default]
    Unchecked,
    /// The provider was asked and has not answered.
    Unknown,
}
