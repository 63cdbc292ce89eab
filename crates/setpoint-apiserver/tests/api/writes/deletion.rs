//! Taking objects away: finalizers, preconditions and whole collections.

use serde_json::json;

use crate::fixture::{Api, escaped, names};
use crate::objects::*;

#[tokio::test]
async fn a_deleted_object_is_gone_and_the_answer_says_which() {
    let api = Api::new().await;
    let created = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let deleted = api.delete(&path).await.expect(200);
    assert_eq!((&deleted["kind"], &deleted["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(deleted["details"]["uid"], created["metadata"]["uid"]);
    api.get(&path).await.refused(404, "NotFound", &["configmaps \"a\" not found"]);
    api.delete(&path).await.refused(404, "NotFound", &[]);
}

#[tokio::test]
async fn a_deletion_happens_only_where_its_preconditions_hold() {
    let api = Api::new().await;
    let created = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let (uid, old) = (&created["metadata"]["uid"], &created["metadata"]["resourceVersion"]);
    let patched = api.merge_patch(&path, json!({"data": {"x": "1"}})).await.expect(200);
    let new = &patched["metadata"]["resourceVersion"];
    let refused = [
        ("another object", json!({"uid": "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}), "UID in the precondition"),
        ("an older revision", json!({"resourceVersion": old}), "ResourceVersion in the precondition"),
        ("the uid but not the revision", json!({"uid": uid, "resourceVersion": old}), "precondition"),
    ];
    for (row, preconditions, words) in refused {
        let answer = api.delete_with(&path, json!({"preconditions": preconditions})).await;
        assert!(answer.refused(409, "Conflict", &[words])["details"]["name"] == "a", "{row}");
    }
    api.delete_with(&path, json!({"preconditions": {"uid": uid, "resourceVersion": new}})).await.expect(200);
    api.get(&path).await.expect(404);
}

#[tokio::test]
async fn options_that_are_none_are_refused_before_anything_is_deleted() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let rows = [
        ("another kind", json!({"kind": "Sweep", "apiVersion": "v1"}), 400),
        ("a policy nobody has", json!({"propagationPolicy": "Sideways"}), 422),
        ("two ways to say it", json!({"propagationPolicy": "Orphan", "orphanDependents": true}), 422),
        ("a wrong type", json!({"gracePeriodSeconds": "soon"}), 400),
    ];
    for (row, options, expected) in rows {
        let answer = api.delete_with(&path, options).await;
        assert_eq!(answer.status, expected, "{row}: {}", answer.text());
    }
    api.get(&path).await.expect(200);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let held = with(config_map("a"), "finalizers", json!(["example.com/first", "example.com/last"]));
    api.post(CONFIG_MAPS, held).await.expect(201);

    let marked = api.delete(&path).await.expect(200);
    assert_eq!(marked["kind"], "ConfigMap", "what is held is answered, not a Status");
    let since = marked["metadata"]["deletionTimestamp"].clone();
    assert!(since.is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);

    let again = api.delete(&path).await.expect(200);
    assert_eq!(again.revision(), marked.revision(), "deleting again changes nothing");
    let created = api.post(CONFIG_MAPS, config_map("a")).await;
    created.refused(409, "AlreadyExists", &["object is being deleted"]);

    let patch = |finalizers: serde_json::Value| json!({"metadata": {"finalizers": finalizers}});
    let added = api.merge_patch(&path, patch(json!(["example.com/last", "example.com/new"]))).await;
    added.refused(422, "Invalid", &["no new finalizers can be added if the object is being deleted"]);
    let revived = api.merge_patch(&path, json!({"metadata": {"deletionTimestamp": null}})).await.expect(200);
    assert_eq!(revived["metadata"]["deletionTimestamp"], since, "nobody is brought back");

    api.merge_patch(&path, patch(json!(["example.com/last"]))).await.expect(200);
    api.get(&path).await.expect(200);
    api.merge_patch(&path, patch(json!(null))).await.expect(200);
    api.get(&path).await.expect(404);
}

#[tokio::test]
async fn a_finalizer_has_a_qualified_name() {
    let api = Api::new().await;
    let answer = api.post(CONFIG_MAPS, with(config_map("a"), "finalizers", json!(["plain"]))).await;
    assert!(answer.refused(422, "Invalid", &["plain"]).fields().contains("metadata.finalizers[0]"));
}

#[tokio::test]
async fn foreground_and_orphan_leave_their_finalizers() {
    let api = Api::new().await;
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let name = policy.to_lowercase();
        api.post(DEPLOYMENTS, deployment(&name)).await.expect(201);
        let path = format!("{DEPLOYMENTS}/{name}");
        let marked = api.delete_with(&path, json!({"propagationPolicy": policy})).await.expect(200);
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]), "{policy}");
        assert_eq!(marked["metadata"]["generation"], 2, "wanting an object gone is a change of what is wanted");
    }
}

#[tokio::test]
async fn a_collection_is_deleted_by_selectors() {
    let api = Api::new().await;
    for (name, label) in [("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")] {
        api.post(CONFIG_MAPS, labelled(config_map(name), "group", label)).await.expect(201);
    }
    let deleted = api.delete(format!("{CONFIG_MAPS}?labelSelector={}", escaped("group=1"))).await.expect(200);
    assert_eq!(deleted["kind"], "ConfigMapList");
    assert_eq!(names(&deleted["items"]), ["a", "b"]);
    api.delete(format!("{CONFIG_MAPS}?fieldSelector={}", escaped("metadata.name=c"))).await.expect(200);
    assert_eq!(api.names(CONFIG_MAPS).await, ["d"]);
    api.delete(format!("{CONFIG_MAPS}?labelSelector=%3D%3D")).await.refused(400, "BadRequest", &[]);
    assert_eq!(api.names(CONFIG_MAPS).await, ["d"], "a selector that is none selects nothing");
    api.delete(CONFIG_MAPS).await.expect(200);
    assert!(api.names(CONFIG_MAPS).await.is_empty());
}

#[tokio::test]
async fn a_collection_is_deleted_in_one_namespace_alone() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let elsewhere = "/api/v1/namespaces/kube-public/configmaps";
    api.post(elsewhere, config_map("a")).await.expect(201);
    api.delete(CONFIG_MAPS).await.expect(200);
    assert_eq!(api.names(elsewhere).await, ["a"]);
    api.delete("/api/v1/configmaps").await.refused(405, "MethodNotAllowed", &[]);
    api.delete(NAMESPACES).await.refused(405, "MethodNotAllowed", &[]);
}

#[tokio::test]
async fn what_is_held_stays_in_its_collection() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, with(config_map("held"), "finalizers", json!(["example.com/f"]))).await.expect(201);
    api.post(CONFIG_MAPS, config_map("free")).await.expect(201);
    api.delete(CONFIG_MAPS).await.expect(200);
    let left = api.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(names(&left["items"]), ["held"]);
    assert!(left["items"][0]["metadata"]["deletionTimestamp"].is_string());
}
