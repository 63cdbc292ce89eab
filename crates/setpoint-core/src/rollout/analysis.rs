//! Whether a new revision serves well enough: its success rate and latency, by themselves and beside the serving revision.
//!
//! Too few requests say nothing, neither good nor bad: that is an answer of its own. All arithmetic is in whole numbers.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use setpoint_api::app::{Analysis, LatencyBound};
use setpoint_api::traffic_split::ALL_BPS;

/// What the proxy counted of one revision since a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Since when it was counted: the moment the split that stood then took effect.
    pub since: Timestamp,
    pub requests: u64,
    pub failures: u64,
    /// How many requests took at most so long, each counted once, in ascending order.
    pub latency: Vec<LatencyBucket>,
}

/// Requests that took longer than the bucket before, and at most so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LatencyBucket {
    pub up_to_ms: u64,
    pub count: u64,
}

/// The answer of an analysis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Good, for long enough.
    Pass,
    /// Bad.
    Fail(String),
    /// Measured for long enough, and too little to say anything.
    Inconclusive(String),
    /// Not measured for long enough.
    Pending { until: Timestamp },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Pass => f.write_str("passes"),
            Verdict::Fail(reason) => write!(f, "fails: {reason}"),
            Verdict::Inconclusive(reason) => write!(f, "is inconclusive: {reason}"),
            Verdict::Pending { until } => write!(f, "goes on until {until}"),
        }
    }
}

impl Sample {
    /// The latency that so many thousandths of the requests do not exceed; `None` where nothing was measured.
    pub fn quantile(&self, permille: u32) -> Option<u64> {
        let total: u128 = self.latency.iter().map(|bucket| u128::from(bucket.count)).sum();
        let rank = (total * u128::from(permille)).div_ceil(1_000).max(1);
        let mut seen = 0;
        self.latency.iter().find_map(|bucket| {
            seen += u128::from(bucket.count);
            (bucket.count > 0 && seen >= rank).then_some(bucket.up_to_ms)
        })
    }

    /// How many requests in ten thousand succeeded.
    pub fn success_bps(&self) -> u32 {
        let succeeded = u128::from(self.requests.saturating_sub(self.failures)) * u128::from(ALL_BPS);
        succeeded.checked_div(self.requests.into()).map_or(ALL_BPS, |bps| u32::try_from(bps).unwrap_or(ALL_BPS))
    }
}

/// Judges `new` by itself and beside `serving`, by samples of the split that stands, in an analysis that began at `since`.
pub fn judge(
    analysis: &Analysis,
    new: Option<&Sample>,
    serving: Option<&Sample>,
    since: Timestamp,
    now: Timestamp,
) -> Verdict {
    let enough = |sample: &&Sample| sample.requests >= analysis.min_requests;
    let sample = new.filter(enough);
    let serving = serving.filter(enough);
    if let Some(reason) = sample.and_then(|sample| fault(analysis, sample, serving)) {
        return Verdict::Fail(reason);
    }
    let until = since.checked_add(SignedDuration::from_secs(analysis.seconds.into())).unwrap_or(Timestamp::MAX);
    if now < until {
        return Verdict::Pending { until };
    }
    let compares = analysis.max_success_drop_bps.is_some()
        || analysis.latency.as_ref().is_some_and(|bound| bound.max_increase_percent.is_some());
    let few = |whose: &str| format!("fewer than {} requests of the {whose} revision", analysis.min_requests);
    match (sample, serving) {
        (None, _) => Verdict::Inconclusive(few("new")),
        (Some(_), None) if compares => Verdict::Inconclusive(few("serving")),
        (Some(_), _) => Verdict::Pass,
    }
}

/// The first bound that is broken, in words.
fn fault(analysis: &Analysis, new: &Sample, serving: Option<&Sample>) -> Option<String> {
    let success = new.success_bps();
    if let Some(least) = analysis.min_success_bps.filter(|least| success < *least) {
        return Some(format!("{} of requests succeed, below {}", percent(success), percent(least)));
    }
    if let (Some(drop), Some(serving)) = (analysis.max_success_drop_bps, serving) {
        let beside = serving.success_bps();
        if success.saturating_add(drop) < beside {
            return Some(format!(
                "{} of requests succeed, more than {} below the {} of the serving revision",
                percent(success),
                percent(drop),
                percent(beside)
            ));
        }
    }
    analysis.latency.as_ref().and_then(|bound| slow(bound, new, serving))
}

fn slow(bound: &LatencyBound, new: &Sample, serving: Option<&Sample>) -> Option<String> {
    let latency = new.quantile(bound.quantile_permille)?;
    let name = format!("p{}", decimal(bound.quantile_permille, 10));
    if let Some(most) = bound.max_ms.filter(|most| latency > *most) {
        return Some(format!("{name} is {latency} ms, above {most} ms"));
    }
    let increase = bound.max_increase_percent?;
    let beside = serving?.quantile(bound.quantile_permille)?;
    let most = u128::from(beside) * (100 + u128::from(increase));
    (u128::from(latency) * 100 > most).then(|| {
        format!("{name} is {latency} ms, more than {increase} % above the {beside} ms of the serving revision")
    })
}

fn percent(bps: u32) -> String {
    format!("{} %", decimal(bps, 100))
}

/// A number of parts as a decimal without needless zeros: 9950 of 100 is `99.5`, 990 of 10 is `99`.
fn decimal(value: u32, parts: u32) -> String {
    let digits = parts.ilog10() as usize;
    let text = format!("{}.{:0digits$}", value / parts, value % parts);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
