//! What is done when no traffic is under way: the right number of instances, and tidying up.

use setpoint_api::app::RolloutPhase;
use setpoint_api::revision::RevisionPhase;
use setpoint_api::traffic_split::{ALL_BPS, SplitEntry};

use super::shift::{Shift, yielded};
use super::{Action, Decision, Facts, WaitsOn};
use crate::split::Split;

/// What is done after a rollout or an abort.
pub(super) fn settle(facts: &Facts<'_>) -> Decision {
    if let Some(decision) = enough(facts).or_else(|| not_too_many(facts)) {
        return decision;
    }
    let kept = kept(facts);
    let until = kept.as_ref().map(|(_, until)| *until);
    let kept = kept.map(|(name, _)| name);
    if let Some(split) = without_the_done(facts, kept) {
        return facts.ask(split, "what has no traffic leaves the split".to_owned());
    }
    let mut actions: Vec<Action> = released(facts, kept);
    if actions.is_empty() {
        actions = outdated(facts);
    }
    if !actions.is_empty() {
        return Decision { until, ..facts.act(actions, "what is no longer needed goes".to_owned()) };
    }
    let message = facts.state.message.clone().unwrap_or_default();
    match (kept, until) {
        (Some(kept), Some(until)) => {
            facts.wait(WaitsOn::Time, Some(until), format!("{message}; {kept} is kept until {until}"))
        }
        _ => facts.wait(WaitsOn::Nothing, None, message),
    }
}

/// What is done while a rollout is paused: those that serve keep what they need.
pub(super) fn hold(facts: &Facts<'_>) -> Decision {
    let why = facts.state.paused.map(|reason| reason.to_string()).unwrap_or_default();
    let waiting = || facts.wait(WaitsOn::Person, None, format!("paused, since {why}: resume, promote or abort"));
    grown(facts).unwrap_or_else(waiting)
}

/// The split without a revision that gets traffic and is not Ready, if somebody else can have it.
pub(super) fn without_the_lost(facts: &Facts<'_>) -> Option<Split> {
    let split = facts.split?;
    let ready = |name: &str| facts.revision(name).is_some_and(|revision| revision.phase == RevisionPhase::Ready);
    let lost = split.routed().find(|entry| !ready(&entry.revision))?;
    let rest = split.routed().any(|entry| ready(&entry.revision)).then(|| split.without(&lost.revision))??;
    Some(rest.rounded(facts.granularity))
}

/// The split that was lost, as far as it can be borne: without what is not there to serve, and with no more for the target
/// than its ready instances can take. `None` if none is lost, or nobody of it can serve: then it begins anew.
pub(super) fn restored(facts: &Facts<'_>) -> Option<Split> {
    let begins = facts.state.from.is_none() && facts.state.phase == RolloutPhase::Progressing;
    let lost = facts.stood().filter(|_| facts.split.is_none() && !begins)?;
    let there = |entry: &SplitEntry| {
        facts.revision(&entry.revision).is_some_and(|revision| revision.phase == RevisionPhase::Ready)
    };
    let serves = |entry: &SplitEntry| there(entry) && (facts.ready(&entry.revision) > 0 || facts.replicas == 0);
    let anyone = lost.routed().any(serves);
    let gone = lost.routed().filter(|entry| if anyone { !serves(entry) } else { !there(entry) });
    let gone: Vec<String> = gone.map(|entry| entry.revision.clone()).collect();
    let split = gone.iter().try_fold(lost.clone(), |split, name| split.without(name))?;
    let target = facts.state.target.as_deref().unwrap_or_default();
    let (promise, ready) = (facts.promise(), facts.ready(target));
    let too_much = split.weight(target) < ALL_BPS && split.weight(target) > promise.forgiven(ready);
    let borne = if too_much { split.with_weight(target, promise.bearable(ready)) } else { split };
    // What was asked for can be applied as it is; only what differs from it is rounded.
    Some(if borne == lost { lost } else { borne.rounded(facts.granularity) })
}

/// Everyone has the instances its weight asks for; if there is no room, those without traffic make some.
fn enough(facts: &Facts<'_>) -> Option<Decision> {
    if let Some(decision) = grown(facts) {
        return Some(decision);
    }
    let (name, lack) = lacking(facts).next()?;
    let unrouted = |name: &String| facts.weight(name) == 0;
    if !facts.revisions.iter().any(|(name, revision)| unrouted(name) && revision.asked > 0) {
        return None;
    }
    match yielded(facts, name, lack)? {
        Shift::Act(actions, reason) => Some(facts.act(actions, reason)),
        Shift::Ask(..) | Shift::Wait(..) | Shift::There => None,
    }
}

