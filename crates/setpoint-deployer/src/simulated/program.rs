//! How a simulated place behaves: slow, full, expensive, forgetful. It can come from an Environment's config and be
//! changed while the place lives.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use setpoint_api::environment::ItemPrice;
use setpoint_api::price::Price;

use super::resident::Resident;
use crate::error::Error;
use crate::provider::Offer;

/// The longest time that any knob may name: a day.
const MAX_MS: u64 = 86_400_000;
const MAX_CAPACITY: u64 = 10_000_000;

/// How a place behaves. Everything has a default: a place that is at once, never fails and costs nothing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Program {
    /// Where all random choices come from.
    pub seed: u64,
    /// How long a request and its answer are under way together, at least and at most.
    pub latency_ms: u64,
    pub latency_max_ms: Option<u64>,
    /// After how long a client gives up on an answer.
    pub timeout_ms: u64,
    /// How long an instance takes to run, once it is told to.
    pub start_ms: u64,
    /// How long a running instance takes to be ready.
    pub ready_ms: u64,
    /// How long an instance takes to stop by itself; its grace may be shorter.
    pub stop_ms: u64,
    /// How long an instance is locked after something was done to it.
    pub busy_ms: u64,

    /// Requests that never arrive, and whose sender knows it: the connection is refused.
    pub unreachable_rate: f64,
    /// Requests that never arrive, and whose sender waits in vain.
    pub lost_request_rate: f64,
    /// Requests that arrive only after their sender has given up, and how long after they were sent.
    pub late_request_rate: f64,
    pub late_request_ms: u64,
    /// Requests that fail before anything is done, half-way, and after all was done.
    pub failure_rate: f64,
    pub half_done_rate: f64,
    pub failure_after_rate: f64,
    /// Requests that are done and whose answer is lost, or comes as nonsense.
    pub lost_response_rate: f64,
    pub garbled_rate: f64,
    /// How many requests are taken in a second; the others are told to come again.
    pub requests_per_second: Option<u32>,

    /// How many instances there can be.
    pub capacity: Option<u64>,
    /// The types of GPU that are out of stock; `*` is everything that could be made.
    pub stock_out: BTreeSet<String>,
    /// What a running instance costs, and what each of its GPUs adds by type.
    pub hourly_price: Option<Price>,
    pub gpu_hourly_prices: BTreeMap<String, Price>,

    /// How long a new instance is missing from what is observed, and one that is gone still in it.
    pub listed_after_ms: u64,
    pub delisted_after_ms: u64,
    /// Within how long everything that was sent shows: at least `lateRequestMs` and `listedAfterMs` together. It does not
    /// change while the place lives.
    pub settle_seconds: u32,
    /// Observations that leave out some instances, and say so.
    pub partial_rate: f64,
    /// Instances of an observation whose configuration or state could not be read.
    pub unreadable_rate: f64,
    /// Instances of an observation whose configuration alone could not be read.
    pub unreadable_config_rate: f64,

    /// How often something happens to an instance behind our back, and what.
    pub drift_every_ms: Option<u64>,
    pub drift: BTreeSet<DriftKind>,

    /// Whether a replacement is made before what it replaces is removed.
    pub creates_before_delete: bool,
    /// Whether the place is there at all.
    pub down: Option<Outage>,

    /// Guests that are there without our doing, each put there once.
    pub existing: Vec<Resident>,
    /// Whether the place outlives the process: its records are kept in the environment's folder. It does not change while
    /// the place lives.
    pub durable: bool,
}

/// What happens to an instance behind our back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DriftKind {
    /// Somebody changes a field.
    Changed,
    /// It stops.
    Stopped,
    /// It is gone.
    Vanished,
    /// It loses our mark.
    Unmarked,
}

/// How a dead place looks from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outage {
    /// Connections are refused.
    Refuses,
    /// Connections are taken and nothing is ever answered.
    Silent,
}

