//! The people at a cluster: who may review, what they are asked in change sets, and what they say.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::{Client, Kubeconfig, wait_for};

use crate::SETPOINT;

use super::cluster::{Cluster, PATIENCE, condition, text};

const GROUP: &str = "/apis/setpoint.dev/v1alpha1/namespaces";

impl Cluster {
    /// Gives somebody a credential of their own, and lets them review in a namespace.
    pub(super) async fn appoint(&self, who: &str, namespace: &str) -> Result<()> {
        let mut command = Command::new(SETPOINT);
        let made = command.args(["user", "create", who, "--data-dir"]).arg(self.server.data_dir()).output()?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        fs::write(self.credential(who), made.stdout)?;
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": format!("{who}-reviews")},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "setpoint:reviewer"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": who}],
        });
        let path = format!("/apis/{group}/v1/namespaces/{namespace}/rolebindings");
        self.client()?.post(&path, &binding).await?.success().map(drop)
    }

    fn credential(&self, who: &str) -> PathBuf {
        self.server.folder().join(format!("{who}.yaml"))
    }

    /// Approves every step of a change set as it was read, as somebody who was appointed, and returns the review.
    pub(super) async fn approve(&self, who: &str, set: &Value) -> Result<Value> {
        let digests: Vec<&Value> = steps(set).iter().map(|step| &step["digest"]).collect();
        ensure!(!digests.is_empty(), "there is nothing to approve: {set:#}");
        let review = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Review", "metadata": {"generateName": "yes-"},
            "spec": {"gate": set["metadata"]["name"], "decision": "Approve", "digests": digests, "reviewer": who},
        });
        let path = format!("{GROUP}/{}/reviews", text(&set["metadata"]["namespace"]));
        let credential = Kubeconfig::read(&self.credential(who))?;
        Client::new(&credential)?.post(&path, &review).await?.success()
    }

    /// Waits until a review is told this reason.
    pub(super) async fn answered(&self, review: &Value, reason: &str) -> Result<()> {
        let (namespace, name) = (text(&review["metadata"]["namespace"]), text(&review["metadata"]["name"]));
        let path = &format!("{GROUP}/{namespace}/reviews/{name}");
        let told = wait_for(format!("the review to be told {reason}"), PATIENCE, || async {
            let review = self.client()?.get(path).await?.success()?;
            Ok((condition(&review, "Accepted")["reason"] == reason).then_some(()))
        });
        match told.await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.client()?.get(path).await?.text())),
        }
    }

    /// Waits for a change set that is as it should be, and returns it.
    pub(super) async fn until_change_set(
        &self,
        namespace: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let (is_so, path) = (&is_so, &format!("{GROUP}/{namespace}/changesets"));
        let found =
            wait_for(what, PATIENCE, || async move { Ok(self.list(path).await?.into_iter().find(|set| is_so(set))) });
        match found.await {
            Ok(set) => Ok(set),
            Err(error) => Err(error.context(format!("{:#?}", self.list(path).await?))),
        }
    }

    /// The change set in which a Machine's controller asks people, once it does.
    pub(super) async fn asked_for(&self, machine: &str) -> Result<Value> {
        let asks = |set: &Value| is_made_for(set, machine) && set["status"]["phase"] == "Waiting";
        self.until_change_set("default", &format!("people to be asked about {machine}"), asks).await
    }
}

/// Whether a controller made a change set for the object of this name.
pub(super) fn is_made_for(set: &Value, name: &str) -> bool {
    set["metadata"]["ownerReferences"][0]["name"] == name
}

pub(super) fn steps(set: &Value) -> &[Value] {
    set["status"]["steps"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// How far a step of a change set is, by its id.
pub(super) fn state<'v>(set: &'v Value, id: &str) -> &'v Value {
    let mut states = set["status"]["stepStates"].as_array().into_iter().flatten();
    states.find(|step| step["id"] == id).unwrap_or(&Value::Null)
}
