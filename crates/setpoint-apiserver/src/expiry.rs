//! Events go an hour after they were last written.
//!
//! A queue in the order of time is fed by a watch; nothing is searched for what is due. An Event that is written again
//! is queued again, and its earlier place counts no more.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use setpoint_api::protection;
use setpoint_store::{At, Commit, Error, Expected, Range, Revision, Store, Watch};
use tokio::time::{Interval, MissedTickBehavior};

use crate::garbage::EVENTS;
use crate::object::Stored;
use crate::server::Shared;

/// How long an Event is kept after it was last written.
const LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// How many Events are read at a time when the server starts.
const PAGE: usize = 1000;
/// How many are removed at the same time.
const AT_ONCE: usize = 64;
/// How exactly the hour is kept; what is due within it goes together.
const TICK: Duration = Duration::from_secs(1);
/// How long to wait after the store could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// What is to go, in the order of time.
#[derive(Debug, Default)]
struct Expiry(BinaryHeap<Reverse<(Timestamp, Revision, Arc<str>)>>);

impl Expiry {
    /// Takes note of an Event that was written at that time.
    fn add(&mut self, key: Arc<str>, revision: Revision, written: Timestamp) {
        let end = written.checked_add(LIFETIME).unwrap_or(Timestamp::MAX);
        self.0.push(Reverse((end, revision, key)));
    }

    /// Takes out what is due, each with the revision that it must still have.
    fn due(&mut self, now: Timestamp, most: usize) -> Vec<(Arc<str>, Revision)> {
        let mut due = Vec::new();
        while due.len() < most
            && let Some(Reverse((end, ..))) = self.0.peek()
            && *end <= now
        {
            due.extend(self.0.pop().map(|Reverse((_, revision, key))| (key, revision)));
        }
        due
    }
}

/// When a stored Event was last written, as far as it shows; never later than now.
fn written(event: &Value, now: Timestamp) -> Timestamp {
    let times = ["/metadata/creationTimestamp", "/lastTimestamp", "/eventTime", "/series/lastObservedTime"];
    let times = times.iter().filter_map(|path| event.pointer(path)?.as_str()?.parse::<Timestamp>().ok());
    times.max().unwrap_or(now).min(now)
}

