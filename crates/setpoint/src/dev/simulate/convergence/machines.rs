//! Machines are as they were asked to be, and what was deleted is gone.

use setpoint_api::condition::ConditionStatus;
use setpoint_api::environment::Create;
use setpoint_api::machine::{Machine, Run};
use setpoint_core::machine::{SYNCED, condition};
use setpoint_core::observation::Reading;
use setpoint_core::value::Value;
use setpoint_deployer::provider::Instance;

use crate::dev::simulate::ledger::Books;
use crate::dev::simulate::rules::{title, uid};
use crate::dev::simulate::users::SETTINGS;

/// `truth` is what is at the Machine's place.
pub(in crate::dev::simulate) fn machine(books: &Books, machine: &Machine, truth: &[Instance], unmet: &mut Vec<String>) {
    let title = title(&machine.metadata);
    if machine.metadata.deletion_timestamp.is_some() {
        unmet.push(format!("the Machine {title} is still being deleted: {}", said(machine)));
        return;
    }
    let status = machine.status.clone().unwrap_or_default();
    if status.observed_generation != machine.metadata.generation {
        unmet.push(format!("the Machine {title} was not looked at since it changed"));
    }
    if !status.intents.is_empty() {
        unmet.push(format!("the Machine {title} does not know what became of {:?}", status.intents));
    }
    let is_its_own =
        |it: &&Instance| it.guest.mark.as_ref().is_some_and(|mark| *mark.owner_uid == *uid(&machine.metadata));
    let guests: Vec<&Instance> = truth.iter().filter(is_its_own).collect();
    if guests.is_empty() && machine.spec.create == Create::Never {
        return;
    }
    let [instance] = guests[..] else {
        unmet.push(format!("the Machine {title} has {} guests: {}", guests.len(), said(machine)));
        return;
    };
    let cores = instance.guest.config.field("cores");
    let wanted = machine.spec.cores.map(|cores| Value::Integer(cores.into()));
    if let Some(wanted) = wanted.filter(|wanted| cores != Reading::Known(wanted)) {
        unmet.push(format!("the guest of {title} has {cores:?} cores, and should have {wanted:?}: {}", said(machine)));
    }
    let run = instance.guest.run.known().map(|word| &**word);
    if let Some(wanted) = colour(books).filter(|_| !machine.spec.variables_from.is_empty()) {
        // What a guest was told that does not run takes effect when it starts.
        let pending = instance.guest.config.pending("env").filter(|_| run != Some("running"));
        let colour = match pending.map_or(instance.guest.config.field("env"), Reading::Known) {
            Reading::Known(Value::Map(env)) => env.get("COLOUR"),
            _ => None,
        };
        if colour != Some(&Value::from(wanted)) {
            unmet.push(format!("the guest of {title} is {colour:?}, and should be {wanted}: {}", said(machine)));
        }
    }
    let is_so = match machine.spec.run {
        None => true,
        Some(Run::Running) => run == Some("running"),
        Some(Run::Stopped) => run == Some("stopped"),
    };
    if !is_so {
        unmet.push(format!("the guest of {title} is {run:?}: {}", said(machine)));
    }
    let is_synced = condition(&status, SYNCED).is_some_and(|synced| synced.status == ConditionStatus::True);
    match asks_the_impossible(machine) {
        true if is_synced => {
            unmet.push(format!("the Machine {title} says that it is as it cannot be: {}", said(machine)));
        }
        false if is_so && !is_synced => {
            unmet.push(format!("the Machine {title} is as it should be and does not say so: {}", said(machine)));
        }
        _ => {}
    }
}

/// What the settings say that Machines take values from.
fn colour(books: &Books) -> Option<&str> {
    let settings = books.config_maps.get(&format!("default/{SETTINGS}"))?;
    settings.data.as_ref()?.get("COLOUR").map(String::as_str)
}

/// Whether it asks for another image for a guest that was there before it: only a new guest could have it, and would be
/// another than the one that it insists on.
fn asks_the_impossible(machine: &Machine) -> bool {
    machine.spec.provider_id.is_some() && machine.spec.image.is_some()
}

fn said(machine: &Machine) -> String {
    let conditions = machine.status.iter().flat_map(|status| &status.conditions);
    let each =
        conditions.map(|it| format!("{}={:?} {}", it.type_, it.status, it.message.as_deref().unwrap_or_default()));
    each.collect::<Vec<_>>().join("; ")
}
