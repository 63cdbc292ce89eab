//! How much is written down of refusals, which anybody who is known can cause at any rate. Each caller has a budget, so
//! nobody who is refused without end keeps the refusals of others from being written.

use std::collections::HashMap;
use std::time::Instant;

use crate::audit::strangers::Budget;

/// What can be written of one caller at once: some five hundred lines.
const BYTES: f64 = (256 << 10) as f64;
/// What is earned again: some 60 MiB in a year, which is less than what is kept of refusals by default.
const BYTES_PER_SECOND: f64 = 2.0;
/// How many callers have a budget of their own. More of them share one.
const CALLERS: usize = 1024;

/// What may still be written of each caller.
#[derive(Debug)]
pub(super) struct Budgets {
    /// Those of whom something was written lately.
    callers: HashMap<Box<str>, Budget>,
    others: Budget,
}

impl Budgets {
    pub(super) fn new(now: Instant) -> Budgets {
        Budgets { callers: HashMap::new(), others: full(now) }
    }

    /// Spends what a line about a caller takes; false if that is more than there is.
    pub(super) fn spend(&mut self, caller: &str, bytes: usize, now: Instant) -> bool {
        if let Some(budget) = self.callers.get_mut(caller) {
            return budget.spend(bytes, now);
        }
        if self.callers.len() >= CALLERS {
            self.callers.retain(|_, budget| !budget.is_full(now));
        }
        if self.callers.len() >= CALLERS {
            return self.others.spend(bytes, now);
        }
        self.callers.entry(caller.into()).or_insert_with(|| full(now)).spend(bytes, now)
    }
}

fn full(now: Instant) -> Budget {
    Budget::new(BYTES, BYTES_PER_SECOND, now)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LINE: usize = 512;

    #[test]
    fn who_is_refused_without_end_silences_nobody_else() {
        let now = Instant::now();
        let mut budgets = Budgets::new(now);
        let written = (0..100_000).filter(|_| budgets.spend("mallory", LINE, now)).count();
        assert_eq!(written, 512, "the beginning is evidence");
        assert!(budgets.spend("alice", LINE, now), "a refusal of somebody else is written");
        assert!(!budgets.spend("mallory", LINE, now));
        assert!(budgets.spend("mallory", LINE, now + Duration::from_secs(LINE as u64 / 2)), "who stops is heard again");
    }

    #[test]
    fn of_callers_without_number_a_bounded_number_is_remembered() {
        let start = Instant::now();
        let mut budgets = Budgets::new(start);
        let written = (0..100_000).filter(|number| budgets.spend(&format!("m{number}"), LINE, start)).count();
        assert_eq!((written, budgets.callers.len()), (CALLERS + 512, CALLERS), "those beyond share one budget");
        assert!(budgets.spend("m0", LINE, start), "who has a budget keeps it");
        let later = start + Duration::from_secs(3600);
        assert!(budgets.spend("alice", LINE, later));
        assert_eq!(budgets.callers.len(), 1, "who has been quiet is forgotten");
    }
}
