//! The three kinds of patch.

use serde_json::json;

use crate::fixture::Api;
use crate::objects::*;

#[tokio::test]
async fn a_merge_patch_sets_and_removes() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let patch = json!({"metadata": {"annotations": {"note": "1"}}, "data": {"colour": null, "size": "large"}});
    let patched = api.merge_patch(format!("{CONFIG_MAPS}/a"), patch).await.expect(200);
    assert_eq!(patched["data"], json!({"size": "large"}));
    assert_eq!(patched["metadata"]["annotations"], json!({"note": "1"}));
}

#[tokio::test]
async fn a_json_patch_does_all_of_its_steps_or_none() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let steps = json!([
        {"op": "test", "path": "/data/colour", "value": "green"},
        {"op": "move", "from": "/data/colour", "path": "/data/shade"},
        {"op": "add", "path": "/data/size", "value": "small"},
    ]);
    let patched = api.json_patch(&path, steps).await.expect(200);
    assert_eq!(patched["data"], json!({"shade": "green", "size": "small"}));

    let steps = json!([
        {"op": "replace", "path": "/data/size", "value": "huge"},
        {"op": "test", "path": "/data/shade", "value": "red"},
    ]);
    api.json_patch(&path, steps).await.refused(422, "Invalid", &[]);
    assert_eq!(api.get(&path).await.expect(200)["data"]["size"], "small");
}

#[tokio::test]
async fn a_strategic_patch_finds_list_items_by_their_key() {
    let api = Api::new().await;
    let mut object = deployment("web");
    object["spec"]["template"]["spec"]["containers"]
        .as_array_mut()
        .expect("containers are a list")
        .push(json!({"name": "side", "image": "example.com/side:1"}));
    api.post(DEPLOYMENTS, object).await.expect(201);
    let containers = json!([{"name": "side", "image": "example.com/side:2"}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});

    let strategic = api.strategic_patch(format!("{DEPLOYMENTS}/web"), patch.clone()).await.expect(200);
    let images = |containers: &serde_json::Value| -> Vec<serde_json::Value> {
        containers.as_array().into_iter().flatten().map(|container| container["image"].clone()).collect()
    };
    let mut found = images(&strategic["spec"]["template"]["spec"]["containers"]);
    found.sort_by_key(|image| image.to_string());
    assert_eq!(found, [json!("example.com/app:1"), json!("example.com/side:2")]);

    let merged = api.merge_patch(format!("{DEPLOYMENTS}/web"), patch).await.expect(200);
    assert_eq!(images(&merged["spec"]["template"]["spec"]["containers"]), [json!("example.com/side:2")]);
}

#[tokio::test]
async fn a_strategic_patch_can_delete_and_replace() {
    let api = Api::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    api.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let add = json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side:1"}]}}}});
    api.strategic_patch(&path, add).await.expect(200);
    let gone = json!([{"name": "main", "$patch": "delete"}]);
    let patched = api.strategic_patch(&path, json!({"spec": {"template": {"spec": {"containers": gone}}}})).await;
    let containers = &patched.expect(200)["spec"]["template"]["spec"]["containers"].clone();
    assert_eq!((containers.as_array().map(Vec::len), &containers[0]["name"]), (Some(1), &json!("side")));

    api.strategic_patch(&path, json!({"metadata": {"labels": {"old": "1"}}})).await.expect(200);
    let replace = json!({"metadata": {"labels": {"$patch": "replace", "new": "1"}}});
    let patched = api.strategic_patch(&path, replace).await.expect(200);
    assert_eq!(patched["metadata"]["labels"], json!({"new": "1"}));
}

#[tokio::test]
async fn a_patch_may_insist_on_a_revision() {
    let api = Api::new().await;
    let created = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let insisting = |data: &str| {
        json!({"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "data": {"colour": data}})
    };
    api.merge_patch(&path, insisting("red")).await.expect(200);
    api.merge_patch(&path, insisting("blue")).await.refused(409, "Conflict", &["has been modified"]);
}

#[tokio::test]
async fn a_patch_cannot_make_an_object_something_else() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let rows = [
        ("another name", json!({"metadata": {"name": "b"}})),
        ("another namespace", json!({"metadata": {"namespace": "kube-system"}})),
        ("another kind", json!({"kind": "Secret"})),
    ];
    for (row, patch) in rows {
        let answer = api.merge_patch(format!("{CONFIG_MAPS}/a"), patch).await;
        assert_eq!(answer.status, 400, "{row}: {}", answer.text());
    }
}

#[tokio::test]
async fn what_is_no_patch_is_refused() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let rows = [
        ("plain JSON", "application/json", "{}", 415),
        ("broken JSON", "application/merge-patch+json", "{\"data\":", 400),
        ("a list as a merge", "application/merge-patch+json", "[]", 400),
        ("an object as a JSON patch", "application/json-patch+json", "{}", 400),
        ("an unknown step", "application/json-patch+json", r#"[{"op":"shake","path":"/data"}]"#, 422),
        ("a path that is not there", "application/json-patch+json", r#"[{"op":"remove","path":"/data/none"}]"#, 422),
        ("a value of the wrong type", "application/merge-patch+json", r#"{"data":{"colour":1}}"#, 400),
    ];
    for (row, media_type, body, expected) in rows {
        let answer = api.send(http::Method::PATCH, &path).body(media_type, body).await;
        assert_eq!(answer.status, expected, "{row}: {}", answer.text());
        assert_eq!(answer["kind"], "Status", "{row}");
    }
    api.merge_patch(format!("{CONFIG_MAPS}/none"), json!({})).await.refused(404, "NotFound", &[]);
}
