//! The objects that are to be looked at: each once however often it is named, never twice at a time, and again after a
//! while if something went wrong.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::graph::Key;

const FIRST_DELAY: Duration = Duration::from_millis(5);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Queue {
    ready: VecDeque<Key>,
    /// What is in `ready`.
    queued: HashSet<Key>,
    busy: HashSet<Key>,
    /// What was named while it was busy.
    again: HashSet<Key>,
    delayed: BTreeSet<(Instant, Key)>,
    failures: HashMap<Key, u32>,
}

impl Queue {
    pub(super) fn add(&mut self, key: Key) {
        if self.busy.contains(&key) {
            self.again.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// The next to look at; it is busy until it is finished.
    pub(super) fn start(&mut self) -> Option<Key> {
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.busy.insert(key.clone());
        Some(key)
    }

    pub(super) fn finish(&mut self, key: Key, done: bool, now: Instant) {
        self.busy.remove(&key);
        if done {
            self.failures.remove(&key);
        } else {
            let failures = self.failures.entry(key.clone()).or_default();
            let delay = FIRST_DELAY.saturating_mul(1 << (*failures).min(20)).min(LONGEST_DELAY);
            *failures += 1;
            self.delayed.insert((now + delay, key.clone()));
        }
        if self.again.remove(&key) {
            self.add(key);
        }
    }

    /// When the next delayed one is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.delayed.first().map(|(due, _)| *due)
    }

    /// Makes ready what is due.
    pub(super) fn wake(&mut self, now: Instant) {
        while self.due().is_some_and(|due| due <= now)
            && let Some((_, key)) = self.delayed.pop_first()
        {
            self.add(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.start()).map(|key| key.to_string()).collect()
    }

    #[test]
    fn what_is_named_twice_is_looked_at_once() {
        let mut queue = Queue::default();
        for key in ["/a", "/b", "/a"] {
            queue.add(key.into());
        }
        assert_eq!(started(&mut queue), ["/a", "/b"]);
    }

    #[test]
    fn what_is_named_while_it_is_busy_is_looked_at_afterwards() {
        let mut queue = Queue::default();
        queue.add("/a".into());
        assert_eq!(started(&mut queue), ["/a"]);
        queue.add("/a".into());
        assert_eq!(started(&mut queue), Vec::<String>::new());
        queue.finish("/a".into(), true, Instant::now());
        assert_eq!(started(&mut queue), ["/a"]);
    }

    #[test]
    fn a_failure_is_tried_again_later_and_later() {
        let mut queue = Queue::default();
        let now = Instant::now();
        let mut delays = Vec::new();
        for _ in 0..20 {
            queue.add("/a".into());
            assert_eq!(started(&mut queue), ["/a"]);
            queue.finish("/a".into(), false, now);
            delays.push(queue.due().expect("it is tried again") - now);
            queue.wake(now);
            assert_eq!(started(&mut queue), Vec::<String>::new(), "not yet");
            queue.delayed.clear();
        }
        assert!(delays.is_sorted() && delays[0] < delays[1], "{delays:?}");
        assert_eq!((delays[0], delays[19]), (FIRST_DELAY, LONGEST_DELAY));
    }

    #[test]
    fn a_delay_ends() {
        let mut queue = Queue::default();
        queue.add("/a".into());
        started(&mut queue);
        queue.finish("/a".into(), false, Instant::now());
        let due = queue.due().expect("it is tried again");
        queue.wake(due);
        assert_eq!(started(&mut queue), ["/a"]);
    }
}
