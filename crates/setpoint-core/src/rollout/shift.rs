//! Moving traffic to a revision, as fast as the promise lets it: forwards in a rollout, and backwards in an abort.
//!
//! The revision is brought up, grows into the room there is, takes the weight that its ready instances can bear, and only
//! if that is not yet enough does another revision give up what its remaining weight does not need. Then it starts over
//! with new facts. With a whole second set (no bound on surge) that is one move; with surge 0 it is one instance at a time.

use setpoint_api::revision::RevisionPhase;
use setpoint_api::traffic_split::ALL_BPS;

use super::{Action, Facts, RevisionFacts, Stock, WaitsOn};
use crate::count::counted_are;
use crate::split::Split;

/// Where traffic is to go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Course<'c> {
    pub(super) to: &'c str,
    /// The weight to reach.
    pub(super) weight_bps: u32,
    /// How many instances it is to have, where there is room.
    pub(super) replicas: u32,
    pub(super) pace: Pace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Everything asked for must be ready before traffic moves, and nothing is given up for what cannot be placed.
    Careful,
    /// Going back: traffic moves as soon as it can be borne.
    Eager,
}

/// What is to be done to get there.
#[derive(Debug)]
pub(super) enum Shift {
    Act(Vec<Action>, String),
    Ask(Split, String),
    Wait(WaitsOn, String),
    There,
}

pub(super) fn shift(facts: &Facts<'_>, course: Course<'_>) -> Shift {
    let Some(to) = facts.revision(course.to) else {
        return Shift::Wait(WaitsOn::Revision, format!("there is no revision {}", course.to));
    };
    bring_up(course, to)
        .or_else(|| trim(facts))
        .or_else(|| grow(facts, course, to))
        .or_else(|| route(facts, course, to))
        .or_else(|| fill(facts, course, to))
        .unwrap_or_else(|| if arrived(facts, course) { Shift::There } else { make_room(facts, course, to) })
}

/// Whether it has the weight, or the nearest to it that the deployer can apply.
fn arrived(facts: &Facts<'_>, course: Course<'_>) -> bool {
    let Some(split) = facts.split.filter(|split| split.names(course.to)) else { return false };
    let weight = split.weight(course.to);
    let nearest = || split.with_weight(course.to, course.weight_bps).rounded(facts.granularity).weight(course.to);
    weight >= course.weight_bps || (weight > 0 && weight >= nearest())
}

fn bring_up(course: Course<'_>, to: &RevisionFacts) -> Option<Shift> {
    let revision = course.to.to_owned();
    match to.phase {
        RevisionPhase::Inactive | RevisionPhase::Failed => {
            let reason = format!("{revision} is prepared");
            Some(Shift::Act(vec![Action::Stage { revision }], reason))
        }
        RevisionPhase::Draining => Some(Shift::Wait(WaitsOn::Draining, format!("{revision} is still draining"))),
        RevisionPhase::Archived => Some(Shift::Wait(WaitsOn::Revision, format!("{revision} is archived"))),
        RevisionPhase::Staged | RevisionPhase::Warming | RevisionPhase::Ready => None,
    }
}

/// Fewer replicas were asked for: nobody has more than all, and together they fit.
fn trim(facts: &Facts<'_>) -> Option<Shift> {
    let promise = facts.promise();
    let too_large = |revision: &RevisionFacts| runs(revision) && revision.asked > promise.replicas;
    let (name, _) = facts
        .revisions
        .iter()
        .find(|(name, revision)| too_large(revision) && facts.trimmed(name) <= promise.replicas)?;
    let asked = usize::try_from(promise.replicas).unwrap_or(usize::MAX);
    Some(scale(name, promise.replicas, format!("{} asked for", counted_are(asked, "replica"))))
}

fn grow(facts: &Facts<'_>, course: Course<'_>, to: &RevisionFacts) -> Option<Shift> {
    let replicas = course.replicas.min(facts.room_for(course.to));
    let reason = format!("{} gets {replicas} of {} instances", course.to, course.replicas);
    if to.phase == RevisionPhase::Staged {
        let starts = replicas > 0 || course.replicas == 0;
        let warm = Action::Warm { revision: course.to.to_owned(), replicas };
        return starts.then(|| Shift::Act(vec![warm], reason));
    }
    (to.asked < replicas).then(|| scale(course.to, replicas, reason))
}

