//! What changes the course of a rollout from outside: a person's request, a split set by hand, a new template.

use setpoint_api::app::{AskedSplit, PauseReason, Pin, RolloutPhase, RolloutRequest, RolloutState, RolloutVerb};
use setpoint_api::revision::RevisionPhase;
use setpoint_api::traffic_split::ALL_BPS;

use super::{Facts, settle, stage};
use crate::split::Split;

/// The state that follows from what happened outside; `None` if nothing did.
pub(super) fn heed(facts: &Facts<'_>) -> Option<RolloutState> {
    request(facts)
        .or_else(|| split_arrived(facts))
        .or_else(|| split_by_hand(facts))
        .or_else(|| new_target(facts))
        .or_else(|| split_lost(facts))
}

fn request(facts: &Facts<'_>) -> Option<RolloutState> {
    let request = facts.request.filter(|request| facts.state.heeded.as_ref() != Some(&request.id))?;
    let answered = answer(facts, request);
    let refused = |why: &str| RolloutState { message: Some(format!("{}: {why}", request.verb)), ..facts.state.clone() };
    let state = answered.unwrap_or_else(|why| refused(&why));
    Some(RolloutState { heeded: Some(request.id.clone()), ..state })
}

/// What a request makes of the state, or why it is refused.
fn answer(facts: &Facts<'_>, request: &RolloutRequest) -> Result<RolloutState, String> {
    let phase = facts.state.phase;
    let running = matches!(phase, RolloutPhase::Progressing | RolloutPhase::Aborting);
    let said = |message: &str| Some(message.to_owned());
    let going_on = RolloutState { paused: None, asked: standing(facts), progress: None, ..facts.state.clone() };
    let at_stage = |stage: u32, message: &str| RolloutState {
        stage,
        since: Some(facts.now),
        message: said(message),
        ..going_on.clone()
    };
    match request.verb {
        RolloutVerb::Pause if running => Ok(RolloutState {
            paused: Some(PauseReason::Requested),
            message: said("paused by a person"),
            ..facts.state.clone()
        }),
        RolloutVerb::Resume if running && facts.state.paused.is_some() => {
            Ok(at_stage(facts.state.stage, "resumed by a person"))
        }
        RolloutVerb::Resume if stage::waits_for_a_person(facts) => {
            Ok(at_stage(facts.state.stage.saturating_add(1), "resumed by a person"))
        }
        RolloutVerb::Resume => Err("nothing is paused".to_owned()),
        RolloutVerb::Skip if phase == RolloutPhase::Progressing => {
            Ok(at_stage(facts.state.stage.saturating_add(1).min(stage::last(facts)), "a step was skipped by a person"))
        }
        RolloutVerb::Promote if phase == RolloutPhase::Progressing => {
            Ok(at_stage(stage::last(facts), "promoted by a person"))
        }
        RolloutVerb::Abort if running => Ok(aborting(facts, going_on, "aborted by a person")),
        RolloutVerb::Pause | RolloutVerb::Skip | RolloutVerb::Promote | RolloutVerb::Abort => {
            Err("no rollout is going on".to_owned())
        }
        RolloutVerb::Undo => undo(facts, request),
        RolloutVerb::Retry if matches!(phase, RolloutPhase::Aborting | RolloutPhase::Aborted) => {
            let unpinned = RolloutState { pinned: None, ..facts.state.clone() };
            Ok(begun(facts, &unpinned, facts.template_revision))
        }
        RolloutVerb::Retry => Err("nothing was aborted".to_owned()),
    }
}

/// Puts a kept revision in the place of the App's own. The rollout to it begins as any other does.
fn undo(facts: &Facts<'_>, request: &RolloutRequest) -> Result<RolloutState, String> {
    let revision = request.revision.clone().or_else(|| facts.state.from.clone());
    let revision = revision.ok_or("nothing served before")?;
    match facts.revision(&revision).map(|revision| revision.phase) {
        None => return Err(format!("there is no revision {revision}")),
        Some(RevisionPhase::Archived) => return Err(format!("{revision} is archived")),
        Some(_) => {}
    }
    let message = Some(format!("a person went back to {revision}"));
    let pinned = Some(Pin { revision: revision.clone(), instead_of: facts.template_revision.to_owned() });
    let state = RolloutState { pinned, paused: None, asked: standing(facts), message, ..facts.state.clone() };
    // An abort is left at once: it may be the one that cannot end, and its target the one that still works.
    let given_up = matches!(state.phase, RolloutPhase::Aborting | RolloutPhase::Aborted);
    Ok(if given_up { begun(facts, &state, &revision) } else { state })
}

