//! Measured durations and their percentiles.

use std::time::Duration;

/// Durations in ascending order, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<u64>);

impl Latencies {
    pub(crate) fn new(mut nanoseconds: Vec<u64>) -> Self {
        nanoseconds.sort_unstable();
        Self(nanoseconds)
    }

    /// The smallest duration that at least this share of all does not exceed, in milliseconds.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return f64::NAN };
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0[rank.saturating_sub(1).min(last)] as f64 / 1e6
    }
}

impl FromIterator<Duration> for Latencies {
    fn from_iter<I: IntoIterator<Item = Duration>>(durations: I) -> Self {
        Self::new(durations.into_iter().map(|duration| duration.as_nanos() as u64).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_measured_value() {
        let latencies: Latencies = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(latencies.quantile_ms(0.5), 50.0);
        assert_eq!(latencies.quantile_ms(0.99), 99.0);
        assert_eq!(latencies.quantile_ms(1.0), 100.0);
        assert!(Latencies::default().quantile_ms(0.5).is_nan());
    }
}
