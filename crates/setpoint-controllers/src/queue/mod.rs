//! Work by key: no key is worked on twice at once, and one that failed comes again, each time later.
//!
//! To add a key that waits already changes nothing; to add one that is being worked on has it worked on once more
//! afterwards. So whoever hears of a change adds its key and has done enough. Changes that come in a burst are one round:
//! a key on which work began a moment ago waits until its window is over, while one that was idle does not wait at all.
//!
//! Work that waits for a place holds up other work for that place at most: keys are in lanes, and each lane has room of its
//! own.
//!
//! A queue is run, or driven by hand: [`Queue::ready`], [`Queue::take`] and [`Queue::finish`] are what running it does.

mod lanes;
mod schedule;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use setpoint_deployer::Retry;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::metrics::Meter;
pub use lanes::{Lane, LaneOf, Room};
use schedule::{Schedule, Taken};

pub trait Key: Clone + Eq + Ord + Hash + fmt::Debug + Send + Sync + 'static {}

impl<K: Clone + Eq + Ord + Hash + fmt::Debug + Send + Sync + 'static> Key for K {}

/// What came of the work on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do until the key is added again.
    Done,
    /// Nothing is left to do for so long.
    Until(Duration),
    Failed(Retry),
}

/// What is done with a key.
pub trait Work<K>: Send + Sync + 'static {
    fn work(&self, key: &K) -> impl Future<Output = Outcome> + Send;

    /// The work on a key ended in a panic, which is a fault of ours and says nothing of other keys.
    fn panicked(&self, key: &K, message: &str) -> impl Future<Output = ()> + Send;
}

#[derive(Debug, Clone)]
pub struct Options {
    /// For how long after work on a key began what changes is gathered into its next round.
    pub window: Duration,
    /// How many keys are worked on at the same time when the queue is run.
    pub room: Room,
    /// What the jitter of retries follows from.
    pub seed: u64,
    pub meter: Meter,
}

impl Options {
    pub const WINDOW: Duration = Duration::from_millis(20);
    pub const ROOM: Room = Room::of(16);
}

impl Default for Options {
    fn default() -> Options {
        let (window, room) = (Options::WINDOW, Options::ROOM);
        Options { window, room, seed: rand::random(), meter: Meter::default() }
    }
}

#[derive(Debug)]
pub struct Queue<K> {
    schedule: Mutex<Schedule<K>>,
    added: Notify,
    closed: AtomicBool,
    meter: Meter,
}

impl<K: Key> Queue<K> {
    /// With all keys in one lane.
    pub fn new(options: Options) -> Queue<K> {
        Queue::in_lanes(options, Box::new(|_| Lane::default()))
    }

    pub fn in_lanes(options: Options, lane_of: LaneOf<K>) -> Queue<K> {
        let schedule = Mutex::new(Schedule::new(options.window, options.seed, options.room, lane_of));
        Queue { schedule, added: Notify::new(), closed: AtomicBool::new(false), meter: options.meter }
    }

    /// Has a key worked on as soon as there is room, or at the end of its window. A closed queue takes none.
    pub fn add(&self, key: K) {
        let mut schedule = self.schedule.lock();
        if self.is_closed() {
            return;
        }
        schedule.add(key, Instant::now());
        self.measure(&schedule);
        drop(schedule);
        self.added.notify_one();
    }

    /// The keys that are ready, in the order in which they became so.
    pub fn ready(&self) -> Vec<K> {
        self.schedule.lock().ready(Instant::now()).cloned().collect()
    }

    /// When the next key becomes ready by itself.
    pub fn next_due(&self) -> Option<Instant> {
        self.schedule.lock().next_due()
    }

    /// Takes a key to work on, whether or not it was added; false if it is being worked on. Whoever took it has to
    /// finish it.
    pub fn take(&self, key: &K) -> bool {
        let mut schedule = self.schedule.lock();
        let taken = schedule.take(key, Instant::now());
        self.measure(&schedule);
        self.began(taken).is_some()
    }

    /// Notes that the work on a key that was taken begins only now: what was added until now is part of it.
    pub fn begin(&self, key: &K) {
        self.schedule.lock().begin(key, Instant::now());
    }

    /// Notes what came of the work on a key that was taken.
    pub fn finish(&self, key: K, outcome: Outcome) {
        if matches!(outcome, Outcome::Failed(Retry::BackOff | Retry::After(_))) {
            self.meter.retries.inc();
        }
        let mut schedule = self.schedule.lock();
        schedule.finish(key, outcome, Instant::now());
        self.measure(&schedule);
        drop(schedule);
        self.added.notify_one();
    }

    /// Takes no more keys, and lets what runs it end once what is being worked on has been finished.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.added.notify_one();
    }

    /// Begins anew, with nothing known of any key. Nobody may be working on one.
    pub fn open(&self) {
        let mut schedule = self.schedule.lock();
        schedule.clear();
        self.closed.store(false, Ordering::Release);
        self.measure(&schedule);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Works on keys until the queue is closed, on no more at the same time than there is room for.
    pub async fn run(self: Arc<Self>, work: Arc<impl Work<K>>) {
        let mut tasks: JoinSet<(K, Outcome)> = JoinSet::new();
        let mut is_open = true;
        while is_open || !tasks.is_empty() {
            tokio::select! {
                biased;
                Some(finished) = tasks.join_next() => {
                    if let Ok((key, outcome)) = finished {
                        self.finish(key, outcome);
                    }
                }
                key = self.next(), if is_open => match key {
                    Some(key) => {
                        let work = work.clone();
                        tasks.spawn(async move {
                            let outcome = guarded(&*work, &key).await;
                            (key, outcome)
                        });
                    }
                    None => is_open = false,
                },
            }
        }
    }

    /// The next key to work on; `None` once the queue is closed. Dropping the answer loses nothing.
    async fn next(&self) -> Option<K> {
        loop {
            if self.is_closed() {
                return None;
            }
            let due = {
                let mut schedule = self.schedule.lock();
                let taken = schedule.take_first(Instant::now());
                self.measure(&schedule);
                if let Some(key) = self.began(taken) {
                    return Some(key);
                }
                schedule.next_due()
            };
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.added.notified() => {}
                () = timer => {}
            }
        }
    }

    fn began(&self, taken: Option<Taken<K>>) -> Option<K> {
        let Taken { key, waited } = taken?;
        self.meter.latency.observe(waited.as_secs_f64());
        Some(key)
    }

    fn measure(&self, schedule: &Schedule<K>) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.meter.depth.set(gauge(schedule.depth()));
        self.meter.full_lanes.set(gauge(schedule.full_lanes()));
    }
}

impl<K: Key> Default for Queue<K> {
    fn default() -> Queue<K> {
        Queue::new(Options::default())
    }
}

/// Does the work on a key; a panic is told, and is a failure of this key alone.
async fn guarded<K: Key>(work: &impl Work<K>, key: &K) -> Outcome {
    match caught(work.work(key)).await {
        Ok(outcome) => outcome,
        Err(message) => {
            // To tell of it must not end everything either.
            let _ = caught(work.panicked(key, &message)).await;
            Outcome::Failed(Retry::BackOff)
        }
    }
}

/// What a future comes to, or the words of its panic.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| words_of_panic(&*panic))
}

pub(crate) fn words_of_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
