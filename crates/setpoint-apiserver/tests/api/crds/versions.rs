//! Several versions of a custom resource, of which one is stored.

use serde_json::json;

use super::*;
use crate::fixture::{Api, escaped};
use crate::objects::{CONFIG_MAPS, config_map};

const WIDGETS_V2: &str = "/apis/example.com/v2/namespaces/default/widgets";

fn two_versions() -> Value {
    let mut newer = version(
        "v2",
        json!({
            "note": {"type": "string"}, "extra": {"type": "string", "default": "e"},
        }),
    );
    newer["storage"] = json!(false);
    newer["selectableFields"] = json!([{"jsonPath": ".spec.note"}]);
    let mut older = version("v1", json!({"size": {"type": "integer"}, "note": {"type": "string"}}));
    older["deprecated"] = json!(true);
    older["deprecationWarning"] = json!("use v2");
    definition(json!([older, newer]))
}

#[tokio::test]
async fn an_object_is_seen_in_every_version() {
    let api = Api::new().await;
    api.post(DEFINITIONS, two_versions()).await.expect(201);
    let made = api.post(WIDGETS, widget("a", json!({"size": 1, "note": "x"}))).await.expect(201);
    assert_eq!(made.warnings(), [r#"299 - "use v2""#]);
    let seen = api.get(format!("{WIDGETS_V2}/a")).await.expect(200);
    assert_eq!(seen["apiVersion"], "example.com/v2");
    assert_eq!(seen["spec"], json!({"note": "x"}), "v2 has no size");
    let mut newer = widget("b", json!({"note": "y", "extra": "z"}));
    newer["apiVersion"] = json!("example.com/v2");
    assert_eq!(api.post(WIDGETS_V2, newer.clone()).await.expect(201)["spec"], json!({"note": "y"}), "v1 is stored");
    assert!(api.get(format!("{WIDGETS_V2}/b")).await.expect(200).warnings().is_empty());
    api.post(WIDGETS, newer).await.refused(400, "BadRequest", &["(example.com/v2) does not match"]);

    let group = api.get("/apis/example.com").await.expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v2");
}

#[tokio::test]
async fn a_version_says_what_it_can_be_selected_by() {
    let api = Api::new().await;
    api.post(DEFINITIONS, two_versions()).await.expect(201);
    for (name, note) in [("a", "x"), ("b", "y")] {
        api.post(WIDGETS, widget(name, json!({"note": note}))).await.expect(201);
    }
    let rows = [("spec.note=x", vec!["a"]), ("spec.note!=x", vec!["b"]), ("spec.note=z", vec![])];
    for (selector, expected) in rows {
        let found = api.names(format!("{WIDGETS_V2}?fieldSelector={}", escaped(selector))).await;
        assert_eq!(found, expected, "{selector}");
    }
    let refused = api.get(format!("{WIDGETS}?fieldSelector={}", escaped("spec.note=x"))).await;
    refused.refused(400, "BadRequest", &["field label not supported: spec.note"]);
}

#[tokio::test]
async fn a_watch_of_each_version_tells_that_version() {
    let api = Api::new().await;
    api.post(DEFINITIONS, two_versions()).await.expect(201);
    let mut older = api.get(format!("{WIDGETS}?watch=1")).watch().await;
    let mut newer = api.get(format!("{WIDGETS_V2}?watch=1")).watch().await;
    api.post(WIDGETS, widget("a", json!({"size": 1}))).await.expect(201);
    assert_eq!(older.event().await["object"]["apiVersion"], "example.com/v1");
    let event = newer.event().await;
    assert_eq!((&event["object"]["apiVersion"], &event["object"]["spec"]), (&json!("example.com/v2"), &json!({})));
}

#[tokio::test]
async fn a_version_that_is_no_longer_served_is_gone() {
    let api = Api::new().await;
    api.post(DEFINITIONS, two_versions()).await.expect(201);
    api.post(WIDGETS, widget("a", json!({}))).await.expect(201);
    api.json_patch(DEFINITION, json!([{"op": "replace", "path": "/spec/versions/0/served", "value": false}]))
        .await
        .expect(200);
    assert_eq!(api.get(WIDGETS).await.expect(404).text(), "404 page not found\n");
    api.get(format!("{WIDGETS_V2}/a")).await.expect(200);
    let gone = api.json_patch(DEFINITION, json!([{"op": "remove", "path": "/spec/versions/0"}])).await;
    gone.refused(422, "Invalid", &["v1 was previously a storage version"]);
}

#[tokio::test]
async fn a_version_goes_when_nothing_is_stored_in_it() {
    let api = Api::new().await;
    api.post(DEFINITIONS, two_versions()).await.expect(201);
    api.post(WIDGETS, widget("a", json!({"note": "x"}))).await.expect(201);
    let store_v2 = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
    ]);
    let changed = api.json_patch(DEFINITION, store_v2).await.expect(200);
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(api.get(format!("{WIDGETS_V2}/a")).await.expect(200)["spec"], json!({"extra": "e", "note": "x"}));
    let remove_v1 = json!([{"op": "remove", "path": "/spec/versions/0"}]);
    let early = api.json_patch(DEFINITION, remove_v1.clone()).await;
    early.refused(422, "Invalid", &["v1 was previously a storage version"]);

    api.merge_patch(format!("{WIDGETS_V2}/a"), json!({"spec": {"note": "y"}})).await.expect(200);
    let migrated = json!({"status": {"storedVersions": ["v2"]}});
    api.merge_patch(format!("{DEFINITION}/status"), migrated).await.expect(200);
    let without = api.json_patch(DEFINITION, remove_v1).await.expect(200);
    assert_eq!(without["status"]["storedVersions"], json!(["v2"]));
    api.get(format!("{WIDGETS}/a")).await.expect(404);
    assert_eq!(api.get(format!("{WIDGETS_V2}/a")).await.expect(200)["spec"]["note"], "y");
}

