//! The decision log over a store: what is committed is written, once, also after the process died in between.

use std::path::Path;

use bytes::Bytes;
use serde_json::{Value, json};
use setpoint_store::{At, Commit, Expected, MemoryStore, Options, Store};

use super::*;
use crate::object::encode;

const RETENTION: Option<Retention> = Some(Retention { days: 365, bytes: 1 << 20 });

const SET: &str = "/setpoint.dev/changesets/shop/web";

async fn put(store: &dyn Store, key: &str, object: Option<Value>) {
    let found = store.get(key, At::Now).await.expect("a store").value;
    let expected = found.map_or(Expected::Absent, |entry| Expected::Revision(entry.revision));
    let value: Option<Bytes> = object.map(|object| encode(&object, b"", usize::MAX).expect("small"));
    store.commit(Commit { key: key.into(), value, expected }).await.expect("a commit");
}

async fn cluster(uid: &str, options: Options) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(options));
    put(&*store, "/core/namespaces/kube-system", Some(json!({"metadata": {"name": "kube-system", "uid": uid}}))).await;
    store
}

fn change_set() -> Value {
    let step = json!({
        "id": "shop/web/delete", "target": {"namespace": "shop", "name": "web", "kind": "Machine"}, "action": "Delete",
        "class": "Destructive", "digest": "sha256:a", "providerId": "101",
    });
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "c1"},
        "spec": {"environment": "lab", "requestedBy": "carol"}, "status": {"steps": [step]},
    })
}

fn review(name: &str, reason: Option<(&str, &str)>) -> Value {
    let condition = reason.map(|(status, reason)| {
        json!({"type": "Accepted", "status": status, "reason": reason, "lastTransitionTime": "2026-03-01T12:00:00Z"})
    });
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": name, "creationTimestamp": "2026-03-01T11:59:59Z",
        },
        "spec": {"gate": "web", "decision": "Approve", "reviewer": "alice", "digests": ["sha256:a"]},
        "status": {"conditions": condition.into_iter().collect::<Vec<_>>()},
    })
}

fn machine(is_under_way: bool) -> Value {
    let intent = json!({
        "id": "web-1", "action": "Delete", "digest": "sha256:a", "startedAt": "2026-03-01T12:00:01Z", "epoch": 1,
        "providerId": "101", "changeSet": "c1",
    });
    let intents = if is_under_way { json!([intent]) } else { json!([]) };
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "m1", "annotations": {"setpoint.dev/requested-by": "carol"}},
        "spec": {"environment": "lab"}, "status": {"intents": intents},
    })
}

/// A Machine is deleted with somebody's approval, and its change set and review go with it.
async fn delete_with_approval(store: &dyn Store) {
    const MACHINE: &str = "/setpoint.dev/machines/shop/web";
    const REVIEW: &str = "/setpoint.dev/reviews/shop/yes";
    put(store, MACHINE, Some(machine(false))).await;
    if store.get(SET, At::Now).await.expect("a store").value.is_none() {
        put(store, SET, Some(change_set())).await;
    }
    put(store, REVIEW, Some(review("yes", None))).await;
    put(store, REVIEW, Some(review("yes", Some(("True", "Counted"))))).await;
    put(store, MACHINE, Some(machine(true))).await;
    put(store, MACHINE, None).await;
    put(store, SET, None).await;
    put(store, REVIEW, None).await;
}

/// Follows a store as far as it is now, and ends as if the process were killed.
async fn catch_up(folder: &Path, store: &Arc<dyn Store>) {
    let log = Decisions::open(folder, RETENTION).expect("a folder");
    log.follow(store.clone());
    until(&log, store.revision()).await;
    log.0.follower.lock().take().expect("a follower").abort();
}

async fn until(log: &Decisions, revision: Revision) {
    let followed = async {
        while log.followed() < revision {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), followed).await.expect("the log follows the store");
}

fn told(folder: &Path) -> Vec<String> {
    let mut reader = Reader::open(folder, None).expect("a folder").expect("a log");
    let mut told = Vec::new();
    while let Some(entry) = reader.next_entry().expect("files") {
        told.push(match entry.fact {
            Fact::Review(review) => format!("{} {:?} {}", review.by, review.decision, review.reason),
            Fact::Step(step) => format!("{:?} {:?} {:?}", step.action, step.outcome, step.approved_by),
            Fact::Gap(_) => "gap".to_owned(),
            other => format!("{other:?}"),
        });
    }
    told.reverse();
    told
}

/// What is told of [`delete_with_approval`].
const STORY: [&str; 4] =
    ["alice Approve Given", "alice Approve Counted", r#"Delete Begun ["alice"]"#, r#"Delete ObjectRemoved ["alice"]"#];

fn lines(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.map(|path| std::fs::read_to_string(path).expect("a file").lines().count()).sum()
}

#[tokio::test]
async fn what_was_decided_until_the_store_is_closed_is_kept_when_its_objects_are_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = cluster("a", Options::default()).await;
    let log = Decisions::open(folder.path(), RETENTION).expect("a folder");
    log.follow(store.clone());
    until(&log, store.revision()).await;
    delete_with_approval(&*store).await;
    store.close().await.expect("a store");
    log.close().await;
    assert_eq!(told(folder.path()), STORY);
    let position = position::Position::read(folder.path()).expect("a file").expect("a position");
    assert_eq!((position.revision, log.followed()), (store.revision(), store.revision()));
}

