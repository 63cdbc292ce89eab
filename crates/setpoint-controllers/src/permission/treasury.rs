//! What may be spent in an Environment with limits: one at a time knows how much there is, and writes down what it takes
//! before it takes it. A look at all of it is made once after each time that something is spent, whoever asks.
//!
//! What was begun and does not show yet leaves no room: how much there is is then not known, and whoever needs more waits.

use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use setpoint_api::environment::{Environment, Guardrails, LedgerEntry};
use setpoint_api::machine::Machine;
use setpoint_api::step::Step;
use setpoint_core::gate::{Usage, ledger_entry, record};
use setpoint_core::observation::Observation;
use setpoint_deployer::provider::Scope;
use tokio::sync::OwnedMutexGuard;

use super::account::{Account, makes, shows};
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
    /// The Environment as it was read, and its account; none where nothing is limited.
    limited: Option<(Environment, OwnedMutexGuard<Account>)>,
}

impl Treasury {
    pub fn new(context: &Context, caches: &Caches, planning: &Planning, sights: &Sights) -> Treasury {
        Treasury {
            client: context.client.clone(),
            caches: caches.clone(),
            planning: planning.clone(),
            sights: sights.clone(),
            clock: context.clock,
        }
    }

    /// What may be spent on steps.
    pub async fn spending(&self, environment: &Environment, steps: &[Step]) -> Result<Spending, Error> {
        let is_limited = environment.spec.guardrails.as_ref().is_some_and(|limits| *limits != Guardrails::default());
        if !is_limited || steps.is_empty() {
            return Ok(Spending::default());
        }
        let name = environment.metadata.name.as_deref().unwrap_or_default();
        let mut account = self.sights.account(name).lock_owned().await;
        let environment = Api::<Environment>::all(self.client.clone()).get(name).await?;
        let provider = self.planning.provider(name)?;
        let (rules, calls) = (environment.metadata.generation, account.open_calls(name, &self.caches.machines));
        let look: Arc<Observation> = match account.look(rules, &calls, self.sights.last(name)) {
            Some(look) => look,
            None => Arc::new(provider.observe(&Scope::Everything).await?.into_observation()),
        };
        account.keep(rules, &calls, &look);
        let usage = match shows(&look, &calls) {
            true => Usage::of(&look, self.planning.cluster(), &provider.abilities().guests),
            false => Usage::default(),
        };
        let ledger = environment.status.as_ref().map(|status| status.ledger.clone()).unwrap_or_default();
        Ok(Spending { usage, ledger, limited: Some((environment, account)) })
    }

    /// Writes down what a call takes, before it is made. False if the Environment moves too fast.
    pub async fn enter(&self, spending: &mut Spending, step: &Step, intent: &str) -> Result<bool, Error> {
        let Some((environment, account)) = &mut spending.limited else { return Ok(true) };
        account.spend();
        let limits = environment.spec.guardrails.clone().unwrap_or_default();
        let Some(entry) = ledger_entry(step, intent, &limits, self.clock.now()) else { return Ok(true) };
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
        if let Some((_, account)) = spending.limited.as_mut().filter(|_| makes(step.action)) {
            account.begin(intent, machine, &self.caches.machines);
        }
    }
}
