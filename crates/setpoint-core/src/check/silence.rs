//! What a change set does not mention must be as desired.
//!
//! It compares only what needs no knowledge of a provider's habits: amounts in the provider's unit, flags, and whether
//! a guest is there and runs.

use std::collections::BTreeSet;

use setpoint_api::step::Target;

use super::content::is_out_of_bounds;
use super::scene::{Claim, Scene};
use super::{Faults, Rule};
use crate::desired::{DeletionPolicy, Desired, Run};
use crate::observation::{Config, Guest, Reading};
use crate::value::Value;

pub(super) fn check(scene: &Scene<'_>, faults: &mut Faults) {
    let steps = scene.steps.keys().copied();
    let waiting = scene.change_set.waiting.iter().map(|waiting| &waiting.target);
    let refused = scene.change_set.refused.iter().map(|refusal| &refusal.target);
    let mentioned: BTreeSet<&Target> = steps.chain(waiting).chain(refused).collect();
    for desired in scene.desired.values().copied().filter(|desired| !mentioned.contains(&desired.target)) {
        if let Some(why) = unmet(scene, desired) {
            faults.target(Rule::SilentlySkipped, &desired.target, why);
        }
    }
}

/// What plainly is not as desired.
fn unmet<'a>(scene: &Scene<'a>, desired: &'a Desired) -> Option<String> {
    let claim = scene.claim(desired);
    match (desired.deletion, claim) {
        (Some(DeletionPolicy::Delete), Claim::Guest(guest)) if scene.owns(desired, guest) => {
            return Some(format!("{} is still there", guest.id));
        }
        (Some(_), _) => return None,
        (None, _) => {}
    }
    if scene.is_contested(desired) {
        return Some("its guest is claimed twice".to_owned());
    }
    for (name, value) in desired.fields.iter() {
        match scene.input.capabilities.field(name) {
            None => return Some(format!("{name} is not a field of the deployer")),
            Some(field) if is_out_of_bounds(field, value) => return Some(format!("{name} is out of bounds")),
            Some(_) => {}
        }
    }
    match claim {
        Claim::Guest(guest) if desired.provider_id.is_some() => unmet_by(scene, desired, guest),
        // Of several, one that is as desired will do.
        Claim::Guest(_) => {
            let mut unmet = scene.marked(&desired.uid).iter().map(|guest| unmet_by(scene, desired, guest));
            unmet.try_fold(None, |_, why| why.map(Some)).flatten()
        }
        Claim::Id(_) | Claim::Nothing => Some("it has no guest".to_owned()),
    }
}

fn unmet_by(scene: &Scene<'_>, desired: &Desired, guest: &Guest) -> Option<String> {
    if !scene.owns(desired, guest) {
        return Some(format!("{} is not ours", guest.id));
    }
    if guest.is_template {
        return Some(format!("{} is a template", guest.id));
    }
    let manages_run = scene.input.capabilities.has_run_state;
    if let Some(run) = desired.run.filter(|_| manages_run)
        && scene.runs(guest) != Reading::Known(run)
    {
        return Some(format!("{} is not {run:?}", guest.id));
    }
    if matches!(guest.config, Config::Unreadable(_)) && !desired.fields.is_empty() {
        return Some(format!("the configuration of {} could not be read", guest.id));
    }
    let mut fields = desired.fields.iter().filter(|(name, _)| !desired.mutes(name));
    fields
        .find(|(name, wanted)| {
            let waits_for_start = scene.runs(guest) != Reading::Known(Run::Running);
            if waits_for_start && guest.config.pending(name) == Some(wanted) {
                return false;
            }
            let unit = scene.input.capabilities.field(name).map_or(1, |field| field.unit.size());
            match (guest.config.field(name), wanted) {
                (Reading::Unknown, _) => true,
                (Reading::Known(Value::Integer(is)), Value::Integer(wanted)) => {
                    is.div_euclid(unit) != wanted.div_euclid(unit)
                }
                (Reading::Known(Value::Bool(is)), Value::Bool(wanted)) => is != wanted,
                _ => false,
            }
        })
        .map(|(name, _)| format!("{name} differs"))
}
