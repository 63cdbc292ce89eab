//! To whom steps are done: only to what is ours, is there, can be changed now, and is meant to be.

use jiff::SignedDuration;
use setpoint_api::step::{Action, Step, Target};

use super::scene::{GUEST, Scene};
use super::{Faults, Rule};
use crate::desired::{Create, DeletionPolicy, Desired, Run};
use crate::observation::{Guest, Reading};
use crate::plan::Orphans;

pub(super) fn check(scene: &Scene<'_>, faults: &mut Faults) {
    if scene.desired.len() < scene.input.desired.len() {
        faults.add(Rule::TwinTargets, scene.change_set.environment.clone(), "");
    }
    for step in &scene.change_set.steps {
        ability(scene, step, faults);
        match scene.desired.get(&step.target).copied() {
            Some(desired) => object(scene, step, desired, faults),
            None => orphan(scene, step, faults),
        }
        if let Some(guest) = scene.guest_of(step) {
            if let Some(why) = &guest.busy {
                faults.step(Rule::GuestBusy, step, why);
            }
            if guest.is_template {
                faults.step(Rule::GuestTemplate, step, &guest.id);
            }
        }
    }
    for desired in scene.desired.values().copied() {
        run_state(scene, desired, faults);
    }
}

/// A step for an object.
fn object<'a>(scene: &Scene<'a>, step: &Step, desired: &'a Desired, faults: &mut Faults) {
    if scene.is_contested(desired) {
        faults.step(Rule::ClaimedTwice, step, scene.claim(desired).id().unwrap_or_default());
    }
    if has_open_creation(scene, desired) {
        faults.step(Rule::OutcomeUnknown, step, "");
    }
    match step.action {
        Action::Create => create(scene, step, desired, faults),
        _ => existing(scene, step, desired, faults),
    }
    match (step.action, desired.deletion) {
        (Action::Delete, Some(DeletionPolicy::Delete)) | (Action::Release, Some(DeletionPolicy::Retain)) => {}
        (Action::Delete | Action::Release, _) => faults.step(Rule::DeleteUnrequested, step, ""),
        (_, Some(_)) => faults.step(Rule::DeletedChanged, step, ""),
        (_, None) => {}
    }
    if step.action == Action::Replace && [scene.input.policy.create, desired.create].contains(&Create::Never) {
        faults.step(Rule::CreateForbidden, step, "");
    }
    if desired.protected && matches!(step.action, Action::Delete | Action::Replace) {
        faults.step(Rule::DeleteProtected, step, "");
    }
}

fn create(scene: &Scene<'_>, step: &Step, desired: &Desired, faults: &mut Faults) {
    if !scene.is_complete() {
        faults.step(Rule::CreateUnproven, step, "");
    }
    let is_pinned_there = desired.provider_id.as_deref().is_some_and(|id| scene.guest(id).is_some());
    let recorded = desired.record.provider_id.as_deref().and_then(|id| scene.guest(id));
    // Somebody else's guest may have got the id since; one without any mark may still be ours.
    let may_be_recorded = recorded.is_some_and(|guest| guest.mark.is_none());
    let is_there = is_pinned_there || may_be_recorded || !scene.marked(&desired.uid).is_empty();
    if is_there {
        faults.step(Rule::CreateNeedless, step, "");
    }
    if [scene.input.policy.create, desired.create].contains(&Create::Never) {
        faults.step(Rule::CreateForbidden, step, "");
    }
    if desired.provider_id.is_some() && !scene.input.capabilities.chooses_ids {
        faults.step(Rule::ActionUnable, step, "it does not choose ids");
    }
    if step.provider_id.as_deref().is_some_and(|id| desired.provider_id.as_deref() != Some(id)) {
        faults.step(Rule::GuestWrong, step, "");
    }
}

/// A step to a guest that must be there, ours, and the object's own.
fn existing(scene: &Scene<'_>, step: &Step, desired: &Desired, faults: &mut Faults) {
    let is_made_before = scene.step_of(&step.target, Action::Create).is_some();
    let Some(id) = step.provider_id.as_deref() else {
        if !is_made_before {
            faults.step(Rule::GuestUnnamed, step, "");
        }
        return;
    };
    let Some(guest) = scene.guest(id) else {
        if !is_made_before {
            faults.step(Rule::GuestUnseen, step, id);
        }
        return;
    };
    match &guest.mark {
        Some(_) if !scene.owns(desired, guest) => faults.step(Rule::GuestForeign, step, id),
        Some(_) if step.action == Action::Adopt => faults.step(Rule::ActionUnable, step, "it is marked already"),
        None if step.action == Action::Adopt && desired.provider_id.as_deref() != Some(id) => {
            faults.step(Rule::GuestWrong, step, "only a pinned guest is adopted");
        }
        None if step.action != Action::Adopt && scene.step_of(&step.target, Action::Adopt).is_none() => {
            faults.step(Rule::GuestUnmarked, step, id);
        }
        _ => {}
    }
    if desired.provider_id.as_deref().is_some_and(|pinned| pinned != id) {
        faults.step(Rule::GuestWrong, step, id);
    }
}

