//! What steps write: only what is desired, was read, and the provider takes.

use std::collections::BTreeSet;

use setpoint_api::step::{Action, Effect, FieldChange, Origin, Step};

use super::scene::Scene;
use super::{Faults, Rule};
use crate::desired::{Desired, Run};
use crate::observation::{Guest, Reading};
use crate::registry::Field;
use crate::value::Value;

pub(super) fn check(scene: &Scene<'_>, faults: &mut Faults) {
    for step in &scene.change_set.steps {
        let Some(desired) = scene.desired.get(&step.target).copied() else { continue };
        if matches!(step.action, Action::Delete | Action::Release) {
            continue;
        }
        impossible_desires(scene, step, desired, faults);
        let expected = desired.spec_digest(scene.input.key);
        if step.new_spec_digest.as_ref() != Some(&expected) {
            faults.step(Rule::SpecDigestWrong, step, "");
        }
        let mut seen = BTreeSet::new();
        for change in &step.changes {
            if !seen.insert(&change.field) {
                faults.step(Rule::FieldRepeated, step, &change.field);
            }
            written(scene, step, desired, change, faults);
        }
        let must_change = matches!(step.action, Action::Update | Action::Grow | Action::Replace);
        if must_change && step.changes.is_empty() {
            faults.step(Rule::ChangesMissing, step, "");
        }
        restart(scene, step, desired, faults);
    }
}

/// Nothing is done for an object that desires what cannot be.
fn impossible_desires(scene: &Scene<'_>, step: &Step, desired: &Desired, faults: &mut Faults) {
    for (name, value) in desired.fields.iter() {
        match scene.input.capabilities.field(name) {
            None => faults.step(Rule::FieldUnregistered, step, name),
            Some(field) if is_out_of_bounds(field, value) => faults.step(Rule::BoundsIgnored, step, name),
            Some(_) => {}
        }
    }
}

fn written(scene: &Scene<'_>, step: &Step, desired: &Desired, change: &FieldChange, faults: &mut Faults) {
    let field = scene.input.capabilities.field_of(&change.field).map(|(field, _)| field);
    let Some((field, wanted)) = field.and_then(|field| Some((field, desired.fields.get(field.name)?))) else {
        return faults.step(Rule::FieldUnmanaged, step, &change.field);
    };
    let name = field.name;
    let fits = match step.action {
        Action::Update => matches!(field.effect, Effect::InPlace | Effect::Restart),
        Action::Grow => field.effect == Effect::Grow,
        Action::Replace => step.changes.iter().any(|change| change.effect == Effect::Replace),
        Action::Create => true,
        Action::Adopt | Action::Start | Action::Stop | Action::Restart | Action::Release | Action::Delete => false,
    };
    // What is pending and not wanted is written over, at once.
    let overwrites = change.effect == Effect::InPlace
        && scene.guest_of(step).is_some_and(|guest| guest.config.pending(name).is_some());
    if !fits || (field.effect != change.effect && !overwrites && step.action != Action::Create) {
        faults.step(Rule::EffectWrong, step, &change.field);
    }
    if step.origin == Origin::Drift && step.action != Action::Create && desired.mutes(&change.field) {
        faults.step(Rule::FieldMuted, step, &change.field);
    }
    let Some(guest) = scene.guest_of(step) else { return };
    match (guest.config.field(name), wanted) {
        (Reading::Unknown, _) => faults.step(Rule::WrittenBlind, step, &change.field),
        (Reading::Known(Value::Integer(is)), Value::Integer(wanted))
            if step.action == Action::Grow
                && wanted.div_euclid(field.unit.size()) <= is.div_euclid(field.unit.size()) =>
        {
            faults.step(Rule::ShrinkPlanned, step, &change.field);
        }
        _ => {}
    }
}

/// What takes effect only at the next start needs one, if the guest runs.
fn restart(scene: &Scene<'_>, step: &Step, desired: &Desired, faults: &mut Faults) {
    let needs_restart = step.changes.iter().any(|change| change.effect == Effect::Restart);
    let runs = scene.guest_of(step).is_some_and(|guest: &Guest| scene.runs(guest) == Reading::Known(Run::Running));
    if step.action != Action::Update || !needs_restart || !runs || scene.input.capabilities.update_restarts {
        return;
    }
    let stops = scene.step_of(&step.target, Action::Stop).is_some() && desired.run == Some(Run::Stopped);
    if !stops && scene.step_of(&step.target, Action::Restart).is_none() {
        faults.step(Rule::RestartMissing, step, "");
    }
}

pub(super) fn is_out_of_bounds(field: &Field, value: &Value) -> bool {
    match value {
        Value::Integer(amount) => {
            field.min.is_some_and(|min| *amount < min) || field.max.is_some_and(|max| *amount > max)
        }
        _ => false,
    }
}
