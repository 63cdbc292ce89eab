//! What an applied configuration makes of an object.

use futures::future::join_all;
use serde_json::json;

use super::config;
use crate::fixture::Api;
use crate::objects::*;

#[tokio::test]
async fn an_apply_makes_an_object_and_then_changes_it() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let created = api.apply(&path, "one", config("a", json!({"a": "1", "b": "2"}))).await.expect(201);
    assert_eq!(created.owned(), json!({"one": {"f:data": {"f:a": {}, "f:b": {}}}}));
    let entry = &created["metadata"]["managedFields"][0];
    assert_eq!((&entry["operation"], &entry["apiVersion"]), (&json!("Apply"), &json!("v1")));
    assert_eq!((&entry["fieldsType"], &entry["time"]), (&json!("FieldsV1"), &created["metadata"]["creationTimestamp"]));
    let changed = api.apply(&path, "one", config("a", json!({"b": "3"}))).await.expect(200);
    assert_eq!(changed["data"], json!({"b": "3"}), "what is no longer applied goes");
    assert_eq!(api.get(&path).await.expect(200).object, changed.object);
}

#[tokio::test]
async fn the_same_configuration_again_changes_nothing_at_all() {
    let api = Api::new().await;
    for (path, config) in [
        (format!("{CONFIG_MAPS}/a"), config("a", json!({"a": "1"}))),
        (format!("{DEPLOYMENTS}/web"), deployment("web")),
        (format!("{SERVICES}/web"), service("web")),
        (format!("{PODS}/p"), pod("p")),
        (
            format!("{CONFIG_MAPS}/empty"),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {}, "metadata": {"name": "empty", "labels": {}}}),
        ),
    ] {
        let created = api.apply(&path, "one", config.clone()).await.expect(201);
        let before = api.store.revision();
        for force in ["", "?force=true"] {
            let again = api.apply(format!("{path}{force}"), "one", config.clone()).await.expect(200);
            assert_eq!(again.object, created.object, "{path}");
        }
        assert_eq!(api.store.revision(), before, "{path}: nothing is written");
    }
}

#[tokio::test]
async fn a_configuration_may_be_yaml() {
    let api = Api::new().await;
    let yaml = "# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: |\n    long\n";
    let path = format!("{CONFIG_MAPS}/a?fieldManager=one");
    let patch = api.send(http::Method::PATCH, path).body("application/apply-patch+yaml", yaml);
    assert_eq!(patch.await.expect(201)["data"], json!({"a": "long\n"}));
}

#[tokio::test]
async fn managers_share_what_they_agree_on_and_give_up_what_they_leave_out() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    api.apply(&path, "one", config("a", json!({"a": "1", "b": "1"}))).await.expect(201);
    let shared = api.apply(&path, "two", config("a", json!({"a": "1"}))).await.expect(200);
    assert_eq!(shared.owned(), json!({"one": {"f:data": {"f:a": {}, "f:b": {}}}, "two": {"f:data": {"f:a": {}}}}));
    let left = api.apply(&path, "one", config("a", json!({}))).await.expect(200);
    assert_eq!(left["data"], json!({"a": "1"}), "two still wants it");
    let left = api.apply(&path, "two", json!({"apiVersion": "v1", "kind": "ConfigMap"})).await.expect(200);
    assert_eq!(left.object.get("data"), None);
}

#[tokio::test]
async fn elements_of_lists_merge_by_their_keys() {
    let api = Api::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    let containers = |containers: serde_json::Value| {
        let spec = json!({"template": {"spec": {"containers": containers}}});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    };
    api.apply(&path, "one", deployment("web")).await.expect(201);
    let side =
        containers(json!([{"name": "side", "image": "s:1"}, {"name": "main", "env": [{"name": "E", "value": "1"}]}]));
    let merged = api.apply(&path, "two", side).await.expect(200);
    let shown: Vec<_> = merged["spec"]["template"]["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|container| (container["name"].as_str(), container["env"][0]["value"].as_str()))
        .collect();
    assert_eq!(shown, [(Some("side"), None), (Some("main"), Some("1"))], "in the order of who came last");
    assert_eq!(merged["spec"]["template"]["spec"]["containers"][1]["image"], "example.com/app:1");
    let back = api.apply(&path, "two", containers(json!([]))).await.expect(200);
    let left = &back["spec"]["template"]["spec"]["containers"];
    assert_eq!((left.as_array().map(Vec::len), left[0].get("env")), (Some(1), None));
    assert_eq!(back["metadata"]["generation"], 3);
}

#[tokio::test]
async fn a_dry_run_shows_and_stores_nothing() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let dry = format!("{path}?dryRun=All");
    let shown = api.apply(&dry, "one", config("a", json!({"a": "1"}))).await.expect(201);
    assert_eq!(shown.owned(), json!({"one": {"f:data": {"f:a": {}}}}));
    api.get(&path).await.refused(404, "NotFound", &[]);
    let created = api.apply(&path, "one", config("a", json!({"a": "1"}))).await.expect(201);
    let shown = api.apply(&dry, "two", config("a", json!({"b": "2"}))).await.expect(200);
    assert_eq!(shown["data"], json!({"a": "1", "b": "2"}));
    assert_eq!(api.get(&path).await.object, created.object);
}

#[tokio::test]
async fn appliers_at_once_all_get_what_they_apply() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let applies = (0..16).map(|index| {
        let config = config("a", json!({format!("k{index:02}"): "v"}));
        api.apply(&path, &format!("m{index}"), config)
    });
    let answers = join_all(applies.map(std::future::IntoFuture::into_future)).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1, "one of them makes it");
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 201)));
    let object = api.get(&path).await;
    assert_eq!(object["data"].as_object().map(serde_json::Map::len), Some(16));
    assert_eq!(object["metadata"]["managedFields"].as_array().map(Vec::len), Some(16), "appliers are never merged");
}
