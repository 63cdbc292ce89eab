//! Scaling through the subresource.

use serde_json::{Value, json};

use crate::fixture::Api;
use crate::objects::*;

fn scale(replicas: i64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": replicas}})
}

#[tokio::test]
async fn a_scale_shows_and_sets_the_replicas() {
    let api = Api::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    api.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    api.merge_patch(format!("{path}/status"), json!({"status": {"replicas": 1}})).await.expect(200);

    let shown = api.get(format!("{path}/scale")).await.expect(200);
    assert_eq!((&shown["kind"], &shown["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(shown["spec"], json!({"replicas": 2}));
    assert_eq!(shown["status"], json!({"replicas": 1, "selector": "app=web"}));

    let set = api.put(format!("{path}/scale"), scale(6)).await.expect(200);
    assert_eq!(set["spec"]["replicas"], 6);
    let web = api.get(&path).await.expect(200);
    assert_eq!(web["spec"]["replicas"], 6);
    assert_eq!(web["metadata"]["generation"], 2);
    assert_eq!(set["metadata"]["resourceVersion"], web["metadata"]["resourceVersion"]);

    api.merge_patch(format!("{path}/scale"), json!({"spec": {"replicas": 0}})).await.expect(200);
    assert_eq!(api.get(&path).await.expect(200)["spec"]["replicas"], 0);
}

#[tokio::test]
async fn a_scale_is_checked() {
    let api = Api::new().await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    let created = api.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    api.put(&path, scale(-1)).await.refused(422, "Invalid", &["spec.replicas", "greater than or equal to 0"]);
    api.put(&path, scale(3)).await.expect(200);
    let stale = with(scale(4), "resourceVersion", created["metadata"]["resourceVersion"].clone());
    api.put(&path, stale).await.refused(409, "Conflict", &["has been modified"]);
    api.get(format!("{DEPLOYMENTS}/none/scale")).await.refused(404, "NotFound", &["deployments.apps \"none\""]);
    api.get(format!("{CONFIG_MAPS}/a/scale")).await.refused(404, "NotFound", &[]);
}

#[tokio::test]
async fn a_dry_scale_changes_nothing() {
    let api = Api::new().await;
    api.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let dry = api.put(format!("{DEPLOYMENTS}/web/scale?dryRun=All"), scale(9)).await.expect(200);
    assert_eq!(dry["spec"]["replicas"], 9);
    assert_eq!(api.get(format!("{DEPLOYMENTS}/web")).await.expect(200)["spec"]["replicas"], 2);
}
