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
use setpoint_store::{At, Commit, Error, Expected, Range, Revision, Watch};

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
        () = expire => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
}

async fn follow(server: &Shared) -> Error {
    let mut expiry = Expiry::default();
    let mut watch = match learn(server, &mut expiry).await {
        Ok(watch) => watch,
        Err(error) => return error,
    };
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = watch.next() => match event {
                Ok(event) if event.value.is_some() => {
                    expiry.add(event.key.clone(), event.revision, Timestamp::now());
                }
                Ok(_) => {}
                Err(error) => return error,
            },
            _ = tick.tick(), if !expiry.0.is_empty() => {
                if let Err(error) = remove_due(server, &mut expiry).await {
                    return error;
                }
            }
        }
    }
}

/// Reads the Events that there are.
async fn learn(server: &Shared, expiry: &mut Expiry) -> Result<Box<dyn Watch>, Error> {
    let resource = server.registry().built_in("", "v1", "events");
    let mut at = At::Now;
    let mut after: Option<Arc<str>> = None;
    loop {
        let range = Range { scope: EVENTS, after: after.as_deref(), limit: PAGE, at };
        let page = server.store.range(range).await?;
        at = At::Revision(page.revision);
        for entry in &page.entries {
            let event = resource.value(&Stored::from(entry));
            expiry.add(entry.key.clone(), entry.revision, written(&event, Timestamp::now()));
        }
        match page.entries.last() {
            Some(last) if page.more => after = Some(last.key.clone()),
            _ => return server.store.watch(EVENTS, page.revision),
        }
        tokio::task::yield_now().await;
    }
}

async fn remove_due(server: &Shared, expiry: &mut Expiry) -> Result<(), Error> {
    loop {
        let due = expiry.due(Timestamp::now(), AT_ONCE);
        if due.is_empty() {
            return Ok(());
        }
        let removals = due.iter().map(|(key, revision)| remove(server, key, *revision));
        futures::future::try_join_all(removals).await?;
    }
}

/// Removes an Event that has not been written since.
async fn remove(server: &Shared, key: &Arc<str>, revision: Revision) -> Result<(), Error> {
    let commit = Commit { key: key.clone(), value: None, expected: Expected::Revision(revision) };
    match server.store.commit(commit).await {
        Ok(_) => {
            let namespace = key[EVENTS.len()..].split('/').next().unwrap_or_default();
            server.namespaces.object_removed(namespace);
            Ok(())
        }
        Err(Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
}
