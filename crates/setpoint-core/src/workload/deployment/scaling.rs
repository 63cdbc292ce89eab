//! A changed number of replicas while several revisions run: each gets its share, so that scaling neither hastens a
//! rollout nor turns it back.

use std::cmp::Reverse;

use super::family::{Family, Member};
use super::{Decision, Desired, Reason, Step};

/// Brings the ReplicaSets to the Deployment's size, without going on with the rollout.
pub(super) fn scale(desired: &Desired<'_>, family: &Family<'_>) -> Decision {
    let active: Vec<&Member<'_>> = family.active().collect();
    let steps = match active.as_slice() {
        [] => latest(family).and_then(|only| resize(only, desired.replicas, desired)).into_iter().collect(),
        [only] => only.scale(desired.replicas, desired, Reason::Scaled).into_iter().collect(),
        _ if is_saturated(family, desired) => {
            active.iter().filter_map(|member| saturate(member, family, desired)).collect()
        }
        _ if desired.strategy() == "RollingUpdate" => share_out(active, desired),
        _ => active.iter().filter_map(|member| member.scale(member.replicas, desired, Reason::Share)).collect(),
    };
    // Pods that are yet to be deleted take up room: nothing may grow into it.
    let grows = steps.iter().any(|step| matches!(step, Step::Scale { from, to, .. } if from < to));
    match family.unobserved().or_else(|| family.excess()) {
        Some(waits_on) if grows && family.all().count() > 1 => Decision::waiting(waits_on),
        _ => Decision::steps(steps),
    }
}

/// The ReplicaSet that grows where none has pods: the new one, or else the youngest.
fn latest<'f, 'a>(family: &'f Family<'a>) -> Option<&'f Member<'a>> {
    family.new.as_ref().or(family.old.last())
}

fn resize(member: &Member<'_>, to: i64, desired: &Desired<'_>) -> Option<Step> {
    (member.replicas != to).then(|| member.scale(to, desired, Reason::Scaled)).flatten()
}

/// Whether the new revision has all pods it should have, available, for the Deployment's present size.
fn is_saturated(family: &Family<'_>, desired: &Desired<'_>) -> bool {
    family.new.as_ref().is_some_and(|new| {
        new.is_observed()
            && new.noted_desired() == Some(desired.replicas)
            && (new.replicas, new.available) == (desired.replicas, desired.replicas)
    })
}

fn saturate(member: &Member<'_>, family: &Family<'_>, desired: &Desired<'_>) -> Option<Step> {
    let is_new = family.new.as_ref().is_some_and(|new| std::ptr::eq(new.set, member.set));
    member.scale(if is_new { member.replicas } else { 0 }, desired, Reason::Saturated)
}

/// Shares the difference out in proportion to size, larger ones first; the largest gets what is left over. Of equal
/// ones, the younger grows first and the older shrinks first.
fn share_out(mut active: Vec<&Member<'_>>, desired: &Desired<'_>) -> Vec<Step> {
    let present: i64 = active.iter().map(|member| member.replicas).sum();
    let allowed = if desired.replicas > 0 { desired.max_total() } else { 0 };
    let difference = allowed - present;
    active.sort_by(|left, right| {
        let by_age = left.age().cmp(&right.age());
        let by_age = if difference > 0 { by_age.reverse() } else { by_age };
        Reverse(left.replicas).cmp(&Reverse(right.replicas)).then(by_age)
    });
    let mut given = 0;
    let mut sizes: Vec<i64> = Vec::with_capacity(active.len());
    for member in &active {
        let share = share(member, desired, difference, given);
        given += share;
        sizes.push(member.replicas + share);
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + difference - given).max(0);
    }
    active.iter().zip(sizes).filter_map(|(member, size)| member.scale(size, desired, Reason::Share)).collect()
}

/// What a ReplicaSet gains or loses of `difference`, of which `given` went to others.
fn share(member: &Member<'_>, desired: &Desired<'_>, difference: i64, given: i64) -> i64 {
    let left = difference - given;
    let ideal = ideal_size(member, desired) - member.replicas;
    match difference {
        0 => 0,
        1.. => ideal.clamp(0, left.max(0)),
        _ => ideal.clamp(left.min(0), 0),
    }
}

/// The size that keeps the ReplicaSet's part of the whole: the whole then, by its own note, and the whole now.
fn ideal_size(member: &Member<'_>, desired: &Desired<'_>) -> i64 {
    if desired.replicas == 0 {
        return 0;
    }
    let reported = desired.deployment.status.as_ref().and_then(|status| status.replicas).map(i64::from);
    match member.noted_max().filter(|max| *max > 0).or(reported.filter(|pods| *pods > 0)) {
        Some(whole_then) => part_of(desired.max_total(), member.replicas, whole_then),
        None => member.replicas,
    }
}

/// `whole * part / whole_then`, to the nearest number, halves up.
fn part_of(whole: i64, part: i64, whole_then: i64) -> i64 {
    let (whole, part, whole_then) = (i128::from(whole), i128::from(part), i128::from(whole_then));
    i64::try_from((2 * whole * part + whole_then) / (2 * whole_then)).unwrap_or(i64::MAX)
}
