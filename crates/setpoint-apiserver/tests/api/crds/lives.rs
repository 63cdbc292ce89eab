//! The lives of definitions: changed while they are used, deleted with their objects, read again after a restart.

use serde_json::json;

use super::*;
use crate::fixture::{Api, tell};

const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";

#[tokio::test]
async fn a_default_that_is_added_is_seen_on_what_was_stored_before() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({"size": {"type": "integer"}, "old": {"type": "string"}}))).await.expect(201);
    api.post(WIDGETS, widget("a", json!({"size": 1, "old": "x"}))).await.expect(201);
    let change = json!([
        {"op": "add", "path": format!("{SPEC}/colour"), "value": {"type": "string", "default": "green"}},
        {"op": "remove", "path": format!("{SPEC}/old")},
    ]);
    api.json_patch(DEFINITION, change).await.expect(200);
    let expected = json!({"colour": "green", "size": 1});
    assert_eq!(api.get(format!("{WIDGETS}/a")).await.expect(200)["spec"], expected);
    assert_eq!(api.get(WIDGETS).await.expect(200)["items"][0]["spec"], expected);
    let again = api.reopened().await;
    assert_eq!(again.get(format!("{WIDGETS}/a")).await.expect(200)["spec"], expected);
}

#[tokio::test]
async fn a_watch_goes_on_when_the_schema_changes() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({"size": {"type": "integer"}}))).await.expect(201);
    let mut watch = api.get(format!("{WIDGETS}?watch=1")).watch().await;
    api.post(WIDGETS, widget("a", json!({"size": 1}))).await.expect(201);
    assert_eq!(watch.event().await["object"]["spec"], json!({"size": 1}));
    let add = json!([{"op": "add", "path": format!("{SPEC}/colour"), "value": {"type": "string", "default": "green"}}]);
    api.json_patch(DEFINITION, add).await.expect(200);
    api.post(WIDGETS, widget("b", json!({"size": 2}))).await.expect(201);
    assert_eq!(watch.event().await["object"]["spec"], json!({"colour": "green", "size": 2}));
}

#[tokio::test]
async fn a_deleted_definition_takes_its_objects_with_it() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({"size": {"type": "integer"}}))).await.expect(201);
    for name in ["a", "b"] {
        api.post(WIDGETS, widget(name, json!({}))).await.expect(201);
    }
    let watch = api.get(format!("{WIDGETS}?watch=1")).watch().await;
    let deleted = api.delete(DEFINITION).await.expect(200);
    assert_eq!(deleted["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    api.eventually(DEFINITION, |answer| answer.status == 404).await;
    api.eventually(WIDGETS, |answer| answer.status == 404).await;
    let told: Vec<String> = watch.rest().await.iter().map(tell).collect();
    assert_eq!(told, ["ADDED a", "ADDED b", "DELETED a", "DELETED b"], "the watch tells it all, and ends");

    api.post(DEFINITIONS, widgets(json!({}))).await.expect(201);
    assert!(api.names(WIDGETS).await.is_empty(), "defined again, it has no objects");
}

#[tokio::test]
async fn a_deleted_definition_waits_for_finalizers() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({}))).await.expect(201);
    let mut held = widget("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(WIDGETS, held).await.expect(201);
    api.delete(DEFINITION).await.expect(200);
    let marked = |answer: &crate::fixture::Answer| answer["metadata"]["deletionTimestamp"].is_string();
    api.eventually(format!("{WIDGETS}/held"), marked).await;
    let late = api.post(WIDGETS, widget("late", json!({}))).await;
    late.refused(405, "MethodNotAllowed", &["create not allowed while custom resource definition is terminating"]);
    api.merge_patch(format!("{WIDGETS}/held"), json!({"metadata": {"finalizers": null}})).await.expect(200);
    api.eventually(DEFINITION, |answer| answer.status == 404).await;
}

#[tokio::test]
async fn a_deletion_is_taken_up_after_a_restart() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({}))).await.expect(201);
    let mut held = widget("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(WIDGETS, held).await.expect(201);
    api.server.stop();
    let again = api.reopened().await;
    again.get(format!("{WIDGETS}/held")).await.expect(200);
    again.delete(DEFINITION).await.expect(200);
    again.server.stop();
    let last = again.reopened().await;
    last.merge_patch(format!("{WIDGETS}/held"), json!({"metadata": {"finalizers": null}})).await.expect(200);
    last.eventually(DEFINITION, |answer| answer.status == 404).await;
}

#[tokio::test]
async fn a_namespace_is_emptied_of_custom_objects_too() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({}))).await.expect(201);
    api.post("/api/v1/namespaces", json!({"metadata": {"name": "short-lived"}})).await.expect(201);
    api.post("/apis/example.com/v1/namespaces/short-lived/widgets", widget("a", json!({}))).await.expect(201);
    api.delete("/api/v1/namespaces/short-lived").await.expect(200);
    api.eventually("/api/v1/namespaces/short-lived", |answer| answer.status == 404).await;
    assert!(api.names("/apis/example.com/v1/widgets").await.is_empty());
}

#[tokio::test]
async fn a_custom_resource_may_belong_to_no_namespace() {
    let api = Api::new().await;
    let mut cluster = widgets(json!({}));
    cluster["spec"]["scope"] = json!("Cluster");
    api.post(DEFINITIONS, cluster).await.expect(201);
    let made = api.post("/apis/example.com/v1/widgets", widget("a", json!({}))).await.expect(201);
    assert_eq!(made["metadata"]["namespace"], json!(null));
    assert_eq!(api.post(WIDGETS, widget("b", json!({}))).await.expect(404).text(), "404 page not found\n");
    assert_eq!(api.names("/apis/example.com/v1/widgets").await, ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_object_outlives_its_definition() {
    let api = Api::new().await;
    for _ in 0..20 {
        api.post(DEFINITIONS, widgets(json!({}))).await.expect(201);
        let writer = api.clone();
        let writing = tokio::spawn(async move {
            for number in 0..50 {
                let answer = writer.post(WIDGETS, widget(&format!("w{number}"), json!({}))).await;
                assert!(matches!(answer.status, 201 | 404 | 405), "{}", answer.text());
            }
        });
        api.delete(DEFINITION).await.expect(200);
        writing.await.expect("no writer saw anything else");
        api.eventually(DEFINITION, |answer| answer.status == 404).await;
        api.eventually(WIDGETS, |answer| answer.status == 404).await;
        assert_eq!(api.store.count("/example.com/widgets/"), 0);
    }
}
