//! What is particular to Pods.

use serde_json::{Value, json};

use crate::fixture::Api;
use crate::objects::*;

fn binding(pod: &str, node: &str) -> Value {
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target})
}

#[tokio::test]
async fn a_pod_on_a_node_is_given_time_to_end() {
    let api = Api::new().await;
    let path = format!("{PODS}/p");
    api.post(PODS, pod("p")).await.expect(201);
    api.post(format!("{path}/binding"), binding("p", "n1")).await.expect(201);

    let ending = api.delete(&path).await.expect(200);
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 30);
    assert!(ending["metadata"]["deletionTimestamp"].is_string());
    api.get(&path).await.expect(200);

    let sooner = api.delete_with(&path, json!({"gracePeriodSeconds": 5})).await.expect(200);
    assert_eq!(sooner["metadata"]["deletionGracePeriodSeconds"], 5, "time can be shortened");
    let later = api.delete_with(&path, json!({"gracePeriodSeconds": 60})).await.expect(200);
    assert_eq!(later["metadata"]["deletionGracePeriodSeconds"], 5, "and not lengthened");

    api.delete_with(&path, json!({"gracePeriodSeconds": 0})).await.expect(200);
    api.get(&path).await.expect(404);
}

#[tokio::test]
async fn a_pod_on_no_node_goes_at_once() {
    let api = Api::new().await;
    api.post(PODS, pod("p")).await.expect(201);
    let gone = api.delete(format!("{PODS}/p")).await.expect(200);
    assert_eq!(gone["kind"], "Pod", "a deleted Pod is answered whole");
    api.get(format!("{PODS}/p")).await.expect(404);
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let api = Api::new().await;
    let path = format!("{PODS}/p");
    api.post(PODS, pod("p")).await.expect(201);
    let bound = api.post(format!("{path}/binding"), binding("p", "n1")).await.expect(201);
    assert_eq!(bound["status"], "Success");
    let object = api.get(&path).await.expect(200);
    assert_eq!(object["spec"]["nodeName"], "n1");
    let scheduled = &object["status"]["conditions"][0];
    assert_eq!((&scheduled["type"], &scheduled["status"]), (&json!("PodScheduled"), &json!("True")));

    let again = api.post(format!("{path}/binding"), binding("p", "n2")).await;
    again.refused(409, "Conflict", &["pod p is already assigned to node \"n1\""]);
    api.post(format!("{PODS}/none/binding"), binding("none", "n1")).await.refused(404, "NotFound", &[]);
    let other = api.post(format!("{path}/binding"), binding("q", "n1")).await;
    assert_eq!(other.status, 400, "{}", other.text());
}

#[tokio::test]
async fn a_dry_binding_binds_nothing() {
    let api = Api::new().await;
    api.post(PODS, pod("p")).await.expect(201);
    api.post(format!("{PODS}/p/binding?dryRun=All"), binding("p", "n1")).await.expect(201);
    assert!(api.get(format!("{PODS}/p")).await.expect(200)["spec"]["nodeName"].is_null());
}

#[tokio::test]
async fn an_evicted_pod_goes() {
    let api = Api::new().await;
    api.post(PODS, pod("p")).await.expect(201);
    let eviction = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    api.post(format!("{PODS}/p/eviction?dryRun=All"), eviction("p")).await.expect(201);
    api.get(format!("{PODS}/p")).await.expect(200);
    api.post(format!("{PODS}/p/eviction"), eviction("p")).await.expect(201);
    api.get(format!("{PODS}/p")).await.expect(404);
    api.post(format!("{PODS}/p/eviction"), eviction("p")).await.refused(404, "NotFound", &[]);
}

#[tokio::test]
async fn an_eviction_can_have_preconditions() {
    let api = Api::new().await;
    api.post(PODS, pod("p")).await.expect(201);
    let options = json!({"preconditions": {"uid": "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}});
    let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": options});
    api.post(format!("{PODS}/p/eviction"), eviction).await.refused(409, "Conflict", &[]);
    api.get(format!("{PODS}/p")).await.expect(200);
}

#[tokio::test]
async fn an_ephemeral_container_comes_through_its_own_door_and_stays() {
    let api = Api::new().await;
    let path = format!("{PODS}/p");
    api.post(PODS, pod("p")).await.expect(201);
    let containers = json!([{"name": "debug", "image": "example.com/shell:1"}]);
    let patch = json!({"spec": {"ephemeralContainers": containers}});

    let through_pod = api.strategic_patch(&path, patch.clone()).await;
    assert_eq!(through_pod.status, 422, "{}", through_pod.text());
    let patched = api.strategic_patch(format!("{path}/ephemeralcontainers"), patch).await.expect(200);
    assert_eq!(patched["spec"]["ephemeralContainers"][0]["name"], "debug");
    assert_eq!(patched["metadata"]["generation"], 2);

    let removed = json!({"spec": {"ephemeralContainers": null}});
    api.merge_patch(format!("{path}/ephemeralcontainers"), removed).await.refused(422, "Invalid", &[]);
}

#[tokio::test]
async fn little_of_a_running_pod_can_be_changed() {
    let api = Api::new().await;
    let path = format!("{PODS}/p");
    api.post(PODS, pod("p")).await.expect(201);
    let image = |image: &str| json!({"spec": {"containers": [{"name": "main", "image": image}]}});
    let patched = api.strategic_patch(&path, image("example.com/app:2")).await.expect(200);
    assert_eq!(patched["spec"]["containers"][0]["image"], "example.com/app:2");
    let rows = [
        ("the command", json!({"spec": {"containers": [{"name": "main", "command": ["sh"]}]}})),
        ("the node", json!({"spec": {"nodeName": "n2"}})),
        ("another container", json!({"spec": {"containers": [{"name": "more", "image": "example.com/more:1"}]}})),
    ];
    for (row, patch) in rows {
        let answer = api.strategic_patch(&path, patch).await.refused(422, "Invalid", &["spec"]);
        assert!(!answer.fields().is_empty(), "{row}");
    }
}
