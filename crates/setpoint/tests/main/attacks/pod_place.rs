//! A server that runs Pods on this machine, and what a test asks of it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::{Server, wait_for};

use crate::SETPOINT;

const PODS: &str = "/api/v1/namespaces/default/pods";
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct PodPlace {
    pub(super) server: Server,
}

impl PodPlace {
    pub(super) async fn start() -> Result<PodPlace> {
        PodPlace::start_by(SETPOINT).await
    }

    /// With this program in the place of the server's.
    pub(super) async fn start_by(program: impl Into<PathBuf>) -> Result<PodPlace> {
        Ok(PodPlace { server: Server::start_with_local_node(program).await? })
    }

    /// Creates a Pod that is not started again when it ends.
    pub(super) async fn create(&self, name: &str, mut spec: Value) -> Result<()> {
        if spec["restartPolicy"].is_null() {
            spec["restartPolicy"] = json!("Never");
        }
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        self.server.client()?.post(PODS, &pod).await?.success()?;
        Ok(())
    }

    pub(super) async fn pod(&self, name: &str) -> Result<Value> {
        self.server.client()?.get(&format!("{PODS}/{name}")).await?.success()
    }

    /// The Pod, once it is so.
    pub(super) async fn until(&self, what: &str, name: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let waited = wait_for(what, PATIENCE, || async {
            let pod = self.pod(name).await?;
            Ok(is_so(&pod).then_some(pod))
        });
        match waited.await {
            Ok(pod) => Ok(pod),
            Err(error) => Err(error.context(format!("{}", self.pod(name).await?["status"]))),
        }
    }

    /// The Pod, once it has ended, well or not.
    pub(super) async fn ended(&self, name: &str) -> Result<Value> {
        let is_over = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        self.until(&format!("{name} to end"), name, is_over).await
    }

    /// The message of the end of a Pod's only container.
    pub(super) async fn last_words(&self, name: &str) -> Result<String> {
        let pod = self.ended(name).await?;
        let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        Ok(ended["message"].as_str().unwrap_or_default().to_owned())
    }

    /// The message with which a container of a Pod waits, once one waits for this reason.
    pub(super) async fn waiting(&self, name: &str, reason: &str) -> Result<String> {
        let held = |pod: &Value| {
            let containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
            let mut waiting = containers.map(|container| container["state"]["waiting"].clone());
            waiting.find(|waiting| waiting["reason"] == reason)
        };
        let pod = self.until(&format!("{name} to wait for {reason}"), name, |pod| held(pod).is_some()).await?;
        Ok(held(&pod).map(|waiting| waiting["message"].as_str().unwrap_or_default().to_owned()).unwrap_or_default())
    }

    /// What a Pod that has ended has said.
    pub(super) async fn said(&self, name: &str) -> Result<String> {
        self.ended(name).await?;
        self.log(name).await
    }

    pub(super) async fn log(&self, name: &str) -> Result<String> {
        let answer = self.server.client()?.get(&format!("{PODS}/{name}/log")).await?;
        ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
        Ok(answer.text())
    }

    /// The message of an Event about a Pod for this reason, once it is told, and how often it was.
    pub(super) async fn told(&self, name: &str, reason: &str) -> Result<(String, u64)> {
        let path =
            format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name},reason={reason}");
        wait_for(&format!("an Event {reason} about {name}"), PATIENCE, || async {
            let events = self.server.client()?.get(&path).await?.success()?;
            let Some(event) = events["items"].as_array().and_then(|events| events.first()) else { return Ok(None) };
            let message = event["message"].as_str().unwrap_or_default().to_owned();
            Ok(Some((message, event["count"].as_u64().unwrap_or(1))))
        })
        .await
    }

    /// Whether a Pod that does nothing special still runs.
    pub(super) async fn runs(&self, name: &str) -> Result<()> {
        self.create(name, json!({"containers": [script("echo fine")]})).await?;
        let said = self.said(name).await.with_context(|| format!("{name} does not run"))?;
        ensure!(said == "fine\n", "{name} says {said:?}");
        Ok(())
    }
}

/// Whether Pods can run as other users here. Where they cannot, the tests of that fail, unless they are told to do without.
pub(super) fn is_root() -> Result<bool> {
    const WITHOUT: &str = "SETPOINT_TESTS_WITHOUT_ROOT";
    let is_root = rustix::process::geteuid().is_root();
    ensure!(
        is_root || std::env::var_os(WITHOUT).is_some(),
        "only root can run Pods as other users; {WITHOUT}=1 does without"
    );
    Ok(is_root)
}

/// A container that runs this.
pub(super) fn script(script: &str) -> Value {
    json!({"name": "web", "command": ["sh", "-c", script]})
}