/// Gives the revision the weight that it can bear, or its name in the split at weight 0.
fn route(facts: &Facts<'_>, course: Course<'_>, to: &RevisionFacts) -> Option<Shift> {
    if to.phase != RevisionPhase::Ready {
        return None;
    }
    let all_ready = to.ready >= to.asked;
    let Some(split) = facts.split else {
        let first = || Shift::Ask(Split::all_to(course.to), format!("{} is the first to serve", course.to));
        let can_serve = all_ready && (to.ready > 0 || facts.replicas == 0);
        return can_serve.then(first);
    };
    if !(all_ready || course.pace == Pace::Eager) {
        return None;
    }
    let rescue = to.ready > 0 && nobody_else(facts, course, split);
    let weight = if rescue { ALL_BPS } else { course.weight_bps.min(facts.promise().bearable(to.ready)) };
    given(facts, course.to, weight, rescue)
}

/// Asks for the split in which the revision has this weight, if the deployer can apply any such that goes forward, and the
/// promise is kept by it or was broken before.
fn given(facts: &Facts<'_>, to: &str, weight_bps: u32, rescue: bool) -> Option<Shift> {
    let split = facts.split?;
    let next = only_ours(facts, to, split.with_weight(to, weight_bps)).rounded(facts.granularity);
    let forward = next.weight(to) > split.weight(to) || !split.names(to);
    let (promise, ready) = (facts.promise(), |name: &str| facts.ready(name));
    let safe = promise.kept(&next, ready) || !promise.kept(split, ready) || rescue;
    let revision = facts.revision(to)?;
    let reason = || format!("{} of {} instances of {to} are ready", revision.ready, revision.asked);
    (forward && safe).then(|| Shift::Ask(next, reason()))
}

/// Whether nobody else serves: nobody is to, or on the way back nobody can.
fn nobody_else(facts: &Facts<'_>, course: Course<'_>, split: &Split) -> bool {
    let mut others = split.routed().filter(|entry| entry.revision != course.to);
    let wanted = others.any(|entry| facts.revision(&entry.revision).is_some_and(|other| other.asked > 0));
    !wanted || (course.pace == Pace::Eager && !others_serve(facts, course.to, split))
}

/// A split without revisions of weight 0 that are not of this rollout: what was kept of an earlier one is kept no longer.
fn only_ours(facts: &Facts<'_>, to: &str, split: Split) -> Split {
    let ours = [Some(to), facts.state.from.as_deref(), facts.state.target.as_deref()];
    let idle = split.entries().iter().filter(|entry| entry.weight_bps == 0 && !ours.contains(&Some(&entry.revision)));
    let idle: Vec<String> = idle.map(|entry| entry.revision.clone()).collect();
    idle.iter().fold(split, |split, name| split.without(name).unwrap_or(split))
}

/// Whether any other revision that gets traffic can serve it.
fn others_serve(facts: &Facts<'_>, to: &str, split: &Split) -> bool {
    split.routed().filter(|entry| entry.revision != to).any(|entry| {
        facts.revision(&entry.revision).is_some_and(|other| other.phase == RevisionPhase::Ready && other.ready > 0)
    })
}

/// Gives the others what room is left once the revision has what it is to have: as much as all replicas, so that going
/// back takes no time where there is capacity for it.
fn fill(facts: &Facts<'_>, course: Course<'_>, to: &RevisionFacts) -> Option<Shift> {
    if to.asked < course.replicas || course.weight_bps == ALL_BPS {
        return None;
    }
    let others = facts.split?.routed().filter(|entry| entry.revision != course.to);
    others.into_iter().find_map(|entry| {
        let other = facts.revision(&entry.revision).filter(|other| other.phase == RevisionPhase::Ready)?;
        let replicas = facts.replicas.min(facts.room_for(&entry.revision));
        let reason = format!("there is room for {replicas} of {}", entry.revision);
        (other.asked < replicas).then(|| scale(&entry.revision, replicas, reason))
    })
}

