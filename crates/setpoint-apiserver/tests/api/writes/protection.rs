//! What is marked as protected is not deleted, whoever asks and by whatever way, until the mark is gone.

use serde_json::{Value, json};

use crate::crds::{DEFINITION, DEFINITIONS, WIDGETS, widget, widgets};
use crate::fixture::Api;
use crate::objects::*;

const MARK: &str = "setpoint.dev/protected";

fn protected(object: Value) -> Value {
    with(object, "annotations", json!({MARK: "true"}))
}

#[tokio::test]
async fn a_mark_keeps_an_object_and_the_refusal_says_how_to_remove_it() {
    let api = Api::new().await;
    let rows = [("labels", "kubectl label configmaps a"), ("annotations", "kubectl annotate configmaps a")];
    for (marks, remedy) in rows {
        api.post(CONFIG_MAPS, with(config_map("a"), marks, json!({MARK: "true"}))).await.expect(201);
        let path = format!("{CONFIG_MAPS}/a");
        let before = api.store.revision();
        let remedy = format!("{remedy} {MARK}-");
        api.delete(&path).await.refused(403, "Forbidden", &["configmaps \"a\" is forbidden", "protected", &remedy]);
        api.delete_with(&path, json!({"gracePeriodSeconds": 0})).await.refused(403, "Forbidden", &["protected"]);
        assert_eq!(api.store.revision(), before, "{marks}");
        api.merge_patch(&path, json!({"metadata": {marks: {MARK: null}}})).await.expect(200);
        api.delete(&path).await.expect(200);
    }
    api.post(CONFIG_MAPS, with(config_map("b"), "labels", json!({MARK: "false"}))).await.expect(201);
    api.delete(format!("{CONFIG_MAPS}/b")).await.expect(200);
}

#[tokio::test]
async fn a_collection_with_a_protected_object_stays_whole() {
    let api = Api::new().await;
    for name in ["a", "c"] {
        api.post(CONFIG_MAPS, labelled(config_map(name), "app", "shop")).await.expect(201);
    }
    api.post(CONFIG_MAPS, protected(config_map("b"))).await.expect(201);
    api.delete(CONFIG_MAPS).await.refused(403, "Forbidden", &["configmaps \"b\"", "protected"]);
    assert_eq!(api.names(CONFIG_MAPS).await, ["a", "b", "c"]);
    api.delete(format!("{CONFIG_MAPS}?labelSelector=app%3Dshop")).await.expect(200);
    assert_eq!(api.names(CONFIG_MAPS).await, ["b"], "what the selector leaves out is not asked");
}

#[tokio::test]
async fn a_namespace_waits_for_what_is_protected_in_it_and_says_so() {
    let api = Api::new().await;
    api.post(NAMESPACES, namespace("team")).await.expect(201);
    let inside = "/api/v1/namespaces/team/configmaps";
    api.post(inside, protected(config_map("a"))).await.expect(201);
    api.post(inside, config_map("b")).await.expect(201);
    api.post("/api/v1/namespaces/team/secrets", secret("s")).await.expect(201);
    api.delete(format!("{NAMESPACES}/team")).await.expect(200);
    let path = format!("{NAMESPACES}/team");
    let held = api.eventually(&path, |answer| answer.text().contains("SomeFinalizersRemain")).await;
    assert!(held.text().contains("setpoint.dev/protected in 1 resource instances"), "{}", held.text());
    assert_eq!(api.names(inside).await, ["a"]);
    assert!(api.names("/api/v1/namespaces/team/secrets").await.is_empty(), "what comes later is emptied too");
    api.merge_patch(format!("{inside}/a"), json!({"metadata": {"annotations": {MARK: null}}})).await.expect(200);
    let deleted = api.delete(format!("{inside}/a")).await;
    assert!(matches!(deleted.status, 200 | 404), "by this or by the namespace's own next look: {}", deleted.text());
    api.eventually(&path, |answer| answer.status == 404).await;
}

#[tokio::test]
async fn a_definition_waits_for_what_is_protected_of_its_objects() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({}))).await.expect(201);
    api.post(WIDGETS, protected(widget("a", json!({})))).await.expect(201);
    api.post(WIDGETS, widget("b", json!({}))).await.expect(201);
    api.delete(DEFINITION).await.expect(200);
    api.eventually(DEFINITION, |answer| answer.text().contains("deletion is in progress: 1 left")).await;
    assert_eq!(api.names(WIDGETS).await, ["a"]);
    api.merge_patch(format!("{WIDGETS}/a"), json!({"metadata": {"annotations": {MARK: null}}})).await.expect(200);
    let deleted = api.delete(format!("{WIDGETS}/a")).await;
    assert!(matches!(deleted.status, 200 | 404), "by this or by the definition's own next look: {}", deleted.text());
    api.eventually(DEFINITION, |answer| answer.status == 404).await;
}
