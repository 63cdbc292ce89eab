//! The ChangeSet of steps that wait for people: one for each Machine, with what would be done for it.
//!
//! What would be done is written here, and what becomes of it by whoever keeps the gate. An open one is used again; one that
//! is over stays as it is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde_json::json;
use setpoint_api::change_set::{ChangeSet, ChangeSetSpec, Mode, Phase};
use setpoint_api::machine::Machine;
use setpoint_api::step::Step;
use setpoint_core::derived_name;
use setpoint_core::machine::Held;

use super::Machines;
use super::leave::requested_by;
use super::round::waits_for_people;
use crate::events::is_code;
use crate::ownership::unless_moved;
use crate::planning::Planned;
use crate::refusal::is_of_a_namespace_that_goes;
use crate::runtime::caches::CHANGE_SETS_BY_OWNER;
use crate::runtime::{Error, Round};

const MAX_NAME: usize = 63;

impl Machines {
    /// Sees to it that people are asked for the steps that wait for them.
    pub(super) async fn ask(
        &self,
        machine: &Machine,
        planned: &Planned,
        held: &[Held<'_>],
        round: &mut Round,
    ) -> Result<(), Error> {
        let waiting: Vec<&Step> = waits_for_people(held).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let uid = machine.metadata.uid.as_deref().unwrap_or_default();
        let sets = self.caches.change_sets.by(&CHANGE_SETS_BY_OWNER, uid);
        let set = match sets.iter().find(|set| is_open(set)) {
            Some(open) => Some((**open).clone()),
            None => self.open_set(machine, &waiting, round).await?,
        };
        match set {
            Some(set) => self.show(&set, planned, round).await,
            None => Ok(()),
        }
    }

    /// Makes a ChangeSet; `None` where nothing can be made any more.
    async fn open_set(&self, machine: &Machine, held: &[&Step], round: &mut Round) -> Result<Option<ChangeSet>, Error> {
        let api = self.sets(machine.metadata.namespace.as_deref());
        let wanted = new_set(machine, held);
        let name = wanted.metadata.name.clone().unwrap_or_default();
        let made = match api.create(&PostParams::default(), &wanted).await {
            Ok(made) => made,
            Err(error) if is_code(&error, 409) => return Ok(api.get_opt(&name).await?.filter(is_open)),
            Err(error) if is_of_a_namespace_that_goes(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        round.wrote(&self.caches.change_sets, &made);
        Ok(Some(made))
    }

    /// Has a ChangeSet say what would be done.
    async fn show(&self, set: &ChangeSet, planned: &Planned, round: &mut Round) -> Result<(), Error> {
        let plan = &planned.change_set;
        let said = set.status.as_ref();
        let is_same = said.is_some_and(|said| {
            (&said.steps, &said.waiting, &said.refused) == (&plan.steps, &plan.waiting, &plan.refused)
        });
        if is_same {
            return Ok(());
        }
        let digests: Vec<&str> = plan.steps.iter().map(|step| step.digest.as_str()).collect();
        let patch = json!({
            "metadata": {"uid": set.metadata.uid, "resourceVersion": set.metadata.resource_version},
            "status": {
                "steps": plan.steps,
                "waiting": plan.waiting,
                "refused": plan.refused,
                "counts": plan.counts,
                "hourlyCostDelta": plan.hourly_cost_delta(),
                "digest": self.planning.key().await?.digest(&json!(digests)),
                "observedAt": planned.observation.observed_at,
                "observedGeneration": set.metadata.generation,
            },
        });
        let api = self.sets(set.metadata.namespace.as_deref());
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let written = unless_moved(api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await)?;
        written.iter().for_each(|set| round.wrote(&self.caches.change_sets, set));
        Ok(())
    }

    fn sets(&self, namespace: Option<&str>) -> Api<ChangeSet> {
        Api::namespaced(self.client.clone(), namespace.unwrap_or_default())
    }
}

/// Whether people can still decide on it.
fn is_open(set: &ChangeSet) -> bool {
    let phase = set.status.as_ref().and_then(|status| status.phase);
    let is_over = matches!(phase, Some(Phase::Succeeded | Phase::Failed | Phase::Stale));
    set.metadata.deletion_timestamp.is_none() && set.spec.mode == Mode::Execute && !is_over
}

fn new_set(machine: &Machine, held: &[&Step]) -> ChangeSet {
    let meta = &machine.metadata;
    let (name, uid) = (meta.name.clone().unwrap_or_default(), meta.uid.clone().unwrap_or_default());
    let last = machine.status.as_ref().and_then(|status| status.done.last()).map(|done| done.at.to_string());
    let digests = held.iter().map(|step| step.digest.as_str());
    let parts: Vec<&str> = [uid.as_str()].into_iter().chain(digests).chain(last.as_deref()).collect();
    let spec = ChangeSetSpec {
        environment: machine.spec.environment.clone(),
        mode: Mode::Execute,
        objects: Vec::new(),
        deletes: Vec::new(),
        requested_by: requested_by(machine).to_owned(),
    };
    let mut set = ChangeSet::new(&derived_name::derive(&name, MAX_NAME, &parts), spec);
    set.metadata = ObjectMeta {
        namespace: meta.namespace.clone(),
        owner_references: Some(vec![OwnerReference {
            api_version: Machine::api_version(&()).into_owned(),
            kind: Machine::kind(&()).into_owned(),
            name,
            uid,
            controller: Some(true),
            block_owner_deletion: None,
        }]),
        ..set.metadata
    };
    set
}
