//! `setpoint reconcile`: has a Machine or an Environment looked at now, and says what came of it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::requester::RECONCILE_AT;
use setpoint_core::count::counted;

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
        let seen = |machine: Option<&Machine>| machine.is_none_or(|machine| asked.is_answered_by(machine));
        let why = |machine: Machine| condition(&machine.status?.conditions, "Synced").and_then(|it| it.message.clone());
        self.wait(&machines, name, seen, why).await?;
        let followed = Followed { namespace, name: name.to_owned() };
        let aims = BTreeMap::from([(followed, Aim::Synced { generation: 0 })]);
        report_of(self.output, &follow(session, aims, Duration::from_secs(self.timeout)).await?)
    }

    async fn environment(&self, session: &Session, name: &str) -> Result<Outcome> {
        let environments: Api<Environment> = Api::all(session.server.client.clone());
        let asked = ask(session, &environments, name).await?;
        let seen = |environment: Option<&Environment>| environment.is_none_or(|it| asked.is_answered_by(it));
        let why = |it: Environment| condition(&it.status?.conditions, "Ready").and_then(|it| it.message.clone());
        let environment = self.wait(&environments, name, seen, why).await?;
        let status = environment.status.unwrap_or_default();
        let ready = condition(&status.conditions, "Ready");
        let is_ready = ready.is_some_and(|ready| ready.status == ConditionStatus::True);
        let why = ready.and_then(|ready| ready.message.clone()).unwrap_or_default();
        let number = |number: Option<u32>| number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
        let (instances, drifted) = (number(status.instances), number(status.drifted));
        let orphans = number(status.orphan_count);
        let text = || match is_ready {
            true => {
                let (instances, orphans) = (counted(instances, "instance"), counted(orphans, "orphan"));
                format!("{}: {instances}, {drifted} drifted, {orphans}\n", inert(name))
            }
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

    /// Waits until an object was looked at. If it is not in time, `why` tells what it says of itself.
    async fn wait<K: Kind>(
        &self,
        objects: &Api<K>,
        name: &str,
        is_seen: impl Fn(Option<&K>) -> bool,
        why: impl Fn(K) -> Option<String>,
    ) -> Result<K> {
        let shown = inert(&self.name);
        let waited = await_condition(objects.clone(), name, is_seen);
        let Ok(found) = tokio::time::timeout(Duration::from_secs(self.timeout), waited).await else {
            let last = objects.get_opt(name).await.ok().flatten();
            let why = last.and_then(why).map(|why| format!(" ({})", inert(&why))).unwrap_or_default();
            bail!(
                "{shown} was not looked at within {} s{why}; see `setpoint status`, and that the controllers run",
                self.timeout
            );
        };
        let found = found.map_err(|error| anyhow!(inert(&error.to_string())))?;
        found.with_context(|| format!("{shown} was deleted before it was looked at"))
    }
}

/// What can be looked at now.
trait Kind: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static {
    fn observed_at(&self) -> Option<Timestamp>;
    fn conditions(&self) -> &[Condition];
}

impl Kind for Machine {
    fn observed_at(&self) -> Option<Timestamp> {
        self.status.as_ref()?.observed_at
    }

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

impl Kind for Environment {
    fn observed_at(&self) -> Option<Timestamp> {
        self.status.as_ref()?.observed_at
    }

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

/// That somebody wants a fresh look.
struct Asked {
    /// When, in whole seconds: so are times of conditions.
    at: Timestamp,
    /// When the last look before that was, by the clock of whoever looked.
    last_look: Option<Timestamp>,
}

impl Asked {
    /// Whether an object tells of a later look, or that there could be none.
    fn is_answered_by(&self, object: &impl Kind) -> bool {
        object.observed_at() > self.last_look || is_news(object.conditions(), self.at)
    }
}

/// Asks for a fresh look.
async fn ask<K: Kind>(session: &Session, objects: &Api<K>, name: &str) -> Result<Asked> {
    let now = Timestamp::now();
    let patch = json!({"metadata": {"annotations": {RECONCILE_AT: now.to_string()}}});
    match objects.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(object) => Ok(Asked {
            at: now.checked_sub(SignedDuration::from_secs(1)).unwrap_or(now),
            last_look: object.observed_at(),
        }),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            bail!(
                "there is no {} {:?}; `setpoint get {}` shows what there is",
                K::kind(&()),
                inert(name),
                K::plural(&())
            )
        }
        Err(error) => Err(session.server.unreachable(error)),
    }
}

/// Whether a look that failed was told since.
fn is_news(conditions: &[Condition], since: Timestamp) -> bool {
    let failed = |condition: &&Condition| condition.status != ConditionStatus::True;
    let known = ["Ready", "Synced"].iter().filter_map(|type_| condition(conditions, type_));
    known.filter(failed).any(|condition| condition.last_transition_time.is_some_and(|at| at >= since))
}
