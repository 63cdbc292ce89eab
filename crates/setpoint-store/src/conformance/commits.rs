//! What a commit promises.

use super::*;
use crate::store::Committed;

pub async fn creating_needs_an_absent_key(subject: &impl Subject) {
    let store = subject.open().await;
    let revision = create(&*store, "/a", "1").await;
    assert_eq!(
        put(&*store, "/a", "2", Expected::Absent).await,
        Err(Error::Conflict { key: "/a".into(), found: Some(revision) })
    );
    let deleted = delete(&*store, "/a", revision).await;
    assert_eq!(create(&*store, "/a", "3").await, deleted + 1, "a deleted key is absent");
}

pub async fn a_stale_expectation_conflicts(subject: &impl Subject) {
    let store = subject.open().await;
    let first = create(&*store, "/a", "1").await;
    let second = update(&*store, "/a", "2", first).await;
    let conflict = Error::Conflict { key: "/a".into(), found: Some(second) };
    assert_eq!(put(&*store, "/a", "3", Expected::Revision(first)).await, Err(conflict.clone()));
    assert_eq!(remove(&*store, "/a", first).await, Err(conflict));
    let missing = Err(Error::Conflict { key: "/b".into(), found: None });
    assert_eq!(put(&*store, "/b", "1", Expected::Revision(first)).await, missing);
    assert_eq!(store.revision(), second, "a conflict takes no revision");
}

pub async fn deleting_needs_a_present_key(subject: &impl Subject) {
    let store = subject.open().await;
    let missing = Err(Error::Conflict { key: "/a".into(), found: None });
    assert_eq!(remove(&*store, "/a", 1).await, missing);
    let nothing = Commit { key: "/a".into(), value: None, expected: Expected::Absent };
    assert_eq!(store.commit(nothing).await.map(|Committed { revision }| revision), missing);
    let revision = create(&*store, "/a", "1").await;
    delete(&*store, "/a", revision).await;
    assert_eq!(remove(&*store, "/a", revision).await, missing);
}

pub async fn of_concurrent_commits_one_wins(subject: &impl Subject) {
    let store = subject.open().await;
    let mut revision = create(&*store, "/a", "start").await;
    for round in 0..20 {
        let commits = (0..16).map(|writer| {
            let store = store.clone();
            tokio::spawn(
                async move { put(&*store, "/a", &format!("{round}-{writer}"), Expected::Revision(revision)).await },
            )
        });
        let commits: Vec<_> = commits.collect();
        let mut winner = None;
        for (writer, commit) in commits.into_iter().enumerate() {
            match commit.await.expect("the commit does not panic") {
                Ok(revision) => assert_eq!(winner.replace((writer, revision)), None, "two writers won"),
                Err(Error::Conflict { found, .. }) => {
                    assert!(found > Some(revision), "the winner is visible to the loser");
                }
                Err(other) => panic!("{other}"),
            }
        }
        let (writer, won) = winner.expect("one writer wins");
        assert_eq!(read(&*store, "/a", At::Now).await, Ok(Some((format!("{round}-{writer}"), won))));
        revision = won;
    }
}

pub async fn revisions_follow_the_order_of_commits(subject: &impl Subject) {
    let store = subject.open().await;
    let start = store.revision();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut revisions = Vec::new();
                for count in 0..25 {
                    revisions.push(create(&*store, &format!("/{writer}/{count}"), "x").await);
                }
                revisions
            })
        })
        .collect();
    let mut all = Vec::new();
    for writer in writers {
        let revisions = writer.await.expect("the writer does not panic");
        assert!(revisions.is_sorted(), "one writer's commits keep their order");
        all.extend(revisions);
    }
    all.sort_unstable();
    assert_eq!(all, (start + 1..=start + 200).collect::<Vec<_>>(), "each commit takes the next revision");
    assert_eq!(store.revision(), start + 200);
}

pub async fn a_commit_is_visible_when_acknowledged(subject: &impl Subject) {
    let store = subject.open().await;
    let mut revision = create(&*store, "/a", "0").await;
    for count in 1..100 {
        revision = update(&*store, "/a", &count.to_string(), revision).await;
        assert!(store.revision() >= revision);
        assert_eq!(read(&*store, "/a", At::Now).await, Ok(Some((count.to_string(), revision))));
    }
}

pub async fn a_dropped_commit_is_whole_or_absent(subject: &impl Subject) {
    let store = subject.open().await;
    for count in 0..50 {
        let key = format!("/{count}");
        let commit = put(&*store, &key, "whole", Expected::Absent);
        // Polled once, then dropped.
        let _ = tokio::time::timeout(Duration::ZERO, commit).await;
    }
    let fence = create(&*store, "/fence", "x").await;
    for entry in list(&*store, "/", At::Now).await.expect("the store can be listed").entries {
        assert!(entry.revision <= fence);
        assert!(&*entry.key == "/fence" || text(&entry.value) == "whole");
    }
}

pub async fn a_closed_store_refuses_commits(subject: &impl Subject) {
    let store = subject.open().await;
    let under_way: Vec<_> = (0..32)
        .map(|count| {
            let store = store.clone();
            tokio::spawn(async move { put(&*store, &format!("/{count}"), "x", Expected::Absent).await })
        })
        .collect();
    assert_eq!(store.close().await, Ok(()));
    assert_eq!(store.close().await, Ok(()), "closing twice is closing once");
    assert_eq!(put(&*store, "/late", "x", Expected::Absent).await, Err(Error::Closed));
    assert_eq!(store.compact(0).await, Err(Error::Closed));
    let mut acknowledged = 0;
    for commit in under_way {
        match commit.await.expect("the commit does not panic") {
            Ok(_) => acknowledged += 1,
            Err(error) => assert_eq!(error, Error::Closed),
        }
    }
    assert_eq!(store.count("/"), acknowledged, "a commit that was refused did not happen");
}
