//! What is known of the objects that a change set has steps for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use setpoint_api::change_set::{ChangeSet, StepState};
use setpoint_api::condition::ConditionStatus;
use setpoint_api::environment::Environment;
use setpoint_api::machine::{DoneStep, Intent, Machine, MachineSpec};
use setpoint_api::requester::requested_by;
use setpoint_api::step::{Step, Target};
use setpoint_core::authority::{Version, Wanted, Work};
use setpoint_core::gate::Decision;
use setpoint_core::machine;
use setpoint_core::plan::GUEST;
use setpoint_core::workload::selection::controller_of;

use super::Owner;
use super::rivals::{Inquiries, rivals};
use crate::runtime::{Caches, Name};

/// The Machines of a change set, as the caches show them.
#[derive(Debug)]
pub(super) struct Objects<'a> {
    change_set: &'a ChangeSet,
    machines: BTreeMap<&'a Target, Object>,
    /// Guests that belong to nothing and are there.
    guests: BTreeSet<&'a Target>,
}

#[derive(Debug)]
struct Object {
    machine: Arc<Machine>,
    /// Whether it says what the change set is about.
    is_written: bool,
    /// Whether the change set brought it along, or that it goes.
    is_brought: bool,
    version: Option<Version>,
    /// Whether it says what it wants now.
    is_told: bool,
    /// Why people are not asked about it here, if they are not.
    outdated: Option<String>,
}

/// What an object still wants, as far as it is known.
pub(super) type Wants<'a> = Option<BTreeSet<&'a str>>;

impl<'a> Objects<'a> {
    pub(super) fn of(
        caches: &Caches,
        change_set: &'a ChangeSet,
        decision: &Decision,
        environment: &Environment,
    ) -> Objects<'a> {
        let steps = change_set.status.as_ref().map_or(&[][..], |status| &status.steps);
        let targets: BTreeSet<&Target> = steps.iter().map(|step| &step.target).collect();
        let owner = owner(caches, change_set);
        let found = |target: &&'a Target| Some((*target, machine_of(caches, target, owner.as_ref())?));
        let found: BTreeMap<&Target, Arc<Machine>> = targets.iter().filter_map(found).collect();
        let rivals = rivals(caches, change_set, found.iter().map(|(target, machine)| (*target, &**machine)));
        let inquiries = Inquiries::of(change_set, decision, &targets, &rivals);
        let said = Said::by(change_set, &targets);
        let objects =
            found.into_iter().map(|(target, machine)| (target, Object::of(caches, &said, &inquiries, target, machine)));
        let machines: BTreeMap<&Target, Object> = objects.collect();
        let is_orphan = |target: &&Target| !machines.contains_key(target) && is_there(environment, target);
        let guests = targets.into_iter().filter(is_orphan).collect();
        Objects { change_set, machines, guests }
    }

    /// What each of them still wants.
    pub(super) fn known(&self) -> Vec<(&'a Target, Wants<'_>)> {
        let machines = self.machines.iter().map(|(target, object)| (*target, object.wants()));
        machines.chain(self.guests.iter().map(|guest| (*guest, None))).collect()
    }

    pub(super) fn work<'w>(&'w self, target: &Target, wants: &'w Wants<'w>) -> Work<'w> {
        let object = self.machines.get(target);
        let uid = object.and_then(|object| object.machine.metadata.uid.as_deref());
        let status = object.and_then(|object| object.machine.status.as_ref());
        let (intents, done): (&[Intent], &[DoneStep]) =
            status.map_or((&[], &[]), |status| (&status.intents, &status.done));
        Work {
            uid,
            intents,
            done,
            wanted: wants.as_ref().map_or(Wanted::Unknown, Wanted::Only),
            outdated: object.and_then(|object| object.outdated.as_deref()),
            is_brought: object.is_some_and(|object| object.is_brought && object.is_written),
            version: object.and_then(|object| object.version),
        }
    }

    /// Whether what a step is for is there as the change set says, or wants it all the same, or may once it is looked at.
    pub(super) fn may_want(&self, step: &Step) -> bool {
        let wants = |object: &Object| wants(&object.machine).is_none_or(|wants| wants.contains(step.digest.as_str()));
        let may_want = self.machines.get(&step.target).is_some_and(|object| object.is_written || wants(object));
        may_want || self.guests.contains(&step.target)
    }

    /// Whether something that the change set brings along was never written as it says. What was, and was done or became
    /// something else since, is none of that.
    pub(super) fn is_unwritten(&self) -> bool {
        let brings = !self.change_set.spec.objects.is_empty() || !self.change_set.spec.deletes.is_empty();
        let steps = self.change_set.status.as_ref().map_or(&[][..], |status| &status.steps);
        let states = self.change_set.status.as_ref().map_or(&[][..], |status| &status.step_states);
        let written = states.iter().filter(|state| state.state == StepState::Done || state.object.is_some());
        let written: BTreeSet<(&str, &str)> = written.map(|state| (&*state.id, &*state.digest)).collect();
        let was_written = |step: &Step| written.contains(&(&*step.id, &*step.digest));
        let mut of_machines = steps.iter().filter(|step| step.target.kind == machine::KIND);
        let is_written = |step: &Step| self.machines.get(&step.target).is_some_and(|object| object.is_written);
        brings && of_machines.any(|step| !is_written(step) && !was_written(step))
    }
}

