//! What may be spent in an Environment with limits: one at a time knows how much there is, and writes down what it takes
//! before it takes it. What no limit counts is not held up by this.
//!
//! A look at all of it is made only where the last one, and what was begun since, may not leave enough room. What was begun
//! and does not show in that leaves none: how much there is is then not known, and whoever needs more waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use prometheus_client::metrics::counter::Counter;
use serde_json::json;
use setpoint_api::environment::{Environment, Guardrails, LedgerEntry};
use setpoint_api::machine::Machine;
use setpoint_api::step::{Step, Target};
use setpoint_core::gate::{Added, Gpus, Usage, bears_on_limits, ledger_entry, record};
use setpoint_core::intent::makes_a_guest;
use setpoint_core::observation::Observation;
use setpoint_deployer::provider::Scope;
use tokio::sync::OwnedMutexGuard;

use super::account::Account;
use crate::environment::Sights;
use crate::events::is_code;
use crate::planning::Planning;
use crate::runtime::{Caches, Clock, Context, Error};

/// How often a write is tried that meets those of others.
const TRIES: usize = 8;

/// Who knows what may be spent. Cheap to clone.
#[derive(Clone)]
pub struct Treasury {
    client: Client,
    caches: Caches,
    planning: Planning,
    sights: Sights,
    clock: Clock,
    looks: Counter,
}

impl std::fmt::Debug for Treasury {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Treasury").finish_non_exhaustive()
    }
}

/// What there is to be spent. While it is held, nobody else spends there.
#[derive(Debug, Default)]
pub struct Spending {
    pub usage: Usage,
    pub ledger: Vec<LedgerEntry>,
    /// None where no limit counts what is to be done.
    limited: Option<Limited>,
}

/// An Environment as it was read, its account, and the GPUs of what is to be done there.
#[derive(Debug)]
struct Limited {
    environment: Environment,
    account: OwnedMutexGuard<Account>,
    gpus: BTreeMap<Target, Gpus>,
}

impl Treasury {
    pub fn new(context: &Context, caches: &Caches, planning: &Planning, sights: &Sights) -> Treasury {
        Treasury {
            client: context.client.clone(),
            caches: caches.clone(),
            planning: planning.clone(),
            sights: sights.clone(),
            clock: context.clock,
            looks: context.metrics.sweeps(),
        }
    }

    /// What may be spent on steps, given the GPUs of their objects.
    pub async fn spending(
        &self,
        environment: &Environment,
        steps: &[Step],
        gpus: &BTreeMap<Target, Gpus>,
    ) -> Result<Spending, Error> {
        let limits = limits(environment);
        if !steps.iter().any(|step| bears_on_limits(step, gpus, &limits)) {
            return Ok(Spending::default());
        }
        let name = environment.metadata.name.as_deref().unwrap_or_default();
        let mut account = self.sights.account(name).lock_owned().await;
        let environment = Api::<Environment>::all(self.client.clone()).get(name).await?;
        let usage = self.usage(&environment, Added::by(steps, gpus), &mut account).await?;
        let ledger = environment.status.as_ref().map(|status| status.ledger.clone()).unwrap_or_default();
        Ok(Spending { usage, ledger, limited: Some(Limited { environment, account, gpus: gpus.clone() }) })
    }

    /// How much there is, as far as one has to know before adding this.
    async fn usage(&self, environment: &Environment, added: Added, account: &mut Account) -> Result<Usage, Error> {
        let limits = limits(environment);
        if !added.is_limited(&limits) {
            return Ok(Usage::default());
        }
        let name = environment.metadata.name.as_deref().unwrap_or_default();
        let (rules, calls) = (environment.metadata.generation, account.open_calls(name, &self.caches.machines));
        let (provider, later) = (self.planning.provider(name)?, self.sights.last(name));
        let usage_of = |look: &Observation| Usage::of(look, self.planning.cluster(), &provider.abilities().guests);
        let at_most = account.at_most(rules, &calls, later.as_deref(), usage_of);
        if let Some(usage) = at_most.filter(|usage| usage.has_room_for(added, &limits)) {
            return Ok(usage);
        }
        let look = match account.look(rules, &calls, later) {
            Some(look) => look,
            None if account.is_unseen(rules, &calls, self.clock.now()) => return Ok(Usage::default()),
            None => {
                self.looks.inc();
                Arc::new(provider.observe(&Scope::Everything).await?.into_observation())
            }
        };
        let usage = usage_of(&look);
        Ok(account.keep(rules, &calls, look, usage, self.clock.now()))
    }

    /// Writes down what a call takes, before it is made. False if the Environment moves too fast.
    pub async fn enter(&self, spending: &mut Spending, step: &Step, intent: &str) -> Result<bool, Error> {
        let Some(Limited { environment, account, gpus }) = &mut spending.limited else { return Ok(true) };
        account.spend(Added::by([step], gpus));
        let Some(entry) = ledger_entry(step, intent, &limits(environment), self.clock.now()) else { return Ok(true) };
        let api: Api<Environment> = Api::all(self.client.clone());
        for _ in 0..TRIES {
            let meta = &environment.metadata;
            let name = meta.name.clone().unwrap_or_default();
            let ledger = environment.status.as_ref().map(|status| status.ledger.clone()).unwrap_or_default();
            let patch = json!({
                "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
                "status": {"ledger": record(ledger, entry.clone())},
            });
            match api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => return Ok(true),
                Err(error) if is_code(&error, 409) => *environment = api.get(&name).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// A call is on record, as the Machine shows, and is about to be made.
    pub fn begin(&self, spending: &mut Spending, step: &Step, intent: &str, machine: &Machine) {
        if let Some(limited) = spending.limited.as_mut().filter(|_| makes_a_guest(step.action)) {
            limited.account.begin(intent, machine, &self.caches.machines);
        }
    }
}

fn limits(environment: &Environment) -> Guardrails {
    environment.spec.guardrails.clone().unwrap_or_default()
}