/// A step to a guest that belongs to nothing.
fn orphan(scene: &Scene<'_>, step: &Step, faults: &mut Faults) {
    let guest = scene.guest_of(step);
    let mark = guest.and_then(|guest| guest.mark.as_ref());
    let is_ours = mark.is_some_and(|mark| *mark.cluster == *scene.input.cluster);
    let is_named = step.target.kind == GUEST && step.provider_id.as_ref() == Some(&step.target.name);
    let is_released = step.action == Action::Release
        && mark
            .and_then(|mark| scene.owner(&mark.owner_uid))
            .is_some_and(|owner| owner.deletion == Some(DeletionPolicy::Retain));
    if !is_named || !is_ours || (step.action != Action::Delete && !is_released) {
        return faults.step(Rule::TargetUnknown, step, "");
    }
    let (Some(guest), Some(mark)) = (guest, mark) else { return };
    let is_unneeded = match scene.owner(&mark.owner_uid) {
        None => scene.input.policy.orphans == Orphans::Delete,
        // It has another, which stays.
        Some(owner) => {
            let stays = scene.marked(&owner.uid).iter().any(|other| !scene.steps.contains_key(&guest_target(other)));
            stays && owner.provider_id.as_ref() != Some(&guest.id)
        }
    };
    if !is_unneeded {
        faults.step(Rule::DeleteUnrequested, step, "");
    }
}

fn guest_target(guest: &Guest) -> Target {
    Target { namespace: String::new(), name: guest.id.to_string(), kind: GUEST.to_owned() }
}

fn ability(scene: &Scene<'_>, step: &Step, faults: &mut Faults) {
    let capabilities = scene.input.capabilities;
    let able = match step.action {
        Action::Create | Action::Replace | Action::Delete => capabilities.creates,
        Action::Adopt | Action::Release => capabilities.adopts,
        Action::Start | Action::Stop | Action::Restart => capabilities.has_run_state,
        Action::Update | Action::Grow => true,
    };
    let pinned = scene.desired.get(&step.target).is_some_and(|desired| desired.provider_id.is_some());
    if step.action == Action::Replace && pinned && !capabilities.chooses_ids {
        faults.step(Rule::ActionUnable, step, "it does not choose ids");
    }
    let first_is_possible = step.action == Action::Replace && capabilities.creates_before_delete && !pinned;
    if !able || (step.create_first && !first_is_possible) {
        faults.step(Rule::ActionUnable, step, capabilities.deployer);
    }
}

/// Whether a create was begun so short a time before the observation that it may not show yet.
fn has_open_creation(scene: &Scene<'_>, desired: &Desired) -> bool {
    let settle = SignedDuration::from_secs(scene.input.capabilities.settle_seconds);
    let made_by = |id: &str| {
        let marks = scene.marked(&desired.uid).iter().filter_map(|guest| guest.mark.as_ref());
        marks.into_iter().any(|mark| mark.intent.as_deref() == Some(id))
    };
    desired.record.intents.iter().any(|intent| {
        let age = scene.input.observation.observed_at.duration_since(intent.started_at);
        match intent.action {
            Action::Create => scene.marked(&desired.uid).is_empty() && (age < settle || !scene.is_complete()),
            Action::Replace => !made_by(&intent.id) && age < settle && scene.input.capabilities.creates_before_delete,
            _ => age.is_negative(),
        }
    })
}

/// The guest must end in the state that is desired, and must not be pushed while it moves or cannot be seen.
fn run_state(scene: &Scene<'_>, desired: &Desired, faults: &mut Faults) {
    let stop = scene.step_of(&desired.target, Action::Stop);
    let restart = scene.step_of(&desired.target, Action::Restart);
    let start = scene.step_of(&desired.target, Action::Start);
    let Some(step) = start.or(restart).or(stop) else { return };
    let ends = if stop.is_some() { Run::Stopped } else { Run::Running };
    let guest = scene.guest_of(step);
    if guest.is_some_and(|guest| scene.is_passing(guest)) {
        faults.step(Rule::RunPassing, step, "");
    }
    if guest.is_some_and(|guest| guest.run == Reading::Unknown) {
        faults.step(Rule::WrittenBlind, step, "its state");
    }
    let was = guest.map_or(Reading::Absent, |guest| scene.runs(guest));
    let is_wanted = match desired.run {
        Some(run) => run == ends,
        // A restart, or the second half of one or of a create.
        None if restart.is_some() => was == Reading::Known(Run::Running),
        None => {
            let mut begun = desired.record.intents.iter().map(|intent| intent.action);
            let starts = [Action::Create, Action::Replace, Action::Restart, Action::Start];
            let is_half_done = begun.any(|action| starts.contains(&action));
            ends == Run::Running && was == Reading::Known(Run::Stopped) && is_half_done
        }
    };
    let is_needless = was == Reading::Known(ends) && restart.is_none();
    if !is_wanted || is_needless {
        faults.step(Rule::RunUnwanted, step, "");
    }
}
