//! Which Goals a change concerns.

use std::sync::Arc;

use kube::Resource;
use setpoint_api::planspec::Goal;

use super::Decided;
use crate::plan::Outline;
use crate::queue::Queue;
use crate::runtime::{Caches, Change, Name};

pub(super) fn wire(caches: &Caches, queue: &Arc<Queue<Name>>, decided: &Arc<Decided>) {
    let (own, decided) = (queue.clone(), decided.clone());
    caches.goals.listen(move |change| {
        if concerns_itself(change, &decided) {
            own.add(Name::of(&**change.latest()));
        }
    });
    let (queue, goals) = (queue.clone(), caches.goals.clone());
    caches.plans.listen(move |change| {
        if concerns_resolution(change) {
            // One that is not there is looked at when it comes.
            let named = change.both().filter_map(|plan| plan.goal()).filter(|goal| goals.get(goal).is_some());
            named.for_each(|goal| queue.add(goal));
        }
    });
}

/// Whether more of a Goal changed than that it says what was decided; one that is gone is forgotten.
fn concerns_itself(change: &Change<Goal>, decided: &Decided) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let is_same = |goal: &Goal| (goal.metadata.uid.clone(), goal.metadata.generation);
    is_same(before) != is_same(after) || decided.differs_from(after)
}

/// Whether something changed in a Plan that resolution reads: which plan it is, its spec, or its labels.
fn concerns_resolution(change: &Change<Outline>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let (before, after) = (before.meta(), after.meta());
    (&before.uid, before.generation, &before.labels) != (&after.uid, after.generation, &after.labels)
}
