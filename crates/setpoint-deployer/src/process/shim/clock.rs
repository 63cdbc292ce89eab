//! The time as a shim counts it: the time of day, but never going back.
//!
//! Deadlines are times of day, since they are told to others. A clock that is set back must not move them away.

use std::time::{Duration, Instant};

use jiff::Timestamp;

#[derive(Debug)]
pub(super) struct Clock {
    last: Timestamp,
    read_at: Instant,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock { last: Timestamp::now(), read_at: Instant::now() }
    }

    pub(super) fn now(&mut self) -> Timestamp {
        self.read(Timestamp::now(), Instant::now())
    }

    /// What the machine's clock calls `at`, on this one.
    pub(super) fn translate(&mut self, at: Timestamp) -> Timestamp {
        let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        self.now() + left
    }

    /// How long it is until then.
    pub(super) fn until(&mut self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.now())).unwrap_or_default()
    }

    fn read(&mut self, time_of_day: Timestamp, at: Instant) -> Timestamp {
        self.last = time_of_day.max(self.last + at.saturating_duration_since(self.read_at));
        self.read_at = at;
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_goes_on() {
        let (noon, start) = (Timestamp::UNIX_EPOCH + Duration::from_secs(3600), Instant::now());
        let mut clock = Clock { last: noon, read_at: start };
        let rows = [
            ("time passes", 3610, 10, 3610),
            ("set back", 20, 20, 3620),
            ("time passes then", 30, 30, 3630),
            ("set forward", 9000, 40, 9000),
        ];
        for (what, time_of_day, passed, told) in rows {
            let time_of_day = Timestamp::UNIX_EPOCH + Duration::from_secs(time_of_day);
            let now = clock.read(time_of_day, start + Duration::from_secs(passed));
            assert_eq!(now, Timestamp::UNIX_EPOCH + Duration::from_secs(told), "{what}");
        }
    }
}
