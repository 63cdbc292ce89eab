//! A list as a stream: `sendInitialEvents` and bookmarks.

use serde_json::json;

use crate::fixture::{Api, METADATA, revision, tell};
use crate::objects::*;

const STREAMED: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

#[tokio::test]
async fn the_end_of_what_was_there_is_marked() {
    let api = Api::new().await;
    for name in ["b", "a"] {
        api.post(CONFIG_MAPS, config_map(name)).await.expect(201);
    }
    let now = api.store.revision();
    let mut watch = api.get(format!("{CONFIG_MAPS}?{STREAMED}&allowWatchBookmarks=true")).watch().await;
    assert_eq!(watch.told(2).await, ["ADDED a", "ADDED b"]);
    let end = watch.event().await;
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["kind"], "ConfigMap");
    assert_eq!(end["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    assert!(revision(&end["object"]) >= now);
    api.post(CONFIG_MAPS, config_map("c")).await.expect(201);
    assert_eq!(watch.told(1).await, ["ADDED c"]);
}

#[tokio::test]
async fn the_end_is_marked_where_nothing_was_there_too() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}?{STREAMED}&allowWatchBookmarks=true&labelSelector=none");
    let mut watch = api.get(path).accept(METADATA).watch().await;
    let end = watch.event().await;
    assert_eq!((&end["type"], &end["object"]["kind"]), (&json!("BOOKMARK"), &json!("PartialObjectMetadata")));
}

#[tokio::test]
async fn without_bookmarks_no_end_is_marked() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let mut watch = api.get(format!("{CONFIG_MAPS}?{STREAMED}")).watch().await;
    api.post(CONFIG_MAPS, config_map("b")).await.expect(201);
    assert_eq!(watch.told(2).await, ["ADDED a", "ADDED b"]);
}

#[tokio::test]
async fn a_watch_that_wants_no_initial_events_gets_none() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let query = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut watch = api.get(format!("{CONFIG_MAPS}?{query}")).watch().await;
    api.post(CONFIG_MAPS, config_map("b")).await.expect(201);
    assert_eq!(watch.told(1).await, ["ADDED b"]);
}

#[tokio::test]
async fn options_that_do_not_go_together_are_refused() {
    let api = Api::new().await;
    let rows = [
        ("watch=1&sendInitialEvents=true", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ("watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", "Exact"),
        ("watch=1&resourceVersion=1&resourceVersionMatch=NotOlderThan", "unless sendInitialEvents is provided"),
    ];
    for (query, words) in rows {
        let answer = api.get(format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!(answer.refused(422, "Invalid", &[words]).fields(), ["resourceVersionMatch"].into(), "{query}");
    }
}

#[tokio::test]
async fn a_watch_that_ends_leaves_a_bookmark_to_go_on_from() {
    let api = Api::new().await;
    let start = api.store.revision();
    let query = format!("watch=1&resourceVersion={start}&allowWatchBookmarks=true&timeoutSeconds=1");
    let watch = api.get(format!("{CONFIG_MAPS}?{query}")).watch().await;
    api.post(SECRETS, secret("unrelated")).await.expect(201);
    let last = api.post(SECRETS, secret("unrelated-too")).await.expect(201).revision();
    let events = watch.rest().await;
    let bookmark = events.last().expect("a bookmark comes before the end");
    assert_eq!(tell(bookmark), "BOOKMARK -");
    assert_eq!(revision(&bookmark["object"]), last, "it is as new as the store, though nothing concerned the watch");
}
