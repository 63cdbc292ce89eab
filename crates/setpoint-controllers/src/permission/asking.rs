//! The ChangeSet of steps that wait for people: one for each object that has such steps, with what would be done for it.
//!
//! What would be done is written here, and what becomes of it by whoever keeps the gate. An open one is used again for
//! as long as the object is as it was; one that is over, or in which the approvals of what waits were used, stays as it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use setpoint_api::change_set::{ChangeSet, ChangeSetSpec, Mode};
use setpoint_api::step::Step;
use setpoint_core::derived_name;
use setpoint_core::observation::Observation;
use setpoint_core::plan;

use crate::change_set::{Owner, can_be_decided};
use crate::events::is_code;
use crate::ownership::unless_moved;
use crate::planning::Planning;
use crate::refusal::is_of_a_namespace_that_goes;
use crate::runtime::{Caches, Context, Error, Round};

const MAX_NAME: usize = 63;
/// How many names that are taken are met before it is put off.
const MAX_TAKEN: usize = 3;

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
    /// The object that the steps serve, and its generation where what people say is of that one alone.
    pub owner: OwnerReference,
    pub generation: Option<i64>,
    pub namespace: &'a str,
    pub environment: &'a str,
    pub requested_by: &'a str,
    /// All that would be done, and by which look.
    pub plan: &'a plan::ChangeSet,
    pub look: &'a Observation,
    /// The steps of it that wait for people.
    pub held: Vec<&'a Step>,
    /// The digests of steps that people are asked about in change sets that users made.
    pub asked: BTreeSet<&'a str>,
    /// What was last done for the object: the same question after that is another.
    pub last_done: Option<String>,
}

/// Whether people can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearing {
    Possible,
    /// Nothing can be made any more where they would be asked: the namespace is being deleted.
    Impossible,
}

/// What became of a ChangeSet that was to be made.
enum Opened {
    Set(Box<ChangeSet>),
    /// None now: people are asked elsewhere, or the next round will tell.
    Later,
    Never,
}

impl Asker {
    pub fn new(context: &Context, caches: &Caches, planning: &Planning) -> Asker {
        Asker { client: context.client.clone(), caches: caches.clone(), planning: planning.clone() }
    }

    /// Sees to it that people are asked, if there is anything to ask.
    pub async fn ask(&self, petition: &Petition<'_>, round: &mut Round) -> Result<Hearing, Error> {
        if petition.held.is_empty() {
            return Ok(Hearing::Possible);
        }
        let sets = petition.owner().change_sets(&self.caches);
        let open = sets.iter().filter(|set| petition.can_be_decided_in(set)).max_by_key(|set| made(set));
        let opened = match open {
            // To ask the same people twice would leave one of the questions without an answer.
            _ if petition.held.iter().all(|step| petition.asked.contains(step.digest.as_str())) => Opened::Later,
            Some(open) => Opened::Set(Box::new((**open).clone())),
            None => self.open(petition, sets.iter().max_by_key(|set| made(set)), round).await?,
        };
        match opened {
            Opened::Set(set) => self.show(&set, petition, round).await?,
            Opened::Later => {}
            Opened::Never => return Ok(Hearing::Impossible),
        }
        Ok(Hearing::Possible)
    }

    /// Makes a ChangeSet after the last one, which is over.
    async fn open(
        &self,
        petition: &Petition<'_>,
        last: Option<&Arc<ChangeSet>>,
        round: &mut Round,
    ) -> Result<Opened, Error> {
        let api = self.sets(petition.namespace);
        let mut others: Vec<String> = last.and_then(|set| set.metadata.uid.clone()).into_iter().collect();
        for _ in 0..=MAX_TAKEN {
            let wanted = new_set(petition, &others);
            match api.create(&PostParams::default(), &wanted).await {
                Ok(made) => {
                    round.wrote(&self.caches.change_sets, &made);
                    return Ok(Opened::Set(Box::new(made)));
                }
                Err(error) if is_code(&error, 409) => {}
                Err(error) if is_of_a_namespace_that_goes(&error) => return Ok(Opened::Never),
                Err(error) => return Err(error.into()),
            }
            match api.get_opt(wanted.metadata.name.as_deref().unwrap_or_default()).await? {
                Some(found) if petition.owner().made(&found) && petition.can_be_decided_in(&found) => {
                    return Ok(Opened::Set(Box::new(found)));
                }
                // It is over, or somebody took the name, who can guess it; not so the next one.
                Some(found) => others.extend(found.metadata.uid),
                None => return Ok(Opened::Later),
            }
        }
        Ok(Opened::Later)
    }

    /// Has a ChangeSet say what would be done.
    async fn show(&self, set: &ChangeSet, petition: &Petition<'_>, round: &mut Round) -> Result<(), Error> {
        let plan = petition.plan;
        let is_same = set.status.as_ref().is_some_and(|said| {
            let is_told = (&said.steps, &said.waiting, &said.refused) == (&plan.steps, &plan.waiting, &plan.refused);
            is_told && said.object_generation == petition.generation
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
                "objectGeneration": petition.generation,
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

impl Petition<'_> {
    /// Whether people can decide on it in a change set. What they were asked before the object was written again is another
    /// question, however much is the same.
    fn can_be_decided_in(&self, set: &ChangeSet) -> bool {
        let is_of_this = match &set.status {
            Some(asked) if asked.digest.is_some() => asked.object_generation == self.generation,
            // Nothing was asked there yet.
            _ => true,
        };
        is_of_this && can_be_decided(set, self.held.iter().map(|step| step.digest.as_str()))
    }

    fn owner(&self) -> Owner<'_> {
        Owner { uid: &self.owner.uid, namespace: self.namespace, environment: self.environment }
    }
}

/// When a change set was made: the later, the greater. Those of one second are in the order of their names, whichever was
/// first.
fn made(set: &ChangeSet) -> (Option<Timestamp>, Option<&str>) {
    (set.metadata.creation_timestamp.as_ref().map(|time| time.0), set.metadata.name.as_deref())
}

/// The change set that asks; its name is none that `others`, by their uids, have.
fn new_set(petition: &Petition<'_>, others: &[String]) -> ChangeSet {
    let digests = petition.held.iter().map(|step| step.digest.as_str());
    let occasion = petition.last_done.iter().chain(others).map(String::as_str);
    let generation = petition.generation.unwrap_or_default().to_string();
    let subject = [petition.owner.uid.as_str(), &generation];
    let parts: Vec<&str> = subject.into_iter().chain(digests).chain(occasion).collect();
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
