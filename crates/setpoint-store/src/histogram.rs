//! Counts how often values of each magnitude occur, cheaply enough for every batch.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// How many values fell between which bounds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// The largest value of each bucket, ascending. The last bucket has no bound.
    pub bounds: &'static [u64],
    /// How many values each bucket holds, without those of the buckets before it; one more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl Histogram {
    /// How many values all buckets hold.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// A histogram that is being made.
#[derive(Debug)]
pub(crate) struct Recorder {
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Recorder {
    pub(crate) fn new(bounds: &'static [u64]) -> Self {
        Self { bounds, counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    pub(crate) fn record(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    pub(crate) fn read(&self) -> Histogram {
        let counts = self.counts.iter().map(|count| count.load(Relaxed)).collect();
        Histogram { bounds: self.bounds, counts, sum: self.sum.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let recorder = Recorder::new(&[1, 10]);
        for value in [0, 1, 2, 10, 11, 1000] {
            recorder.record(value);
        }
        let histogram = recorder.read();
        assert_eq!(histogram, Histogram { bounds: &[1, 10], counts: vec![2, 2, 2], sum: 1024 });
        assert_eq!(histogram.count(), 6);
    }
}
