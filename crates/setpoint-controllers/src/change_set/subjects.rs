//! The objects that the steps of a change set are for.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::change_set::{ChangeSet, Entry, EntryState};
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::step::{Step, Target};
use setpoint_core::authority::{Fact, Subject, entry, stricter};
use setpoint_core::machine;
use setpoint_core::stricter::rules_for;

use crate::runtime::caches::{CHANGE_SETS_BY_STEP, MACHINES_BY_STEP, MACHINES_BY_UID};
use crate::runtime::{Caches, Name};

/// Where people are asked about what belongs to no namespace.
pub const NAMESPACE_OF_ENVIRONMENTS: &str = "kube-system";

/// An object that wants steps.
#[derive(Debug, Clone)]
pub(super) enum Wanting {
    Machine(Arc<Machine>),
    Environment(Arc<Environment>),
}

impl Wanting {
    pub(super) fn as_subject(&self) -> Subject<'_> {
        match self {
            Wanting::Machine(machine) => Subject::of_machine(machine),
            Wanting::Environment(environment) => Subject::of_environment(environment),
        }
    }
}

/// The objects of a change set, in the order of its steps.
#[derive(Debug)]
pub(super) struct Subjects<'a> {
    change_set: &'a ChangeSet,
    objects: Vec<Option<Wanting>>,
    in_older: Vec<bool>,
    is_contradicted: bool,
}

impl<'a> Subjects<'a> {
    pub(super) fn of(caches: &Caches, change_set: &'a ChangeSet, environment: &Arc<Environment>) -> Subjects<'a> {
        let steps = &change_set.spec.steps;
        let objects: Vec<Option<Wanting>> =
            steps.iter().map(|step| object(caches, change_set, environment, step)).collect();
        let in_older = steps.iter().zip(&objects).map(|(step, object)| {
            let uid = object.as_ref().map(|object| object.as_subject().uid);
            let listing = caches.change_sets.by(&CHANGE_SETS_BY_STEP, &step.digest);
            listing.iter().any(|other| is_older(other, change_set) && asks(other, step, uid))
        });
        let in_older = in_older.collect();
        let rules = rules_for(environment, steps);
        let is_contradicted = stricter(&change_set.spec.rules, rules.approval.as_ref()).is_none();
        Subjects { change_set, objects, in_older, is_contradicted }
    }

    pub(super) fn facts(&self) -> Vec<Fact<'_>> {
        let facts = self.objects.iter().zip(&self.in_older).map(|(object, is_in_older)| Fact {
            subject: object.as_ref().map(Wanting::as_subject),
            is_in_older: *is_in_older,
            is_contradicted: self.is_contradicted,
        });
        facts.collect()
    }

    /// Who wrote what each step is for.
    pub(super) fn writers(&self) -> BTreeMap<&'a Target, &str> {
        let steps = self.change_set.spec.steps.iter().zip(&self.objects);
        steps
            .filter_map(|(step, object)| Some((&step.target, object.as_ref()?.as_subject().requested_by(step))))
            .collect()
    }
}

/// The object that a step is for: the one that is on record, or, before there is a record, the one that wants it.
fn object(caches: &Caches, set: &ChangeSet, environment: &Arc<Environment>, step: &Step) -> Option<Wanting> {
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let is_here = |machine: &Arc<Machine>| {
        machine.metadata.namespace.as_deref() == Some(namespace) && machine.spec.environment == set.spec.environment
    };
    let entry = entry(set, &step.digest);
    let of_environment = || {
        let is_its = match entry.and_then(|entry| entry.object.as_ref()) {
            Some(uid) => environment.metadata.uid.as_ref() == Some(uid),
            None => step.target.kind != machine::KIND,
        };
        (is_its && namespace == NAMESPACE_OF_ENVIRONMENTS).then(|| Wanting::Environment(environment.clone()))
    };
    let by_name = || caches.machines.get(&Name::new(&step.target.namespace, &step.target.name)).filter(is_here);
    let machine = match entry.and_then(|entry| entry.object.as_deref()) {
        Some(uid) => {
            let recorded = caches.machines.by(&MACHINES_BY_UID, uid).into_iter().find(is_here);
            // A rejection holds for whatever object of that name wants the step.
            recorded.or_else(|| by_name().filter(|_| entry.is_some_and(is_rejected)))
        }
        None if step.target.kind == machine::KIND => by_name(),
        None => caches.machines.by(&MACHINES_BY_STEP, &step.digest).into_iter().find(is_here),
    };
    machine.map(Wanting::Machine).or_else(of_environment)
}

fn is_rejected(entry: &Entry) -> bool {
    entry.state == EntryState::Rejected
}

/// Whether a change set was opened before another of its namespace.
fn is_older(one: &ChangeSet, other: &ChangeSet) -> bool {
    let order = |set: &ChangeSet| (set.metadata.creation_timestamp.clone(), set.metadata.name.clone());
    one.metadata.namespace == other.metadata.namespace && order(one) < order(other)
}

/// Whether a change set has an open entry for a step of an object.
fn asks(set: &ChangeSet, step: &Step, uid: Option<&str>) -> bool {
    let is_there = set.metadata.deletion_timestamp.is_none();
    let entry = entry(set, &step.digest).filter(|entry| is_there && !entry.state.is_closed());
    entry.is_some_and(|entry| entry.object.as_deref() == uid)
}
