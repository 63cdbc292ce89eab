//! Applies and updates through `status`, `scale` and the others.

use serde_json::{Value, json};

use crate::fixture::Api;
use crate::objects::*;

fn conditions(conditions: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"conditions": conditions}})
}

#[tokio::test]
async fn a_status_is_applied_by_several_who_each_own_their_conditions() {
    let api = Api::new().await;
    let path = format!("{PODS}/p/status");
    api.post(PODS, pod("p")).await.expect(201);
    api.apply(&path, "kubelet", conditions(json!([{"type": "Ready", "status": "True"}]))).await.expect(200);
    let both =
        api.apply(&path, "gate", conditions(json!([{"type": "example.com/x", "status": "False"}]))).await.expect(200);
    let types: Vec<&str> =
        both["status"]["conditions"].as_array().into_iter().flatten().filter_map(|c| c["type"].as_str()).collect();
    assert_eq!(types, ["Ready", "example.com/x"]);
    let own = json!({"f:status": {"f:conditions": {r#"k:{"type":"Ready"}"#: {".": {}, "f:status": {}, "f:type": {}}}}});
    assert_eq!(both.owned()["kubelet/status"], own);
    let refused = api.apply(&path, "gate", conditions(json!([{"type": "Ready", "status": "False"}]))).await;
    refused.refused(
        409,
        "Conflict",
        &[r#"conflict with "kubelet" with subresource "status": .status.conditions[type="Ready"].status"#],
    );
    api.apply(format!("{PODS}/none/status"), "kubelet", conditions(json!([]))).await.refused(404, "NotFound", &[]);
}

#[tokio::test]
async fn each_part_owns_only_what_it_sets() {
    let api = Api::new().await;
    api.apply(format!("{PODS}/p"), "main", pod("p")).await.expect(201);
    let mut config = pod("p");
    config["status"] = json!({"phase": "Failed"});
    let main = api.apply(format!("{PODS}/p"), "main", config.clone()).await.expect(200);
    assert_eq!((&main["status"]["phase"], main.owned()["main"].get("f:status")), (&json!("Pending"), None));
    let status = api.apply(format!("{PODS}/p/status"), "main", config).await.expect(200);
    assert_eq!(status["status"]["phase"], "Failed");
    assert_eq!(status.owned()["main/status"], json!({"f:status": {"f:phase": {}}}));
    let debug =
        json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "x"}]}, "metadata": {"labels": {"a": "b"}}});
    let patched = api.strategic_patch(format!("{PODS}/p/ephemeralcontainers"), debug).await.expect(200);
    let owned = &patched.owned()["unknown/ephemeralcontainers"];
    assert_eq!(owned["f:spec"].as_object().map(serde_json::Map::len), Some(1));
    assert_eq!(owned.get("f:metadata"), None);
}

#[tokio::test]
async fn who_scales_owns_the_replicas() {
    let api = Api::new().await;
    let (path, scale) = (format!("{DEPLOYMENTS}/web"), format!("{DEPLOYMENTS}/web/scale"));
    let wanted = |replicas: u32| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": replicas}});
    api.apply(&path, "one", deployment("web")).await.expect(201);
    api.put(format!("{scale}?fieldManager=scaler"), wanted(4)).await.expect(200);
    let object = api.get(&path).await;
    assert_eq!(object.owned()["scaler/scale"], json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!(object.owned()["one"]["f:spec"].get("f:replicas"), None);
    let refused = api.apply(&path, "one", deployment("web")).await;
    refused.refused(
        409,
        "Conflict",
        &[r#"conflict with "scaler" with subresource "scale" using apps/v1: .spec.replicas"#],
    );

    let refused = api.apply(&scale, "hpa", wanted(6)).await;
    refused.refused(409, "Conflict", &[r#"conflict with "scaler" with subresource "scale""#, ".spec.replicas"]);
    let scaled = api.apply(format!("{scale}?force=true"), "hpa", wanted(6)).await.expect(200);
    assert_eq!((&scaled["kind"], &scaled["spec"]["replicas"]), (&json!("Scale"), &json!(6)));
    let owned = api.get(&path).await.owned();
    assert_eq!((owned.get("scaler/scale"), &owned["hpa/scale"]), (None, &json!({"f:spec": {"f:replicas": {}}})));
    let before = api.store.revision();
    api.apply(&scale, "hpa", wanted(6)).await.expect(200);
    assert_eq!(api.store.revision(), before, "the same again changes nothing");
}
