//! A server with one simulated Environment, and what a test asks of it. The witness is the place's own records.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_api::requester::RECONCILE_AT;
use setpoint_testkit::{Client, Server, wait_for};

use crate::SETPOINT;

pub(super) const PATIENCE: Duration = Duration::from_secs(60);
pub(super) const MACHINES: &str = "/apis/setpoint.dev/v1alpha1/namespaces/default/machines";
pub(super) const CHANGE_SETS: &str = "/apis/setpoint.dev/v1alpha1/namespaces/default/changesets";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const ENVIRONMENTS: &str = "/apis/setpoint.dev/v1alpha1/environments";
pub(super) const ENVIRONMENT: &str = "/apis/setpoint.dev/v1alpha1/environments/lab";
const NAME: &str = "lab";

pub(super) struct Cluster {
    pub(super) server: Server,
}

impl Cluster {
    /// A server whose Environment has this config besides its records, and these rules.
    pub(super) async fn start(config: Value, rules: Value) -> Result<Cluster> {
        let cluster = Cluster { server: Server::start(SETPOINT).await? };
        let mut spec = json!({
            "deployer": {"name": "simulated"},
            "config": {"durable": true},
            "observeIntervalSeconds": 1,
        });
        merge(&mut spec["config"], config);
        merge(&mut spec, rules);
        let environment = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": NAME}, "spec": spec,
        });
        cluster.client()?.post(ENVIRONMENTS, &environment).await?.success()?;
        Ok(cluster)
    }

    pub(super) fn client(&self) -> Result<Client> {
        self.server.client()
    }

    /// Makes a Machine with these fields.
    pub(super) async fn make(&self, name: &str, fields: Value) -> Result<Value> {
        self.client()?.post(MACHINES, &machine(name, fields)).await?.success()
    }

    pub(super) async fn change(&self, name: &str, patch: Value) -> Result<Value> {
        self.client()?.patch(&format!("{MACHINES}/{name}"), "merge-patch", &patch).await?.success()
    }

    pub(super) async fn delete(&self, name: &str) -> Result<()> {
        self.client()?.delete(&format!("{MACHINES}/{name}")).await?.success().map(drop)
    }

    /// Has the place behave otherwise.
    pub(super) async fn configure(&self, config: Value) -> Result<()> {
        let patch = json!({"spec": {"config": config}});
        self.client()?.patch(ENVIRONMENT, "merge-patch", &patch).await?.success().map(drop)
    }

    /// Waits until a Machine is as it should be, and returns it.
    pub(super) async fn until(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let (is_so, path) = (&is_so, &format!("{MACHINES}/{name}"));
        let found = wait_for(what, PATIENCE, || async move {
            let machine = self.client()?.get(path).await?.success()?;
            Ok(is_so(&machine).then_some(machine))
        });
        match found.await {
            Ok(machine) => Ok(machine),
            Err(error) => Err(error.context(self.client()?.get(path).await?.text())),
        }
    }

    /// Waits until all that a Machine asks for is carried out.
    pub(super) async fn synced(&self, name: &str) -> Result<Value> {
        self.until(name, "the Machine to be synced", is_synced).await
    }

    /// Asks for a fresh look at a Machine, and waits until what it showed is on record.
    pub(super) async fn look_again(&self, name: &str) -> Result<Value> {
        let asked = Timestamp::now();
        self.change(name, json!({"metadata": {"annotations": {RECONCILE_AT: asked.to_string()}}})).await?;
        let is_later = |machine: &Value| {
            let seen = machine["status"]["observedAt"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
            seen.is_some_and(|seen| seen >= asked)
        };
        self.until(name, "a fresh look", is_later).await
    }

    pub(super) async fn gone(&self, name: &str) -> Result<()> {
        wait_for(format!("{name} to be gone"), PATIENCE, || async {
            let answer = self.client()?.get(&format!("{MACHINES}/{name}")).await?;
            Ok((answer.status == 404).then_some(()))
        })
        .await
    }

    pub(super) async fn environment(&self) -> Result<Value> {
        self.client()?.get(ENVIRONMENT).await?.success()
    }

    pub(super) async fn until_environment(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let is_so = &is_so;
        wait_for(what, PATIENCE, || async move {
            let environment = self.environment().await?;
            Ok(is_so(&environment).then_some(environment))
        })
        .await
    }

    pub(super) async fn list(&self, collection: &str) -> Result<Vec<Value>> {
        let mut list = self.client()?.get(collection).await?.success()?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// What the Events about a Machine say for a reason.
    pub(super) async fn told(&self, name: &str, reason: &str) -> Result<Vec<String>> {
        let is_about = |event: &Value| event["involvedObject"]["name"] == name && event["reason"] == reason;
        let events = self.list(EVENTS).await?;
        Ok(events.iter().filter(|event| is_about(event)).map(|event| text(&event["message"])).collect())
    }

    /// What is really there, by the place's own number.
    pub(super) fn truth(&self) -> Result<BTreeMap<u64, Value>> {
        let folder = self.server.data_dir().join("environments").join(NAME).join("place");
        let mut truth = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let is_record = path.extension().is_some_and(|end| end == "json");
            if let (Ok(serial), true) = (stem.parse(), is_record) {
                truth.insert(serial, serde_json::from_slice(&fs::read(&path)?)?);
            }
        }
        Ok(truth)
    }

    /// How many instances were ever made.
    pub(super) fn made(&self) -> Result<u64> {
        let path = self.server.data_dir().join("environments").join(NAME).join("place").join("place.json");
        let memory: Value = serde_json::from_slice(&fs::read(path)?)?;
        memory["last"].as_u64().context("a number")
    }

    /// The one guest of a Machine.
    pub(super) fn guest(&self, machine: &Value) -> Result<Value> {
        let truth = self.truth()?;
        let own: Vec<&Value> =
            truth.values().filter(|guest| guest["mark"]["owner"] == machine["metadata"]["uid"]).collect();
        ensure!(own.len() == 1, "{} has {} guests", machine["metadata"]["name"], own.len());
        Ok(own[0].clone())
    }
}

pub(super) fn machine(name: &str, fields: Value) -> Value {
    let mut spec = json!({"environment": NAME});
    merge(&mut spec, fields);
    json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "metadata": {"name": name}, "spec": spec,
    })
}

pub(super) fn condition<'v>(object: &'v Value, type_: &str) -> &'v Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

pub(super) fn is_synced(machine: &Value) -> bool {
    let is_current = machine["status"]["observedGeneration"] == machine["metadata"]["generation"];
    is_current && condition(machine, "Synced")["status"] == "True"
}

/// The actions that were taken, oldest first.
pub(super) fn done(machine: &Value) -> Vec<String> {
    machine["status"]["done"].as_array().into_iter().flatten().map(|done| text(&done["action"])).collect()
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
