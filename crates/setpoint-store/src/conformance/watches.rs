//! What a watch promises.

use super::*;

/// More than any implementation keeps in a queue for one reader.
const MANY: u64 = 1500;

/// Updates one key until the store has made this many commits.
async fn overwrite(store: &dyn Store, key: &str, commits: u64) -> Vec<Revision> {
    let mut revisions = vec![create(store, key, "0").await];
    for count in 1..commits {
        let last = revisions[revisions.len() - 1];
        revisions.push(update(store, key, &count.to_string(), last).await);
    }
    revisions
}

pub async fn a_watch_tells_every_event_in_order(subject: &impl Subject) {
    let store = subject.open().await;
    let start = store.revision();
    let mut watch = store.watch("/d/", start).expect("a watch may start now");
    assert!(matches!(watch.try_next(), Ok(None)), "nothing has happened yet");
    let created = create(&*store, "/d/a", "1").await;
    create(&*store, "/other/a", "x").await;
    let updated = update(&*store, "/d/a", "2", created).await;
    let deleted = delete(&*store, "/d/a", updated).await;
    for expected in [
        format!("{created} /d/a: none -> 1"),
        format!("{updated} /d/a: 1@{created} -> 2"),
        format!("{deleted} /d/a: 2@{updated} -> none"),
    ] {
        assert_eq!(told(&*event(&mut watch).await), expected);
    }
    assert!(matches!(watch.try_next(), Ok(None)), "that was all");
}

pub async fn a_watch_resumes_exactly_once(subject: &impl Subject) {
    let store = subject.open().await;
    let start = store.revision();
    let writer = {
        let store = store.clone();
        tokio::spawn(async move { overwrite(&*store, "/d/a", 600).await })
    };
    // Read a few events, drop the watch, and go on from there, while the writer writes.
    let mut seen = Vec::new();
    let mut after = start;
    while seen.len() < 600 {
        let mut watch = store.watch("/d/", after).expect("history holds what was not yet read");
        for _ in 0..7.min(600 - seen.len()) {
            after = event(&mut watch).await.revision;
            seen.push(after);
        }
    }
    assert_eq!(seen, writer.await.expect("the writer does not panic"));
}

pub async fn a_watch_of_one_key_tells_only_of_it(subject: &impl Subject) {
    let store = subject.open().await;
    let mut watch = store.watch("/d/a", store.revision()).expect("a watch may start now");
    for key in ["/d/a/below", "/d/ab", "/d/b", "/d"] {
        create(&*store, key, "x").await;
    }
    let created = create(&*store, "/d/a", "1").await;
    assert_eq!(told(&*event(&mut watch).await), format!("{created} /d/a: none -> 1"));
    assert!(matches!(watch.try_next(), Ok(None)));
}

pub async fn a_slow_watch_loses_nothing(subject: &impl Subject) {
    let store = subject.open().await;
    let mut watch = store.watch("/d/", store.revision()).expect("a watch may start now");
    let first = overwrite(&*store, "/d/a", MANY).await;
    // It reads a part, falls behind again, and comes back to the present.
    let mut seen = Vec::new();
    for _ in 0..MANY / 2 {
        seen.push(event(&mut watch).await.revision);
    }
    let second = overwrite(&*store, "/d/b", MANY).await;
    while seen.len() < 2 * MANY as usize {
        seen.push(event(&mut watch).await.revision);
    }
    assert_eq!(seen, [first, second].concat());
    let live = create(&*store, "/d/c", "x").await;
    assert_eq!(event(&mut watch).await.revision, live);
    assert!(matches!(watch.try_next(), Ok(None)));
}

pub async fn a_slow_watch_of_large_values_loses_nothing(subject: &impl Subject) {
    let store = subject.open().await;
    let mut watch = store.watch("/d/", store.revision()).expect("a watch may start now");
    // Together more than is kept in memory for one reader, and each more than the half of it.
    let mut last = create(&*store, "/d/a", "").await;
    let mut expected = vec![(last, 0)];
    for length in (600_000..600_020).chain([3_000_000, 10]) {
        last = update(&*store, "/d/a", &"x".repeat(length), last).await;
        expected.push((last, length));
    }
    for expected in expected {
        let event = event(&mut watch).await;
        assert_eq!((event.revision, event.value.as_ref().map_or(0, Bytes::len)), expected);
    }
    assert!(matches!(watch.try_next(), Ok(None)), "that was all");
}

