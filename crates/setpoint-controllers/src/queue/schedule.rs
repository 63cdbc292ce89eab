//! When each key is worked on: what is known of every key that is not idle. Time comes in, and nothing else decides.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use setpoint_deployer::Retry;
use tokio::time::Instant;

use super::lanes::{Lane, LaneOf, Lanes, Room};
use super::{Key, Outcome};

/// When what failed once comes again; it doubles with every failure in a row.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// No key waits longer for its next turn. An object may say any length of time, and a time has an end.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// A key that is not here is idle. Keys are in order wherever order shows.
#[derive(Debug)]
pub(super) struct Schedule<K> {
    window: Duration,
    jitter: StdRng,
    entries: BTreeMap<K, Entry>,
    /// What is ready, and how much of each lane is being worked on.
    lanes: Lanes<K>,
    turns: u64,
    /// What becomes ready at a time.
    timers: BTreeSet<(Instant, K)>,
    /// What was done with within its window, until that is over; then it is idle.
    resting: BTreeSet<(Instant, K)>,
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    /// When work on it last began.
    started: Option<Instant>,
    /// Failures in a row.
    failures: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Ready {
        turn: u64,
        added: Instant,
        lane: Lane,
    },
    /// Comes at a time: because it was added within its window, or by its last outcome.
    Timed {
        due: Instant,
        added: Option<Instant>,
    },
    /// Perhaps added again meanwhile.
    Working {
        again: Option<Instant>,
        lane: Lane,
    },
    Resting {
        until: Instant,
    },
}

/// A key to work on now, and how long it has waited.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken<K> {
    pub key: K,
    pub waited: Duration,
}

impl<K: Key> Schedule<K> {
    pub(super) fn new(window: Duration, seed: u64, room: Room, lane_of: LaneOf<K>) -> Schedule<K> {
        Schedule {
            window,
            jitter: StdRng::seed_from_u64(seed),
            entries: BTreeMap::new(),
            lanes: Lanes::new(room, lane_of),
            turns: 0,
            timers: BTreeSet::new(),
            resting: BTreeSet::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.lanes.clear();
        self.timers.clear();
        self.resting.clear();
    }

    /// Has a key worked on: at once if it was idle, at the end of its window if work on it began within that.
    pub(super) fn add(&mut self, key: K, now: Instant) {
        match self.entries.get_mut(&key).map(|entry| &mut entry.phase) {
            None => self.make_ready(key, now, None, 0),
            Some(Phase::Ready { .. } | Phase::Timed { added: Some(_), .. }) => {}
            Some(Phase::Timed { due, added: None }) => {
                self.timers.remove(&(*due, key.clone()));
                self.come_after_window(key, now, now);
            }
            Some(Phase::Resting { until }) => {
                self.resting.remove(&(*until, key.clone()));
                self.come_after_window(key, now, now);
            }
            Some(Phase::Working { again, .. }) => {
                again.get_or_insert(now);
            }
        }
    }

    /// The keys that are ready, in the order in which they became so.
    pub(super) fn ready(&mut self, now: Instant) -> impl Iterator<Item = &K> {
        self.pass_time(now);
        self.lanes.in_order()
    }

    /// Whether nothing is known of any key.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.entries.is_empty() && self.lanes.is_empty()
    }

    pub(super) fn depth(&self) -> usize {
        self.lanes.depth()
    }

    /// In how many lanes ready keys wait for others of their lane.
    pub(super) fn full_lanes(&self) -> usize {
        self.lanes.full()
    }

    /// When the next key becomes ready by itself.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Takes the next key of a lane that has room.
    pub(super) fn take_first(&mut self, now: Instant) -> Option<Taken<K>> {
        self.pass_time(now);
        let key = self.lanes.first()?.clone();
        self.take(&key, now)
    }

