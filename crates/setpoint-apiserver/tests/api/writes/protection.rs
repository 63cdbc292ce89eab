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
async fn a_collection_in_which_an_object_was_marked_meanwhile_is_not_said_to_be_deleted() {
    let api = Api::new().await;
    for name in ["a", "b"] {
        api.post(CONFIG_MAPS, config_map(name)).await.expect(201);
    }
    // The list is from before the mark.
    let then = format!("{CONFIG_MAPS}?resourceVersion={}&resourceVersionMatch=Exact", api.store.revision());
    let mark = json!({"metadata": {"annotations": {MARK: "true"}}});
    api.merge_patch(format!("{CONFIG_MAPS}/b"), mark).await.expect(200);
    api.delete(then).await.refused(403, "Forbidden", &["configmaps \"b\"", "it is protected"]);
    assert_eq!(api.names(CONFIG_MAPS).await, ["b"]);
}

/// What a refusal says of an object that would go with another.
fn would_go(object: &str, remedy: &str) -> [String; 3] {
    ["what is protected would go with it".to_owned(), object.to_owned(), remedy.to_owned()]
}

#[tokio::test]
async fn what_holds_something_protected_is_not_deleted() {
    let api = Api::new().await;
    api.post(NAMESPACES, namespace("team")).await.expect(201);
    api.post(DEFINITIONS, widgets(json!({}))).await.expect(201);
    let inside = "/api/v1/namespaces/team/configmaps";
    let rows = [
        (
            "a namespace",
            format!("{NAMESPACES}/team"),
            inside.to_owned(),
            config_map("a"),
            "configmaps \"a\"",
            "kubectl -n team annotate configmaps a",
        ),
        ("a definition", DEFINITION.to_owned(), WIDGETS.to_owned(), widget("a", json!({})), "\"a\"", "annotate"),
    ];
    for (row, holder, path, object, shown, remedy) in rows {
        api.post(&path, protected(object.clone())).await.expect(201);
        api.post(&path, with(object.clone(), "name", json!("b"))).await.expect(201);
        let before = api.store.revision();
        let words = would_go(shown, remedy);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        api.delete(&holder).await.refused(403, "Forbidden", &words);
        api.delete(format!("{holder}?dryRun=All")).await.refused(403, "Forbidden", &words);
        api.delete_with(&holder, json!({"propagationPolicy": "Orphan"})).await.refused(403, "Forbidden", &words);
        assert_eq!(api.store.revision(), before, "{row}");
        api.merge_patch(format!("{path}/a"), json!({"metadata": {"annotations": {MARK: null}}})).await.expect(200);
        api.delete(&holder).await.expect(200);
        api.eventually(&holder, |answer| answer.status == 404).await;
    }
}

#[tokio::test]
async fn a_refusal_names_a_few_and_says_that_there_are_more() {
    let api = Api::new().await;
    api.post(NAMESPACES, namespace("team")).await.expect(201);
    for name in ["a", "b", "c", "d", "e"] {
        api.post("/api/v1/namespaces/team/secrets", protected(secret(name))).await.expect(201);
    }
    let refused = api.delete(format!("{NAMESPACES}/team")).await;
    let refused = refused.refused(403, "Forbidden", &["secrets \"a\", secrets \"b\", secrets \"c\" and more"]);
    assert!(!refused.message().contains("\"d\""), "{}", refused.message());
}

#[tokio::test]
async fn a_namespace_or_a_definition_that_is_marked_stays() {
    let api = Api::new().await;
    api.post(NAMESPACES, protected(namespace("team"))).await.expect(201);
    api.post(DEFINITIONS, protected(widgets(json!({})))).await.expect(201);
    for path in [format!("{NAMESPACES}/team"), DEFINITION.to_owned()] {
        api.delete(&path).await.refused(403, "Forbidden", &["it is protected"]);
        api.delete(DEFINITIONS).await.refused(403, "Forbidden", &["it is protected"]);
        api.merge_patch(&path, json!({"metadata": {"annotations": {MARK: null}}})).await.expect(200);
        api.delete(&path).await.expect(200);
    }
}

#[tokio::test]
async fn every_path_to_a_deletion_is_closed() {
    let api = Api::new().await;
    let one = format!("{PODS}/p");
    api.post(PODS, protected(pod("p"))).await.expect(201);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let attempts = [
        ("a delete", api.delete(&one)),
        ("a dry run", api.delete(format!("{one}?dryRun=All"))),
        ("by force", api.delete_with(&one, json!({"gracePeriodSeconds": 0}))),
        ("in the foreground", api.delete_with(&one, json!({"propagationPolicy": "Foreground"}))),
        ("an eviction", api.post(format!("{one}/eviction"), eviction)),
        ("a collection", api.delete(PODS)),
    ];
    for (row, attempt) in attempts {
        let answer = attempt.await;
        assert_eq!(answer.status, 403, "{row}: {}", answer.text());
        assert!(answer.message().contains("it is protected"), "{row}: {}", answer.text());
    }
    assert_eq!(api.get(&one).await.expect(200)["metadata"]["deletionTimestamp"], Value::Null);
}

#[tokio::test]
async fn what_was_marked_on_its_way_out_goes_when_the_mark_does() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    api.post(CONFIG_MAPS, with(config_map("a"), "finalizers", json!(["example.com/a"]))).await.expect(201);
    api.delete(&path).await.expect(200);
    api.merge_patch(&path, json!({"metadata": {"annotations": {MARK: "true"}}})).await.expect(200);
    let release = json!({"metadata": {"finalizers": null}});
    api.merge_patch(&path, release.clone()).await.refused(403, "Forbidden", &["it is protected"]);
    api.merge_patch(&path, json!({"metadata": {"annotations": {MARK: null}}})).await.expect(200);
    api.merge_patch(&path, release).await.expect(200);
    api.get(&path).await.expect(404);
}

/// What was marked after its namespace or definition was deleted keeps it, and its status says so.
#[tokio::test]
async fn what_is_marked_too_late_is_waited_for() {
    let api = Api::new().await;
    api.post(NAMESPACES, namespace("team")).await.expect(201);
    api.post(DEFINITIONS, widgets(json!({}))).await.expect(201);
    let held = |object: Value| with(object, "finalizers", json!(["example.com/a"]));
    let rows = [
        (format!("{NAMESPACES}/team"), "/api/v1/namespaces/team/configmaps".to_owned(), config_map("a")),
        (DEFINITION.to_owned(), WIDGETS.to_owned(), widget("a", json!({}))),
    ];
    for (holder, path, object) in rows {
        api.post(&path, held(object)).await.expect(201);
        api.delete(&holder).await.expect(200);
        let one = format!("{path}/a");
        api.eventually(&one, |answer| answer["metadata"]["deletionTimestamp"].is_string()).await;
        api.merge_patch(&one, json!({"metadata": {"annotations": {MARK: "true"}}})).await.expect(200);
        api.merge_patch(&one, json!({"metadata": {"finalizers": null}})).await.expect(403);
        api.get(&holder).await.expect(200);
        api.merge_patch(&one, json!({"metadata": {"annotations": {MARK: null}, "finalizers": null}})).await.expect(200);
        api.eventually(&holder, |answer| answer.status == 404).await;
    }
}