pub async fn a_slow_watch_delays_nobody(subject: &impl Subject) {
    let store = subject.open().await;
    let start = store.revision();
    let stuck: Vec<_> = (0..50).map(|_| store.watch("/", start).expect("a watch may start now")).collect();
    let mut quick = store.watch("/", start).expect("a watch may start now");
    let reader = tokio::spawn(async move {
        for _ in 0..MANY {
            event(&mut quick).await;
        }
    });
    overwrite(&*store, "/d/a", MANY).await;
    tokio::time::timeout(DEADLINE, reader).await.expect("the quick reader is served").expect("and gets every event");
    drop(stuck);
}

pub async fn a_slow_watch_learns_of_compaction(subject: &impl Subject) {
    let store = subject.open().await;
    let start = store.revision();
    let mut watch = store.watch("/d/", start).expect("a watch may start now");
    let revisions = overwrite(&*store, "/d/a", MANY).await;
    let newest = revisions[revisions.len() - 1];
    store.compact(newest).await.expect("history can be compacted");
    // What it gets before is without gaps.
    for expected in revisions {
        match next(&mut watch).await {
            Ok(event) => assert_eq!(event.revision, expected),
            Err(error) => {
                assert_eq!(error, compacted(expected - 1, newest));
                assert_eq!(next(&mut watch).await.err(), Some(error), "and it stays so");
                return;
            }
        }
    }
    panic!("{MANY} events were kept for a reader that did not read");
}

pub async fn a_watch_that_keeps_up_survives_compaction(subject: &impl Subject) {
    let store = subject.open().await;
    let start = store.revision();
    let mut quiet = store.watch("/quiet/", start).expect("a watch may start now");
    let mut busy = store.watch("/d/", start).expect("a watch may start now");
    assert!(matches!(quiet.try_next(), Ok(None)), "nothing has happened yet");
    for count in 0..300 {
        let created = create(&*store, &format!("/d/{count}"), "x").await;
        store.compact(created).await.expect("history can be compacted");
        assert_eq!(event(&mut busy).await.revision, created);
        assert!(matches!(quiet.try_next(), Ok(None)), "after {count} commits elsewhere");
        assert!(busy.progress() >= created);
    }
    let created = create(&*store, "/quiet/a", "x").await;
    store.compact(created).await.expect("history can be compacted");
    assert_eq!(event(&mut quiet).await.revision, created);
}

pub async fn waiting_can_be_cancelled(subject: &impl Subject) {
    let store = subject.open().await;
    let mut watch = store.watch("/d/", store.revision()).expect("a watch may start now");
    let writer = {
        let store = store.clone();
        tokio::spawn(async move { overwrite(&*store, "/d/a", 500).await })
    };
    let mut seen = Vec::new();
    while seen.len() < 500 {
        // Mostly gives up while it waits.
        if let Ok(event) = tokio::time::timeout(Duration::from_micros(50), watch.next()).await {
            seen.push(event.expect("the watch goes on").revision);
        }
    }
    assert_eq!(seen, writer.await.expect("the writer does not panic"));
}

pub async fn a_dropped_watch_is_forgotten(subject: &impl Subject) {
    let store = subject.open().await;
    let before = store.statistics().watches;
    let watches: Vec<_> = (0..10).map(|_| store.watch("/d/", store.revision()).expect("a watch may start")).collect();
    assert_eq!(store.statistics().watches, before + 10);
    drop(watches);
    assert_eq!(store.statistics().watches, before);
    create(&*store, "/d/a", "x").await;
}

pub async fn progress_reaches_the_newest_revision(subject: &impl Subject) {
    let store = subject.open().await;
    let start = store.revision();
    let mut watch = store.watch("/d/", start).expect("a watch may start now");
    assert_eq!(watch.progress(), start);
    let first = create(&*store, "/d/a", "x").await;
    let second = create(&*store, "/d/b", "x").await;
    assert!(watch.progress() < first, "an event that was not returned yet is no progress");
    event(&mut watch).await;
    assert!((first..second).contains(&watch.progress()));
    event(&mut watch).await;
    let elsewhere = create(&*store, "/other", "x").await;
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while watch.progress() < elsewhere {
        assert!(tokio::time::Instant::now() < deadline, "a quiet watch makes progress too");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(matches!(watch.try_next(), Ok(None)));
}

pub async fn a_watch_ends_when_the_store_closes(subject: &impl Subject) {
    let store = subject.open().await;
    let start = store.revision();
    let mut behind = store.watch("/d/", start).expect("a watch may start now");
    let mut waiting = store.watch("/quiet/", start).expect("a watch may start now");
    let waiting = tokio::spawn(async move { next(&mut waiting).await.err() });
    let created = create(&*store, "/d/a", "1").await;
    store.close().await.expect("the store can be closed");
    assert_eq!(event(&mut behind).await.revision, created, "what happened before is told");
    assert_eq!(next(&mut behind).await.err(), Some(Error::Closed));
    assert_eq!(waiting.await.expect("the reader does not panic"), Some(Error::Closed));
}
