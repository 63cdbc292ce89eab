//! What a read promises.

use super::*;

pub async fn earlier_revisions_can_be_read(subject: &impl Subject) {
    let store = subject.open().await;
    let empty = store.revision();
    let created = create(&*store, "/d/a", "1").await;
    let other = create(&*store, "/d/b", "x").await;
    let updated = update(&*store, "/d/a", "2", created).await;
    let deleted = delete(&*store, "/d/a", updated).await;
    let again = create(&*store, "/d/a", "3").await;
    for (name, at, a, listed) in [
        ("before all", empty, None, vec![]),
        ("created", created, Some(("1", created)), vec!["/d/a"]),
        ("something else created", other, Some(("1", created)), vec!["/d/a", "/d/b"]),
        ("updated", updated, Some(("2", updated)), vec!["/d/a", "/d/b"]),
        ("deleted", deleted, None, vec!["/d/b"]),
        ("created again", again, Some(("3", again)), vec!["/d/a", "/d/b"]),
    ] {
        let expected = a.map(|(value, revision)| (value.to_owned(), revision));
        assert_eq!(read(&*store, "/d/a", At::Revision(at)).await, Ok(expected.clone()), "{name}");
        let page = list(&*store, "/d/", At::Revision(at)).await.expect("history holds it");
        assert_eq!((page.revision, keys(&page)), (at, listed), "{name}");
        let found = page.entries.iter().find(|entry| &*entry.key == "/d/a");
        assert_eq!(found.map(|entry| (text(&entry.value), entry.revision)), expected, "{name}");
        let single = list(&*store, "/d/a", At::Revision(at)).await.expect("history holds it");
        assert_eq!(single.entries.first(), found, "{name}: as a scope of one key");
    }
}

pub async fn pages_see_one_revision(subject: &impl Subject) {
    let store = subject.open().await;
    let mut revisions = Vec::new();
    for count in 0..25 {
        revisions.push(create(&*store, &format!("/d/{count:02}"), "old").await);
    }
    let whole = list(&*store, "/d/", At::Now).await.expect("the store can be listed");
    let mut read = Vec::new();
    let mut at = At::Now;
    loop {
        let after = read.last().map(|entry: &crate::store::Entry| entry.key.clone());
        let page = store.range(Range { scope: "/d/", after: after.as_deref(), limit: 10, at }).await;
        let page = page.expect("history holds the first page's revision");
        assert_eq!(page.revision, whole.revision);
        at = At::Revision(page.revision);
        read.extend(page.entries);
        assert_eq!(page.more, read.len() < 25);
        if !page.more {
            break;
        }
        // What happens between two pages is not seen by the next.
        let count = read.len();
        update(&*store, &format!("/d/{count:02}"), "new", revisions[count]).await;
        delete(&*store, &format!("/d/{:02}", count + 1), revisions[count + 1]).await;
        create(&*store, &format!("/d/{count:02}-and-a-half"), "new").await;
    }
    assert_eq!(read, whole.entries);
    let exact = store.range(Range { scope: "/d/", after: None, limit: 25, at }).await.expect("history holds it");
    assert!(!exact.more, "a page that ends with the scope is the last");
}

pub async fn a_scope_ends_at_a_slash(subject: &impl Subject) {
    let store = subject.open().await;
    for key in ["/a/b", "/a/b/1", "/a/b/c/2", "/a/b0/3", "/a/bc/4", "/a/a/5"] {
        create(&*store, key, "x").await;
    }
    for (scope, expected) in [
        ("/a/b/", vec!["/a/b/1", "/a/b/c/2"]),
        ("/a/bc/", vec!["/a/bc/4"]),
        ("/a/b", vec!["/a/b"]),
        ("/a/none/", vec![]),
        ("/a/none", vec![]),
        ("/", vec!["/a/a/5", "/a/b", "/a/b/1", "/a/b/c/2", "/a/b0/3", "/a/bc/4"]),
    ] {
        let page = list(&*store, scope, At::Now).await.expect("the store can be listed");
        assert_eq!(keys(&page), expected, "{scope}");
        assert_eq!(store.count(scope), expected.len() as u64, "{scope}");
    }
    for (after, expected) in [
        ("/a/", vec!["/a/b/1", "/a/b/c/2"]),
        ("/a/b/1", vec!["/a/b/c/2"]),
        ("/a/b/c/", vec!["/a/b/c/2"]),
        ("/a/bc/", vec![]),
    ] {
        let range = Range { scope: "/a/b/", after: Some(after), limit: 0, at: At::Now };
        let page = store.range(range).await.expect("the store can be listed");
        assert_eq!(keys(&page), expected, "after {after}");
    }
}

pub async fn counts_follow_commits(subject: &impl Subject) {
    let store = subject.open().await;
    let first = create(&*store, "/d/x/1", "x").await;
    let second = create(&*store, "/d/y/2", "x").await;
    assert_eq!([store.count("/"), store.count("/d/"), store.count("/d/x/")], [2, 2, 1]);
    let first = update(&*store, "/d/x/1", "y", first).await;
    assert_eq!([store.count("/d/"), store.count("/d/x/"), store.count("/d/x/1")], [2, 1, 1]);
    delete(&*store, "/d/x/1", first).await;
    delete(&*store, "/d/y/2", second).await;
    assert_eq!([store.count("/"), store.count("/d/"), store.count("/d/x/"), store.count("/d/x/1")], [0; 4]);
    assert_eq!(store.statistics().keys, 0);
}

pub async fn a_future_revision_is_refused(subject: &impl Subject) {
    let store = subject.open().await;
    let newest = create(&*store, "/a", "1").await;
    let future = Error::Future { requested: newest + 1, newest };
    assert_eq!(read(&*store, "/a", At::Revision(newest + 1)).await, Err(future.clone()));
    assert_eq!(list(&*store, "/", At::Revision(newest + 1)).await, Err(future.clone()));
    assert_eq!(store.watch("/", newest + 1).err(), Some(future.clone()));
    assert_eq!(store.compact(newest + 1).await, Err(future));
}

pub async fn a_compacted_revision_is_refused(subject: &impl Subject) {
    let store = subject.open().await;
    let first = create(&*store, "/a", "1").await;
    let second = update(&*store, "/a", "2", first).await;
    let third = delete(&*store, "/a", second).await;
    store.compact(second).await.expect("history can be compacted");
    assert_eq!(store.oldest(), second);
    assert_eq!(read(&*store, "/a", At::Revision(second)).await, Ok(Some(("2".into(), second))), "it stays readable");
    assert_eq!(read(&*store, "/a", At::Revision(first)).await, Err(compacted(first, second)));
    assert_eq!(list(&*store, "/", At::Revision(first)).await, Err(compacted(first, second)));
    assert_eq!(store.watch("/", first).err(), Some(compacted(first, second)));
    let mut watch = store.watch("/", second).expect("a watch may start at the oldest");
    assert_eq!(told(&*event(&mut watch).await), format!("{third} /a: 2@{second} -> none"));
    store.compact(first).await.expect("what is compacted already needs no compaction");
    assert_eq!(store.oldest(), second);
}
