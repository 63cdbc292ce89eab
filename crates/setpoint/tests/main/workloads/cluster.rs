//! A server that runs Pods on this machine, and what a test asks of it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::{Client, Kubectl, Server, wait_for};

use crate::SETPOINT;

pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(super) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(super) const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";

pub(super) struct Cluster {
    pub(super) server: Server,
    kubectl: Kubectl,
}

impl Cluster {
    pub(super) async fn start() -> Result<Cluster> {
        Ok(Cluster { server: Server::start_with_local_node(SETPOINT).await?, kubectl: Kubectl::newest()? })
    }

    pub(super) fn client(&self) -> Result<Client> {
        self.server.client()
    }

    /// What kubectl printed, if it succeeded.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = self.kubectl.run(&self.server.kubeconfig_path(), self.server.folder(), arguments)?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{arguments:?}: {errors}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What kubectl said as it failed.
    pub(super) fn kubectl_fails(&self, arguments: &[&str]) -> Result<String> {
        let output = self.kubectl.run(&self.server.kubeconfig_path(), self.server.folder(), arguments)?;
        ensure!(!output.status.success(), "{arguments:?} succeeded");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    pub(super) async fn create(&self, collection: &str, object: &Value) -> Result<Value> {
        self.client()?.post(collection, object).await?.success()
    }

    pub(super) async fn get(&self, collection: &str, name: &str) -> Result<Value> {
        self.client()?.get(&format!("{collection}/{name}")).await?.success()
    }

    pub(super) async fn patch(&self, collection: &str, name: &str, patch: &Value) -> Result<Value> {
        self.client()?.patch(&format!("{collection}/{name}"), "merge-patch", patch).await?.success()
    }

    pub(super) async fn list(&self, collection: &str) -> Result<Vec<Value>> {
        let mut list = self.client()?.get(collection).await?.success()?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// The Pods that are not on their way out.
    pub(super) async fn pods(&self) -> Result<Vec<Value>> {
        let mut pods = self.list(PODS).await?;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        Ok(pods)
    }

    /// Waits until a Deployment is rolled out and what it replaced is gone.
    pub(super) async fn rolled_out(&self, name: &str) -> Result<()> {
        let deployment = format!("deployment/{name}");
        let said = self.kubectl(&["rollout", "status", &deployment, "--timeout=60s"])?;
        ensure!(said.contains("successfully rolled out"), "{said}");
        let is_alone = |it: &Value| it["status"]["terminatingReplicas"] == 0;
        self.until("what was replaced to be gone", DEPLOYMENTS, name, is_alone).await.map(drop)
    }

    /// Waits until an object is as it should be, and returns it.
    pub(super) async fn until(
        &self,
        what: &str,
        collection: &str,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let is_so = &is_so;
        wait_for(what, PATIENCE, || async move {
            let object = self.get(collection, name).await?;
            Ok(is_so(&object).then_some(object))
        })
        .await
    }

    /// Waits until the Pods are as they should be, and returns them.
    pub(super) async fn until_pods(&self, what: &str, are_so: impl Fn(&[Value]) -> bool) -> Result<Vec<Value>> {
        let are_so = &are_so;
        wait_for(what, PATIENCE, || async move {
            let pods = self.pods().await?;
            Ok(are_so(&pods).then_some(pods))
        })
        .await
    }
}

pub(super) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    pod["metadata"]["deletionTimestamp"].is_null() && conditions.into_iter().flatten().any(is_ready)
}

pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(name).collect()
}

/// The uid of the controller that owns an object.
pub(super) fn owner(object: &Value) -> Option<&str> {
    let references = object["metadata"]["ownerReferences"].as_array();
    let owner = references.into_iter().flatten().find(|reference| reference["controller"] == true)?;
    owner["uid"].as_str()
}

/// How the values of one condition read: status and reason.
pub(super) fn condition<'a>(object: &'a Value, type_: &str) -> Option<(&'a str, &'a str)> {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == type_)?;
    Some((found["status"].as_str()?, found["reason"].as_str()?))
}

/// A template of a process that says its version and runs until it is stopped.
pub(super) fn template(app: &str, version: &str) -> Value {
    let script = "echo \"version $VERSION\"; trap 'exit 0' TERM; while :; do sleep 0.05; done";
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{
                "name": "web", "command": ["sh", "-c", script], "env": [{"name": "VERSION", "value": version}],
            }],
        },
    })
}

/// A template whose process never becomes ready.
pub(super) fn broken(app: &str) -> Value {
    let mut template = template(app, "broken");
    template["spec"]["containers"][0]["readinessProbe"] = json!({"exec": {"command": ["false"]}, "periodSeconds": 1});
    template
}

pub(super) fn deployment(name: &str, replicas: usize, template: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": template["metadata"]["labels"]["app"]}},
            "template": template,
        },
    })
}

pub(super) fn replica_set(name: &str, replicas: usize, template: &Value) -> Value {
    let mut set = deployment(name, replicas, template);
    set["kind"] = "ReplicaSet".into();
    set
}

pub(super) fn version_of(list: &Value) -> Result<&str> {
    list["metadata"]["resourceVersion"].as_str().context("a list has a version")
}
