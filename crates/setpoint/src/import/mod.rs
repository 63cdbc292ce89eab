//! `setpoint import`: takes an existing guest under care as a Machine that desires what it already is.

mod leftover;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use http::Method;
use kube::Api;
use kube::runtime::wait::await_condition;
use serde_json::{Map, Value, json};
use setpoint_api::condition::ConditionStatus;
use setpoint_api::machine::{Machine, MachineStatus};

use self::leftover::{is_leftover, remove};
use crate::apply::{Aim, Followed, condition, follow};
use crate::approve::Policy;
use crate::client::Reply;
use crate::get::JSON;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::{Place, Session};
use crate::terminal::{inert, remark, yaml};

/// What is shown instead of a sensitive value.
const SENSITIVE: &str = "(sensitive)";

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The environment that the guest is in
    environment: String,
    /// The guest, by its provider's id
    guest: String,
    /// The Machine to make of it
    name: String,
    /// Write the observed fields into the Machine too, so that they are held
    #[arg(long)]
    manage: bool,
    /// How long to wait until the guest was seen
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// The form to print the Machine in
    #[arg(short, long, value_enum, default_value_t = Output::Yaml)]
    output: Output,
    #[command(flatten)]
    place: Place,
}

impl Import {
    pub(crate) fn run(&self) -> Result<Outcome> {
        self.place.run(async |session| self.import(session).await)
    }

    async fn import(&self, session: &Session) -> Result<Outcome> {
        let namespace = session.server.namespace.as_str();
        if matches!(Policy::of(session, &self.environment).await?, Policy::Absent) {
            let environment = inert(&self.environment);
            bail!("there is no environment {environment:?}; `setpoint get environments` shows what there is");
        }
        let mut generation = self.make(session, namespace).await?;
        let machine = self.seen(session).await?;
        let status = machine.status.unwrap_or_default();
        let (spec, left_out) = desired(&status);
        let manifest = manifest(self, namespace, spec);
        if !left_out.is_empty() {
            remark(&format!(
                "not in the manifest, since they are secret or cannot be said there: {}",
                left_out.join(", ")
            ));
        }
        if self.manage {
            let written = self.hold(session, namespace, &manifest).await?;
            generation = written["metadata"]["generation"].as_i64().unwrap_or_default();
        }
        let text = || yaml(&manifest).unwrap_or_default();
        self.output.print(text, || Ok(manifest.clone()))?;
        self.taken(session, generation).await
    }

    /// Makes the Machine, and says its generation. What an import before left behind is taken for it, or gives way where it
    /// is of another guest.
    async fn make(&self, session: &Session, namespace: &str) -> Result<i64> {
        let bare = manifest(self, namespace, Map::new());
        let path = format!("/apis/setpoint.dev/v1alpha1/namespaces/{namespace}/machines?fieldManager=setpoint");
        let post = async || session.server.send(Method::POST, &path, Some((JSON, &bare))).await;
        let mut made = post().await?;
        if matches!(&made, Reply::Refused(status) if status.code == 409)
            && let Some(left) = self.found(session).await?.filter(is_leftover)
        {
            let is_same =
                left.spec.environment == self.environment && left.spec.provider_id == Some(self.guest.clone());
            if is_same && left.metadata.deletion_timestamp.is_none() {
                return Ok(left.metadata.generation.unwrap_or_default());
            }
            remove(session, &left, Duration::from_secs(self.timeout)).await?;
            made = post().await?;
        }
        let made = made.object().with_context(|| format!("cannot make the Machine {}", inert(&self.name)))?;
        Ok(made["metadata"]["generation"].as_i64().unwrap_or_default())
    }

    async fn found(&self, session: &Session) -> Result<Option<Machine>> {
        let machines: Api<Machine> = Api::namespaced(session.server.client.clone(), &session.server.namespace);
        machines.get_opt(&self.name).await.map_err(|error| session.server.unreachable(error))
    }

    /// Removes the Machine of an import that failed, and says whether it is gone.
    async fn withdrawn(&self, session: &Session, machine: &Machine) -> String {
        match remove(session, machine, Duration::from_secs(self.timeout)).await {
            Ok(()) => format!("the Machine {} is removed again", inert(&self.name)),
            Err(_) => format!("the Machine stays: {}", self.undone(session)),
        }
    }

    /// Waits until the guest was seen, or is said not to be there.
    async fn seen(&self, session: &Session) -> Result<Machine> {
        let machines: Api<Machine> = Api::namespaced(session.server.client.clone(), &session.server.namespace);
        let is_told = |machine: Option<&Machine>| {
            let status = machine.and_then(|machine| machine.status.as_ref());
            machine.is_none() || status.is_some_and(|status| !status.observed.is_empty() || failure(status).is_some())
        };
        let waited = await_condition(machines.clone(), &self.name, is_told);
        let (guest, environment) = (inert(&self.guest), inert(&self.environment));
        let Ok(found) = tokio::time::timeout(Duration::from_secs(self.timeout), waited).await else {
            let last = machines.get_opt(&self.name).await.ok().flatten().and_then(|machine| machine.status);
            let synced = last.as_ref().and_then(|status| condition(&status.conditions, "Synced"));
            let why = synced.and_then(|synced| synced.message.as_deref()).map(|why| format!(" ({})", inert(why)));
            bail!(
                "guest {guest} was not seen in {environment} within {} s{}; the Machine stays and goes on looking: {}",
                self.timeout,
                why.unwrap_or_default(),
                self.undone(session)
            );
        };
        let found = found.map_err(|error| anyhow!(inert(&error.to_string())))?;
        let machine = found.with_context(|| format!("the Machine {} was deleted", inert(&self.name)))?;
        let status = machine.status.as_ref();
        match status.filter(|status| status.observed.is_empty()).and_then(failure) {
            Some(why) => {
                let left = self.withdrawn(session, &machine).await;
                bail!("guest {guest} cannot be imported: {}; {left}", inert(&why))
            }
            None => Ok(machine),
        }
    }

