//! The store in memory, and what holds however short history is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use setpoint_store::{At, Commit, Error, Expected, MemoryStore, Options, Range, Revision, Store};

use crate::subjects::Memory;

setpoint_store::conformance_tests!(Memory);

/// The same without threads.
mod inline {
    setpoint_store::conformance_tests!(crate::subjects::Inline);
}

fn short_history() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Options { history_commits: 4, ..Options::default() }))
}

async fn commit(store: &MemoryStore, key: &str, value: Option<&'static str>, expected: Expected) -> Revision {
    let value = value.map(|value| Bytes::from_static(value.as_bytes()));
    store.commit(Commit { key: key.into(), value, expected }).await.unwrap().revision
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_history_outran_has_no_gap() {
    let store = short_history();
    let mut watch = store.watch("/d/", 0).unwrap();
    let writers = (0..8).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for count in 0..500 {
                commit(&store, &format!("/d/{writer}-{count}"), Some("x"), Expected::Absent).await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut seen = 0;
    while seen < 4000 {
        match watch.next().await {
            Ok(event) => {
                assert_eq!(event.revision, seen + 1);
                seen = event.revision;
            }
            Err(Error::Compacted { requested, oldest }) => {
                assert_eq!(requested, seen);
                assert!(oldest > seen);
                seen = oldest;
                watch = loop {
                    match store.watch("/d/", seen) {
                        Ok(watch) => break watch,
                        Err(Error::Compacted { oldest, .. }) => seen = oldest,
                        Err(other) => panic!("{other}"),
                    }
                };
            }
            Err(other) => panic!("{other}"),
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

/// A list longer than one lock is held for, while history forgets faster than the list is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_now_is_whole_however_short_history_is() {
    let store = short_history();
    for count in 0..10_000 {
        commit(&store, &format!("/d/{count:05}"), Some("x"), Expected::Absent).await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, done) = (store.clone(), done.clone());
        tokio::spawn(async move {
            // From here on, even revisions are without the key and odd ones with it.
            while !done.load(Relaxed) {
                let revision = commit(&store, "/d/extra", Some("x"), Expected::Absent).await;
                commit(&store, "/d/extra", None, Expected::Revision(revision)).await;
            }
        })
    };
    for _ in 0..50 {
        let page = store.range(Range { scope: "/d/", after: None, limit: 0, at: At::Now }).await.unwrap();
        assert_eq!(page.entries.len() as u64, 10_000 + page.revision % 2);
    }
    done.store(true, Relaxed);
    writer.await.unwrap();
}
