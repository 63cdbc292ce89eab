//! Dependents that may not be deleted: they stay, cost nothing, and go when they may.

use serde_json::{Value, json};
use setpoint_store::{MemoryStore, Options};

use super::counted::Counted;
use super::*;

fn protected(name: &str, marks: &str, owner: Value) -> Value {
    let object = with(config_map(name), marks, json!({"setpoint.dev/protected": "true"}));
    with(object, "ownerReferences", json!([owner]))
}

#[tokio::test]
async fn a_protected_dependent_outlives_its_owner_until_the_mark_is_gone() {
    let api = Api::new().await;
    for marks in ["annotations", "labels"] {
        let top = owner(&api, "top").await;
        api.post(CONFIG_MAPS, protected(marks, marks, reference(&top))).await.expect(201);
        api.delete(path("top")).await.expect(200);
        settle(&api).await;
        assert_eq!(metadata(&api, marks, "deletionTimestamp").await, Value::Null);
        api.merge_patch(path(marks), json!({"metadata": {marks: null}})).await.expect(200);
        gone(&api, path(marks)).await;
    }
}

#[tokio::test]
async fn an_owner_in_the_foreground_waits_for_a_protected_dependent() {
    let api = Api::new().await;
    let top = owner(&api, "top").await;
    api.post(CONFIG_MAPS, protected("kept", "annotations", blocking(&top))).await.expect(201);
    api.delete_with(path("top"), by("Foreground")).await.expect(200);
    settle(&api).await;
    assert_eq!(metadata(&api, "top", "finalizers").await, json!(["foregroundDeletion"]));
    assert_eq!(metadata(&api, "kept", "deletionTimestamp").await, Value::Null);
    api.merge_patch(path("kept"), json!({"metadata": {"annotations": null}})).await.expect(200);
    gone(&api, path("top")).await;
    gone(&api, path("kept")).await;
}

#[tokio::test]
async fn a_refusal_is_not_tried_again_before_the_object_changes() {
    let store = Counted::over(Arc::new(MemoryStore::new(Options::default())));
    let api = Api::over(store.clone()).await;
    let top = owner(&api, "top").await;
    api.post(CONFIG_MAPS, protected("kept", "annotations", reference(&top))).await.expect(201);
    api.delete(path("top")).await.expect(200);
    settle(&api).await;
    let key = "/core/configmaps/default/kept";
    let looks = store.gets(key);
    // Long enough for a retry or two, since the first of them come quickly.
    for _ in 0..50 {
        settle(&api).await;
    }
    assert_eq!(store.gets(key), looks, "nobody looks at it");
    api.merge_patch(path("kept"), json!({"data": {"a": "changed"}})).await.expect(200);
    settle(&api).await;
    assert!(store.gets(key) > looks + 1, "it is looked at when it changes, not only patched");
    assert_eq!(metadata(&api, "kept", "deletionTimestamp").await, Value::Null);
}
