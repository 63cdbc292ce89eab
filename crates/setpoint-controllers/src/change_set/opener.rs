//! Opens change sets: one for each namespace and Environment, with the steps that objects there want and that no change set
//! lists yet. Nobody else opens one that executes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use setpoint_api::change_set::{ChangeSet, ChangeSetSpec, EntryState, Mode};
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::pending::PendingSteps;
use setpoint_api::step::Step;
use setpoint_core::authority::{Candidate, Opening, opening, requesters, rules, steps_to_open};
use setpoint_core::derived_name;
use setpoint_core::pod::NoticeKind;
use setpoint_core::stricter::rules_for;

use super::subjects::{NAMESPACE_OF_ENVIRONMENTS, Wanting};
use super::until;
use crate::events::{Recorder, is_code};
use crate::queue::Queue;
use crate::refusal::is_of_a_namespace_that_goes;
use crate::runtime::caches::{CHANGE_SETS_BY_STEP, MACHINES_BY_PENDING, MACHINES_BY_UNPLANNED, place_value};
use crate::runtime::{Caches, Change, Configuration, Context, Controller, Error, Name, Next, Round};

const MAX_NAME: usize = 63;
/// How many names that are taken are met before it is put off.
const MAX_TAKEN: usize = 3;
/// When to look again whether what has the name of a change set says the same.
const TAKEN: Duration = Duration::from_secs(1);

pub struct ChangeSetOpener {
    client: Client,
    caches: Caches,
    recorder: Recorder,
    /// When the steps came that wait to be listed. Who begins to lead waits anew.
    arrivals: Mutex<BTreeMap<Name, Arrivals>>,
}

#[derive(Debug, Clone)]
struct Arrivals {
    first: Timestamp,
    last: Timestamp,
    digests: BTreeSet<String>,
}

impl std::fmt::Debug for ChangeSetOpener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeSetOpener").finish_non_exhaustive()
    }
}

impl ChangeSetOpener {
    pub fn new(context: &Context, caches: &Caches) -> ChangeSetOpener {
        let (client, recorder) = (context.client.clone(), context.recorder("changeset-opener"));
        ChangeSetOpener { client, caches: caches.clone(), recorder, arrivals: Mutex::default() }
    }

    /// The objects of a namespace with steps in an Environment that need an approval.
    fn wanting(&self, key: &Name, environment: &Arc<Environment>) -> Vec<Wanting> {
        let place = place_value(&key.namespace, &key.name);
        let mut machines = self.caches.machines.by(&MACHINES_BY_PENDING, &place);
        machines.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let is_of_environments = &*key.namespace == NAMESPACE_OF_ENVIRONMENTS;
        let own = is_of_environments.then(|| Wanting::Environment(environment.clone()));
        machines.into_iter().map(Wanting::Machine).chain(own).collect()
    }