#[tokio::test]
async fn what_is_committed_while_the_log_is_away_is_written_when_it_is_back_and_shown_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = cluster("a", Options::default()).await;
    // It is gone when the log is back, and listed what was done.
    put(&*store, SET, Some(change_set())).await;
    let noted = position::Position { cluster: "a".into(), revision: store.revision(), time: Timestamp::now() };
    noted.write(folder.path()).expect("room");
    delete_with_approval(&*store).await;
    catch_up(folder.path(), &store).await;
    assert_eq!(told(folder.path()), STORY);
    // As if the process were killed after it wrote, and before it noted that.
    noted.write(folder.path()).expect("room");
    let count = lines(folder.path());
    catch_up(folder.path(), &store).await;
    assert!(lines(folder.path()) > count, "it is written again");
    assert_eq!(told(folder.path()), STORY, "and shown once");
    let count = lines(folder.path());
    catch_up(folder.path(), &store).await;
    assert_eq!(lines(folder.path()), count, "what was noted is not written again");
}

#[tokio::test]
async fn where_the_store_has_forgotten_what_is_there_is_told_and_that_something_may_be_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = cluster("a", Options { history_commits: 2, ..Options::default() }).await;
    let time = "2026-03-01T11:00:00Z".parse().expect("a time");
    position::Position { cluster: "a".into(), revision: 1, time }.write(folder.path()).expect("room");
    delete_with_approval(&*store).await;
    put(&*store, "/setpoint.dev/reviews/shop/no", Some(review("no", Some(("False", "Expired"))))).await;
    catch_up(folder.path(), &store).await;
    assert_eq!(told(folder.path()), ["alice Approve Expired", "gap"]);
    let (folder, store) = (tempfile::tempdir().expect("a folder"), cluster("b", Options::default()).await);
    let other = position::Position { cluster: "a".into(), revision: 1, time };
    other.write(folder.path()).expect("room");
    put(&*store, "/setpoint.dev/reviews/shop/no", Some(review("no", Some(("False", "Expired"))))).await;
    catch_up(folder.path(), &store).await;
    assert_eq!(told(folder.path()), ["alice Approve Expired"], "of another control plane nothing is missing");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_says_so_and_loses_nothing_that_was_committed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("decisions");
    let store = cluster("a", Options::default()).await;
    let log = Decisions::open(&path, RETENTION).expect("a folder");
    log.follow(store.clone());
    until(&log, store.revision()).await;
    std::fs::remove_dir_all(&path).expect("a folder");
    std::fs::write(&path, "in the way").expect("a file");
    delete_with_approval(&*store).await;
    log.put(Family::Refusals, refusal("bob")).await;
    assert_eq!((log.is_healthy(), log.lost()), (false, 1), "what is no commit is lost, and counted");
    std::fs::remove_file(&path).expect("a file");
    std::fs::create_dir(&path).expect("a folder");
    until(&log, store.revision()).await;
    assert!(log.is_healthy());
    assert_eq!(told(&path), STORY);
    store.close().await.expect("a store");
    log.close().await;
}

fn refusal(by: &str) -> Fact {
    Fact::Refusal(RequestFact {
        by: by.into(),
        acting_as: None,
        verb: "delete".into(),
        resource: "machines.setpoint.dev".into(),
        namespace: None,
        name: None,
        uid: None,
        message: None,
        source: None,
        request: "1".into(),
    })
}

#[tokio::test]
async fn who_is_refused_without_end_fills_no_disk_and_silences_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    // As much for refusals as they may have at once.
    let retention = Retention { days: 365, bytes: 12 << 20 };
    let log = Decisions::open(folder.path(), Some(retention)).expect("a folder");
    for _ in 0..5_000 {
        log.put(Family::Refusals, refusal("mallory")).await;
    }
    let (written, left_out) = (lines(folder.path()), log.left_out());
    assert!((500..4_000).contains(&written), "the beginning is evidence: {written}");
    assert_eq!(written as u64 + left_out, 5_000, "the rest is counted");
    log.put(Family::Refusals, refusal("bob")).await;
    assert_eq!((lines(folder.path()), log.left_out()), (written + 1, left_out), "another caller is heard");
    // Reviews that do not count are kept apart from refusals, and each is told.
    let reviewed = |number: usize| {
        let (name, review) = (format!("r{number}"), review(&format!("r{number}"), Some(("False", "Stale"))));
        let stored = crate::object::Stored::new(encode(&review, b"", usize::MAX).expect("small"), 1);
        let review: reviews::StoredReview = stored.read_as().expect(&name);
        reviews::entries(None, &review, None, Timestamp::now())
    };
    let entries: Vec<(Family, Entry)> = (0..1_000).flat_map(reviewed).collect();
    assert!(log.keep(&entries).await);
    assert_eq!((lines(folder.path()), log.left_out()), (written + 1_001, left_out));
}
