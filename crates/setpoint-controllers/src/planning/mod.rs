//! What is desired of an environment against what is there: gathers both, has the core plan, and checks what comes out.
//!
//! | module | what it does |
//! | --- | --- |
//! | `digest_key` | the key of all digests |
//! | `elsewhere` | what Machines have to do with those of other Environments |
//! | `sources` | the Secrets and ConfigMaps that Machines name |
//! | `sight` | looks at what concerns some Machines |
//!
//! The same for Machines as they are stored and as they would be: nothing here writes but the key, once.

mod digest_key;
mod elsewhere;
mod sight;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Client};
use prometheus_client::metrics::counter::Counter;
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::step::{Refusal, Target};
use setpoint_core::check::check;
use setpoint_core::desired::Desired;
use setpoint_core::digest::Key;
use setpoint_core::gate::{Added, Judged, Room, Usage, beyond_limits};
use setpoint_core::machine::{self, Seen};
use setpoint_core::observation::Observation;
use setpoint_core::plan::{ChangeSet, Input, Orphans, Policy, plan};
use setpoint_core::registry::Capabilities;
use setpoint_deployer::Provider;
use setpoint_deployer::provider::Scope;
use thiserror::Error;
use tokio::sync::OnceCell;

use crate::node::Providers;
use crate::runtime::caches::{MACHINES_BY_DEPENDENCY, MACHINES_BY_GUEST};
use crate::runtime::{Caches, Context, Name};

/// Plans for Machines of an environment. Cheap to clone.
#[derive(Clone)]
pub struct Planning {
    client: Client,
    caches: Caches,
    cluster: Arc<str>,
    providers: Providers,
    seed: Option<u64>,
    looks: Counter,
    key: Arc<OnceCell<Key>>,
}

/// A Machine to plan for, as it is stored or as it would be.
#[derive(Debug, Clone)]
pub struct Subject {
    pub machine: Arc<Machine>,
}

/// What would be done for some Machines, and what that follows from.
#[derive(Debug)]
pub struct Planned {
    /// About the subjects alone. It holds [`Machine`]s that cannot be read as refused.
    pub change_set: ChangeSet,
    /// What the subjects and those they have to do with desire, as far as it can be read.
    pub desired: Vec<Desired>,
    pub observation: Observation,
    pub capabilities: Capabilities,
}

/// Why there is no plan.
#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Provider(#[from] setpoint_deployer::Error),
    #[error("the environment {0} is not open: its condition Ready says why")]
    NotOpen(String),
    /// The planner and its checker disagree: a fault of ours, and nothing is done.
    #[error("the plan is not sound and is not carried out: {0}")]
    Unsound(String),
}

impl From<Error> for crate::runtime::Error {
    fn from(error: Error) -> crate::runtime::Error {
        match error {
            Error::Api(error) => error.into(),
            Error::Provider(error) => error.into(),
            held => crate::runtime::Error::Held(held.to_string()),
        }
    }
}

impl std::fmt::Debug for Planning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planning").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl Subject {
    pub fn stored(machine: Arc<Machine>) -> Subject {
        Subject { machine }
    }

    /// A Machine as it would be if it were deleted now.
    pub fn deleted(machine: &Machine, now: Timestamp) -> Subject {
        let mut machine = machine.clone();
        machine.metadata.deletion_timestamp.get_or_insert(Time(now));
        Subject { machine: Arc::new(machine) }
    }

    pub fn target(&self) -> Target {
        machine::target(&self.machine.metadata)
    }

    /// Since when its time has been over, unless it is being deleted anyway.
    fn expired_at(&self, environment: &Environment, now: Timestamp) -> Option<Timestamp> {
        let expires_at = machine::expires_at(&self.machine, environment.spec.guardrails.as_ref());
        expires_at.filter(|at| *at <= now && self.machine.metadata.deletion_timestamp.is_none())
    }
}

impl Planning {
    pub fn new(context: &Context, caches: &Caches, cluster: &str, providers: &Providers) -> Planning {
        Planning {
            client: context.client.clone(),
            caches: caches.clone(),
            cluster: cluster.into(),
            providers: providers.clone(),
            seed: context.seed,
            looks: context.metrics.glances(),
            key: Arc::default(),
        }
    }

    /// This control plane, as marks name it.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The key of all digests.
    pub async fn key(&self) -> Result<&Key, kube::Error> {
        self.key.get_or_try_init(|| digest_key::open(&self.client, self.seed)).await
    }

    /// Who acts in an environment.
    pub fn provider(&self, environment: &str) -> Result<Arc<dyn Provider>, Error> {
        self.providers.get(environment).ok_or_else(|| Error::NotOpen(environment.to_owned()))
    }