/// Two versions of which the newer, which has more fields, is stored.
fn newer_stored() -> Value {
    let mut definition = two_versions();
    for (version, storage) in [(0, false), (1, true)] {
        definition["spec"]["versions"][version]["storage"] = json!(storage);
    }
    definition
}

#[tokio::test]
async fn what_the_server_writes_by_itself_loses_no_field_of_any_version() {
    let api = Api::new().await;
    api.post(DEFINITIONS, newer_stored()).await.expect(201);
    let owner = api.post(CONFIG_MAPS, config_map("owner")).await.expect(201);
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let mut owned = widget("a", json!({"note": "n", "extra": "kept"}));
    owned["apiVersion"] = json!("example.com/v2");
    owned["metadata"]["ownerReferences"] = json!([reference]);
    owned["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(WIDGETS_V2, owned).await.expect(201);

    api.delete_with(format!("{CONFIG_MAPS}/owner"), json!({"propagationPolicy": "Orphan"})).await.expect(200);
    let path = format!("{WIDGETS_V2}/a");
    let orphan = api.eventually(&path, |answer| answer["metadata"].get("ownerReferences").is_none()).await;
    assert_eq!(orphan["spec"], json!({"note": "n", "extra": "kept"}), "by the garbage collector");
    assert_eq!(orphan["metadata"]["generation"], 1);

    api.delete(DEFINITION).await.expect(200);
    let marked = api.eventually(&path, |answer| answer["metadata"]["deletionTimestamp"].is_string()).await;
    assert_eq!(marked["spec"], json!({"note": "n", "extra": "kept"}), "by the deletion of its definition");
}

#[tokio::test]
async fn objects_of_a_version_that_is_no_longer_served_stay() {
    let api = Api::new().await;
    api.post(DEFINITIONS, newer_stored()).await.expect(201);
    api.post(WIDGETS, widget("a", json!({"note": "0"}))).await.expect(201);
    // Writers through a version, while it goes and comes.
    let (writer, path) = (api.clone(), format!("{WIDGETS}/a"));
    let writing = tokio::spawn(async move {
        for number in 0..200 {
            let answer = writer.merge_patch(&path, json!({"spec": {"note": number.to_string()}})).await;
            assert!(matches!(answer.status, 200 | 404), "{}", answer.text());
        }
    });
    while !writing.is_finished() {
        for served in [false, true] {
            let patch = json!([{"op": "replace", "path": "/spec/versions/0/served", "value": served}]);
            api.json_patch(DEFINITION, patch).await.expect(200);
            tokio::task::yield_now().await;
        }
    }
    writing.await.expect("no writer saw anything else");
    api.get(format!("{WIDGETS_V2}/a")).await.expect(200);
}
