//! Whom a change concerns: the change set itself, and those whose people, objects or rules changed.

use std::sync::Arc;

use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::requester::requested_by;
use setpoint_core::machine::{SYNCED, condition, target};

use crate::queue::Queue;
use crate::runtime::caches::{CHANGE_SETS_BY_ENVIRONMENT, CHANGE_SETS_BY_OWNER, CHANGE_SETS_BY_TARGET, target_value};
use crate::runtime::{Caches, Change, Name};

pub(super) fn wire(caches: &Caches, queue: &Arc<Queue<Name>>) {
    let own = queue.clone();
    caches.change_sets.listen(move |change| own.add(Name::of(&**change.latest())));
    let own = queue.clone();
    caches.reviews.listen(move |change| {
        let review = change.latest();
        own.add(Name::new(review.metadata.namespace.as_deref().unwrap_or_default(), &review.spec.gate));
    });
    let (own, sets) = (queue.clone(), caches.change_sets.clone());
    caches.gates.listen(move |change| {
        let name = Name::of(&**change.latest());
        if sets.get(&name).is_some() {
            own.add(name);
        }
    });
    let (own, sets) = (queue.clone(), caches.change_sets.clone());
    caches.machines.listen(move |change| {
        if !concerns_change_sets(change) {
            return;
        }
        let machine = change.latest();
        let listed = sets.by(&CHANGE_SETS_BY_TARGET, &target_value(&target(&machine.metadata)));
        let owned = machine.metadata.uid.as_deref().map(|uid| sets.by(&CHANGE_SETS_BY_OWNER, uid));
        for set in listed.into_iter().chain(owned.into_iter().flatten()) {
            own.add(Name::of(&*set));
        }
    });
    let (own, sets) = (queue.clone(), caches.change_sets.clone());
    caches.environments.listen(move |change| {
        if !concerns_gates(change) {
            return;
        }
        let name = change.latest().metadata.name.as_deref().unwrap_or_default();
        for set in sets.by(&CHANGE_SETS_BY_ENVIRONMENT, name) {
            own.add(Name::of(&*set));
        }
    });
}

/// Whether a Machine was written, or something was begun or done for it.
fn concerns_change_sets(change: &Change<Machine>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let what_counts = |machine: &Machine| {
        let (metadata, status) = (&machine.metadata, machine.status.as_ref());
        let synced = status.and_then(|status| Some(condition(status, SYNCED)?.status));
        let calls = status.map(|status| (status.intents.clone(), status.done.clone(), status.observed_generation));
        let (uid, requester) = (metadata.uid.clone(), requested_by(metadata).to_owned());
        (uid, requester, metadata.generation, metadata.deletion_timestamp.is_some(), synced, calls)
    };
    what_counts(before) != what_counts(after)
}

/// Whether the rules of an Environment changed, or what counts against them.
fn concerns_gates(change: &Change<Environment>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let what_counts = |environment: &Environment| {
        let (spec, status) = (&environment.spec, environment.status.as_ref());
        let usage = status.map(|status| (status.instances, status.gpus, status.hourly_cost, status.ledger.clone()));
        let orphans = status.map(|status| (status.orphan_count, status.orphans.clone()));
        // What could not be planned while it was not open can be now.
        let conditions = status.map(|status| status.conditions.clone());
        (spec.approval.clone(), spec.guardrails.clone(), usage, orphans, conditions)
    };
    what_counts(before) != what_counts(after)
}
