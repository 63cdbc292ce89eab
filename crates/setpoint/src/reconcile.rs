//! `setpoint reconcile`: has a Machine or an Environment looked at now, and says what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::await_condition;
use serde_json::json;
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::requester::RECONCILE_AT;

use crate::apply::{Aim, Followed, condition, follow, report_of};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::{Place, Session};
use crate::terminal::inert;

#[derive(Debug, Args)]
pub(crate) struct Reconcile {
    /// The Machine, or environment/NAME for an Environment
    name: String,
    /// How long to wait for the outcome
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// The form to print the outcome in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    place: Place,
}

impl Reconcile {
    pub(crate) fn run(&self) -> Result<Outcome> {
        self.place.run(async |session| match self.name.split_once('/') {
            None => self.machine(session, &self.name).await,
            Some(("machine" | "machines" | "mc", name)) => self.machine(session, name).await,
            Some(("environment" | "environments" | "env", name)) => self.environment(session, name).await,
            Some((kind, _)) => bail!("{:?} cannot be reconciled; name a Machine, or environment/NAME", inert(kind)),
        })
    }

    async fn machine(&self, session: &Session, name: &str) -> Result<Outcome> {
        let namespace = session.server.namespace.clone();
        let machines: Api<Machine> = Api::namespaced(session.server.client.clone(), &namespace);
        let asked = ask(session, &machines, name).await?;
        let seen = |machine: Option<&Machine>| {
            let status = machine.and_then(|machine| machine.status.as_ref());
            let unreadable = status.is_some_and(|status| is_news(&status.conditions, asked));
            machine.is_none()
                || unreadable
                || status.and_then(|status| status.observed_at).is_some_and(|at| at >= asked)
        };
        self.wait(await_condition(machines, name, seen)).await?;
        let followed = Followed { namespace, name: name.to_owned() };
        let aims = BTreeMap::from([(followed, Aim::Synced { generation: 0 })]);
        report_of(self.output, &follow(session, aims, Duration::from_secs(self.timeout)).await?)
    }

    async fn environment(&self, session: &Session, name: &str) -> Result<Outcome> {
        let environments: Api<Environment> = Api::all(session.server.client.clone());
        let asked = ask(session, &environments, name).await?;
        let seen = |environment: Option<&Environment>| {
            let status = environment.and_then(|environment| environment.status.as_ref());
            let unreachable = status.is_some_and(|status| is_news(&status.conditions, asked));
            environment.is_none()
                || unreachable
                || status.and_then(|status| status.observed_at).is_some_and(|at| at >= asked)
        };
        let Some(environment) = self.wait(await_condition(environments, name, seen)).await? else {
            bail!("environment {} was deleted", inert(name));
        };
        let status = environment.status.unwrap_or_default();
        let ready = condition(&status.conditions, "Ready");
        let is_ready = ready.is_some_and(|ready| ready.status == ConditionStatus::True);
        let why = ready.and_then(|ready| ready.message.clone()).unwrap_or_default();
        let number = |number: Option<u32>| number.unwrap_or_default();
        let (instances, drifted) = (number(status.instances), number(status.drifted));
        let orphans = number(status.orphan_count);
        let text = || match is_ready {
            true => format!("{}: {instances} instances, {drifted} drifted, {orphans} orphans\n", inert(name)),
            false => format!("{}: not ready: {}\n", inert(name), inert(&why)),
        };
        let data = || {
            let environment = json!({
                "name": name, "ready": is_ready, "message": why,
                "instances": instances, "drifted": drifted, "orphans": orphans,
            });
            Ok(json!({"environment": environment}))
        };
        self.output.print(text, data)?;
        Ok(Outcome::pending_if(!is_ready || drifted > 0 || orphans > 0))
    }

    async fn wait<K>(
        &self,
        condition: impl Future<Output = Result<Option<K>, kube::runtime::wait::Error>>,
    ) -> Result<Option<K>> {
        match tokio::time::timeout(Duration::from_secs(self.timeout), condition).await {
            Ok(found) => found.map_err(|error| anyhow!(inert(&error.to_string()))),
            Err(_) => bail!(
                "{} was not looked at within {} s; see `setpoint status`, and that the controllers run",
                inert(&self.name),
                self.timeout
            ),
        }
    }
}

/// Asks for a fresh look, and returns when that was, in whole seconds.
async fn ask<K>(session: &Session, objects: &Api<K>, name: &str) -> Result<Timestamp>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let now = Timestamp::now();
    let patch = json!({"metadata": {"annotations": {RECONCILE_AT: now.to_string()}}});
    let patched = objects.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    patched.map_err(|error| session.server.unreachable(error))?;
    // Times in the API may be cut to seconds.
    Ok(now.checked_sub(SignedDuration::from_secs(1)).unwrap_or(now))
}

/// Whether a look that failed was told since.
fn is_news(conditions: &[Condition], since: Timestamp) -> bool {
    let failed = |condition: &&Condition| condition.status != ConditionStatus::True;
    let known = ["Ready", "Synced"].iter().filter_map(|type_| condition(conditions, type_));
    known.filter(failed).any(|condition| condition.last_transition_time.is_some_and(|at| at >= since))
}
