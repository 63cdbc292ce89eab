//! Work by key: no key is worked on twice at once, and one that failed comes again, each time later.
//!
//! To add a key that waits already changes nothing; to add one that is being worked on has it worked on once more
//! afterwards. So whoever hears of a change adds its key and has done enough.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use rand::Rng;
use setpoint_deployer::Retry;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// When what failed once comes again; it doubles with every failure in a row.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(60);

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

#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<State<K>>,
    added: Notify,
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    /// What is in `ready`.
    waiting: HashSet<K>,
    working: HashSet<K>,
    /// What was added while it was worked on.
    again: HashSet<K>,
    /// What becomes ready at a time, each key once.
    timers: BTreeSet<(Instant, K)>,
    due: HashMap<K, Instant>,
    /// Failures in a row.
    failures: HashMap<K, u32>,
}

impl<K: Key> Queue<K> {
    pub fn new() -> Queue<K> {
        Queue { state: Mutex::new(State::default()), added: Notify::new() }
    }

    /// Has a key worked on as soon as there is room.
    pub fn add(&self, key: K) {
        self.state.lock().add(key);
        self.added.notify_one();
    }

    /// Works on keys for ever, on no more than `at_once` at the same time.
    pub async fn run(self: Arc<Self>, at_once: usize, work: Arc<impl Work<K>>) {
        let mut tasks: JoinSet<(K, Outcome)> = JoinSet::new();
        loop {
            tokio::select! {
                key = self.next(), if tasks.len() < at_once => {
                    let work = work.clone();
                    tasks.spawn(async move {
                        let outcome = guarded(&*work, &key).await;
                        (key, outcome)
                    });
                }
                Some(finished) = tasks.join_next() => {
                    if let Ok((key, outcome)) = finished {
                        self.finish(key, outcome);
                    }
                }
            }
        }
    }

    /// The next key to work on. Dropping the answer loses nothing.
    async fn next(&self) -> K {
        loop {
            let due = {
                let mut state = self.state.lock();
                if let Some(key) = state.take(Instant::now()) {
                    return key;
                }
                state.timers.first().map(|(due, _)| *due)
            };
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.added.notified() => {}
                () = timer => {}
            }
        }
    }

    fn finish(&self, key: K, outcome: Outcome) {
        let mut state = self.state.lock();
        state.working.remove(&key);
        let failures = match outcome {
            Outcome::Failed(_) => {
                let failures = state.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                *failures
            }
            Outcome::Done | Outcome::Until(_) => {
                state.failures.remove(&key);
                0
            }
        };
        let after = match outcome {
            Outcome::Done | Outcome::Failed(Retry::Never) => None,
            Outcome::Until(after) | Outcome::Failed(Retry::After(after)) => Some(after),
            Outcome::Failed(Retry::BackOff) => Some(jittered(back_off(failures))),
        };
        if state.again.remove(&key) {
            state.add(key);
        } else if let Some(after) = after {
            state.add_at(key, Instant::now() + after);
        }
        drop(state);
        self.added.notify_one();
    }
}

impl<K: Key> Default for Queue<K> {
    fn default() -> Queue<K> {
        Queue::new()
    }
}

impl<K> Default for State<K> {
    fn default() -> State<K> {
        State {
            ready: VecDeque::new(),
            waiting: HashSet::new(),
            working: HashSet::new(),
            again: HashSet::new(),
            timers: BTreeSet::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
        }
    }
}

impl<K: Key> State<K> {
    fn add(&mut self, key: K) {
        if let Some(due) = self.due.remove(&key) {
            self.timers.remove(&(due, key.clone()));
        }
        if self.working.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn add_at(&mut self, key: K, at: Instant) {
        if let Some(due) = self.due.insert(key.clone(), at) {
            self.timers.remove(&(due, key.clone()));
        }
        self.timers.insert((at, key));
    }

    fn take(&mut self, now: Instant) -> Option<K> {
        while self.timers.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, key)) = self.timers.pop_first() {
                self.due.remove(&key);
                self.add(key);
            }
        }
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.working.insert(key.clone());
        Some(key)
    }
}

async fn guarded<K: Key>(work: &impl Work<K>, key: &K) -> Outcome {
    match AssertUnwindSafe(work.work(key)).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let message = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            tracing::error!(?key, message, "the work on this panicked");
            // To tell of it must not end everything either.
            let _ = AssertUnwindSafe(work.panicked(key, &message)).catch_unwind().await;
            Outcome::Failed(Retry::BackOff)
        }
    }
}