/// What was asked for is there: from now on any other split is a person's, also the one before.
fn split_arrived(facts: &Facts<'_>) -> Option<RolloutState> {
    let asked = facts.state.asked.as_ref().filter(|asked| asked.before.is_some())?;
    (facts.split?.entries() == asked.entries).then(|| RolloutState { asked: standing(facts), ..facts.state.clone() })
}

fn split_by_hand(facts: &Facts<'_>) -> Option<RolloutState> {
    let state = facts.state;
    if !matches!(state.phase, RolloutPhase::Progressing | RolloutPhase::Aborting) || state.paused.is_some() {
        return None;
    }
    let by_hand = state.asked.is_some() && facts.split.is_some() && !facts.split_is_ours();
    by_hand.then(|| RolloutState {
        paused: Some(PauseReason::ManualSplit),
        message: Some("paused: the split was set by hand; resume, promote or abort".to_owned()),
        ..state.clone()
    })
}

/// The App has another template, or an undo names another revision. What was under way and has traffic is abandoned by
/// going back first, unless that does not get on either; a pause is a person's, and is not ended by a template.
fn new_target(facts: &Facts<'_>) -> Option<RolloutState> {
    let state = facts.state;
    let pin = state.pinned.as_ref().filter(|pin| pin.instead_of == facts.template_revision);
    let target = pin.map_or(facts.template_revision, |pin| &pin.revision);
    let unchanged = state.target.as_deref() == Some(target) && state.phase != RolloutPhase::Pending;
    let on_the_way_back = state.phase == RolloutPhase::Aborting && (state.paused.is_some() || !stage::is_late(facts));
    if unchanged || !facts.revisions.contains_key(target) || on_the_way_back {
        return None;
    }
    if state.phase != RolloutPhase::Progressing {
        return Some(begun(facts, state, target));
    }
    if state.paused.is_some() {
        return None;
    }
    let halfway = state.target.as_deref().is_some_and(|half| (1..ALL_BPS).contains(&facts.weight(half)));
    let back = state.from.as_deref().is_some_and(|from| facts.revision(from).is_some());
    if halfway && back {
        return Some(aborting(facts, state.clone(), &format!("superseded by {target}")));
    }
    Some(begun(facts, state, target))
}

/// The split of a revision that serves is gone and cannot be set again as it was: it begins anew.
fn split_lost(facts: &Facts<'_>) -> Option<RolloutState> {
    let target = facts.state.target.as_deref()?;
    let lost =
        facts.state.phase == RolloutPhase::Complete && facts.split.is_none() && settle::restored(facts).is_none();
    lost.then(|| begun(facts, facts.state, target))
}

fn begun(facts: &Facts<'_>, state: &RolloutState, target: &str) -> RolloutState {
    let pinned = state.pinned.clone().filter(|pin| pin.instead_of == facts.template_revision);
    let from = match facts.stood() {
        Some(split) if split.weight(target) == ALL_BPS => state.from.clone(),
        Some(split) => split.without(target).map(|others| mainstay(facts, &others)),
        None => None,
    };
    let from = from.filter(|from| facts.revisions.contains_key(from) && from != target);
    let message = match &from {
        Some(from) => format!("rolls out {target} in the place of {from}"),
        None => format!("rolls out {target}"),
    };
    RolloutState {
        phase: RolloutPhase::Progressing,
        target: Some(target.to_owned()),
        from,
        direct: pinned.is_some(),
        stage: 0,
        since: Some(facts.now),
        paused: None,
        asked: standing(facts),
        progress: None,
        pinned,
        heeded: state.heeded.clone(),
        message: Some(message),
    }
}

/// The one that gets the most of those that have anything ready; if none has, of all.
fn mainstay(facts: &Facts<'_>, split: &Split) -> String {
    let gone = split.entries().iter().filter(|entry| facts.ready(&entry.revision) == 0);
    let alive = gone.fold(split.clone(), |alive, entry| alive.without(&entry.revision).unwrap_or(alive));
    alive.main().to_owned()
}

/// The state in which traffic goes back.
pub(super) fn aborting(facts: &Facts<'_>, state: RolloutState, why: &str) -> RolloutState {
    RolloutState {
        phase: RolloutPhase::Aborting,
        paused: None,
        asked: standing(facts),
        since: Some(facts.now),
        progress: None,
        message: Some(why.to_owned()),
        ..state
    }
}

/// The split that stands, as one that we asked for; or the one that was lost.
fn standing(facts: &Facts<'_>) -> Option<AskedSplit> {
    facts.stood().map(|split| AskedSplit { entries: split.into_entries(), before: None })
}