impl Object {
    fn of(
        caches: &Caches,
        said: &Said<'_>,
        inquiries: &Inquiries<'_>,
        target: &Target,
        machine: Arc<Machine>,
    ) -> Object {
        let (is_written, is_brought) = (said.is_written(target, &machine), said.names(target));
        let version = said.version(target, &machine).filter(|_| is_brought || said.is_by_controller);
        let is_told = is_told(caches, &machine);
        let mut object = Object { machine, is_written, is_brought, version, is_told, outdated: None };
        if is_written {
            object.outdated = inquiries.outdated(target, &object.machine, object.wants().as_ref());
        }
        object
    }

    fn wants(&self) -> Wants<'_> {
        wants(&self.machine).filter(|_| self.is_written && self.is_told)
    }
}

/// Whether a Machine says what it wants now: it is behind while people are asked something else, by a later look than it
/// tells of.
fn is_told(caches: &Caches, machine: &Machine) -> bool {
    let metadata = &machine.metadata;
    let (Some(uid), Some(namespace)) = (metadata.uid.as_deref(), metadata.namespace.as_deref()) else { return false };
    let seen_at = machine.status.as_ref().and_then(|status| status.observed_at);
    let own = Owner { uid, namespace, environment: &machine.spec.environment }.change_sets(caches);
    let mut later = own.iter().filter_map(|set| set.status.as_ref()).filter(|asked| asked.observed_at > seen_at);
    let wants = wants(machine);
    later.all(|asked| {
        let digests = asked.steps.iter().map(|step| step.digest.as_str());
        wants.as_ref().is_none_or(|wants| digests.collect::<BTreeSet<_>>() == *wants)
    })
}

/// What a Machine still wants, by its own word.
fn wants(machine: &Machine) -> Wants<'_> {
    let status = machine.status.as_ref()?;
    if status.observed_generation != machine.metadata.generation {
        return None;
    }
    let synced = machine::condition(status, machine::SYNCED);
    if synced.is_some_and(|condition| condition.status == ConditionStatus::True) {
        return Some(BTreeSet::new());
    }
    status.wanted.as_ref().map(|digests| digests.iter().map(String::as_str).collect())
}

/// Whether a guest that belongs to nothing is there; not all may be listed.
fn is_there(environment: &Environment, target: &Target) -> bool {
    let Some(status) = environment.status.as_ref().filter(|_| target.kind == GUEST) else { return false };
    let is_listed = status.orphans.iter().any(|orphan| orphan.provider_id == target.name);
    is_listed || status.orphan_count.is_some_and(|count| count as usize > status.orphans.len())
}

/// For which generation of its object each step of a change set is asked about: the one that is as it says, there or with the
/// next write. What is no object's has none.
pub(super) fn asked_generations(caches: &Caches, change_set: &ChangeSet, steps: &[Step]) -> Vec<Option<i64>> {
    let targets = steps.iter().map(|step| &step.target).collect();
    let said = Said::by(change_set, &targets);
    let asked = |Step { target, .. }: &Step| match caches.machines.get(&Name::new(&target.namespace, &target.name)) {
        _ if target.kind != machine::KIND => None,
        Some(machine) => said.version(target, &machine).map(Version::asked),
        None => Some(1),
    };
    steps.iter().map(asked).collect()
}

/// The ids of the calls under way for the objects of some steps.
pub(super) fn calls_under_way(caches: &Caches, steps: &[Step]) -> BTreeSet<String> {
    let machines = steps.iter().filter(|step| step.target.kind == machine::KIND);
    let machines =
        machines.filter_map(|step| caches.machines.get(&Name::new(&step.target.namespace, &step.target.name)));
    let calls = machines.flat_map(|machine| {
        let intents = machine.status.as_ref().map(|status| status.intents.clone()).unwrap_or_default();
        intents.into_iter().map(|intent| intent.id)
    });
    calls.collect()
}