    /// What would be done for Machines of one environment, by a fresh look at what concerns them. Those that they depend
    /// on, that depend on them, or that claim the same guest are taken into account as they are stored.
    pub async fn plan(
        &self,
        environment: &Environment,
        subjects: &[Subject],
        orphans: Orphans,
    ) -> Result<Planned, Error> {
        let observation = self.look(name_of(environment), subjects).await?;
        self.plan_by(environment, subjects, observation, orphans).await
    }

    /// A look at what concerns some Machines, and those they have to do with.
    pub async fn look(&self, environment: &str, subjects: &[Subject]) -> Result<Observation, Error> {
        let related = self.related(subjects);
        self.looks.inc();
        sight::look(&*self.provider(environment)?, subjects.iter().chain(&related)).await.map_err(Error::from)
    }

    /// The steps of a plan that the limits of its environment would hold back or refuse by what is there now, however many
    /// people agree.
    pub async fn beyond_limits(&self, environment: &Environment, planned: &Planned) -> Result<Vec<Judged>, Error> {
        // As the server has it: what was changed or spent just now counts.
        let environment = Api::<Environment>::all(self.client.clone()).get(name_of(environment)).await?;
        let Some(guardrails) = environment.spec.guardrails.as_ref() else { return Ok(Vec::new()) };
        let steps = &planned.change_set.steps;
        let seen = Seen {
            cluster: &self.cluster,
            capabilities: &planned.capabilities,
            key: self.key().await?,
            observation: &planned.observation,
        };
        let counted = planned.desired.iter().filter(|_| guardrails.max_gpus.is_some());
        let gpus = counted.filter_map(|desired| Some((desired.target.clone(), seen.gpus(desired)?))).collect();
        let usage = match Added::by(steps, &gpus).is_limited(guardrails) {
            true => self.usage(&environment).await?,
            false => Usage::default(),
        };
        let ledger = environment.status.as_ref().map_or(&[][..], |status| &status.ledger);
        let (under_way, now) = (BTreeSet::new(), planned.observation.observed_at);
        Ok(beyond_limits(steps, Room { guardrails, ledger, under_way: &under_way, usage, gpus: &gpus, now }))
    }

    /// How much there is in an environment, by a fresh look at all of it.
    async fn usage(&self, environment: &Environment) -> Result<Usage, Error> {
        let provider = self.provider(name_of(environment))?;
        self.looks.inc();
        let look = provider.observe(&Scope::Everything).await?.into_observation();
        Ok(Usage::of(&look, &self.cluster, &provider.abilities().guests))
    }

    /// The same by a look that was made before.
    pub async fn plan_by(
        &self,
        environment: &Environment,
        subjects: &[Subject],
        observation: Observation,
        orphans: Orphans,
    ) -> Result<Planned, Error> {
        let provider = self.provider(name_of(environment))?;
        let related = self.related(subjects);
        let all: Vec<&Subject> = subjects.iter().chain(&related).collect();
        let (desired, refused) = self.desires(environment, &*provider, &all, observation.observed_at).await?;
        let capabilities = provider.abilities().guests.clone();
        let input = Input {
            environment: name_of(environment),
            cluster: &self.cluster,
            capabilities: &capabilities,
            desired: &desired,
            observation: &observation,
            policy: Policy { create: environment.spec.create, orphans },
            key: self.key().await?,
        };
        let change_set = plan(&input);
        let violations = check(&input, &change_set);
        if !violations.is_empty() {
            let told: Vec<String> = violations.iter().map(ToString::to_string).collect();
            tracing::error!(environment = input.environment, ?told, "a plan is not sound and is not carried out");
            return Err(Error::Unsound(told.join("; ")));
        }
        let change_set = about(subjects, change_set, &desired, &observation, refused);
        Ok(Planned { change_set, desired, observation, capabilities })
    }

    /// What Machines desire, with its price; and those of them that cannot be read. One that has had its time desires what
    /// one does that is being deleted.
    async fn desires(
        &self,
        environment: &Environment,
        provider: &dyn Provider,
        subjects: &[&Subject],
        now: Timestamp,
    ) -> Result<(Vec<Desired>, Vec<Refusal>), Error> {
        let sources = sources::read(&self.client, subjects).await?;
        let (mut desires, mut refused) = (Vec::with_capacity(subjects.len()), Vec::new());
        for subject in subjects {
            let expired_at = subject.expired_at(environment, now);
            let ended = expired_at.map(|at| Subject::deleted(&subject.machine, at));
            match machine::desire(&ended.as_ref().unwrap_or(subject).machine, &sources) {
                Ok(desired) => {
                    let hourly_price = provider.quote(&desired.fields).await?;
                    let elsewhere = self.dependencies_elsewhere(&subject.machine);
                    let needed_elsewhere = match desired.deletion {
                        Some(_) => self.dependents_elsewhere(&subject.machine),
                        None => Vec::new(),
                    };
                    desires.push(Desired { hourly_price, expired_at, elsewhere, needed_elsewhere, ..desired });
                }
                Err(problems) => refused.extend(problems),
            }
        }
        Ok((desires, refused))
    }

