//! Endpoints that fail are left out for a while: passive health, with a floor below which nobody is left out.
//!
//! An endpoint that fails so many times in a row is ejected, each time for longer. The last usable endpoint of a group is never
//! ejected, nor is more than the group's floor allows: where everything fails, leaving endpoints out helps nobody. Time is an
//! argument.

use crate::table::Ejection;

/// No ejection is longer than so many times the base.
const MAX_FACTOR: u64 = 30;

/// The passive health of one group's endpoints.
#[derive(Clone, Debug)]
pub struct GroupHealth {
    rules: Ejection,
    endpoints: Vec<Health>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Health {
    failures: u32,
    ejections: u64,
    ejected_until_ms: u64,
}

impl GroupHealth {
    pub fn new(rules: Ejection, endpoints: usize) -> Self {
        Self { rules, endpoints: vec![Health::default(); endpoints] }
    }

    /// The health of a changed list of endpoints: each with its place in the list before, where it was in it.
    pub fn for_endpoints(&self, rules: Ejection, places: &[Option<usize>]) -> Self {
        let health = |place: &Option<usize>| place.and_then(|place| self.endpoints.get(place)).copied();
        Self { rules, endpoints: places.iter().map(|place| health(place).unwrap_or_default()).collect() }
    }

    pub fn is_ejected(&self, endpoint: usize, now_ms: u64) -> bool {
        self.endpoints[endpoint].ejected_until_ms > now_ms
    }

    pub fn succeeded(&mut self, endpoint: usize, now_ms: u64) {
        let health = &mut self.endpoints[endpoint];
        health.failures = 0;
        // An answer to a request from before the ejection does not end it.
        if health.ejected_until_ms <= now_ms {
            health.ejections = 0;
        }
    }

    /// Takes down a failure; returns until when the endpoint is ejected, if it is ejected now.
    pub fn failed(&mut self, endpoint: usize, now_ms: u64) -> Option<u64> {
        if self.is_ejected(endpoint, now_ms) {
            return None;
        }
        let may_go = self.may_eject_another(now_ms);
        let health = &mut self.endpoints[endpoint];
        health.failures = health.failures.saturating_add(1);
        if self.rules.failures == 0 || health.failures < self.rules.failures || !may_go {
            return None;
        }
        health.failures = 0;
        health.ejections += 1;
        let length_ms = self.rules.base_ms.saturating_mul(health.ejections.min(MAX_FACTOR));
        health.ejected_until_ms = now_ms.saturating_add(length_ms);
        Some(health.ejected_until_ms)
    }

    fn may_eject_another(&self, now_ms: u64) -> bool {
        let total = self.endpoints.len();
        let left = self.endpoints.iter().filter(|health| health.ejected_until_ms <= now_ms).count();
        let floor = (total * usize::from(self.rules.floor_percent.min(100))).div_ceil(100).max(1);
        left > floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: Ejection = Ejection { failures: 3, base_ms: 1_000, floor_percent: 50 };

    fn fail(health: &mut GroupHealth, endpoint: usize, times: u32, now_ms: u64) -> Option<u64> {
        (0..times).fold(None, |_, _| health.failed(endpoint, now_ms))
    }

    #[test]
    fn an_endpoint_that_fails_in_a_row_is_left_out() {
        let mut health = GroupHealth::new(RULES, 4);
        assert_eq!(fail(&mut health, 0, 2, 0), None, "two failures are not enough");
        health.succeeded(0, 0);
        assert_eq!(fail(&mut health, 0, 2, 0), None, "a success begins anew");
        assert_eq!(health.failed(0, 0), Some(1_000), "the third in a row ejects");
        assert!(health.is_ejected(0, 999));
        assert!(!health.is_ejected(0, 1_000), "it comes back");
        assert_eq!(fail(&mut health, 0, 3, 1_000), Some(3_000), "the second time is longer");
        health.succeeded(0, 3_000);
        assert_eq!(fail(&mut health, 0, 3, 3_000), Some(4_000), "after a success it is short again");
    }

    #[test]
    fn the_floor_stays() {
        let mut health = GroupHealth::new(RULES, 4);
        assert!(fail(&mut health, 0, 3, 0).is_some());
        assert!(fail(&mut health, 1, 3, 0).is_some());
        assert_eq!(fail(&mut health, 2, 9, 0), None, "half of four stays");
        let mut single = GroupHealth::new(RULES, 1);
        assert_eq!(fail(&mut single, 0, 99, 0), None, "the only one stays");
        let mut never = GroupHealth::new(Ejection { failures: 0, ..RULES }, 4);
        assert_eq!(fail(&mut never, 0, 99, 0), None, "zero never ejects");
    }

    proptest! {
        #[test]
        fn somebody_is_always_left(
            count in 1..8_usize,
            floor in 0..=100_u8,
            calls in proptest::collection::vec((any::<usize>(), any::<bool>(), 0..400_u64), 0..200),
        ) {
            let mut health = GroupHealth::new(Ejection { failures: 2, base_ms: 1_000, floor_percent: floor }, count);
            let mut now = 0;
            for (endpoint, is_failure, later) in calls {
                now += later;
                if is_failure {
                    health.failed(endpoint % count, now);
                } else {
                    health.succeeded(endpoint % count, now);
                }
                let left = (0..count).filter(|endpoint| !health.is_ejected(*endpoint, now)).count();
                prop_assert!(left >= 1);
                prop_assert!(left * 100 >= count * usize::from(floor) || left == count);
            }
        }
    }
}
