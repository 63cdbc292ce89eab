//! What is at stake in a step, from provenance, data, downtime and money: its class must not be below.

use setpoint_api::price::Price;
use setpoint_api::step::{Action, Class, Step};

use super::scene::Scene;
use super::{Faults, Rule};
use crate::desired::Run;
use crate::observation::{Guest, Reading};

pub(super) fn check(scene: &Scene<'_>, faults: &mut Faults) {
    for step in &scene.change_set.steps {
        let least = at_stake(scene, step);
        if step.class < least {
            faults.step(Rule::ClassTooLow, step, format!("{:?}, at least {least:?}", step.class));
        }
    }
}

fn at_stake(scene: &Scene<'_>, step: &Step) -> Class {
    let guest = scene.guest_of(step);
    let loses = guest.is_none_or(|guest| !is_disposable(guest));
    let may_run = guest.is_none_or(|guest| scene.runs(guest) != Reading::Known(Run::Stopped));
    let by_action = match step.action {
        Action::Delete | Action::Replace if loses => Class::Destructive,
        Action::Replace => Class::Disruptive,
        Action::Update if takes_data_out(scene, step) => Class::Destructive,
        Action::Stop | Action::Restart if may_run => Class::Disruptive,
        Action::Update if may_run && scene.input.capabilities.update_restarts => Class::Disruptive,
        Action::Create | Action::Start if scene.input.capabilities.bills && step.hourly_cost_delta.is_none() => {
            Class::Spend
        }
        _ => Class::Benign,
    };
    let by_price = match step.hourly_cost_delta {
        Some(delta) if delta > Price::ZERO => Class::Spend,
        _ => Class::Benign,
    };
    by_action.max(by_price)
}

/// Whether something is removed from a field in which data is kept.
fn takes_data_out(scene: &Scene<'_>, step: &Step) -> bool {
    let removed = step.changes.iter().filter(|change| change.from.is_some() && change.to.is_none());
    let mut fields = removed.filter_map(|change| scene.input.capabilities.field_of(&change.field));
    fields.any(|(field, _)| field.holds_data)
}

/// Only what we made ourselves and that provably holds no data can go without loss.
fn is_disposable(guest: &Guest) -> bool {
    let made_by_us = guest.mark.as_ref().is_some_and(|mark| mark.intent.is_some());
    made_by_us && guest.holds_data == Reading::Known(false)
}