    /// When a change set is opened for these steps.
    fn arrived(&self, key: &Name, candidates: &[Candidate<'_>], now: Timestamp) -> Opening {
        let digests: BTreeSet<String> = candidates.iter().map(|candidate| candidate.step.digest.clone()).collect();
        let mut arrivals = self.arrivals.lock();
        let arrival =
            arrivals.entry(key.clone()).or_insert(Arrivals { first: now, last: now, digests: BTreeSet::new() });
        if arrival.digests != digests {
            (arrival.last, arrival.digests) = (now, digests);
        }
        let place = place_value(&key.namespace, &key.name);
        let is_all_planned = self.caches.machines.count_by(&MACHINES_BY_UNPLANNED, &place) == 0;
        opening(arrival.first, arrival.last, is_all_planned, now)
    }

    async fn open(
        &self,
        key: &Name,
        environment: &Environment,
        candidates: &[Candidate<'_>],
        round: &mut Round,
    ) -> Result<Next, Error> {
        let steps: Vec<Step> = candidates.iter().map(|candidate| candidate.step.clone()).collect();
        let in_force = rules_for(environment, &steps);
        let spec = ChangeSetSpec {
            environment: key.name.to_string(),
            mode: Mode::Execute,
            objects: Vec::new(),
            deletes: Vec::new(),
            requested_by: requesters(candidates),
            steps: steps.clone(),
            generations: candidates.iter().map(|candidate| candidate.generation).collect(),
            rules: rules(in_force.approval.as_ref()),
        };
        let api: Api<ChangeSet> = Api::namespaced(self.client.clone(), &key.namespace);
        let mut parts: Vec<String> = environment.metadata.uid.iter().cloned().collect();
        parts.extend(candidates.iter().flat_map(|it| [it.object.to_owned(), it.step.digest.clone()]));
        // The same steps once more are another question than those that were asked before.
        let earlier =
            candidates.iter().flat_map(|it| self.caches.change_sets.by(&CHANGE_SETS_BY_STEP, &it.step.digest));
        parts.extend(earlier.filter_map(|set| set.metadata.uid.clone()).collect::<BTreeSet<String>>());
        for _ in 0..=MAX_TAKEN {
            let words: Vec<&str> = parts.iter().map(String::as_str).collect();
            let mut wanted = ChangeSet::new(&derived_name::derive(&key.name, MAX_NAME, &words), spec.clone());
            wanted.metadata.namespace = Some(key.namespace.to_string());
            match api.create(&PostParams::default(), &wanted).await {
                Ok(made) => {
                    round.wrote(&self.caches.change_sets, &made);
                    self.arrivals.lock().remove(key);
                    // There may be more than one holds.
                    return Ok(Next::After(Duration::ZERO));
                }
                Err(error) if is_code(&error, 409) => {}
                Err(error) if is_of_a_namespace_that_goes(&error) => return Ok(Next::Idle),
                Err(error) => return Err(error.into()),
            }
            match api.get_opt(wanted.metadata.name.as_deref().unwrap_or_default()).await? {
                // An answer was lost, and the caches will show it.
                Some(found) if found.spec == spec => {
                    round.wrote(&self.caches.change_sets, &found);
                    return Ok(Next::After(TAKEN));
                }
                // Somebody took the name, who can guess it; not so the next one.
                Some(found) => parts.extend(found.metadata.uid),
                None => return Ok(Next::After(TAKEN)),
            }
        }
        let message = "the names of change sets for it are taken: delete the change sets that nobody needs";
        self.recorder.say(environment, NoticeKind::Warning, "ChangeSetNotOpened", message);
        Ok(Next::After(TAKEN))
    }
}

impl Controller for ChangeSetOpener {
    type Key = Name;
    const NAME: &'static str = "changeset-opener";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Name>>) {
        let own = queue.clone();
        caches.machines.listen(move |change| {
            if told(change.before.as_deref()) != told(change.after.as_deref()) {
                own.add(of_machine(change.latest()));
            }
        });
        let own = queue.clone();
        caches.change_sets.listen(move |change| {
            if listed(change.before.as_deref()) != listed(change.after.as_deref()) {
                let set = change.latest();
                own.add(Name::new(set.metadata.namespace.as_deref().unwrap_or_default(), &set.spec.environment));
            }
        });
        let own = queue.clone();
        caches.environments.listen(move |change: &Change<Environment>| {
            let pending = |it: Option<&Environment>| it.and_then(|it| it.status.as_ref()?.pending.clone());
            if pending(change.before.as_deref()) != pending(change.after.as_deref()) {
                let name = change.latest().metadata.name.as_deref().unwrap_or_default();
                own.add(Name::new(NAMESPACE_OF_ENVIRONMENTS, name));
            }
        });
    }

    async fn reconcile(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        let environment = self.caches.environments.get(&Name::new("", &key.name));
        let wanting = environment.as_ref().map(|environment| self.wanting(key, environment)).unwrap_or_default();
        let subjects: Vec<_> = wanting.iter().map(Wanting::as_subject).collect();
        let candidates = steps_to_open(&subjects, |digest| self.caches.change_sets.by(&CHANGE_SETS_BY_STEP, digest));
        let Some(environment) = environment.filter(|_| !candidates.is_empty()) else {
            self.arrivals.lock().remove(key);
            return Ok(Next::Idle);
        };
        match self.arrived(key, &candidates, round.now) {
            Opening::Now => self.open(key, &environment, &candidates, round).await,
            Opening::At(at) => Ok(Next::After(until(at, round.now))),
        }
    }

    fn about(&self, key: &Name) -> Option<ObjectReference> {
        self.caches.environments.get(&Name::new("", &key.name)).map(|environment| environment.object_ref(&()))
    }

    fn keys(&self) -> Vec<Name> {
        let machines = self.caches.machines.names().into_iter().filter_map(|name| self.caches.machines.get(&name));
        let of_machines = machines.filter(|machine| has_pending(machine)).map(|machine| of_machine(&machine));
        let of_environments = self.caches.environments.names();
        let of_environments = of_environments.iter().map(|name| Name::new(NAMESPACE_OF_ENVIRONMENTS, &name.name));
        of_machines.chain(of_environments).collect::<BTreeSet<Name>>().into_iter().collect()
    }

    fn resign(&self) {
        self.arrivals.lock().clear();
    }

    fn configuration() -> Configuration {
        Configuration::default()
    }
}

fn of_machine(machine: &Machine) -> Name {
    Name::new(machine.metadata.namespace.as_deref().unwrap_or_default(), &machine.spec.environment)
}

fn has_pending(machine: &Machine) -> bool {
    let pending = machine.status.as_ref().and_then(|status| status.pending.as_ref());
    pending.is_some_and(|pending| !pending.steps.is_empty())
}

/// What counts of a Machine: the steps that wait, whether it is planned, and what is being done.
fn told(machine: Option<&Machine>) -> Option<(Option<PendingSteps>, bool, Vec<String>)> {
    let machine = machine?;
    let status = machine.status.as_ref();
    let is_planned = status.and_then(|status| status.observed_generation) == machine.metadata.generation;
    let intents = status.iter().flat_map(|status| &status.intents).map(|intent| intent.digest.clone());
    Some((status.and_then(|status| status.pending.clone()), is_planned, intents.collect()))
}

/// The steps that a change set asks about.
fn listed(set: Option<&ChangeSet>) -> Option<BTreeSet<(String, bool)>> {
    let set = set.filter(|set| set.spec.mode == Mode::Execute && set.metadata.deletion_timestamp.is_none())?;
    let entries = set.status.iter().flat_map(|status| &status.entries);
    let open = entries.filter(|entry| !entry.state.is_closed());
    Some(open.map(|entry| (entry.digest.clone(), entry.state == EntryState::Rejected)).collect())
}
