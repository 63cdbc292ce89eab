//! Retries add at most 20 % to what a group is sent, so that a group in trouble is not buried under them.
//!
//! Each first attempt earns a fifth of a retry. An attempt that never reached an endpoint (its connection was refused) costs
//! nothing: the endpoints got no additional request. What is saved up is bounded, so a quiet hour does not pay for a storm.

use std::sync::atomic::{AtomicU32, Ordering};

/// What one request earns, and what one retry costs.
const EARNED: u32 = 1;
const COST: u32 = 5;
/// The most retries that are saved up.
const SAVED: u32 = 100;

/// The budget of one group, shared by all threads.
#[derive(Debug, Default)]
pub struct RetryBudget(AtomicU32);

impl RetryBudget {
    /// A request was sent for the first time.
    pub fn earn(&self) {
        // Most of the time the budget is full, and then nothing is written.
        if self.0.load(Ordering::Relaxed) < SAVED * COST {
            let more = |saved: u32| (saved < SAVED * COST).then_some(saved + EARNED);
            let _full = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        }
    }

    /// Whether a retry may be sent; it is paid for then.
    pub fn spend(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| saved.checked_sub(COST)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn five_requests_pay_for_a_retry() {
        let budget = RetryBudget::default();
        assert!(!budget.spend(), "nothing is saved up at first");
        (0..4).for_each(|_| budget.earn());
        assert!(!budget.spend());
        budget.earn();
        assert!(budget.spend());
        assert!(!budget.spend());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn retries_never_exceed_a_fifth(calls in proptest::collection::vec(any::<bool>(), 0..800)) {
            let budget = RetryBudget::default();
            let (mut requests, mut retries) = (0_u32, 0_u32);
            let mut window = std::collections::VecDeque::new();
            for is_request in calls {
                let retried = !is_request && budget.spend();
                if is_request {
                    budget.earn();
                    requests += 1;
                }
                retries += u32::from(retried);
                prop_assert!(retries * 5 <= requests);
                // In any stretch, what was saved before is all that comes on top.
                window.push_back((is_request, retried));
                if window.len() > 200 {
                    window.pop_front();
                }
                let sent = window.iter().filter(|(is_request, _)| *is_request).count();
                let again = window.iter().filter(|(_, retried)| *retried).count();
                prop_assert!(again <= sent / 5 + SAVED as usize + 1);
            }
        }
    }
}
