//! What every implementation of [`Store`] must pass: one function per guarantee of the contract.
//!
//! An implementation brings a [`Subject`] and calls [`conformance_tests!`](crate::conformance_tests) in its tests, which makes one
//! test of every guarantee. A function panics where the guarantee is broken.

mod commits;
mod durability;
mod reads;
mod watches;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::store::{At, Commit, Error, Event, Expected, Page, Range, Result, Revision, Store, Watch};

pub use commits::*;
pub use durability::*;
pub use reads::*;
pub use watches::*;

/// An implementation under test.
pub trait Subject: Send + Sync {
    /// Opens a store that is empty the first time, and that for a durable implementation holds what it held when it
    /// was last closed every later time.
    fn open(&self) -> impl Future<Output = Arc<dyn Store>> + Send;
}

/// Makes a test of every guarantee, each with a subject of its own. `durable` adds what must hold across a restart.
#[macro_export]
macro_rules! conformance_tests {
    (durable $subject:expr) => {
        $crate::conformance_tests!($subject);
        $crate::conformance_tests!(@tests $subject;
            reopening_keeps_values_history_and_revision
            the_revision_never_goes_back
            a_watch_resumes_across_a_restart
            compaction_survives_a_restart
        );
    };
    ($subject:expr) => {
        $crate::conformance_tests!(@tests $subject;
            creating_needs_an_absent_key
            a_stale_expectation_conflicts
            deleting_needs_a_present_key
            of_concurrent_commits_one_wins
            revisions_follow_the_order_of_commits
            a_commit_is_visible_when_acknowledged
            a_dropped_commit_is_whole_or_absent
            a_closed_store_refuses_commits
            earlier_revisions_can_be_read
            pages_see_one_revision
            a_scope_ends_at_a_slash
            counts_follow_commits
            a_future_revision_is_refused
            a_compacted_revision_is_refused
            a_watch_tells_every_event_in_order
            a_watch_resumes_exactly_once
            a_watch_of_one_key_tells_only_of_it
            a_slow_watch_loses_nothing
            a_slow_watch_of_large_values_loses_nothing
            a_slow_watch_delays_nobody
            a_slow_watch_learns_of_compaction
            a_watch_that_keeps_up_survives_compaction
            waiting_can_be_cancelled
            a_dropped_watch_is_forgotten
            progress_reaches_the_newest_revision
            a_watch_ends_when_the_store_closes
        );
    };
    (@tests $subject:expr; $($guarantee:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $guarantee() {
                let subject = $subject;
                $crate::conformance::$guarantee(&subject).await;
            }
        )+
    };
}

/// How long something that must happen may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

async fn put(store: &dyn Store, key: &str, value: &str, expected: Expected) -> Result<Revision> {
    let value = Some(Bytes::copy_from_slice(value.as_bytes()));
    store.commit(Commit { key: key.into(), value, expected }).await.map(|committed| committed.revision)
}

async fn create(store: &dyn Store, key: &str, value: &str) -> Revision {
    put(store, key, value, Expected::Absent).await.expect("an absent key can be created")
}

async fn update(store: &dyn Store, key: &str, value: &str, revision: Revision) -> Revision {
    put(store, key, value, Expected::Revision(revision)).await.expect("a key can be updated at its revision")
}

async fn remove(store: &dyn Store, key: &str, revision: Revision) -> Result<Revision> {
    let commit = Commit { key: key.into(), value: None, expected: Expected::Revision(revision) };
    store.commit(commit).await.map(|committed| committed.revision)
}

async fn delete(store: &dyn Store, key: &str, revision: Revision) -> Revision {
    remove(store, key, revision).await.expect("a key can be deleted at its revision")
}

/// A key's value and revision.
async fn read(store: &dyn Store, key: &str, at: At) -> Result<Option<(String, Revision)>> {
    let found = store.get(key, at).await?.value;
    Ok(found.map(|entry| (text(&entry.value), entry.revision)))
}

async fn list(store: &dyn Store, scope: &str, at: At) -> Result<Page> {
    store.range(Range { scope, after: None, limit: 0, at }).await
}

fn keys(page: &Page) -> Vec<&str> {
    page.entries.iter().map(|entry| &*entry.key).collect()
}

fn text(value: &Bytes) -> String {
    String::from_utf8_lossy(value).into_owned()
}

async fn next(watch: &mut Box<dyn Watch>) -> Result<Arc<Event>> {
    tokio::time::timeout(DEADLINE, watch.next()).await.expect("an event arrives")
}

async fn event(watch: &mut Box<dyn Watch>) -> Arc<Event> {
    next(watch).await.expect("the watch goes on")
}

/// An event as one line: `3 /a: old@1 -> new`.
fn told(event: &Event) -> String {
    let previous = event.previous.as_ref().map(|(value, revision)| format!("{}@{revision}", text(value)));
    let value = event.value.as_ref().map(text);
    let (previous, value) = (previous.as_deref().unwrap_or("none"), value.as_deref().unwrap_or("none"));
    format!("{} {}: {previous} -> {value}", event.revision, event.key)
}

fn compacted(requested: Revision, oldest: Revision) -> Error {
    Error::Compacted { requested, oldest }
}
