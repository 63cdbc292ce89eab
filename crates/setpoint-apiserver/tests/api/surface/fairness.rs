//! How much one user may have at once, and that others do not notice.

use std::sync::Arc;

use serde_json::json;
use setpoint_apiserver::fairness::{Allowance, Limits};
use setpoint_store::{MemoryStore, Options};

use crate::fixture::{Answer, Api};
use crate::objects::*;

async fn limited(limits: Limits) -> Api {
    Api::set_up(Arc::new(MemoryStore::new(Options::default())), limits, None).await
}

#[track_caller]
fn refused(answer: Answer) {
    let answer = answer.refused(429, "TooManyRequests", &["Too many requests, please try again later."]);
    assert_eq!((answer.header("retry-after"), &answer["details"]["retryAfterSeconds"]), ("1", &1.into()));
}

#[tokio::test]
async fn watches_are_counted_by_user() {
    let few = Allowance { each: 2, all: 3 };
    let api = limited(Limits { watches: few, ..Limits::default() }).await;
    let path = format!("{CONFIG_MAPS}?watch=true");
    let (first, second) = (api.get(&path).watch().await, api.get(&path).watch().await);
    refused(api.get(&path).await);
    let other = api.get(&path).by("other").watch().await;
    refused(api.get(&path).by("third").await);
    drop((first, other));
    let again = api.get(&path).watch().await;
    drop((again, second));
}

#[tokio::test]
async fn a_list_that_is_not_read_takes_no_seat() {
    let few = Allowance { each: 2, all: 10 };
    let api = limited(Limits { pieces: 1, lists: few, ..Limits::default() }).await;
    for name in ["a", "b"] {
        api.post(CONFIG_MAPS, config_map(name)).await.expect(201);
    }
    let (first, second) = (api.get(CONFIG_MAPS).watch().await, api.get(CONFIG_MAPS).watch().await);
    api.get(format!("{CONFIG_MAPS}/a")).await.expect(200);
    refused(api.get(CONFIG_MAPS).await);
    assert_eq!(api.get(CONFIG_MAPS).by("other").await.expect(200)["items"].as_array().map(Vec::len), Some(2));
    drop((first, second));
    api.get(CONFIG_MAPS).await.expect(200);
}

#[tokio::test]
async fn a_watch_that_has_nothing_to_tell_takes_no_seat() {
    let api = limited(Limits { pieces: 1, ..Limits::default() }).await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let mut watch = api.get(format!("{CONFIG_MAPS}?watch=true&labelSelector=colour%3Dred")).watch().await;
    let told = tokio::spawn(async move { watch.told(1).await });
    for _ in 0..10 {
        api.get(format!("{CONFIG_MAPS}/a")).by("other").await.expect(200);
        tokio::task::yield_now().await;
    }
    let red = json!({"metadata": {"labels": {"colour": "red"}}});
    api.merge_patch(format!("{CONFIG_MAPS}/a"), red).await.expect(200);
    assert_eq!(told.await.expect("no panic"), ["ADDED a"]);
}

#[tokio::test]
async fn bodies_are_counted_by_user() {
    let api = limited(Limits { body_bytes: Allowance { each: 20, all: 1000 }, ..Limits::default() }).await;
    refused(api.post(CONFIG_MAPS, config_map("a")).await);
    api.get(CONFIG_MAPS).await.expect(200);
}

#[tokio::test]
async fn a_user_may_use_all_there_is() {
    let api = limited(Limits { pieces: 1, writes: 1, queued: 64, ..Limits::default() }).await;
    let writes = (0..64).map(|number| api.post(CONFIG_MAPS, config_map(&format!("c{number}"))).into_future());
    for answer in futures::future::join_all(writes).await {
        answer.expect(201);
    }
    let lists = (0..64).map(|_| api.get(CONFIG_MAPS).into_future());
    for answer in futures::future::join_all(lists).await {
        assert_eq!(answer.expect(200)["items"].as_array().map(Vec::len), Some(64));
    }
}

#[tokio::test]
async fn a_queue_that_is_full_is_said() {
    let api = limited(Limits { writes: 1, queued: 1, ..Limits::default() }).await;
    let writes = (0..16).map(|number| api.post(CONFIG_MAPS, config_map(&format!("c{number}"))).into_future());
    let (served, queued) =
        futures::future::join_all(writes).await.into_iter().partition::<Vec<_>, _>(|answer| answer.status == 201);
    assert!(served.len() >= 2, "one is served and one waits");
    assert!(!queued.is_empty());
    queued.into_iter().for_each(refused);
    let metrics = api.get("/metrics").await.expect(200);
    for line in [
        "setpoint_seats_taken{for=\"writes\"} 0",
        "setpoint_seats_awaited{for=\"writes\"} 0",
        "setpoint_requests_refused_total ",
    ] {
        assert!(metrics.text().contains(line), "{line} in {}", metrics.text());
    }
}