fn back_off(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LAST_RETRY)
}

/// Up to a tenth more, so that what failed together does not come again together.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(rand::rng().random_range(1.0..1.1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::mpsc;

    use super::*;

    /// Does what it is told by the key's first letter, and writes down when it began and ended.
    struct Scripted {
        started: Instant,
        log: mpsc::UnboundedSender<String>,
        at_once: AtomicUsize,
        most_at_once: AtomicUsize,
        tries: Mutex<HashMap<String, u32>>,
    }

    impl Work<String> for Scripted {
        async fn work(&self, key: &String) -> Outcome {
            let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
            let _ = self.log.send(format!("{key}@{}", self.started.elapsed().as_secs()));
            let tries = *self.tries.lock().entry(key.clone()).and_modify(|tries| *tries += 1).or_insert(1);
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            match key.split('-').next() {
                Some("fails") => Outcome::Failed(Retry::BackOff),
                Some("refused") => Outcome::Failed(Retry::Never),
                Some("later") => Outcome::Until(Duration::from_secs(100)),
                Some("panics") if tries == 1 => panic!("a fault"),
                _ => Outcome::Done,
            }
        }

        async fn panicked(&self, key: &String, message: &str) {
            let _ = self.log.send(format!("{key}: {message}"));
        }
    }

    struct Running {
        queue: Arc<Queue<String>>,
        work: Arc<Scripted>,
        log: mpsc::UnboundedReceiver<String>,
    }

    fn run(at_once: usize) -> Running {
        let (sender, log) = mpsc::unbounded_channel();
        let work = Arc::new(Scripted {
            started: Instant::now(),
            log: sender,
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
            tries: Mutex::default(),
        });
        let queue = Arc::new(Queue::new());
        tokio::spawn(queue.clone().run(at_once, work.clone()));
        Running { queue, work, log }
    }

    impl Running {
        /// What happened within so many seconds.
        async fn during(&mut self, seconds: u64) -> Vec<String> {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            std::iter::from_fn(|| self.log.try_recv().ok()).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_worked_on_once_however_often_it_was_added() {
        let mut running = run(4);
        for _ in 0..3 {
            running.queue.add("a".to_owned());
        }
        assert_eq!(running.during(10).await, ["a@0"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_changes_while_it_is_worked_on_is_worked_on_again_and_never_twice_at_once() {
        let mut running = run(4);
        running.queue.add("a".to_owned());
        tokio::time::sleep(Duration::from_millis(500)).await;
        running.queue.add("a".to_owned());
        running.queue.add("a".to_owned());
        assert_eq!(running.during(10).await, ["a@0", "a@1"]);
        assert_eq!(running.work.most_at_once.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_done_at_once_than_may_be() {
        let mut running = run(3);
        for number in 0..9 {
            running.queue.add(format!("k-{number}"));
        }
        assert_eq!(running.during(10).await.len(), 9);
        assert_eq!(running.work.most_at_once.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_comes_again_each_time_later() {
        let mut running = run(1);
        running.queue.add("fails".to_owned());
        let times: Vec<u64> = running.during(600).await.iter().map(|line| line[6..].parse().unwrap()).collect();
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.windows(2).all(|pair| pair[0] <= pair[1] + 7), "{gaps:?}");
        assert!((12..=20).contains(&times.len()), "a minute apart in the end: {times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_comes_again_only_when_something_changes() {
        let mut running = run(1);
        running.queue.add("refused".to_owned());
        assert_eq!(running.during(600).await, ["refused@0"]);
        running.queue.add("refused".to_owned());
        assert_eq!(running.during(600).await, ["refused@600"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_does_not_wait_for_a_time() {
        let mut running = run(1);
        running.queue.add("later".to_owned());
        assert_eq!(running.during(50).await, ["later@0"]);
        running.queue.add("later".to_owned());
        assert_eq!(running.during(60).await, ["later@50"], "and the time is counted anew");
        assert_eq!(running.during(60).await, ["later@151"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_told_and_ends_nothing() {
        let mut running = run(2);
        running.queue.add("panics".to_owned());
        running.queue.add("b".to_owned());
        let log = running.during(10).await;
        assert_eq!(log, ["panics@0", "b@0", "panics: a fault", "panics@1"]);
    }
}