impl Default for Program {
    fn default() -> Program {
        Program {
            seed: 0,
            latency_ms: 0,
            latency_max_ms: None,
            timeout_ms: 30_000,
            start_ms: 0,
            ready_ms: 0,
            stop_ms: 0,
            busy_ms: 0,
            unreachable_rate: 0.0,
            lost_request_rate: 0.0,
            late_request_rate: 0.0,
            late_request_ms: 0,
            failure_rate: 0.0,
            half_done_rate: 0.0,
            failure_after_rate: 0.0,
            lost_response_rate: 0.0,
            garbled_rate: 0.0,
            requests_per_second: None,
            capacity: None,
            stock_out: BTreeSet::new(),
            hourly_price: None,
            gpu_hourly_prices: BTreeMap::new(),
            listed_after_ms: 0,
            delisted_after_ms: 0,
            settle_seconds: 0,
            partial_rate: 0.0,
            unreadable_rate: 0.0,
            unreadable_config_rate: 0.0,
            drift_every_ms: None,
            drift: BTreeSet::from([DriftKind::Changed, DriftKind::Stopped, DriftKind::Vanished]),
            creates_before_delete: true,
            down: None,
            existing: Vec::new(),
            durable: false,
        }
    }
}

impl Program {
    /// Reads an Environment's config. `target` is what an error names.
    pub fn read(target: &str, config: &serde_json::Map<String, serde_json::Value>) -> Result<Program, Error> {
        let program: Program = read_fields(target, config)?;
        program.check(target)?;
        Ok(program)
    }

    /// The first knob that makes no sense.
    pub fn check(&self, target: &str) -> Result<(), Error> {
        let wrong = |field: &str, message: String| Err(Error::field(target, &format!("spec.config.{field}"), message));
        let rates = self.rates();
        if let Some((name, rate)) = rates.iter().find(|(_, rate)| !(0.0..=1.0).contains(rate)) {
            return wrong(name, format!("{rate} is no share: it must be between 0 and 1"));
        }
        let fates: f64 = rates.iter().filter(|(name, _)| !LOOKS.contains(name)).map(|(_, rate)| rate).sum();
        if fates > 1.0 {
            return wrong("failureRate", "the shares of requests that go wrong are more than 1 together".to_owned());
        }
        if let Some((name, _)) = self.times().into_iter().find(|(_, time)| *time > MAX_MS) {
            return wrong(name, format!("must be at most {MAX_MS}, which is a day"));
        }
        if let Some((at, problem)) = Resident::problem(&self.existing) {
            return wrong(&format!("existing[{at}]"), problem);
        }
        match self {
            Program { timeout_ms: 0, .. } => wrong("timeoutMs", "must be at least 1".to_owned()),
            Program { drift_every_ms: Some(0), .. } => wrong("driftEveryMs", "must be at least 1".to_owned()),
            Program { requests_per_second: Some(0), .. } => wrong("requestsPerSecond", "must be at least 1".to_owned()),
            Program { latency_max_ms: Some(most), latency_ms: least, .. } if most < least => {
                wrong("latencyMaxMs", format!("must be at least latencyMs, which is {least}"))
            }
            Program { capacity: Some(capacity), .. } if *capacity > MAX_CAPACITY => {
                wrong("capacity", format!("must be at most {MAX_CAPACITY}"))
            }
            _ if self.late_ms() > u64::from(self.settle_seconds) * 1000 => wrong(
                "settleSeconds",
                format!("must cover lateRequestMs and listedAfterMs, which are {} ms together", self.late_ms()),
            ),
            _ => Ok(()),
        }
    }

    /// How long after it was sent a request's effect may begin to show.
    fn late_ms(&self) -> u64 {
        let late_request_ms = if self.late_request_rate > 0.0 { self.late_request_ms } else { 0 };
        late_request_ms.saturating_add(self.listed_after_ms)
    }