/// Who wrote what each step of a change set is for, as whoever acts will see it.
pub(super) fn writers<'a>(caches: &Caches, change_set: &'a ChangeSet) -> BTreeMap<&'a Target, String> {
    let owner = owner(caches, change_set);
    let steps = change_set.status.iter().flat_map(|status| &status.steps);
    let written = steps.filter_map(|Step { target, .. }| {
        let machine = machine_of(caches, target, owner.as_ref())?;
        Some((target, requested_by(&machine.metadata).to_owned()))
    });
    written.collect()
}

/// The Machine that a step is for: a guest that a Machine has too many is that Machine's.
fn machine_of(caches: &Caches, target: &Target, owner: Option<&Arc<Machine>>) -> Option<Arc<Machine>> {
    match target.kind == machine::KIND {
        true => caches.machines.get(&Name::new(&target.namespace, &target.name)),
        false => owner.cloned(),
    }
}

/// The Machine whose controller made a change set.
fn owner(caches: &Caches, change_set: &ChangeSet) -> Option<Arc<Machine>> {
    let namespace = change_set.metadata.namespace.as_deref().unwrap_or_default();
    let owner = controller_of(&change_set.metadata).filter(|owner| owner.kind == machine::KIND)?;
    let found = caches.machines.get(&Name::new(namespace, &owner.name));
    found.filter(|machine| machine.metadata.uid.as_ref() == Some(&owner.uid))
}

/// What a change set says of some objects.
#[derive(Debug)]
pub(super) struct Said<'a> {
    /// Whether a controller made it: what it asks about is what is there.
    is_by_controller: bool,
    /// Those that it brings along, by kind and name.
    objects: BTreeMap<(&'a str, &'a str), Vec<&'a Map<String, Value>>>,
    /// Those that are to go.
    deletes: BTreeSet<&'a Target>,
}

impl<'a> Said<'a> {
    pub(super) fn by(change_set: &'a ChangeSet, targets: &BTreeSet<&Target>) -> Said<'a> {
        let names: BTreeSet<(&str, &str)> = targets.iter().map(|target| (&*target.kind, &*target.name)).collect();
        let mut objects: BTreeMap<(&str, &str), Vec<&Map<String, Value>>> = BTreeMap::new();
        for object in &change_set.spec.objects {
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
            let name = (kind, metadata(object, "name").unwrap_or_default());
            if names.contains(&name) {
                objects.entry(name).or_default().push(object);
            }
        }
        let is_by_controller = controller_of(&change_set.metadata).is_some();
        let deletes = change_set.spec.deletes.iter().filter(|target| targets.contains(target));
        Said { is_by_controller, objects, deletes: deletes.collect() }
    }

    /// Whether a Machine is as it says; where it says nothing of it, it always is.
    pub(super) fn is_written(&self, target: &Target, machine: &Machine) -> bool {
        if self.deletes.contains(target) {
            return machine.metadata.deletion_timestamp.is_some();
        }
        let Some(object) = self.brings(target) else { return true };
        let spec = object.get("spec").and_then(|spec| serde_json::from_value::<MachineSpec>(spec.clone()).ok());
        spec.is_some_and(|spec| spec == machine.spec)
    }

    /// A Machine against what it says of it.
    pub(super) fn version(&self, target: &Target, machine: &Machine) -> Option<Version> {
        let is_as_said = self.is_written(target, machine);
        machine.metadata.generation.map(|generation| Version { generation, is_as_said })
    }

    /// Whether it brings an object along, or that it goes.
    fn names(&self, target: &Target) -> bool {
        self.brings(target).is_some() || self.deletes.contains(target)
    }

    fn brings(&self, target: &Target) -> Option<&'a Map<String, Value>> {
        let of_name = self.objects.get(&(target.kind.as_str(), target.name.as_str())).into_iter().flatten().copied();
        let is_here = |object: &&Map<String, Value>| {
            metadata(object, "namespace").is_none_or(|namespace| namespace == target.namespace)
        };
        of_name.into_iter().find(is_here)
    }
}

fn metadata<'o>(object: &'o Map<String, Value>, name: &str) -> Option<&'o str> {
    object.get("metadata").and_then(|metadata| metadata.get(name)?.as_str())
}
