//! What a durable store promises across a restart.

use super::*;

async fn reopen(subject: &impl Subject, store: Arc<dyn Store>) -> Arc<dyn Store> {
    store.close().await.expect("the store can be closed");
    drop(store);
    subject.open().await
}

pub async fn reopening_keeps_values_history_and_revision(subject: &impl Subject) {
    let store = subject.open().await;
    let created = create(&*store, "/d/a", "1").await;
    let updated = update(&*store, "/d/a", "2", created).await;
    let gone = create(&*store, "/d/b", "x").await;
    let deleted = delete(&*store, "/d/b", gone).await;
    let store = reopen(subject, store).await;
    assert_eq!(store.revision(), deleted);
    assert_eq!(store.count("/d/"), 1);
    assert_eq!(read(&*store, "/d/a", At::Now).await, Ok(Some(("2".into(), updated))));
    assert_eq!(read(&*store, "/d/a", At::Revision(created)).await, Ok(Some(("1".into(), created))));
    assert_eq!(read(&*store, "/d/b", At::Revision(gone)).await, Ok(Some(("x".into(), gone))));
    assert_eq!(read(&*store, "/d/b", At::Now).await, Ok(None));
    assert_eq!(update(&*store, "/d/a", "3", updated).await, deleted + 1);
}

pub async fn the_revision_never_goes_back(subject: &impl Subject) {
    let store = subject.open().await;
    let created = create(&*store, "/a", "1").await;
    let deleted = delete(&*store, "/a", created).await;
    let store = reopen(subject, store).await;
    assert_eq!(store.revision(), deleted, "although the newest key is gone");
    store.compact(deleted).await.expect("history can be compacted");
    let store = reopen(subject, store).await;
    assert_eq!(store.revision(), deleted, "although history is gone too");
    let store = reopen(subject, store).await;
    assert_eq!(create(&*store, "/a", "2").await, deleted + 1);
}

pub async fn a_watch_resumes_across_a_restart(subject: &impl Subject) {
    let store = subject.open().await;
    let start = store.revision();
    let mut watch = store.watch("/d/", start).expect("a watch may start now");
    let first = create(&*store, "/d/a", "1").await;
    let second = update(&*store, "/d/a", "2", first).await;
    let third = delete(&*store, "/d/a", second).await;
    assert_eq!(event(&mut watch).await.revision, first);
    drop(watch);
    let store = reopen(subject, store).await;
    let mut watch = store.watch("/d/", first).expect("history holds what was not yet read");
    let fourth = create(&*store, "/d/a", "3").await;
    for expected in [
        format!("{second} /d/a: 1@{first} -> 2"),
        format!("{third} /d/a: 2@{second} -> none"),
        format!("{fourth} /d/a: none -> 3"),
    ] {
        assert_eq!(told(&*event(&mut watch).await), expected);
    }
    assert!(matches!(watch.try_next(), Ok(None)));
}

pub async fn compaction_survives_a_restart(subject: &impl Subject) {
    let store = subject.open().await;
    let first = create(&*store, "/a", "1").await;
    let second = update(&*store, "/a", "2", first).await;
    let third = update(&*store, "/a", "3", second).await;
    store.compact(second).await.expect("history can be compacted");
    let store = reopen(subject, store).await;
    assert_eq!((store.oldest(), store.revision()), (second, third));
    assert_eq!(store.watch("/", first).err(), Some(compacted(first, second)));
    assert_eq!(read(&*store, "/a", At::Revision(second)).await, Ok(Some(("2".into(), second))));
}
