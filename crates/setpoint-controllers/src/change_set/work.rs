//! What is known of the objects that a change set has steps for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_api::change_set::ChangeSet;
use setpoint_api::condition::ConditionStatus;
use setpoint_api::environment::Environment;
use setpoint_api::machine::{DoneStep, Intent, Machine, MachineSpec};
use setpoint_api::requester::requested_by;
use setpoint_api::step::{Step, Target};
use setpoint_core::authority::{Wanted, Work};
use setpoint_core::machine;
use setpoint_core::plan::GUEST;
use setpoint_core::workload::selection::controller_of;

use super::Owner;
use super::own::is_current;
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
    /// The change set of its own in which its controller says what it wants now, if that is another.
    asking: Option<Arc<ChangeSet>>,
}

/// What an object still wants, as far as it is known.
pub(super) type Wants<'a> = Option<BTreeSet<&'a str>>;

impl<'a> Objects<'a> {
    pub(super) fn of(caches: &Caches, change_set: &'a ChangeSet, environment: &Environment) -> Objects<'a> {
        let steps = change_set.status.as_ref().map_or(&[][..], |status| &status.steps);
        let found = steps.iter().filter(|step| step.target.kind == machine::KIND).filter_map(|step| {
            let machine = caches.machines.get(&Name::new(&step.target.namespace, &step.target.name))?;
            let is_written = is_written(change_set, &step.target, &machine);
            let asking = own_change_set(caches, &machine).filter(|own| own.metadata.uid != change_set.metadata.uid);
            Some((&step.target, Object { machine, is_written, asking }))
        });
        let guests = steps.iter().map(|step| &step.target).filter(|target| is_there(environment, target));
        Objects { change_set, machines: found.collect(), guests: guests.collect() }
    }

    /// What each of them still wants.
    pub(super) fn known(&self) -> Vec<(&'a Target, Wants<'_>)> {
        let machines = self.machines.iter().map(|(target, object)| (*target, object.wants()));
        machines.chain(self.guests.iter().map(|guest| (*guest, None))).collect()
    }

    pub(super) fn work<'w>(&'w self, target: &Target, wants: &'w Wants<'w>) -> Work<'w> {
        let machine = self.machines.get(target).map(|object| &object.machine);
        let uid = machine.and_then(|machine| machine.metadata.uid.as_deref());
        let status = machine.and_then(|machine| machine.status.as_ref());
        let (intents, done): (&[Intent], &[DoneStep]) =
            status.map_or((&[], &[]), |status| (&status.intents, &status.done));
        Work { uid, intents, done, wanted: wants.as_ref().map_or(Wanted::Unknown, Wanted::Only) }
    }

    /// Whether what a step is for is there as the change set says, so that it may still be wanted.
    pub(super) fn may_want(&self, step: &Step) -> bool {
        let is_written = self.machines.get(&step.target).is_some_and(|object| object.is_written);
        is_written || self.guests.contains(&step.target)
    }

    /// Whether something that the change set brings along is not written as it says.
    pub(super) fn is_unwritten(&self) -> bool {
        let brings = !self.change_set.spec.objects.is_empty() || !self.change_set.spec.deletes.is_empty();
        let steps = self.change_set.status.as_ref().map_or(&[][..], |status| &status.steps);
        let mut of_machines = steps.iter().filter(|step| step.target.kind == machine::KIND);
        let is_written = |step: &Step| self.machines.get(&step.target).is_some_and(|object| object.is_written);
        brings && of_machines.any(|step| !is_written(step))
    }
}

impl Object {
    fn wants(&self) -> Wants<'_> {
        if !self.is_written {
            return None;
        }
        let (metadata, status) = (&self.machine.metadata, self.machine.status.as_ref()?);
        let synced = machine::condition(status, machine::SYNCED);
        let is_current = status.observed_generation == metadata.generation;
        if is_current && synced.is_some_and(|condition| condition.status == ConditionStatus::True) {
            return Some(BTreeSet::new());
        }
        let asking = self.asking.as_ref().filter(|_| is_current)?.status.as_ref()?;
        Some(asking.steps.iter().map(|step| step.digest.as_str()).collect())
    }
}

/// Whether a guest that belongs to nothing is there; not all may be listed.
fn is_there(environment: &Environment, target: &Target) -> bool {
    let Some(status) = environment.status.as_ref().filter(|_| target.kind == GUEST) else { return false };
    let is_listed = status.orphans.iter().any(|orphan| orphan.provider_id == target.name);
    is_listed || status.orphan_count.is_some_and(|count| count as usize > status.orphans.len())
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

/// Who wrote what each step of a change set is for, as whoever acts will see it: a guest that a Machine has too many is
/// that Machine's.
pub(super) fn writers<'a>(caches: &Caches, change_set: &'a ChangeSet) -> BTreeMap<&'a Target, String> {
    let namespace = change_set.metadata.namespace.as_deref().unwrap_or_default();
    let owner = controller_of(&change_set.metadata).filter(|owner| owner.kind == machine::KIND);
    let owner = owner.and_then(|owner| {
        let found = caches.machines.get(&Name::new(namespace, &owner.name));
        found.filter(|machine| machine.metadata.uid.as_ref() == Some(&owner.uid))
    });
    let steps = change_set.status.iter().flat_map(|status| &status.steps);
    let written = steps.filter_map(|Step { target, .. }| {
        let machine = match target.kind == machine::KIND {
            true => caches.machines.get(&Name::new(&target.namespace, &target.name)),
            false => owner.clone(),
        };
        Some((target, requested_by(&machine?.metadata).to_owned()))
    });
    written.collect()
}

/// The change set in which a Machine's controller says what it wants now.
fn own_change_set(caches: &Caches, machine: &Machine) -> Option<Arc<ChangeSet>> {
    let metadata = &machine.metadata;
    let owner = Owner {
        uid: metadata.uid.as_deref()?,
        namespace: metadata.namespace.as_deref()?,
        environment: &machine.spec.environment,
    };
    let current = owner.change_sets(caches).into_iter().filter(|set| is_current(set));
    // Where the approvals of one were used up, the next one asks anew.
    current.max_by_key(|set| set.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// Whether a Machine is as a change set that brings its objects along says; of one that does not, it always is.
fn is_written(change_set: &ChangeSet, target: &Target, machine: &Machine) -> bool {
    let spec = &change_set.spec;
    if spec.deletes.contains(target) {
        return machine.metadata.deletion_timestamp.is_some();
    }
    let brought = spec.objects.iter().find(|object| {
        let metadata = |name: &str| object.get("metadata").and_then(|metadata| metadata.get(name)?.as_str());
        object.get("kind").is_some_and(|kind| *kind == *target.kind)
            && metadata("name") == Some(&target.name)
            && metadata("namespace").is_none_or(|namespace| namespace == target.namespace)
    });
    let wanted = brought.and_then(|object| serde_json::from_value::<MachineSpec>(object.get("spec")?.clone()).ok());
    wanted.is_none_or(|wanted| wanted == machine.spec)
}
