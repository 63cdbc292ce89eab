//! From client-side apply to server-side apply, as kubectl does it.

use serde_json::{Value, json};

use super::config;
use crate::fixture::Api;
use crate::objects::*;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

async fn applied_by_client(api: &Api) -> String {
    let applied = config("a", json!({"a": "1", "b": "1"}));
    let object = with(applied.clone(), "annotations", json!({ANNOTATION: applied.to_string()}));
    api.post(format!("{CONFIG_MAPS}?fieldManager=kubectl-client-side-apply"), object).await.expect(201);
    format!("{CONFIG_MAPS}/a")
}

fn annotation(object: &Value) -> Value {
    serde_json::from_str(object["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or_default()).unwrap_or_default()
}

#[tokio::test]
async fn kubectl_has_no_conflict_with_what_it_applied_itself() {
    let api = Api::new().await;
    let path = applied_by_client(&api).await;
    let refused = api.apply(&path, "another", config("a", json!({"a": "2"}))).await;
    refused.refused(409, "Conflict", &["\"kubectl-client-side-apply\" using v1: .data.a"]);
    let changed = api.apply(&path, "kubectl", config("a", json!({"a": "2", "b": "1"}))).await.expect(200);
    assert_eq!(changed["data"], json!({"a": "2", "b": "1"}));
    assert_eq!(annotation(&changed.object), config("a", json!({"a": "2", "b": "1"})), "the annotation goes along");
}

#[tokio::test]
async fn but_with_what_others_have_changed_since() {
    let api = Api::new().await;
    let path = applied_by_client(&api).await;
    api.merge_patch(format!("{path}?fieldManager=other"), json!({"data": {"b": "9"}})).await.expect(200);
    let refused = api.apply(&path, "kubectl", config("a", json!({"a": "2", "b": "1"}))).await;
    refused.refused(409, "Conflict", &["Apply failed with 1 conflict: conflict with \"other\" using v1: .data.b"]);
}

#[tokio::test]
async fn the_record_can_be_rewritten_by_a_patch_that_insists_on_a_revision() {
    let api = Api::new().await;
    let path = applied_by_client(&api).await;
    let applied = api.apply(&path, "kubectl", config("a", json!({"a": "1", "b": "1"}))).await.expect(200);
    let own = applied["metadata"]["managedFields"][0].clone();
    assert_eq!((&own["manager"], &own["operation"]), (&json!("kubectl"), &json!("Apply")));
    let rewrite = |revision: Value| {
        let steps = json!([
            {"op": "replace", "path": "/metadata/managedFields", "value": [own]},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": revision},
        ]);
        api.json_patch(&path, steps)
    };
    rewrite(json!("1")).await.refused(409, "Conflict", &["has been modified"]);
    let rewritten = rewrite(applied["metadata"]["resourceVersion"].clone()).await.expect(200);
    assert_eq!(rewritten["metadata"]["managedFields"], json!([own]));
    let gone = api.apply(&path, "kubectl", config("a", json!({"a": "1"}))).await.expect(200);
    assert_eq!(gone["data"], json!({"a": "1"}), "what kubectl leaves out now goes");
}
