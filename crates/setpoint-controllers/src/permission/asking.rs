//! The ChangeSet of steps that wait for people: one for each object that has such steps, with what would be done for it.
//!
//! What would be done is written here, and what becomes of it by whoever keeps the gate. An open one is used again; one that
//! is over stays as it is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use setpoint_api::change_set::{ChangeSet, ChangeSetSpec, Mode, Phase};
use setpoint_api::step::Step;
use setpoint_core::derived_name;
use setpoint_core::observation::Observation;
use setpoint_core::plan;

use crate::events::is_code;
use crate::ownership::unless_moved;
use crate::planning::Planning;
use crate::refusal::is_of_a_namespace_that_goes;
use crate::runtime::caches::CHANGE_SETS_BY_OWNER;
use crate::runtime::{Caches, Context, Error, Round};

const MAX_NAME: usize = 63;

/// Asks people. Cheap to clone.
#[derive(Clone)]
pub struct Asker {
    client: Client,
    caches: Caches,
    planning: Planning,
}

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asker").finish_non_exhaustive()
    }
}

/// What people are asked.
#[derive(Debug)]
pub struct Petition<'a> {
    /// The object that the steps serve.
    pub owner: OwnerReference,
    pub namespace: &'a str,
    pub environment: &'a str,
    pub requested_by: &'a str,
    /// All that would be done, and by which look.
    pub plan: &'a plan::ChangeSet,
    pub look: &'a Observation,
    /// The steps of it that wait for people.
    pub held: Vec<&'a Step>,
    /// What was last done for the object: the same question after that is another.
    pub last_done: Option<String>,
}

impl Asker {
    pub fn new(context: &Context, caches: &Caches, planning: &Planning) -> Asker {
        Asker { client: context.client.clone(), caches: caches.clone(), planning: planning.clone() }
    }

    /// Sees to it that people are asked, if there is anything to ask.
    pub async fn ask(&self, petition: &Petition<'_>, round: &mut Round) -> Result<(), Error> {
        if petition.held.is_empty() {
            return Ok(());
        }
        let sets = self.caches.change_sets.by(&CHANGE_SETS_BY_OWNER, &petition.owner.uid);
        let set = match sets.iter().find(|set| is_open(set)) {
            Some(open) => Some((**open).clone()),
            None => self.open(petition, round).await?,
        };
        match set {
            Some(set) => self.show(&set, petition, round).await,
            None => Ok(()),
        }
    }

    /// Makes a ChangeSet; `None` where nothing can be made any more.
    async fn open(&self, petition: &Petition<'_>, round: &mut Round) -> Result<Option<ChangeSet>, Error> {
        let (api, wanted) = (self.sets(petition.namespace), new_set(petition));
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
    async fn show(&self, set: &ChangeSet, petition: &Petition<'_>, round: &mut Round) -> Result<(), Error> {
        let plan = petition.plan;
        let is_same = set.status.as_ref().is_some_and(|said| {
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
                "observedAt": petition.look.observed_at,
                "observedGeneration": set.metadata.generation,
            },
        });
        let (api, name) = (self.sets(petition.namespace), set.metadata.name.as_deref().unwrap_or_default());
        let written = unless_moved(api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await)?;
        written.iter().for_each(|set| round.wrote(&self.caches.change_sets, set));
        Ok(())
    }

    fn sets(&self, namespace: &str) -> Api<ChangeSet> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// Whether people can still decide on it.
fn is_open(set: &ChangeSet) -> bool {
    let phase = set.status.as_ref().and_then(|status| status.phase);
    let is_over = matches!(phase, Some(Phase::Succeeded | Phase::Failed | Phase::Stale));
    set.metadata.deletion_timestamp.is_none() && set.spec.mode == Mode::Execute && !is_over
}

fn new_set(petition: &Petition<'_>) -> ChangeSet {
    let digests = petition.held.iter().map(|step| step.digest.as_str());
    let parts: Vec<&str> =
        [petition.owner.uid.as_str()].into_iter().chain(digests).chain(petition.last_done.as_deref()).collect();
    let spec = ChangeSetSpec {
        environment: petition.environment.to_owned(),
        mode: Mode::Execute,
        objects: Vec::new(),
        deletes: Vec::new(),
        requested_by: petition.requested_by.to_owned(),
    };
    let mut set = ChangeSet::new(&derived_name::derive(&petition.owner.name, MAX_NAME, &parts), spec);
    set.metadata.namespace = Some(petition.namespace.to_owned());
    set.metadata.owner_references = Some(vec![petition.owner.clone()]);
    set
}