    fn rates(&self) -> [(&'static str, f64); 11] {
        [
            ("unreachableRate", self.unreachable_rate),
            ("lostRequestRate", self.lost_request_rate),
            ("lateRequestRate", self.late_request_rate),
            ("failureRate", self.failure_rate),
            ("halfDoneRate", self.half_done_rate),
            ("failureAfterRate", self.failure_after_rate),
            ("lostResponseRate", self.lost_response_rate),
            ("garbledRate", self.garbled_rate),
            ("partialRate", self.partial_rate),
            ("unreadableRate", self.unreadable_rate),
            ("unreadableConfigRate", self.unreadable_config_rate),
        ]
    }

    fn times(&self) -> [(&'static str, u64); 11] {
        [
            ("latencyMs", self.latency_ms),
            ("latencyMaxMs", self.latency_max_ms.unwrap_or_default()),
            ("timeoutMs", self.timeout_ms),
            ("startMs", self.start_ms),
            ("readyMs", self.ready_ms),
            ("stopMs", self.stop_ms),
            ("busyMs", self.busy_ms),
            ("lateRequestMs", self.late_request_ms),
            ("listedAfterMs", self.listed_after_ms),
            ("delistedAfterMs", self.delisted_after_ms),
            ("driftEveryMs", self.drift_every_ms.unwrap_or(1)),
        ]
    }

    /// What there is to be had.
    pub(super) fn offer(&self) -> Offer {
        let instance = self.hourly_price.map(|hourly| ("instance", hourly));
        let gpus = self.gpu_hourly_prices.iter().map(|(kind, hourly)| (kind.as_str(), *hourly));
        let available = |item: &str| (self.stock_out.contains(item) || self.stock_out.contains("*")).then_some(0);
        let price =
            |(item, hourly): (&str, Price)| ItemPrice { item: item.to_owned(), hourly, available: available(item) };
        Offer {
            capacity: self.capacity.map(|count| ("instances".to_owned(), count.to_string())).into_iter().collect(),
            prices: instance.into_iter().chain(gpus).map(price).collect(),
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// The rates that are about what is seen, not about what becomes of a request.
const LOOKS: [&str; 3] = ["partialRate", "unreadableRate", "unreadableConfigRate"];

/// One field at a time, so that an error can name the one that is wrong.
fn read_fields(target: &str, config: &serde_json::Map<String, serde_json::Value>) -> Result<Program, Error> {
    for (name, value) in config {
        let alone = serde_json::Map::from_iter([(name.clone(), value.clone())]);
        if let Err(error) = serde_json::from_value::<Program>(alone.into()) {
            return Err(Error::field(target, &format!("spec.config.{name}"), error.to_string()));
        }
    }
    serde_json::from_value(config.clone().into())
        .map_err(|error| Error::field(target, "spec.config", error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_knob_is_named() {
        let rows = [
            ("a rate that is no share", json!({ "failureRate": 1.5 }), "spec.config.failureRate: 1.5 is no share"),
            ("a rate that is no number", json!({ "failureRate": "often" }), "spec.config.failureRate: invalid type"),
            ("a knob that there is not", json!({ "latency": 3 }), "spec.config.latency: unknown field `latency`"),
            ("a negative time", json!({ "latencyMs": -1 }), "spec.config.latencyMs: invalid value"),
            ("more failures than requests", json!({ "failureRate": 0.6, "garbledRate": 0.6 }), "more than 1 together"),
            ("a price that is none", json!({ "hourlyPrice": "cheap" }), "spec.config.hourlyPrice: must be an hourly"),
            ("listings later than promised", json!({ "listedAfterMs": 2000 }), "spec.config.settleSeconds: must cover"),
            (
                "a drift that there is not",
                json!({ "drift": ["melted"] }),
                "spec.config.drift: unknown variant `melted`",
            ),
            ("a week of latency", json!({ "latencyMs": 604_800_000 }), "spec.config.latencyMs: must be at most"),
            ("latency the wrong way round", json!({ "latencyMs": 9, "latencyMaxMs": 3 }), "spec.config.latencyMaxMs"),
            ("no time to answer", json!({ "timeoutMs": 0 }), "spec.config.timeoutMs: must be at least 1"),
        ];
        for (row, config, message) in rows {
            let error = Program::read("environment lab", config.as_object().unwrap()).expect_err(row).to_string();
            assert!(error.starts_with("environment lab: ") && error.contains(message), "{row}: {error}");
        }
    }

    #[test]
    fn a_whole_program_is_read() {
        let config = json!({
            "seed": 7, "latencyMs": 20, "latencyMaxMs": 80, "failureRate": 0.01, "capacity": 500, "stockOut": ["H100"],
            "hourlyPrice": "0.10", "gpuHourlyPrices": { "A100": "1.89" }, "listedAfterMs": 1500, "settleSeconds": 5,
            "driftEveryMs": 60000, "drift": ["changed", "unmarked"], "down": "silent"
        });
        let program = Program::read("environment lab", config.as_object().unwrap()).unwrap();
        assert_eq!(program.down, Some(Outage::Silent));
        assert_eq!(program.drift, BTreeSet::from([DriftKind::Changed, DriftKind::Unmarked]));
        assert_eq!(program.hourly_price, Some(Price::from_micros(100_000)));
        assert_eq!(Program::read("lab", &serde_json::Map::new()), Ok(Program::default()));
    }
}
