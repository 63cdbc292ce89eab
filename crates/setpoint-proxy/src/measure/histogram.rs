//! Latencies counted in fixed buckets, so that counts of threads, proxies and seconds can be added up.

use serde::{Deserialize, Serialize};

/// The upper bounds of the buckets, in microseconds. What is slower is in one more bucket.
pub const BOUNDS_US: [u64; 23] = [
    250, 500, 1_000, 1_500, 2_000, 3_000, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 50_000, 75_000, 100_000,
    200_000, 300_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000,
];

const BUCKETS: usize = BOUNDS_US.len() + 1;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum_us: u64,
}

impl Histogram {
    pub fn record(&mut self, latency_us: u64) {
        self.counts[BOUNDS_US.partition_point(|bound| *bound < latency_us)] += 1;
        self.sum_us = self.sum_us.saturating_add(latency_us);
    }

    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Each bound with how many were not slower.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        BOUNDS_US.into_iter().zip(counts)
    }

    /// The upper bound of the bucket that the quantile falls into; none without any latency, the last bound beyond it.
    pub fn quantile_us(&self, quantile: f64) -> Option<u64> {
        let count = self.count();
        let wanted = ((count as f64 * quantile).ceil() as u64).clamp(1, count.max(1));
        (count > 0).then(|| {
            let found = self.cumulative().find(|(_, below)| *below >= wanted);
            found.map_or(BOUNDS_US[BOUNDS_US.len() - 1], |(bound, _)| bound)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(latencies: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        latencies.iter().for_each(|latency| histogram.record(*latency));
        histogram
    }

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let rows = [
            ("nothing", vec![], 0.5, None),
            ("one", vec![900], 0.99, Some(1_000)),
            ("on a bound", vec![1_000], 0.5, Some(1_000)),
            ("the median of three", vec![100, 1_200, 9_000], 0.5, Some(1_500)),
            ("the slowest of a hundred", [vec![100; 99], vec![70_000]].concat(), 0.99, Some(250)),
            ("beyond the last bound", vec![60_000_000], 0.5, Some(30_000_000)),
        ];
        for (what, latencies, quantile, expected) in rows {
            assert_eq!(of(&latencies).quantile_us(quantile), expected, "{what}");
        }
    }

    proptest! {
        #[test]
        fn counting_apart_and_adding_up_is_counting_together(a: Vec<u32>, b: Vec<u32>) {
            let wide = |values: &[u32]| values.iter().map(|value| u64::from(*value)).collect::<Vec<_>>();
            let mut sum = of(&wide(&a));
            sum.merge(&of(&wide(&b)));
            prop_assert_eq!(sum, of(&wide(&[a, b].concat())));
        }
    }
}
