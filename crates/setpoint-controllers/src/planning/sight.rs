//! A look at what concerns some Machines, and no more of a place than that takes.

use std::collections::BTreeSet;

use setpoint_core::observation::{Completeness, Observation};
use setpoint_deployer::provider::{Observed, Scope};
use setpoint_deployer::{Provider, Result};

use super::Subject;

/// From how many Machines on one look at everything is cheaper than a look for each.
const MANY: usize = 16;

/// What is there of some Machines: what carries their marks, and the guests that they pin or have on record.
pub(super) async fn look<'s>(
    provider: &dyn Provider,
    subjects: impl Iterator<Item = &'s Subject> + Clone,
) -> Result<Observation> {
    if subjects.clone().count() > MANY {
        return Ok(provider.observe(&Scope::Everything).await?.into_observation());
    }
    let mut looks: Vec<Observation> = Vec::new();
    let mut ids: BTreeSet<Box<str>> = BTreeSet::new();
    for Subject { machine } in subjects {
        if let Some(uid) = machine.metadata.uid.as_deref() {
            looks.push(provider.observe(&Scope::Owner(uid.into())).await?.into_observation());
        }
        let status = machine.status.as_ref();
        let intended =
            status.iter().flat_map(|status| &status.intents).filter_map(|intent| intent.provider_id.as_ref());
        let recorded = status.and_then(|status| status.provider_id.as_ref());
        ids.extend(intended.chain(recorded).chain(&machine.spec.provider_id).map(|id| id.as_str().into()));
    }
    let seen: BTreeSet<Box<str>> = looks.iter().flat_map(|look| &look.guests).map(|guest| guest.id.clone()).collect();
    for id in ids.difference(&seen) {
        looks.push(of_instance(provider, id).await?.into_observation());
    }
    match looks.is_empty() {
        true => Ok(provider.observe(&Scope::Everything).await?.into_observation()),
        false => Ok(together(looks)),
    }
}

async fn of_instance(provider: &dyn Provider, id: &str) -> Result<Observed> {
    provider.observe(&Scope::Instance(id.into())).await
}

/// Several looks as one: as old as the oldest, and complete if all are.
fn together(looks: Vec<Observation>) -> Observation {
    let observed_at = looks.iter().map(|look| look.observed_at).min().unwrap_or_default();
    let partial = looks.iter().find(|look| !look.completeness.is_complete()).map(|look| look.completeness.clone());
    let mut seen = BTreeSet::new();
    let guests = looks.into_iter().flat_map(|look| look.guests).filter(|guest| seen.insert(guest.id.clone()));
    let guests = guests.collect();
    Observation { completeness: partial.unwrap_or(Completeness::Complete), guests, observed_at }
}
