//! Who has something run as a service account must be allowed to act as it.

use serde_json::{Value, json};

use super::*;
use crate::objects::*;

const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const APPS: &str = "/apis/setpoint.dev/v1alpha1/namespaces/default/apps";

/// Wendy may write whatever runs, and nothing else.
async fn wendy(api: &Api) -> Api {
    let rules = json!([{"verbs": ["*"], "apiGroups": ["", "apps", "batch", "setpoint.dev"], "resources": ["pods", "pods/binding", "pods/ephemeralcontainers", "daemonsets", "deployments", "deployments/scale", "replicasets", "statefulsets", "jobs", "cronjobs", "apps"]}]);
    api.post(ROLES, role("runner", rules)).await.expect(201);
    give(api, "wendy", "Role/runner").await;
    api.as_user("wendy", [])
}

fn named(mut object: Value, pointer: &str, field: &str, account: &str) -> Value {
    object.pointer_mut(pointer).expect("there it runs")[field] = json!(account);
    object
}

fn of_kind(kind: &str, api_version: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec})
}

/// Everything that runs something, where, and where in it stands as whom.
fn workloads() -> Vec<(&'static str, &'static str, Value)> {
    let replicated = |kind: &str| {
        let mut object = deployment("x");
        object["kind"] = json!(kind);
        object
    };
    let template = deployment("x")["spec"]["template"].clone();
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    let mut daemon_set = replicated("DaemonSet");
    daemon_set["spec"].as_object_mut().expect("a spec").remove("replicas");
    let mut stateful_set = replicated("StatefulSet");
    stateful_set["spec"]["serviceName"] = json!("x");
    let cron_job = json!({"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": once}}});
    let at = "/spec/template/spec";
    vec![
        (PODS, "/spec", pod("x")),
        (DEPLOYMENTS, at, replicated("Deployment")),
        (REPLICA_SETS, at, replicated("ReplicaSet")),
        (DAEMON_SETS, at, daemon_set),
        (STATEFUL_SETS, at, stateful_set),
        (JOBS, at, of_kind("Job", "batch/v1", json!({"template": once}))),
        (CRON_JOBS, "/spec/jobTemplate/spec/template/spec", of_kind("CronJob", "batch/v1", cron_job)),
        (APPS, at, of_kind("App", "setpoint.dev/v1alpha1", json!({"environment": "home", "template": template}))),
    ]
}

#[tokio::test]
async fn nothing_runs_as_an_account_that_its_writer_may_not_act_as() {
    let api = Api::new().await;
    let wendy = wendy(&api).await;
    let words = ["it would run as a service account", "User \"wendy\" cannot impersonate resource \"serviceaccounts\""];
    for (path, pointer, object) in workloads() {
        let one = format!("{path}/x");
        for field in ["serviceAccountName", "serviceAccount"] {
            let as_root = named(object.clone(), pointer, field, "root");
            wendy.post(path, as_root.clone()).await.refused(403, "Forbidden", &words);
            wendy.post(format!("{path}?dryRun=All"), as_root.clone()).await.refused(403, "Forbidden", &words);
            wendy.apply(&one, "m", as_root).await.refused(403, "Forbidden", &words);
        }
        wendy.post(path, named(object.clone(), pointer, "serviceAccountName", "default")).await.expect(201);
        // What these run cannot be changed at all.
        if path != PODS && path != JOBS {
            let patch = json!([{"op": "add", "path": format!("{pointer}/serviceAccountName"), "value": "root"}]);
            wendy.json_patch(&one, patch).await.refused(403, "Forbidden", &words);
        }
        api.delete_with(&one, json!({"gracePeriodSeconds": 0})).await.expect(200);
    }
}

#[tokio::test]
async fn what_already_runs_as_an_account_can_be_scaled_but_not_made_to_run_something_else() {
    let api = Api::new().await;
    let wendy = wendy(&api).await;
    let at = "/spec/template/spec";
    api.post(DEPLOYMENTS, named(deployment("x"), at, "serviceAccountName", "root")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/x");
    wendy.merge_patch(&path, json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 3}})).await.expect(200);
    wendy.merge_patch(format!("{path}/scale"), json!({"spec": {"replicas": 4}})).await.expect(200);
    let image =
        json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "example.com/mine"}]);
    wendy.json_patch(&path, image.clone()).await.refused(403, "Forbidden", &["it would run as a service account"]);
    // Away from it is everybody's right.
    let away = json!({"spec": {"template": {"spec": {"serviceAccountName": "default", "serviceAccount": "default"}}}});
    wendy.strategic_patch(&path, away).await.expect(200);
    wendy.json_patch(&path, image).await.expect(200);

    api.post(PODS, named(pod("p"), "/spec", "serviceAccountName", "root")).await.expect(201);
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "example.com/mine"}]}});
    let part = format!("{PODS}/p/ephemeralcontainers");
    wendy.strategic_patch(part, debug).await.refused(403, "Forbidden", &["it would run as a service account"]);
    let target = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    wendy.post(format!("{PODS}/p/binding"), target).await.expect(201);
}

#[tokio::test]
async fn who_may_act_as_an_account_may_have_it_run_something() {
    let api = Api::new().await;
    let wendy = wendy(&api).await;
    give(&api, "ed", "ClusterRole/edit").await;
    let as_account = |name: &str, account: &str| named(pod(name), "/spec", "serviceAccountName", account);
    api.as_user("ed", []).post(PODS, as_account("a", "root")).await.expect(201);
    let mut rights = rule(&["impersonate"], &["serviceaccounts"]);
    rights["resourceNames"] = json!(["builder"]);
    api.post(ROLES, role("builders", json!([rights]))).await.expect(201);
    give(&api, "wendy", "Role/builders").await;
    wendy.post(PODS, as_account("b", "builder")).await.expect(201);
    wendy.post(PODS, as_account("c", "root")).await.expect(403);
}