/// The revision has what there is room for, bears what it can, and that is not enough: another gives something up.
fn make_room(facts: &Facts<'_>, course: Course<'_>, to: &RevisionFacts) -> Shift {
    let name = course.to;
    if to.ready < to.asked || (to.asked > 0 && to.phase != RevisionPhase::Ready) {
        return Shift::Wait(WaitsOn::Replicas, format!("{} of {} instances of {name} are ready", to.ready, to.asked));
    }
    let stopping = facts.revisions.iter().any(|(other, revision)| other != name && revision.existing > revision.asked);
    if stopping {
        return Shift::Wait(WaitsOn::Room, format!("instances stop to make room for {name}"));
    }
    if course.pace == Pace::Careful {
        match facts.stock {
            Stock::Exhausted(why) => {
                return Shift::Wait(WaitsOn::Stock, format!("{name} cannot be placed, so nothing is given up: {why}"));
            }
            Stock::Unknown => {
                let reason = format!("nothing is given up before it is known that {name} can be placed");
                return Shift::Wait(WaitsOn::Stock, reason);
            }
            Stock::Available | Stock::Unchecked => {}
        }
    }
    let lack = course.replicas.saturating_sub(to.asked);
    let with_a_grain = || {
        let weight = course.weight_bps.min(facts.promise().forgiven(to.ready));
        given(facts, name, weight, false).filter(|_| weight > 0)
    };
    yielded(facts, name, lack).or_else(|| handed_over(facts, course)).or_else(with_a_grain).unwrap_or_else(|| {
        let promise = facts.promise();
        let why = promise.too_coarse().unwrap_or_else(|| promise.to_string());
        Shift::Wait(WaitsOn::Replicas, format!("no ready instance can be spared for {name}: {why}"))
    })
}

/// Several others share traffic, and each needs all it has: one hands over what one of its instances bears, if it can then
/// do with one less.
fn handed_over(facts: &Facts<'_>, course: Course<'_>) -> Option<Shift> {
    let split = facts.split?;
    let promise = facts.promise();
    let mut others: Vec<_> = split.routed().filter(|entry| entry.revision != course.to).collect();
    others.sort_by_key(|entry| (facts.state.from.as_deref() == Some(&entry.revision), entry.weight_bps));
    others.iter().find_map(|giver| {
        let keeps = promise.forgiven(facts.ready(&giver.revision).checked_sub(1)?);
        let takers = others.iter().filter(|taker| taker.revision != giver.revision);
        let next = takers.fold(split.clone(), |next, taker| {
            let spare = promise.forgiven(facts.ready(&taker.revision)).saturating_sub(next.weight(&taker.revision));
            let surplus = next.weight(&giver.revision).saturating_sub(keeps);
            next.moved(&giver.revision, &taker.revision, surplus.min(spare))
        });
        let next = only_ours(facts, course.to, next).rounded(facts.granularity);
        let spared = |name: &str| facts.ready(name) - u32::from(name == giver.revision);
        let enough = next != *split && promise.kept(&next, spared);
        let reason = format!("{} hands over to make room for {}", giver.revision, course.to);
        enough.then_some(Shift::Ask(next, reason))
    })
}

/// Another revision gives up to `lack` instances that its weight does not need: first one without traffic, then the
/// oldest. What is of neither end of this rollout and has nothing ready needs nothing.
pub(super) fn yielded(facts: &Facts<'_>, to: &str, lack: u32) -> Option<Shift> {
    let ours = [facts.state.from.as_ref(), facts.state.target.as_ref()];
    let mut others: Vec<_> =
        facts.revisions.iter().filter(|(name, other)| *name != to && runs(other) && other.asked > 0).collect();
    others.sort_by_key(|(name, other)| (facts.weight(name) > 0, other.number));
    others.into_iter().find_map(|(name, other)| {
        let gives_all = other.ready == 0 && !ours.contains(&Some(name));
        let fewest = if gives_all { 0 } else { facts.fewest(name)? };
        let give = lack.min(other.asked.saturating_sub(fewest));
        let reason = || format!("{name} makes room for {give} of {to}");
        (give > 0).then(|| scale(name, other.asked - give, reason()))
    })
}

/// Whether instances are wanted of a revision in this phase.
fn runs(revision: &RevisionFacts) -> bool {
    matches!(revision.phase, RevisionPhase::Warming | RevisionPhase::Ready | RevisionPhase::Failed)
}

fn scale(revision: &str, replicas: u32, reason: String) -> Shift {
    Shift::Act(vec![Action::Scale { revision: revision.to_owned(), replicas }], reason)
}