    /// Takes a key to work on, whether or not it was added, and whether or not its lane has room. `None` if it is being
    /// worked on.
    pub(super) fn take(&mut self, key: &K, now: Instant) -> Option<Taken<K>> {
        let mut waited = Duration::ZERO;
        let lane = match self.entries.get(key).map(|entry| entry.phase.clone()) {
            Some(Phase::Working { .. }) => return None,
            Some(Phase::Ready { turn, added, lane }) => {
                self.lanes.begin_ready(&lane, turn);
                waited = now.duration_since(added);
                lane
            }
            Some(Phase::Timed { due, .. }) => {
                self.timers.remove(&(due, key.clone()));
                self.lanes.begin(key)
            }
            Some(Phase::Resting { until }) => {
                self.resting.remove(&(until, key.clone()));
                self.lanes.begin(key)
            }
            None => self.lanes.begin(key),
        };
        let failures = self.entries.get(key).map(|entry| entry.failures).unwrap_or_default();
        let phase = Phase::Working { again: None, lane };
        self.entries.insert(key.clone(), Entry { phase, started: Some(now), failures });
        Some(Taken { key: key.clone(), waited })
    }

    /// Notes that the work on a key that was taken begins only now: what was added until now is part of it.
    pub(super) fn begin(&mut self, key: &K, now: Instant) {
        if let Some(Entry { phase: Phase::Working { again, .. }, started, .. }) = self.entries.get_mut(key) {
            (*again, *started) = (None, Some(now));
        }
    }

    /// Notes what came of the work on a key that was taken.
    pub(super) fn finish(&mut self, key: K, outcome: Outcome, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let Phase::Working { again, lane } = entry.phase.clone() else { return };
        self.lanes.end(&lane);
        entry.failures = if matches!(outcome, Outcome::Failed(_)) { entry.failures.saturating_add(1) } else { 0 };
        let after = match outcome {
            Outcome::Done | Outcome::Failed(Retry::Never) => None,
            Outcome::Until(after) | Outcome::Failed(Retry::After(after)) => Some(after),
            Outcome::Failed(Retry::BackOff) => {
                // Up to a tenth more, so that what failed together does not come again together.
                Some(back_off(entry.failures).mul_f64(self.jitter.random_range(1.0..1.1)))
            }
        };
        let until = entry.started.map_or(now, |started| started + self.window);
        match (again, after) {
            (Some(added), _) => self.come_after_window(key, added, now),
            (None, Some(after)) => {
                let due = now + after.min(LONGEST_WAIT);
                entry.phase = Phase::Timed { due, added: None };
                self.timers.insert((due, key));
            }
            (None, None) if until > now => {
                entry.phase = Phase::Resting { until };
                self.resting.insert((until, key));
            }
            (None, None) => drop(self.entries.remove(&key)),
        }
    }

    /// Has a key become ready that was added at `added`, but not within the window of the work on it that began last.
    fn come_after_window(&mut self, key: K, added: Instant, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let due = entry.started.map_or(now, |started| started + self.window);
        if due > now {
            entry.phase = Phase::Timed { due, added: Some(added) };
            self.timers.insert((due, key));
        } else {
            let (started, failures) = (entry.started, entry.failures);
            self.make_ready(key, added, started, failures);
        }
    }

    fn make_ready(&mut self, key: K, added: Instant, started: Option<Instant>, failures: u32) {
        let turn = self.turns;
        self.turns += 1;
        let lane = self.lanes.add(turn, key.clone());
        self.entries.insert(key, Entry { phase: Phase::Ready { turn, added, lane }, started, failures });
    }

    fn pass_time(&mut self, now: Instant) {
        while self.resting.first().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, key)) = self.resting.pop_first() {
                self.entries.remove(&key);
            }
        }
        while self.timers.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((due, key)) = self.timers.pop_first()
                && let Some(Entry { phase, started, failures }) = self.entries.remove(&key)
            {
                let added = if let Phase::Timed { added: Some(added), .. } = phase { added } else { due };
                self.make_ready(key, added, started, failures);
            }
        }
    }
}

fn back_off(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LAST_RETRY)
}
