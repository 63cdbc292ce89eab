//! A rolling update: the new revision grows into the room that `maxSurge` leaves, the old ones shrink as far as
//! `maxUnavailable` allows, pods that serve nobody first.

use super::family::{Family, Member};
use super::{Decision, Desired, Reason, Step, WaitsOn, revision};

/// The next step: the new revision is there, then it grows, then the old ones shrink.
pub(super) fn roll(desired: &Desired<'_>, family: &Family<'_>) -> Decision {
    let Some(new) = &family.new else {
        return match family.unobserved() {
            Some(waits_on) => Decision::waiting(waits_on),
            None => Decision::steps(vec![revision::create(desired, family, room_for_new(desired, family, 0))]),
        };
    };
    if let Some(waits_on) = family.unobserved() {
        return Decision::waiting(waits_on);
    }
    if let Some(step) = grow(desired, family, new) {
        return Decision::steps(vec![step]);
    }
    let shrunk = shrink(desired, family, new);
    if !shrunk.is_empty() {
        return Decision::steps(shrunk);
    }
    Decision { waits_on: still_to_come(desired, family, new), ..Decision::default() }
}

/// How many replicas the new revision may have, if it has `present` now.
fn room_for_new(desired: &Desired<'_>, family: &Family<'_>, present: i64) -> i64 {
    let taken: i64 = family.old.iter().map(Member::room).sum();
    (desired.max_total() - taken).min(desired.replicas).max(present)
}

fn grow(desired: &Desired<'_>, family: &Family<'_>, new: &Member<'_>) -> Option<Step> {
    if new.replicas > desired.replicas {
        return new.scale(desired.replicas, desired, Reason::TooMany);
    }
    let target = room_for_new(desired, family, new.replicas);
    (target != new.replicas).then(|| new.scale(target, desired, Reason::Surge)).flatten()
}

/// Takes pods from the old revisions, the oldest first: those that are not available as far as that does not lessen
/// what will be available, then as many as are available beyond what must be.
fn shrink(desired: &Desired<'_>, family: &Family<'_>, new: &Member<'_>) -> Vec<Step> {
    let total: i64 = family.all().map(|member| member.replicas).sum();
    let new_unavailable = new.replicas - new.available;
    let mut removable = total - desired.min_available() - new_unavailable;
    if removable <= 0 {
        return Vec::new();
    }
    let mut spare = (family.all().map(|member| member.available).sum::<i64>() - desired.min_available()).max(0);
    let mut targets: Vec<i64> = Vec::with_capacity(family.old.len());
    for old in &family.old {
        let unhealthy = (old.replicas - old.available).min(removable);
        removable -= unhealthy;
        targets.push(old.replicas - unhealthy);
    }
    for target in &mut targets {
        let replaced = (*target).min(spare);
        spare -= replaced;
        *target -= replaced;
    }
    let steps = family.old.iter().zip(targets).filter(|(old, target)| *target != old.replicas);
    steps
        .filter_map(|(old, target)| {
            let reason = if target < old.available { Reason::Replaced } else { Reason::Unhealthy };
            old.scale(target, desired, reason)
        })
        .collect()
}

fn still_to_come(desired: &Desired<'_>, family: &Family<'_>, new: &Member<'_>) -> Option<WaitsOn> {
    if family.is_complete(desired.replicas) {
        return None;
    }
    let is_available = new.available == desired.replicas;
    let waits_on = WaitsOn::Availability { available: new.available, desired: desired.replicas };
    family.excess().or((!is_available).then_some(waits_on))
}
