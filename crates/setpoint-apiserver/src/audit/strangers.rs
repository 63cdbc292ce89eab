//! How much is written down of what anybody can cause, so that nobody can push out what is known of others.

use std::time::Instant;

/// What can be written of strangers at once: more than a thousand lines.
const MOST_BYTES: f64 = (1 << 20) as f64;
/// What is earned again: some 20 MiB in a day, of the 500 that are kept by default.
const BYTES_PER_SECOND: f64 = 256.0;

/// The bytes that may still be written, which come back with time.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: f64,
    most: f64,
    per_second: f64,
    at: Instant,
}

impl Budget {
    pub(super) fn new(most: f64, per_second: f64, now: Instant) -> Budget {
        Budget { bytes: most, most, per_second, at: now }
    }

    /// For those whom nobody knows.
    pub(super) fn of_strangers(now: Instant) -> Budget {
        Budget::new(MOST_BYTES, BYTES_PER_SECOND, now)
    }

    /// Spends what a line takes; false if that is more than there is.
    pub(super) fn spend(&mut self, bytes: usize, now: Instant) -> bool {
        self.bytes = self.left(now);
        self.at = now;
        let cost = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
        let enough = cost <= self.bytes;
        if enough {
            self.bytes -= cost;
        }
        enough
    }

    /// Whether all that was spent has come back.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        self.left(now) >= self.most
    }

    fn left(&self, now: Instant) -> f64 {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        (self.bytes + earned).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_is_written_down_at_first_and_then_little_of_it() {
        const LINE: usize = 1024;
        const DAY_S: u64 = 24 * 60 * 60;
        let start = Instant::now();
        let mut budget = Budget::of_strangers(start);
        let mut written_in = |from_s: u64, to_s: u64| -> usize {
            let times = (from_s..to_s).flat_map(|second| [second; 20]);
            times.filter(|second| budget.spend(LINE, start + Duration::from_secs(*second))).count()
        };
        let first = written_in(0, 60);
        assert!((1024..1050).contains(&first), "the beginning is evidence: {first}");
        let day = written_in(60, DAY_S) * LINE;
        assert!((20 << 20..25 << 20).contains(&day), "a day of it: {day}");
        assert_eq!(written_in(2 * DAY_S, 2 * DAY_S + 1), 20, "who stops is heard again");
    }
}
