//! How long a container that ends again and again is held back.

use std::time::Duration;

use jiff::Timestamp;

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);

/// A run as long as this is no failure to start: counting begins anew.
const LONG_ENOUGH: Duration = Duration::from_secs(600);

/// The waits of one container. The first time it is started again at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BackOff {
    next: Option<Duration>,
}

impl BackOff {
    /// As it is after so many restarts in a row.
    pub(super) fn after(restarts: u32) -> BackOff {
        (0..restarts.min(8)).fold(BackOff::default(), |back_off, _| back_off.doubled())
    }

    /// How long to wait after a run that began and ended so.
    pub(super) fn wait(&mut self, started_at: Option<Timestamp>, finished_at: Timestamp) -> Duration {
        let ran = started_at.and_then(|started_at| Duration::try_from(finished_at.duration_since(started_at)).ok());
        if ran.is_some_and(|ran| ran >= LONG_ENOUGH) {
            *self = BackOff::default();
        }
        let wait = self.next.unwrap_or(Duration::ZERO);
        *self = self.doubled();
        wait
    }

    fn doubled(self) -> BackOff {
        BackOff { next: Some(self.next.map_or(FIRST, |next| (next * 2).min(LONGEST))) }
    }
}

/// A duration as messages show it: `10s`, `2m40s`, `5m0s`.
pub(super) fn shown(duration: Duration) -> String {
    match (duration.as_secs() / 60, duration.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes_and_begin_anew_after_a_long_run() {
        let start = Timestamp::UNIX_EPOCH;
        let mut back_off = BackOff::default();
        let mut wait = |seconds: u64| shown(back_off.wait(Some(start), start + Duration::from_secs(seconds)));
        let waits: Vec<String> = (0..8).map(|_| wait(1)).collect();
        assert_eq!(waits, ["0s", "10s", "20s", "40s", "1m20s", "2m40s", "5m0s", "5m0s"]);
        assert_eq!((wait(599), wait(600), wait(1)), ("5m0s".to_owned(), "0s".to_owned(), "10s".to_owned()));
    }
}
