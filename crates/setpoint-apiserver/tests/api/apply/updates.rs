//! Who owns what after writes that are no applies.

use http::header::USER_AGENT;
use serde_json::json;

use super::config;
use crate::fixture::Api;
use crate::objects::*;

#[tokio::test]
async fn who_writes_a_field_owns_it() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let created =
        api.post(format!("{CONFIG_MAPS}?fieldManager=maker"), config("a", json!({"a": "1"}))).await.expect(201);
    assert_eq!(created.owned(), json!({"maker": {"f:data": {".": {}, "f:a": {}}}}));
    assert_eq!(created["metadata"]["managedFields"][0]["operation"], "Update");
    let put =
        api.put(format!("{path}?fieldManager=putter"), config("a", json!({"a": "2", "b": "1"}))).await.expect(200);
    assert_eq!(put.owned(), json!({"maker": {"f:data": {}}, "putter": {"f:data": {"f:a": {}, "f:b": {}}}}));
    let patched =
        api.merge_patch(&path, json!({"data": {"b": null, "c": "1"}})).header(USER_AGENT, "tool/v1 (x)").await;
    assert_eq!(
        patched.expect(200).owned(),
        json!({"maker": {"f:data": {}}, "putter": {"f:data": {"f:a": {}}}, "tool": {"f:data": {"f:c": {}}}})
    );
}

#[tokio::test]
async fn a_write_that_changes_nothing_leaves_the_record() {
    let api = Api::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    let created = api.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let before = api.store.revision();
    let same = [
        api.put(format!("{path}?fieldManager=other"), created.object.clone()).await,
        api.put(format!("{path}?fieldManager=other"), deployment("web")).await,
        api.merge_patch(format!("{path}?fieldManager=other"), json!({"spec": {"replicas": 2}})).await,
        api.strategic_patch(format!("{path}?fieldManager=other"), json!({})).await,
    ];
    for answer in same {
        assert_eq!(answer.expect(200).object, created.object);
    }
    assert_eq!(api.store.revision(), before);
}

#[tokio::test]
async fn what_the_server_decides_belongs_to_nobody() {
    let api = Api::new().await;
    let rows = [
        (SERVICES, service("a"), "/spec/clusterIP"),
        (PODS, pod("a"), "/spec/tolerations"),
        (PODS, pod("b"), "/status/phase"),
        (DEPLOYMENTS, deployment("a"), "/metadata/generation"),
    ];
    for (path, object, field) in rows {
        let created = api.post(path, object).await.expect(201);
        assert!(created.object.pointer(field).is_some(), "{field} is there");
        let owned = field.replace('/', "/f:");
        assert_eq!(created.owned()["unknown"].pointer(&owned), None, "{field}");
    }
    let defaulted = api.get(format!("{DEPLOYMENTS}/a")).await.owned()["unknown"].clone();
    assert_eq!(defaulted["f:spec"]["f:progressDeadlineSeconds"], json!({}), "but a default is its writer's");
}

#[tokio::test]
async fn a_record_can_be_cleared_and_is_then_kept_no_more() {
    for cleared in [json!([]), json!([{}])] {
        let api = Api::new().await;
        let path = format!("{CONFIG_MAPS}/a");
        api.post(CONFIG_MAPS, config("a", json!({"a": "1"}))).await.expect(201);
        let forgotten = api.merge_patch(&path, json!({"metadata": {"managedFields": cleared}})).await.expect(200);
        assert_eq!(forgotten["metadata"].get("managedFields"), None);
        let patched = api.merge_patch(&path, json!({"data": {"b": "1"}})).await.expect(200);
        assert_eq!(patched["metadata"].get("managedFields"), None, "until somebody applies");
        let applied = api.apply(&path, "one", config("a", json!({"c": "1"}))).await.expect(200);
        let before = json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}});
        assert_eq!(applied.owned(), json!({"before-first-apply": before, "one": {"f:data": {"f:c": {}}}}));
    }
}

#[tokio::test]
async fn a_record_that_is_none_is_ignored() {
    let entry = json!({"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}});
    let with_field = |field: &str, value| {
        let mut entry = entry.clone();
        entry[field] = value;
        entry
    };
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let created = api.post(CONFIG_MAPS, config("a", json!({"a": "1"}))).await.expect(201);
    let patch = |entry| api.merge_patch(&path, json!({"metadata": {"managedFields": [entry]}}));
    for broken in [
        with_field("operation", json!("Bad")),
        with_field("fieldsV1", json!({"x": {}})),
        with_field("apiVersion", json!("")),
    ] {
        assert_eq!(patch(broken).await.expect(200).object, created.object);
    }
    let long = patch(with_field("manager", json!("x".repeat(129)))).await;
    long.refused(422, "Invalid", &["metadata.managedFields[0].manager: Too long"]);
    assert_eq!(patch(entry).await.expect(200).owned(), json!({"x": {"f:data": {"f:a": {}}}}), "one that is one counts");
}

#[tokio::test]
async fn a_record_of_a_crowd_is_refused() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    api.post(CONFIG_MAPS, config("a", json!({"a": "1"}))).await.expect(201);
    let crowd = |count: usize| {
        let entry = |number| {
            json!({"manager": format!("m{number}"), "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {format!("f:k{number}"): {}}}})
        };
        with(config("a", json!({"a": "1"})), "managedFields", (0..count).map(entry).collect())
    };
    let kept = api.put(&path, crowd(1_000)).await.expect(200);
    assert_eq!(kept["metadata"]["managedFields"].as_array().map(Vec::len), Some(1_000));
    let refused = api.put(&path, crowd(1_001)).await;
    let words = ["metadata.managedFields: Too many: 1001: must have at most 1000 items"];
    assert_eq!(refused.refused(422, "Invalid", &words).fields(), ["metadata.managedFields"].into());
}

#[tokio::test]
async fn the_oldest_updaters_are_told_apart_no_more() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    api.post(CONFIG_MAPS, config("a", json!({"a": "1"}))).await.expect(201);
    for index in 0..12 {
        let patch = json!({"data": {format!("k{index}"): "v"}});
        api.merge_patch(format!("{path}?fieldManager=m{index}"), patch).await.expect(200);
    }
    let object = api.get(&path).await;
    assert_eq!(object["metadata"]["managedFields"].as_array().map(Vec::len), Some(10));
    assert!(object.owned()["ancient-changes"].is_object());
}

#[tokio::test]
async fn a_restart_keeps_the_record_and_a_deletion_shows_it() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let finalized = with(config("a", json!({"a": "1"})), "finalizers", json!(["example.com/f"]));
    let created = api.apply(&path, "one", finalized).await.expect(201);
    let reopened = api.reopened().await;
    assert_eq!(reopened.get(&path).await.object, created.object);
    assert_eq!(reopened.delete(&path).await.expect(200).owned(), created.owned());
    let listed = reopened.get(CONFIG_MAPS).await;
    assert_eq!(listed["items"][0]["metadata"]["managedFields"], created["metadata"]["managedFields"]);
}
