//! Many watchers, and watchers that do not read.

use std::time::Instant;

use serde_json::json;

use crate::fixture::{Api, within};
use crate::objects::*;

const WRITERS: usize = 8;
const WRITES: usize = 25;

/// Objects made, changed and deleted by several writers at once.
async fn write_much(api: &Api) {
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let api = api.clone();
        writers.spawn(async move {
            for write in 0..WRITES {
                let name = format!("w{writer}-{write}");
                let path = format!("{CONFIG_MAPS}/{name}");
                api.post(CONFIG_MAPS, config_map(&name)).await.expect(201);
                api.merge_patch(&path, json!({"data": {"colour": "red"}})).await.expect(200);
                api.delete(&path).await.expect(200);
            }
        });
    }
    within("all writers", writers.join_all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_watchers_see_the_same_events_in_the_same_order() {
    let api = Api::new().await;
    let start = api.store.revision();
    let mut watchers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let mut watch = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).watch().await;
        watchers.spawn(async move {
            let mut seen = Vec::new();
            for _ in 0..WRITERS * WRITES * 3 {
                let event = watch.event().await;
                seen.push((crate::fixture::revision(&event["object"]), crate::fixture::tell(&event)));
            }
            seen
        });
    }
    write_much(&api).await;
    let seen = within("all watchers", watchers.join_all()).await;
    assert!(seen[0].is_sorted_by(|(earlier, _), (later, _)| earlier < later), "revisions only grow");
    for other in &seen[1..] {
        assert!(other == &seen[0], "every watcher is told the same");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_does_not_read_holds_nobody_up() {
    let api = Api::new().await;
    let start = api.store.revision();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}");
    let mut idle = api.get(&path).watch().await;
    let mut reader = api.get(&path).watch().await;
    let began = Instant::now();
    write_much(&api).await;
    let events = WRITERS * WRITES * 3;
    let read = reader.told(events).await;
    assert!(began.elapsed().as_secs() < 10, "writers and readers go on");
    assert_eq!(idle.told(events).await, read, "and what was not read is still there");
}
