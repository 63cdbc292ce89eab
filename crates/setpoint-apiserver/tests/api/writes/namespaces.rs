//! The life of namespaces.

use serde_json::json;

use crate::fixture::{Api, within};
use crate::objects::*;

#[tokio::test]
async fn every_cluster_has_the_same_first_namespaces() {
    let api = Api::new().await;
    assert_eq!(api.names(NAMESPACES).await, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    api.delete(format!("{NAMESPACES}/default")).await.refused(403, "Forbidden", &["may not be deleted"]);
}

#[tokio::test]
async fn a_namespace_is_made_ready_to_use() {
    let api = Api::new().await;
    let created = api.post(NAMESPACES, namespace("team")).await.expect(201);
    assert_eq!(created["status"]["phase"], "Active");
    assert_eq!(created["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(created["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "team"}));
    let relabel = json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "mine"}}});
    let patched = api.merge_patch(format!("{NAMESPACES}/team"), relabel).await.expect(200);
    assert_eq!(patched["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "team"}));
    api.post(NAMESPACES, namespace("with.dot")).await.refused(422, "Invalid", &["metadata.name"]);
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_takes_nothing_and_holds_nothing() {
    let api = Api::new().await;
    let path = "/api/v1/namespaces/nowhere/configmaps";
    api.post(path, config_map("a")).await.refused(404, "NotFound", &["namespaces \"nowhere\" not found"]);
    assert!(api.names(path).await.is_empty());
    api.get(format!("{path}/a")).await.refused(404, "NotFound", &["configmaps \"a\" not found"]);
}

#[tokio::test]
async fn a_deleted_namespace_is_emptied_of_every_kind_and_goes() {
    let api = Api::new().await;
    api.post(NAMESPACES, namespace("team")).await.expect(201);
    let team = |path: &str| path.replace("/default/", "/team/");
    let content = [
        (team(CONFIG_MAPS), config_map("a")),
        (team(SECRETS), secret("a")),
        (team(PODS), pod("a")),
        (team(SERVICES), service("a")),
        (team(DEPLOYMENTS), deployment("a")),
        (team(LEASES), lease("a", "me")),
    ];
    for (path, object) in &content {
        api.post(path, object.clone()).await.expect(201);
    }
    api.post(CONFIG_MAPS, config_map("bystander")).await.expect(201);

    let deleted = api.delete(format!("{NAMESPACES}/team")).await.expect(200);
    assert_eq!((&deleted["kind"], &deleted["status"]["phase"]), (&json!("Namespace"), &json!("Terminating")));
    api.eventually(format!("{NAMESPACES}/team"), |answer| answer.status == 404).await;
    for (path, _) in &content {
        assert!(api.names(path).await.is_empty(), "{path}");
    }
    assert_eq!(api.names(CONFIG_MAPS).await, ["bystander"]);
    api.post(NAMESPACES, namespace("team")).await.expect(201);
}

#[tokio::test]
async fn what_a_finalizer_holds_keeps_the_namespace_and_its_status_says_so() {
    let api = Api::new().await;
    api.post(NAMESPACES, namespace("team")).await.expect(201);
    let path = "/api/v1/namespaces/team/configmaps";
    let held = with(config_map("held"), "finalizers", json!(["example.com/slow"]));
    api.post(path, held).await.expect(201);
    api.post(path, config_map("free")).await.expect(201);
    api.delete(format!("{NAMESPACES}/team")).await.expect(200);

    let condition = |answer: &crate::fixture::Answer, kind: &str| {
        let mut conditions = answer["status"]["conditions"].as_array().into_iter().flatten();
        conditions.find(|condition| condition["type"] == kind).cloned().unwrap_or_default()
    };
    let waiting = api
        .eventually(format!("{NAMESPACES}/team"), |answer| {
            condition(answer, "NamespaceFinalizersRemaining")["status"] == "True"
        })
        .await;
    let finalizers = condition(&waiting, "NamespaceFinalizersRemaining");
    assert!(finalizers["message"].as_str().unwrap_or_default().contains("example.com/slow in 1 resource instances"));
    let content = condition(&waiting, "NamespaceContentRemaining");
    assert_eq!((&content["status"], &content["reason"]), (&json!("True"), &json!("SomeResourcesRemain")));
    let message = content["message"].as_str().unwrap_or_default();
    assert!(message.contains("configmaps") && message.contains("has 1 resource instances"), "{message}");
    assert_eq!(api.names(path).await, ["held"]);

    let refused = api.post(path, config_map("late")).await;
    let refused = refused.refused(403, "Forbidden", &["because it is being terminated"]);
    assert_eq!(refused["details"]["causes"][0]["reason"], "NamespaceTerminating");

    api.merge_patch(format!("{path}/held"), json!({"metadata": {"finalizers": null}})).await.expect(200);
    api.eventually(format!("{NAMESPACES}/team"), |answer| answer.status == 404).await;
}

#[tokio::test]
async fn a_namespace_of_somebody_elses_finalizer_waits_for_its_finalize() {
    let api = Api::new().await;
    let mut object = namespace("team");
    object["spec"] = json!({"finalizers": ["example.com/registry", "kubernetes"]});
    api.post(NAMESPACES, object).await.expect(201);
    api.delete(format!("{NAMESPACES}/team")).await.expect(200);
    let left = api
        .eventually(format!("{NAMESPACES}/team"), |answer| {
            answer["spec"]["finalizers"].as_array().is_some_and(|finalizers| finalizers.len() == 1)
        })
        .await;
    assert_eq!(left["spec"]["finalizers"], json!(["example.com/registry"]));
    let mut released = left.object;
    released["spec"]["finalizers"] = json!([]);
    api.put(format!("{NAMESPACES}/team/finalize"), released).await.expect(200);
    api.get(format!("{NAMESPACES}/team")).await.expect(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_that_race_a_deletion_leave_nothing() {
    let api = Api::new().await;
    for round in 0..10 {
        let name = format!("race-{round}");
        let path = format!("{NAMESPACES}/{name}/configmaps");
        api.post(NAMESPACES, namespace(&name)).await.expect(201);
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..16 {
            let (api, path) = (api.clone(), path.clone());
            writers.spawn(async move { api.post(path, config_map(&format!("a-{writer}"))).await.status });
        }
        api.delete(format!("{NAMESPACES}/{name}")).await.expect(200);
        for status in within("all writers", writers.join_all()).await {
            assert!([201, 403, 404].contains(&status), "{status}");
        }
        api.eventually(format!("{NAMESPACES}/{name}"), |answer| answer.status == 404).await;
        api.eventually(&path, |answer| answer["items"] == json!([])).await;
    }
}

#[tokio::test]
async fn a_deletion_goes_on_after_a_restart() {
    let api = Api::new().await;
    api.post(NAMESPACES, namespace("team")).await.expect(201);
    let path = "/api/v1/namespaces/team/configmaps";
    api.post(path, with(config_map("held"), "finalizers", json!(["example.com/slow"]))).await.expect(201);
    api.delete(format!("{NAMESPACES}/team")).await.expect(200);
    let reopened = api.reopened().await;
    reopened.merge_patch(format!("{path}/held"), json!({"metadata": {"finalizers": null}})).await.expect(200);
    reopened.eventually(format!("{NAMESPACES}/team"), |answer| answer.status == 404).await;
}