/// Lets Events expire until the server stops.
pub(crate) async fn run(server: Arc<Shared>) {
    let mut stopping = server.stopping();
    let expire = async {
        loop {
            match follow(&server).await {
                Error::Closed => return,
                Error::Compacted { .. } => {}
                error => {
                    tracing::warn!(%error, "Events cannot expire");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = expire => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
}

async fn follow(server: &Shared) -> Error {
    let mut follower = match Follower::start(server.store.as_ref(), server.surroundings.now(), TICK).await {
        Ok(follower) => follower,
        Err(error) => return error,
    };
    loop {
        match follower.step(|| server.surroundings.now()).await {
            Ok(Step::Heard) => {}
            Ok(Step::Removed(keys)) => keys.iter().for_each(|key| {
                let namespace = key[EVENTS.len()..].split('/').next().unwrap_or_default();
                server.namespaces.object_removed(namespace);
            }),
            Err(error) => return error,
        }
    }
}

/// Follows the Events of a store. What time it is, is for others to say.
#[derive(Debug)]
struct Follower<'a> {
    store: &'a dyn Store,
    expiry: Expiry,
    watch: Box<dyn Watch>,
    tick: Interval,
}

/// What came of one step.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// An Event was written or removed.
    Heard,
    /// It was looked for what is due, and that was removed.
    Removed(Vec<Arc<str>>),
}

impl<'a> Follower<'a> {
    /// Reads the Events that there are.
    async fn start(store: &'a dyn Store, now: Timestamp, tick: Duration) -> Result<Self, Error> {
        let mut expiry = Expiry::default();
        let mut at = At::Now;
        let mut after: Option<Arc<str>> = None;
        let watch = loop {
            let page = store.range(Range { scope: EVENTS, after: after.as_deref(), limit: PAGE, at }).await?;
            at = At::Revision(page.revision);
            for entry in &page.entries {
                let event = Stored::from(entry).value(b"{");
                if protection::mark(&event["metadata"]).is_none() {
                    expiry.add(entry.key.clone(), entry.revision, written(&event, now));
                }
            }
            match page.entries.last() {
                Some(last) if page.more => after = Some(last.key.clone()),
                _ => break store.watch(EVENTS, page.revision)?,
            }
            tokio::task::yield_now().await;
        };
        let mut tick = tokio::time::interval(tick);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { store, expiry, watch, tick })
    }

    /// Waits for the next Event or the next tick, and does what follows.
    async fn step(&mut self, now: impl Fn() -> Timestamp) -> Result<Step, Error> {
        tokio::select! {
            biased;
            event = self.watch.next() => {
                let event = event?;
                let stored = event.value.clone().map(|bytes| Stored::new(bytes, event.revision));
                if stored.is_some_and(|stored| !is_protected(&stored)) {
                    self.expiry.add(event.key.clone(), event.revision, now());
                }
                Ok(Step::Heard)
            }
            _ = self.tick.tick(), if !self.expiry.0.is_empty() => self.remove_due(now()).await.map(Step::Removed),
        }
    }

    async fn remove_due(&mut self, now: Timestamp) -> Result<Vec<Arc<str>>, Error> {
        let mut removed = Vec::new();
        loop {
            let due = self.expiry.due(now, AT_ONCE);
            if due.is_empty() {
                return Ok(removed);
            }
            let removals = due.into_iter().map(|(key, revision)| remove(self.store, key, revision));
            removed.extend(futures::future::try_join_all(removals).await?.into_iter().flatten());
        }
    }
}

/// Such an Event stays until it is written without the mark.
fn is_protected(event: &Stored) -> bool {
    event.mentions(protection::PROTECTED) && protection::mark(&event.metadata()).is_some()
}

/// Removes an Event that has not been written since. Returns its key if it was there.
async fn remove(store: &dyn Store, key: Arc<str>, revision: Revision) -> Result<Option<Arc<str>>, Error> {
    let commit = Commit { key: key.clone(), value: None, expected: Expected::Revision(revision) };
    match store.commit(commit).await {
        Ok(_) => Ok(Some(key)),
        Err(Error::Conflict { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_store::{MemoryStore, Options};

    use super::*;
    use crate::object;

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn what_is_due_comes_out_in_the_order_of_time() {
        let mut expiry = Expiry::default();
        for (key, revision, written) in [
            ("/late", 1, "2030-01-01T00:30:00Z"),
            ("/early", 2, "2030-01-01T00:00:00Z"),
            ("/next", 3, "2030-01-01T00:10:00Z"),
        ] {
            expiry.add(key.into(), revision, time(written));
        }
        assert_eq!(expiry.due(time("2030-01-01T00:59:59Z"), 9), []);
        assert_eq!(expiry.due(time("2030-01-01T01:10:00Z"), 1), [("/early".into(), 2)], "no more than asked for");
        assert_eq!(expiry.due(time("2030-01-01T01:10:00Z"), 9), [("/next".into(), 3)]);
        assert_eq!(expiry.due(time("2030-01-01T02:00:00Z"), 9), [("/late".into(), 1)]);
    }

    #[test]
    fn the_latest_time_in_an_event_is_when_it_was_written() {
        let now = time("2030-01-01T12:00:00Z");
        let created = json!({"creationTimestamp": "2030-01-01T00:00:00Z"});
        for (name, event, expected) in [
            ("only created", json!({"metadata": created}), "2030-01-01T00:00:00Z"),
            (
                "seen since",
                json!({"metadata": created, "lastTimestamp": "2030-01-01T03:00:00Z"}),
                "2030-01-01T03:00:00Z",
            ),
            (
                "a series",
                json!({"metadata": created, "series": {"lastObservedTime": "2030-01-01T04:00:00.000000Z"}}),
                "2030-01-01T04:00:00Z",
            ),
            (
                "created late",
                json!({"metadata": created, "eventTime": "2029-01-01T00:00:00.000000Z"}),
                "2030-01-01T00:00:00Z",
            ),
            (
                "a time to come",
                json!({"metadata": created, "lastTimestamp": "2099-01-01T00:00:00Z"}),
                "2030-01-01T12:00:00Z",
            ),
            ("no time at all", json!({"lastTimestamp": null}), "2030-01-01T12:00:00Z"),
        ] {
            assert_eq!(written(&event, now), time(expected), "{name}");
        }
    }

    /// How long a test waits for anything.
    const PATIENCE: Duration = Duration::from_secs(20);

    async fn write(store: &MemoryStore, name: &str, expected: Expected) -> Revision {
        // Its own times are of long ago: it counts when it was written, and not what it says.
        let event = json!({"metadata": {"name": name, "creationTimestamp": "2020-01-01T00:00:00Z"}});
        let key = format!("{EVENTS}default/{name}").into();
        let commit = Commit { key, value: Some(object::encode_answer(&event, &[])), expected };
        store.commit(commit).await.expect("it is stored").revision
    }

    async fn names(store: &MemoryStore) -> Vec<String> {
        let range = Range { scope: EVENTS, after: None, limit: 0, at: At::Now };
        let page = store.range(range).await.expect("the store can be read");
        page.entries.iter().map(|entry| entry.key[EVENTS.len()..].to_owned()).collect()
    }

    impl Follower<'_> {
        /// Lets it hear of one Event at this time.
        async fn hear(&mut self, now: &str) {
            let heard = async { while self.step(|| time(now)).await != Ok(Step::Heard) {} };
            tokio::time::timeout(PATIENCE, heard).await.expect("an Event that is written is heard of");
        }

        /// Lets it look for what is due at this time, and tells what went.
        async fn tick(&mut self, now: &str) -> Vec<String> {
            let ticked = async {
                loop {
                    match self.step(|| time(now)).await.expect("the store is open") {
                        Step::Heard => {}
                        Step::Removed(keys) => return keys.iter().map(|key| key[EVENTS.len()..].to_owned()).collect(),
                    }
                }
            };
            tokio::time::timeout(PATIENCE, ticked).await.expect("a tick comes")
        }
    }

    #[tokio::test]
    async fn an_event_that_is_written_meanwhile_goes_after_an_hour_and_one_written_again_later() {
        let store = MemoryStore::new(Options::default());
        let start = Follower::start(&store, time("2030-01-01T00:00:00Z"), Duration::from_millis(1)).await;
        let mut follower = start.expect("the store can be read");
        write(&store, "once", Expected::Absent).await;
        follower.hear("2030-01-01T00:00:00Z").await;
        let first = write(&store, "again", Expected::Absent).await;
        follower.hear("2030-01-01T00:10:00Z").await;
        write(&store, "late", Expected::Absent).await;
        follower.hear("2030-01-01T00:20:00Z").await;
        write(&store, "again", Expected::Revision(first)).await;
        follower.hear("2030-01-01T00:30:00Z").await;

        let nothing = Vec::<String>::new();
        for (row, now, gone) in [
            ("nothing is due", "2030-01-01T00:59:59Z", vec![]),
            ("the hour is over", "2030-01-01T01:00:00Z", vec!["default/once"]),
            ("it was written again", "2030-01-01T01:10:00Z", vec![]),
            ("so it goes after the others", "2030-01-01T01:20:00Z", vec!["default/late"]),
            ("not yet", "2030-01-01T01:29:59Z", vec![]),
        ] {
            assert_eq!(follower.tick(now).await, gone, "{row}");
        }
        assert_eq!(names(&store).await, ["default/again"]);
        assert_eq!(follower.tick("2030-01-01T01:30:00Z").await, ["default/again"], "its new hour is over");
        assert_eq!(names(&store).await, nothing);
    }

    #[tokio::test]
    async fn an_event_that_was_there_before_goes_by_its_own_times() {
        let store = MemoryStore::new(Options::default());
        write(&store, "old", Expected::Absent).await;
        let start = Follower::start(&store, time("2020-01-01T00:30:00Z"), Duration::from_millis(1)).await;
        let mut follower = start.expect("the store can be read");
        assert_eq!(follower.tick("2020-01-01T00:59:59Z").await, Vec::<String>::new());
        assert_eq!(follower.tick("2020-01-01T01:00:00Z").await, ["default/old"]);
    }

    #[tokio::test]
    async fn a_protected_event_stays_whether_it_was_there_before_or_not() {
        let store = MemoryStore::new(Options::default());
        let protect = async |name: &str| {
            let annotations = json!({protection::PROTECTED: "true"});
            let created = "2020-01-01T00:00:00Z";
            let event = json!({"metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}});
            let key = format!("{EVENTS}default/{name}").into();
            let commit = Commit { key, value: Some(object::encode_answer(&event, &[])), expected: Expected::Absent };
            store.commit(commit).await.expect("it is stored");
        };
        protect("before").await;
        write(&store, "unprotected", Expected::Absent).await;
        let start = Follower::start(&store, time("2020-01-01T00:00:00Z"), Duration::from_millis(1)).await;
        let mut follower = start.expect("the store can be read");
        protect("since").await;
        follower.hear("2020-01-01T00:00:00Z").await;
        assert_eq!(follower.tick("2020-01-01T09:00:00Z").await, ["default/unprotected"]);
        assert_eq!(names(&store).await, ["default/before", "default/since"]);
    }
}