    /// Follows until the guest is under care, or can be only once somebody agrees.
    async fn taken(&self, session: &Session, generation: i64) -> Result<Outcome> {
        let followed = Followed { namespace: session.server.namespace.clone(), name: self.name.clone() };
        let aims = BTreeMap::from([(followed, Aim::Synced { generation })]);
        let followup = follow(session, aims, Duration::from_secs(self.timeout)).await?;
        let guest = inert(&self.guest);
        if let Some((_, why)) = followup.refused().next() {
            let left = match self.found(session).await? {
                Some(machine) => self.withdrawn(session, &machine).await,
                None => "the Machine is gone".to_owned(),
            };
            bail!("guest {guest} is not under care: {}; {left}", inert(why));
        }
        let waiting = followup.waiting().next();
        if let Some((_, why)) = waiting {
            remark(&format!("guest {guest} is not under care yet: {why}"));
        }
        Ok(Outcome::pending_if(waiting.is_some()))
    }

    /// How to take it back.
    fn undone(&self, session: &Session) -> String {
        let (name, namespace) = (inert(&self.name), inert(&session.server.namespace));
        format!("`kubectl delete machine {name} -n {namespace}` removes it")
    }

    async fn hold(&self, session: &Session, namespace: &str, manifest: &Value) -> Result<Value> {
        let name = &self.name;
        let path = format!(
            "/apis/setpoint.dev/v1alpha1/namespaces/{namespace}/machines/{name}?fieldManager=setpoint&force=true"
        );
        let reply = session.server.send(Method::PATCH, &path, Some(("application/apply-patch+yaml", manifest))).await?;
        reply.object().context("cannot write the observed fields")
    }
}

/// Why a guest is not taken under care.
fn failure(status: &MachineStatus) -> Option<String> {
    let synced = condition(&status.conditions, "Synced").filter(|synced| synced.status == ConditionStatus::False)?;
    let is_final = matches!(synced.reason.as_deref(), Some("Refused" | "Missing" | "Waiting" | "Unauthorized"));
    is_final.then(|| synced.message.clone().or(synced.reason.clone()).unwrap_or_default())
}

fn manifest(import: &Import, namespace: &str, observed: Map<String, Value>) -> Value {
    let mut spec = Map::from_iter([
        ("environment".to_owned(), json!(import.environment)),
        ("providerId".to_owned(), json!(import.guest)),
        // What was imported and is gone is said to be missing, and not made anew.
        ("create".to_owned(), json!("Never")),
    ]);
    spec.extend(observed);
    json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": import.name, "namespace": namespace}, "spec": spec,
    })
}

/// The fields of a Machine that desires what was observed, and the names of those that cannot be said.
fn desired(status: &MachineStatus) -> (Map<String, Value>, Vec<String>) {
    let (mut spec, mut left_out) = (Map::new(), Vec::new());
    let mut env: BTreeMap<&str, &str> = BTreeMap::new();
    for (field, value) in &status.observed {
        let number = value.parse::<u32>().ok();
        match (field.as_str(), number) {
            _ if value == SENSITIVE => left_out.push(inert(field)),
            ("cores", Some(cores)) => drop(spec.insert("cores".to_owned(), json!(cores))),
            ("gpu.count", Some(count)) => gpu(&mut spec, "count", json!(count)),
            ("gpu.type", _) => gpu(&mut spec, "type", json!(value)),
            ("memory" | "disk", _) => drop(spec.insert(field.clone(), json!(quantity(value)))),
            ("image" | "description", _) => drop(spec.insert(field.clone(), json!(value))),
            (name, _) if name.starts_with("env.") => {
                env.insert(&name["env.".len()..], value);
            }
            _ => left_out.push(inert(field)),
        }
    }
    if !env.is_empty() {
        let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        spec.insert("env".to_owned(), Value::Array(env));
    }
    match status.run.as_deref() {
        Some("running") => drop(spec.insert("run".to_owned(), json!("Running"))),
        Some("stopped") => drop(spec.insert("run".to_owned(), json!("Stopped"))),
        _ => {}
    }
    (spec, left_out)
}

fn gpu(spec: &mut Map<String, Value>, name: &str, value: Value) {
    let gpu = spec.entry("gpu").or_insert_with(|| json!({}));
    gpu[name] = value;
}

/// `4096MiB`, as people read it, is `4096Mi` in a spec.
fn quantity(text: &str) -> &str {
    let is_binary = text.strip_suffix('B').is_some_and(|rest| rest.ends_with('i'));
    text.strip_suffix('B').filter(|_| is_binary).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_observed_becomes_what_is_desired() {
        let observed = [
            ("cores", "2"),
            ("memory", "4096MiB"),
            ("image", "debian-12"),
            ("gpu.type", "A100"),
            ("gpu.count", "2"),
            ("env.MODE", "blue"),
            ("env.TOKEN", "(sensitive)"),
            ("ports", "80"),
        ];
        let observed = observed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let status = MachineStatus { observed, run: Some("running".to_owned()), ..MachineStatus::default() };
        let (spec, left_out) = desired(&status);
        assert_eq!(
            Value::Object(spec),
            json!({
                "cores": 2, "memory": "4096Mi", "image": "debian-12", "gpu": {"type": "A100", "count": 2},
                "env": [{"name": "MODE", "value": "blue"}], "run": "Running",
            })
        );
        assert_eq!(left_out, ["env.TOKEN", "ports"]);
    }
}