fn grown(facts: &Facts<'_>) -> Option<Decision> {
    lacking(facts).find_map(|(name, lack)| {
        let asked = facts.revision(name)?.asked;
        let replicas = (asked + lack).min(facts.room_for(name));
        let scale = Action::Scale { revision: name.to_owned(), replicas };
        (replicas > asked).then(|| facts.act(vec![scale], format!("{name} serves with {replicas}")))
    })
}

/// Those that serve with fewer instances than their weight asks for, and how many they lack.
fn lacking<'f>(facts: &Facts<'f>) -> impl Iterator<Item = (&'f str, u32)> {
    let (promise, revisions) = (facts.promise(), facts.revisions);
    facts.split.into_iter().flat_map(Split::routed).filter_map(move |entry| {
        let revision = revisions.get(&entry.revision).filter(|revision| revision.phase == RevisionPhase::Ready)?;
        let lack = promise.share(entry.weight_bps).saturating_sub(revision.asked);
        (lack > 0).then_some((entry.revision.as_str(), lack))
    })
}

/// Nobody that serves has more instances than its weight asks for, as far as the promise lets them go.
fn not_too_many(facts: &Facts<'_>) -> Option<Decision> {
    let promise = facts.promise();
    facts.split?.routed().find_map(|entry| {
        let name = &entry.revision;
        let asked = facts.revision(name)?.asked;
        let replicas = promise.share(entry.weight_bps).max(facts.trimmed(name));
        let scale = Action::Scale { revision: name.clone(), replicas };
        (replicas < asked).then(|| facts.act(vec![scale], format!("{name} needs no more than {replicas}")))
    })
}

/// The old revision, while it is kept to go back to.
fn kept<'f>(facts: &Facts<'f>) -> Option<(&'f str, jiff::Timestamp)> {
    let from = facts.state.from.as_deref()?;
    let until = facts.after(facts.state.since, facts.strategy.keep_seconds);
    let runs = facts.revision(from)?.phase == RevisionPhase::Ready;
    (facts.state.phase == RolloutPhase::Complete && runs && facts.now < until).then_some((from, until))
}

/// The split without one that lost its traffic. What a person named at weight 0 stays.
fn without_the_done(facts: &Facts<'_>, kept: Option<&str>) -> Option<Split> {
    let split = facts.split?;
    let done = |entry: &&SplitEntry| entry.weight_bps == 0 && kept != Some(entry.revision.as_str());
    split.without(&split.entries().iter().find(done).filter(|_| facts.split_is_ours())?.revision)
}

/// What runs without traffic and is not named by the split is drained; what failed is stopped.
fn released(facts: &Facts<'_>, kept: Option<&str>) -> Vec<Action> {
    let idle = facts.revisions.iter().filter(|(name, _)| !facts.names(name) && kept != Some(name));
    idle.filter_map(|(name, revision)| match revision.phase {
        RevisionPhase::Staged | RevisionPhase::Warming | RevisionPhase::Ready => {
            Some(Action::Drain { revision: name.clone() })
        }
        RevisionPhase::Failed if revision.asked > 0 => Some(Action::Scale { revision: name.clone(), replicas: 0 }),
        _ => None,
    })
    .collect()
}

/// Revisions beyond the limit of history, the oldest first.
fn outdated(facts: &Facts<'_>) -> Vec<Action> {
    let state = facts.state;
    let wanted = [Some(facts.template_revision), state.target.as_deref(), state.from.as_deref()];
    let mut history: Vec<_> = facts
        .revisions
        .iter()
        .filter(|(name, revision)| {
            let idle = matches!(revision.phase, RevisionPhase::Inactive | RevisionPhase::Failed);
            idle && revision.existing == 0 && !wanted.contains(&Some(name.as_str())) && !facts.names(name)
        })
        .collect();
    history.sort_by_key(|(_, revision)| revision.number);
    let surplus = history.len().saturating_sub(facts.revision_history_limit as usize);
    history[..surplus].iter().map(|(name, _)| Action::Archive { revision: (*name).clone() }).collect()
}
