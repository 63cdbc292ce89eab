//! Which events a watch tells.

use serde_json::{Value, json};

use crate::fixture::{Api, escaped, revision, tell};
use crate::objects::*;

fn relabel(value: &str) -> Value {
    json!({"metadata": {"labels": {"w": value}}})
}

#[tokio::test]
async fn a_watch_from_a_revision_tells_everything_after_it() {
    let api = Api::new().await;
    let first = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let patched = api.merge_patch(&path, json!({"data": {"colour": "red"}})).await.expect(200);
    api.delete(&path).await.expect(200);

    let mut watch = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", first.revision())).watch().await;
    let modified = watch.event().await;
    assert_eq!(modified, json!({"type": "MODIFIED", "object": patched.object}));
    let deleted = watch.event().await;
    assert_eq!(tell(&deleted), "DELETED a");
    assert_eq!(deleted["object"]["data"]["colour"], "red", "a deletion tells the object as it last was");
    assert!(revision(&deleted["object"]) > patched.revision(), "at the revision of its deletion");

    api.post(CONFIG_MAPS, config_map("b")).await.expect(201);
    assert_eq!(watch.told(1).await, ["ADDED b"]);
}

#[tokio::test]
async fn a_watch_from_nowhere_begins_with_what_is_there() {
    let api = Api::new().await;
    for name in ["b", "a"] {
        api.post(CONFIG_MAPS, config_map(name)).await.expect(201);
    }
    for query in ["watch=1", "watch=true", "watch=1&resourceVersion=0"] {
        let mut watch = api.get(format!("{CONFIG_MAPS}?{query}")).watch().await;
        assert_eq!(watch.told(2).await, ["ADDED a", "ADDED b"], "{query}");
        let name = format!("new-{}", query.len());
        api.post(CONFIG_MAPS, config_map(&name)).await.expect(201);
        assert_eq!(watch.told(1).await, [format!("ADDED {name}")], "{query}");
        api.delete(format!("{CONFIG_MAPS}/{name}")).await.expect(200);
    }
}

#[tokio::test]
async fn an_object_that_comes_into_a_selection_is_added_and_one_that_leaves_is_deleted() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let start = api.store.revision();
    let query = format!("watch=1&resourceVersion={start}&labelSelector={}", escaped("w=1"));
    let mut watch = api.get(format!("{CONFIG_MAPS}?{query}")).watch().await;
    api.post(CONFIG_MAPS, labelled(config_map("other"), "w", "9")).await.expect(201);
    api.post(CONFIG_MAPS, labelled(config_map("a"), "w", "0")).await.expect(201);
    api.merge_patch(&path, relabel("1")).await.expect(200);
    api.merge_patch(&path, json!({"data": {"x": "1"}})).await.expect(200);
    let left = api.merge_patch(&path, relabel("2")).await.expect(200);
    api.merge_patch(&path, json!({"data": {"x": "2"}})).await.expect(200);
    api.merge_patch(&path, relabel("1")).await.expect(200);
    api.delete(&path).await.expect(200);

    let mut events = Vec::new();
    for _ in 0..5 {
        events.push(watch.event().await);
    }
    let told: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
    assert_eq!(told, ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]);
    assert_eq!(events[2]["object"]["metadata"]["labels"]["w"], "1", "it is told as it was when it belonged");
    assert_eq!(revision(&events[2]["object"]), left.revision(), "at the revision at which it left");
}

#[tokio::test]
async fn fields_select_too() {
    let api = Api::new().await;
    let selector = escaped("spec.nodeName=n1");
    let mut watch = api.get(format!("{PODS}?watch=1&fieldSelector={selector}")).watch().await;
    api.post(PODS, pod("p")).await.expect(201);
    let target = json!({"kind": "Node", "name": "n1"});
    api.post(format!("{PODS}/p/binding"), json!({"metadata": {"name": "p"}, "target": target})).await.expect(201);
    assert_eq!(watch.told(1).await, ["ADDED p"]);
}

#[tokio::test]
async fn one_object_can_be_watched_by_name() {
    let api = Api::new().await;
    let start = api.store.revision();
    let selector = escaped("metadata.name=b");
    let mut by_field =
        api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}&fieldSelector={selector}")).watch().await;
    let mut by_path = api.get(format!("{CONFIG_MAPS}/b?watch=1&resourceVersion={start}")).watch().await;
    for name in ["a", "b", "ba"] {
        api.post(CONFIG_MAPS, config_map(name)).await.expect(201);
    }
    api.delete(format!("{CONFIG_MAPS}/b")).await.expect(200);
    assert_eq!(by_field.told(2).await, ["ADDED b", "DELETED b"]);
    assert_eq!(by_path.told(2).await, ["ADDED b", "DELETED b"]);
}

#[tokio::test]
async fn a_watch_keeps_to_its_namespace_and_kind() {
    let api = Api::new().await;
    let start = api.store.revision();
    let mut here = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).watch().await;
    let mut everywhere = api.get(format!("/api/v1/configmaps?watch=1&resourceVersion={start}")).watch().await;
    api.post(SECRETS, secret("s")).await.expect(201);
    api.post("/api/v1/namespaces/kube-public/configmaps", config_map("public")).await.expect(201);
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    assert_eq!(here.told(1).await, ["ADDED a"]);
    assert_eq!(everywhere.told(2).await, ["ADDED public", "ADDED a"]);
}

#[tokio::test]
async fn the_old_path_of_a_watch_still_leads_there() {
    let api = Api::new().await;
    let start = api.store.revision();
    let paths = [
        "/api/v1/watch/namespaces/default/configmaps",
        "/api/v1/watch/configmaps",
        "/api/v1/watch/namespaces/default/configmaps/a",
    ];
    let mut watches = Vec::new();
    for path in paths {
        watches.push((path, api.get(format!("{path}?resourceVersion={start}")).watch().await));
    }
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    for (path, mut watch) in watches {
        assert_eq!(watch.told(1).await, ["ADDED a"], "{path}");
    }
}

#[tokio::test]
async fn writes_that_change_nothing_are_not_told() {
    let api = Api::new().await;
    let created = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let mut watch = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", created.revision())).watch().await;
    api.put(&path, config_map("a")).await.expect(200);
    api.merge_patch(format!("{path}?dryRun=All"), json!({"data": {"x": "dry"}})).await.expect(200);
    api.merge_patch(&path, json!({"data": {"x": "wet"}})).await.expect(200);
    assert_eq!(watch.event().await["object"]["data"]["x"], "wet");
}

#[tokio::test]
async fn a_deletion_that_is_held_is_a_modification_first() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let start = api.store.revision();
    let mut watch = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).watch().await;
    api.post(CONFIG_MAPS, with(config_map("a"), "finalizers", json!(["example.com/f"]))).await.expect(201);
    api.delete(&path).await.expect(200);
    api.merge_patch(&path, json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(watch.told(3).await, ["ADDED a", "MODIFIED a", "DELETED a"]);
}
