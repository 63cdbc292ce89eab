//! What is counted of each route and each group: requests by class of status, bytes, latencies; in all, and second by second.

mod histogram;
mod prometheus;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::histogram::{BOUNDS_US, Histogram};
pub use self::prometheus::render;

/// How many seconds are kept one by one.
pub const SECONDS: usize = 60;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// None where the client got no answer.
    pub status: Option<u16>,
    pub latency_us: u64,
    pub request_bytes: u64,
    pub response_bytes: u64,
}

/// Counts that can be added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// Requests by the first digit of their status; at 0 those that got no answer.
    pub by_class: [u64; 6],
    pub request_bytes: u64,
    pub response_bytes: u64,
    pub latency: Histogram,
}

impl Counts {
    pub fn record(&mut self, outcome: &Outcome) {
        let class = outcome.status.map_or(0, |status| usize::from(status / 100)).min(5);
        self.by_class[class] += 1;
        self.request_bytes += outcome.request_bytes;
        self.response_bytes += outcome.response_bytes;
        self.latency.record(outcome.latency_us);
    }

    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.by_class.iter_mut().zip(other.by_class) {
            *count += more;
        }
        self.request_bytes += other.request_bytes;
        self.response_bytes += other.response_bytes;
        self.latency.merge(&other.latency);
    }

    pub fn requests(&self) -> u64 {
        self.by_class.iter().sum()
    }

    /// Requests that the server's side failed: 5xx, or no answer.
    pub fn failures(&self) -> u64 {
        self.by_class[0] + self.by_class[5]
    }
}

/// Counts in all, and for each of the last seconds.
#[derive(Clone, Debug, Default)]
pub struct Measure {
    total: Counts,
    seconds: Vec<Second>,
}

#[derive(Clone, Debug, Default)]
struct Second {
    at_s: u64,
    counts: Counts,
}

impl Measure {
    pub fn record(&mut self, outcome: &Outcome, now_s: u64) {
        self.total.record(outcome);
        if self.seconds.is_empty() {
            self.seconds.resize_with(SECONDS, Second::default);
        }
        let second = &mut self.seconds[now_s as usize % SECONDS];
        if second.at_s != now_s {
            *second = Second { at_s: now_s, counts: Counts::default() };
        }
        second.counts.record(outcome);
    }

    pub fn total(&self) -> &Counts {
        &self.total
    }

    /// Each of the last seconds in which there was something, without the present one, which is not over.
    pub fn last_seconds(&self, now_s: u64) -> impl Iterator<Item = (u64, &Counts)> {
        let first = now_s.saturating_sub(SECONDS as u64 - 1);
        let within = move |second: &&Second| (first..now_s).contains(&second.at_s) && second.counts.requests() > 0;
        self.seconds.iter().filter(within).map(|second| (second.at_s, &second.counts))
    }
}

/// What one proxy has counted of something, added up over its threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Measured {
    pub in_flight: u64,
    pub total: Counts,
    /// By the second, in seconds since 1970.
    pub last_seconds: BTreeMap<u64, Counts>,
}

impl Measured {
    pub fn add(&mut self, measure: &Measure, now_s: u64) {
        self.total.merge(measure.total());
        for (second, counts) in measure.last_seconds(now_s) {
            self.last_seconds.entry(second).or_default().merge(counts);
        }
    }

    /// The last so many seconds together.
    pub fn window(&self, seconds: u64, now_s: u64) -> Counts {
        let mut sum = Counts::default();
        for counts in self.last_seconds.range(now_s.saturating_sub(seconds)..now_s).map(|(_, counts)| counts) {
            sum.merge(counts);
        }
        sum
    }
}

/// Everything that a proxy has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Snapshot {
    pub table_version: u64,
    pub now_s: u64,
    pub routes: BTreeMap<String, Measured>,
    pub groups: BTreeMap<String, Measured>,
    pub connections: u64,
    /// Requests refused before they had a route, by reason.
    pub refused: BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: Option<u16>) -> Outcome {
        Outcome { status, latency_us: 900, request_bytes: 1, response_bytes: 2 }
    }

    #[test]
    fn the_last_seconds_are_kept_one_by_one() {
        let mut measure = Measure::default();
        measure.record(&outcome(Some(200)), 1_000);
        measure.record(&outcome(Some(503)), 1_000);
        measure.record(&outcome(None), 1_001);
        let mut measured = Measured::default();
        measured.add(&measure, 1_002);
        assert_eq!(measured.total.requests(), 3);
        assert_eq!(measured.total.failures(), 2);
        assert_eq!(measured.last_seconds.keys().copied().collect::<Vec<_>>(), [1_000, 1_001]);
        assert_eq!(measured.window(1, 1_002).requests(), 1);
        assert_eq!(measured.window(2, 1_002).requests(), 3);
    }

    #[test]
    fn a_second_that_is_not_over_is_not_told() {
        let mut measure = Measure::default();
        measure.record(&outcome(Some(200)), 1_000);
        assert_eq!(measure.last_seconds(1_000).count(), 0);
        assert_eq!(measure.last_seconds(1_001).count(), 1);
    }

    #[test]
    fn what_is_older_than_a_minute_is_gone() {
        let mut measure = Measure::default();
        measure.record(&outcome(Some(200)), 1_000);
        assert_eq!(measure.last_seconds(1_059).count(), 1);
        assert_eq!(measure.last_seconds(1_060).count(), 0);
        measure.record(&outcome(Some(200)), 1_060);
        assert_eq!(measure.last_seconds(1_061).map(|(at, _)| at).collect::<Vec<_>>(), [1_060]);
        assert_eq!(measure.total().requests(), 2);
    }
}