    /// Whether the time of a Machine has an end, as far as is known.
    fn may_expire(&self, machine: &Machine) -> bool {
        let environment = self.caches.environments.get(&Name::new("", &machine.spec.environment));
        environment.is_some_and(|it| machine::expires_at(machine, it.spec.guardrails.as_ref()).is_some())
    }

    /// The stored Machines that some have to do with: which they depend on, which depend on one that goes, and which claim
    /// the same guest.
    fn related(&self, subjects: &[Subject]) -> Vec<Subject> {
        let mut related: BTreeMap<Name, Arc<Machine>> = BTreeMap::new();
        for Subject { machine } in subjects {
            let (meta, spec) = (&machine.metadata, &machine.spec);
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            let mut found: Vec<Arc<Machine>> = Vec::new();
            let names = spec.depends_on.iter().map(|name| Name::new(namespace, name));
            found.extend(names.filter_map(|name| self.caches.machines.get(&name)));
            if meta.deletion_timestamp.is_some() || self.may_expire(machine) {
                let own = format!("{namespace}/{}", meta.name.as_deref().unwrap_or_default());
                found.extend(self.caches.machines.by(&MACHINES_BY_DEPENDENCY, &own));
            }
            if let Some(id) = &spec.provider_id {
                found.extend(self.caches.machines.by(&MACHINES_BY_GUEST, &format!("{}/{id}", spec.environment)));
            }
            let here = found.into_iter().filter(|other| other.spec.environment == spec.environment);
            related.extend(here.map(|other| (Name::of(&*other), other)));
        }
        for subject in subjects {
            related.remove(&Name::of(&*subject.machine));
        }
        related.into_values().map(Subject::stored).collect()
    }
}

/// What of a plan is about the subjects: their own steps, and what is done to guests that are theirs once more or nobody's.
fn about(
    subjects: &[Subject],
    change_set: ChangeSet,
    desired: &[Desired],
    observation: &Observation,
    refused: Vec<Refusal>,
) -> ChangeSet {
    let targets: Vec<Target> = subjects.iter().map(Subject::target).collect();
    let targets: BTreeSet<&Target> = targets.iter().collect();
    let others: BTreeSet<&str> =
        desired.iter().filter(|desired| !targets.contains(&desired.target)).map(|desired| &*desired.uid).collect();
    let is_anothers = |id: &str| {
        let guest = observation.guests.iter().find(|guest| *guest.id == *id);
        guest.and_then(|guest| guest.mark.as_ref()).is_some_and(|mark| others.contains(&*mark.owner_uid))
    };
    let change_set = change_set.only(&targets, |id| !is_anothers(id));
    let refused: Vec<Refusal> = refused.into_iter().filter(|refusal| targets.contains(&refusal.target)).collect();
    if refused.is_empty() { change_set } else { change_set.refusing(refused) }
}

fn name_of(environment: &Environment) -> &str {
    environment.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_machine_has_had_its_time_when_it_is_older_than_its_environment_allows() {
        let at = |text: &str| -> Timestamp { text.parse().expect("a time") };
        let rows = [
            ("there is no limit", json!(null), None, "2026-03-01T23:00:00Z", None),
            ("it is young", json!(3600), None, "2026-03-01T12:59:59Z", None),
            ("it is old", json!(3600), None, "2026-03-01T13:00:00Z", Some("2026-03-01T13:00:00Z")),
            ("it goes anyway", json!(3600), Some("2026-03-01T12:30:00Z"), "2026-03-01T14:00:00Z", None),
        ];
        for (name, ttl, deleted_at, now, expected) in rows {
            let environment: Environment = serde_json::from_value(json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
                "spec": {"deployer": {"name": "simulated"}, "guardrails": {"ttlSeconds": ttl}},
            }))
            .expect("an Environment");
            let machine: Machine = serde_json::from_value(json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
                "metadata": {
                    "name": "web", "creationTimestamp": "2026-03-01T12:00:00Z", "deletionTimestamp": deleted_at,
                },
                "spec": {"environment": "lab"},
            }))
            .expect("a Machine");
            let expired_at = Subject::stored(Arc::new(machine)).expired_at(&environment, at(now));
            assert_eq!(expired_at, expected.map(at), "{name}");
        }
    }
}
