//! How watches end, and how they do not begin.

use serde_json::json;

use crate::fixture::{Api, within};
use crate::objects::*;

#[tokio::test]
async fn a_watch_ends_when_its_time_is_up() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let watch = api.get(format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1")).watch().await;
    let events = within("the end of the watch", watch.rest()).await;
    assert_eq!(events.len(), 1);
}

#[tokio::test]
async fn a_watch_from_a_forgotten_revision_is_told_so_in_the_stream() {
    let api = Api::forgetting_after(8).await;
    let start = api.post(CONFIG_MAPS, config_map("a")).await.expect(201).revision();
    for round in 0..40 {
        let patch = json!({"data": {"colour": round.to_string()}});
        api.merge_patch(format!("{CONFIG_MAPS}/a"), patch).await.expect(200);
    }
    let events = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).watch().await.rest().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["type"], "ERROR");
    let status = &events[0]["object"];
    assert_eq!(
        (&status["kind"], &status["code"], &status["reason"]),
        (&json!("Status"), &json!(410), &json!("Expired"))
    );
    assert!(status["message"].as_str().unwrap_or_default().contains("too old resource version"), "{status}");
}

#[tokio::test]
async fn a_watch_that_falls_behind_is_told_so_too() {
    let api = Api::forgetting_after(8).await;
    let start = api.store.revision();
    let watch = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}&timeoutSeconds=1")).watch().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    for round in 0..100 {
        let patch = json!({"data": {"colour": round.to_string()}});
        api.merge_patch(format!("{CONFIG_MAPS}/a"), patch).await.expect(200);
    }
    let events = watch.rest().await;
    let last = events.last().expect("a watch with changes has events");
    let complete = events.len() == 101 && last["type"] == "MODIFIED";
    let told = last["type"] == "ERROR" && last["object"]["code"] == 410;
    assert!(complete || told, "{} events, the last {}", events.len(), last["type"]);
}

#[tokio::test]
async fn a_watch_of_the_future_does_not_begin() {
    let api = Api::new().await;
    let future = api.store.revision() + 1000;
    let answer = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={future}&timeoutSeconds=1")).await;
    assert!(answer.text().contains("Too large resource version"), "{}", answer.text());
}

#[tokio::test]
async fn a_watch_of_nonsense_does_not_begin() {
    let api = Api::new().await;
    let rows = [
        ("a revision that is a word", format!("{CONFIG_MAPS}?watch=1&resourceVersion=soon")),
        ("a bad selector", format!("{CONFIG_MAPS}?watch=1&labelSelector=%3D%3D")),
        ("a time that is a word", format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=soon")),
        ("a resource nobody has", "/api/v1/namespaces/default/gadgets?watch=1".to_owned()),
    ];
    for (row, path) in rows {
        let answer = api.get(path).await;
        assert!((400..500).contains(&answer.status), "{row}: {}", answer.text());
        assert_eq!(answer["kind"], "Status", "{row}");
    }
}

#[tokio::test]
async fn a_server_that_stops_ends_its_watches() {
    let api = Api::new().await;
    let watch = api.get(format!("{CONFIG_MAPS}?watch=1")).watch().await;
    api.server.stop();
    assert!(within("the end of the watch", watch.rest()).await.is_empty());
}

#[tokio::test]
async fn an_ended_watch_is_gone_on_with_where_it_ended() {
    let api = Api::new().await;
    let start = api.store.revision();
    let mut watch = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).watch().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let seen = crate::fixture::revision(&watch.event().await["object"]);
    drop(watch);
    api.post(CONFIG_MAPS, config_map("b")).await.expect(201);
    let mut resumed = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={seen}")).watch().await;
    assert_eq!(resumed.told(1).await, ["ADDED b"]);
}
