//! Queues in paused time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::*;

/// Does what it is told by the key's first letter, and writes down when it began and ended.
struct Scripted {
    started: Instant,
    log: mpsc::UnboundedSender<String>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    tries: Mutex<BTreeMap<String, u32>>,
}

impl Work<String> for Scripted {
    async fn work(&self, key: &String) -> Outcome {
        let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        let _ = self.log.send(format!("{key}@{}", self.started.elapsed().as_secs()));
        let tries = *self.tries.lock().entry(key.clone()).and_modify(|tries| *tries += 1).or_insert(1);
        let seconds = if key.starts_with("slow") { 100 } else { 1 };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        match key.split('-').next() {
            Some("fails") => Outcome::Failed(Retry::BackOff),
            Some("refused") => Outcome::Failed(Retry::Never),
            Some("later") => Outcome::Until(Duration::from_secs(100)),
            Some("never") => Outcome::Until(Duration::MAX),
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
    task: tokio::task::JoinHandle<()>,
}

fn run(at_once: usize) -> Running {
    run_in(Room::of(at_once))
}

fn run_in(room: Room) -> Running {
    let (sender, log) = mpsc::unbounded_channel();
    let work = Arc::new(Scripted {
        started: Instant::now(),
        log: sender,
        at_once: AtomicUsize::new(0),
        most_at_once: AtomicUsize::new(0),
        tries: Mutex::default(),
    });
    let queue = Arc::new(in_lanes(Options { room, ..Options::default() }));
    let task = tokio::spawn(queue.clone().run(work.clone()));
    Running { queue, work, log, task }
}

impl Running {
    /// What happened within so many seconds.
    async fn during(&mut self, seconds: u64) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        std::iter::from_fn(|| self.log.try_recv().ok()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_without_end_ends_nothing() {
    let mut running = run(1);
    running.queue.add("never".to_owned());
    assert_eq!(running.during(2).await, ["never@0"]);
    running.queue.add("other".to_owned());
    assert_eq!(running.during(2).await, ["other@2"], "the queue goes on");
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

const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_burst_is_two_rounds_and_a_lone_event_does_not_wait() {
    let queue = Queue::<&str>::default();
    let start = Instant::now();
    queue.add("a");
    assert_eq!(queue.ready(), ["a"], "at once");
    assert!(queue.take(&"a"));
    queue.finish("a", Outcome::Done);
    for _ in 0..10 {
        tokio::time::advance(MOMENT).await;
        queue.add("a");
        assert_eq!(queue.ready(), [""; 0], "work on it began a moment ago");
    }
    queue.add("b");
    assert_eq!(queue.ready(), ["b"], "another key has nothing to do with it");
    assert_eq!(queue.next_due(), Some(start + Options::WINDOW), "from when work began, however often it is added");
    tokio::time::advance(Options::WINDOW - 10 * MOMENT).await;
    assert_eq!(queue.ready(), ["b", "a"]);
    assert!(queue.take(&"a"));
    queue.finish("a", Outcome::Done);
    tokio::time::advance(Options::WINDOW).await;
    queue.add("a");
    assert_eq!(queue.ready(), ["b", "a"], "it was idle again");
}

#[tokio::test(start_paused = true)]
async fn what_was_added_meanwhile_waits_for_the_window_and_no_longer() {
    for (name, work_ms, wait_ms) in [("short work", 5, 15), ("long work", 50, 0)] {
        let queue = Queue::<&str>::default();
        queue.take(&"a");
        queue.add("a");
        tokio::time::advance(MOMENT * work_ms).await;
        queue.finish("a", Outcome::Failed(Retry::BackOff));
        let waits = queue.next_due().map_or(Duration::ZERO, |due| due - Instant::now());
        assert_eq!(waits, MOMENT * wait_ms, "{name}: a change does not wait for a back-off");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_makes_the_same_times() {
    let due = |seed| {
        let queue = Queue::new(Options { seed, ..Options::default() });
        let times = (0..5).map(|_| {
            queue.take(&"a");
            queue.finish("a", Outcome::Failed(Retry::BackOff));
            queue.next_due().map(|due| due - Instant::now())
        });
        times.collect::<Vec<_>>()
    };
    assert_eq!(due(7), due(7));
    assert_ne!(due(7), due(8));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_a_key_that_is_idle() {
    let queue = Queue::default();
    for number in 0..100 {
        assert!(queue.take(&number));
        assert!(!queue.take(&number), "it is being worked on");
        queue.finish(number, Outcome::Done);
    }
    tokio::time::advance(Options::WINDOW).await;
    assert_eq!((queue.ready(), queue.next_due()), (Vec::new(), None));
    assert!(queue.schedule.lock().is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_ends_what_it_began_and_nothing_else() {
    let mut running = run(1);
    running.queue.add("a".to_owned());
    running.queue.add("b".to_owned());
    tokio::time::sleep(Duration::from_millis(500)).await;
    running.queue.close();
    running.task.await.unwrap();
    assert_eq!(running.log.recv().await.as_deref(), Some("a@0"));
    assert_eq!(running.work.at_once.load(Ordering::SeqCst), 0, "it came to its end");
    assert_eq!(running.log.try_recv().ok(), None);
    running.queue.add("c".to_owned());
    assert_eq!(running.queue.ready(), ["b"], "it takes none");
    running.queue.open();
    assert_eq!(running.queue.ready(), [""; 0], "it begins anew");
}

#[tokio::test(start_paused = true)]
async fn it_is_counted_what_waits_how_long_and_what_comes_again() {
    let meter = Meter::default();
    let queue = Queue::new(Options { meter: meter.clone(), ..Options::default() });
    queue.add("a");
    queue.add("b");
    assert_eq!(meter.depth.get(), 2);
    queue.take(&"a");
    queue.finish("a", Outcome::Failed(Retry::BackOff));
    assert_eq!((meter.depth.get(), meter.retries.get()), (1, 1));
}

/// The lane of `lab/web` is `lab`.
fn in_lanes(options: Options) -> Queue<String> {
    Queue::in_lanes(options, Box::new(|key: &String| lane_of(key)))
}

fn lane_of(key: &str) -> Lane {
    key.split_once('/').map(|(lane, _)| lane).unwrap_or_default().into()
}

/// When each of these keys was begun, in seconds, as far as it was.
fn begun(log: &[String], prefix: &str) -> Vec<u64> {
    let of = log.iter().filter(|line| line.starts_with(prefix));
    of.filter_map(|line| line.rsplit('@').next()?.parse().ok()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_is_stuck_keeps_no_other_waiting() {
    let mut running = run_in(Room { in_lane: 2, at_least: 1, at_once: 4 });
    for number in 0..10_000 {
        running.queue.add(format!("slow/{number}"));
    }
    for number in 0..4 {
        running.queue.add(format!("fast/{number}"));
    }
    let log = running.during(10).await;
    assert_eq!(begun(&log, "slow"), [0, 0], "it has two places and no more");
    assert_eq!(begun(&log, "fast"), [0, 0, 1, 1], "as if nobody else were there");
    let log = running.during(195).await;
    assert_eq!(begun(&log, "slow"), [100, 100, 200, 200], "and it gets on itself");
}

#[tokio::test(start_paused = true)]
async fn a_lane_in_which_nothing_is_done_has_room_however_many_others_are_stuck() {
    let mut running = run_in(Room { in_lane: 2, at_least: 1, at_once: 4 });
    for number in 0..20 {
        running.queue.add(format!("slow{number}/a"));
        running.queue.add(format!("slow{number}/b"));
    }
    for number in 0..3 {
        running.queue.add(format!("fast/{number}"));
    }
    let log = running.during(10).await;
    assert_eq!(begun(&log, "slow").len(), 20, "each has one place; together they have used up the rest");
    assert_eq!(begun(&log, "fast"), [0, 1, 2], "and so has this one");
}

/// As the controllers of places are driven.
#[tokio::test(start_paused = true)]
async fn several_keys_of_a_fast_place_are_worked_on_beside_sixteen_that_are_stuck() {
    let mut running = run_in(crate::runtime::Configuration::of_places().room);
    for number in 0..16 * 20 {
        running.queue.add(format!("slow{}/{number}", number % 16));
    }
    assert_eq!(begun(&running.during(1).await, "slow").len(), 256, "together they have used up what all have");
    for number in 0..8 {
        running.queue.add(format!("fast/{number}"));
    }
    assert_eq!(begun(&running.during(10).await, "fast"), [1, 1, 1, 1, 2, 2, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn lanes_take_turns() {
    let queue = in_lanes(Options { room: Room { in_lane: 2, at_least: 1, at_once: 100 }, ..Options::default() });
    for key in ["a/1", "a/2", "a/3", "b/1", "b/2", "c/1"] {
        queue.add(key.to_owned());
    }
    assert_eq!(queue.ready(), ["a/1", "a/2", "a/3", "b/1", "b/2", "c/1"], "by hand: as they came");
    let mut taken = Vec::new();
    while let Some(next) = queue.schedule.lock().take_first(Instant::now()) {
        taken.push(next.key);
    }
    assert_eq!(taken, ["a/1", "b/1", "c/1", "a/2", "b/2"]);
    assert!(queue.take(&"a/3".to_owned()), "by hand a key is taken whether or not there is room");
    for key in ["a/1", "a/2", "a/3", "b/1", "b/2", "c/1"] {
        queue.finish(key.to_owned(), Outcome::Done);
    }
    tokio::time::advance(Options::WINDOW).await;
    assert_eq!(queue.ready(), [""; 0]);
    assert!(queue.schedule.lock().is_idle(), "nothing is kept of a lane that is idle");
}

#[tokio::test(start_paused = true)]
async fn it_is_shown_in_how_many_lanes_keys_wait_for_room() {
    let meter = Meter::default();
    let options =
        Options { room: Room { in_lane: 1, at_least: 1, at_once: 9 }, meter: meter.clone(), ..Options::default() };
    let queue = in_lanes(options);
    for key in ["a/1", "a/2", "b/1"] {
        queue.add(key.to_owned());
    }
    assert_eq!((meter.depth.get(), meter.full_lanes.get()), (3, 0));
    queue.take(&"a/1".to_owned());
    assert_eq!((meter.depth.get(), meter.full_lanes.get()), (2, 1));
    queue.finish("a/1".to_owned(), Outcome::Done);
    assert_eq!((meter.depth.get(), meter.full_lanes.get()), (2, 0));
}

/// Whatever is added, taken and finished in whatever order, a queue is as one that has everything looked through.
#[tokio::test(start_paused = true)]
async fn no_lane_has_more_than_its_room_and_none_waits_that_has_some() {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    for seed in 0..50 {
        let mut dice = StdRng::seed_from_u64(seed);
        let in_lane = dice.random_range(1..4);
        let room = Room { in_lane, at_least: dice.random_range(1..=in_lane), at_once: dice.random_range(1..8) };
        let queue = in_lanes(Options { room, seed, ..Options::default() });
        let mut working: Vec<String> = Vec::new();
        for _ in 0..400 {
            match dice.random_range(0..4) {
                0 => queue.add(format!("{}/{}", dice.random_range(0..5), dice.random_range(0..6))),
                1 if !working.is_empty() => {
                    let key = working.swap_remove(dice.random_range(0..working.len()));
                    let outcomes = [Outcome::Done, Outcome::Failed(Retry::BackOff), Outcome::Until(MOMENT * 5)];
                    queue.finish(key, outcomes[dice.random_range(0..3)]);
                }
                2 => tokio::time::advance(MOMENT * dice.random_range(0..30)).await,
                _ => {
                    let in_lane = |key: &String| working.iter().filter(|other| lane_of(other) == lane_of(key)).count();
                    let has_room = |key: &&String| {
                        let count = in_lane(key);
                        count < room.at_least || count < room.in_lane && working.len() < room.at_once
                    };
                    let free: Vec<String> = queue.ready().iter().filter(has_room).cloned().collect();
                    let taken = queue.schedule.lock().take_first(Instant::now()).map(|taken| taken.key);
                    assert_eq!(taken.is_some(), !free.is_empty(), "seed {seed}: {free:?} of {working:?}");
                    assert!(taken.iter().all(|key| free.contains(key)), "seed {seed}: {taken:?} not of {free:?}");
                    working.extend(taken);
                }
            }
        }
    }
}
