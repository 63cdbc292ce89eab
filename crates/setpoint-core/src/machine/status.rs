//! The status of a Machine after a look at its guest.

use jiff::Timestamp;
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::machine::{DriftedField, MAX_DRIFT, MAX_WANTED, Machine, MachineStatus};
use setpoint_api::requester::RECONCILE_AT;
use setpoint_api::step::{Effect, FieldChange, Origin, WaitsOn};

use super::record::Settlement;
use super::sight::{Seen, observed};
use super::standing::Standing;
use crate::conditions;
use crate::desired::{Desired, Run};
use crate::diff::diff;
use crate::drift::{RUN, Summary, track, vanished};
use crate::observation::{Config, Guest, Reading};
use crate::plan::ChangeSet;
use crate::registry::Field;
use crate::value::Value;

pub const READY: &str = "Ready";
pub const SYNCED: &str = "Synced";
pub const DRIFTED: &str = "Drifted";

/// A condition of a status.
pub fn condition<'s>(status: &'s MachineStatus, type_: &str) -> Option<&'s Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether all that a Machine asks for is carried out, as far as is known: nothing has to be looked at for its sake.
pub fn is_settled(machine: &Machine) -> bool {
    let Some(status) = &machine.status else { return false };
    let is_synced = condition(status, SYNCED).is_some_and(|synced| synced.status == ConditionStatus::True);
    is_synced
        && status.intents.is_empty()
        && status.observed_generation == machine.metadata.generation
        && machine.metadata.deletion_timestamp.is_none()
}

/// What a status says after a look. `wanted` are the digests of the steps that are to be taken, where they are told.
pub fn next_status(
    machine: &Machine,
    desired: &Desired,
    settlement: &Settlement,
    seen: &Seen<'_>,
    standing: &Standing,
    wanted: Option<Vec<String>>,
    now: Timestamp,
) -> MachineStatus {
    let old = machine.status.clone().unwrap_or_default();
    let is_carried_out = is_settled(machine) && !old.conditions.is_empty();
    let guest = seen.guest(desired);
    let is_complete = seen.observation.completeness.is_complete();
    let mut status = MachineStatus {
        observed_generation: machine.metadata.generation,
        provider_id: settlement.provider_id.clone(),
        intents: settlement.intents.clone(),
        done: settlement.done.clone(),
        // Of one that is as desired its condition says it.
        wanted: wanted.filter(|_| !standing.is_synced()),
        ..old.clone()
    };
    if standing.is_synced() && desired.deletion.is_none() {
        status.spec_digest = Some(desired.spec_digest(seen.key));
        status.secret_fields = secret_fields(&old.secret_fields, desired, guest);
    }
    match guest {
        Some(guest) => see(&mut status, desired, guest, seen, is_carried_out),
        None if is_complete => {
            (status.run, status.hourly_cost) = (None, None);
            status.observed.clear();
            status.drift = absence(&old.drift, desired, settlement, seen.observation.observed_at);
        }
        None => {}
    }
    let generation = machine.metadata.generation;
    let ready = ready(desired, guest, is_complete, seen);
    let synced = (standing.status, standing.reason, standing.message.clone());
    for (type_, (status_word, reason, message)) in [(READY, ready), (SYNCED, synced), (DRIFTED, drifted(&status.drift))]
    {
        set(&mut status, generation, type_, status_word, reason, message, now);
    }
    let is_awaited = asked_at(machine).is_some_and(|asked| old.observed_at.is_none_or(|seen| seen < asked));
    if is_awaited || status != (MachineStatus { observed_at: status.observed_at, ..old }) {
        status.observed_at = Some(seen.observation.observed_at).max(status.observed_at);
    }
    status
}

/// When somebody last asked for a fresh look: they wait to be told that it was taken.
fn asked_at(machine: &Machine) -> Option<Timestamp> {
    machine.metadata.annotations.as_ref()?.get(RECONCILE_AT)?.parse().ok()
}

/// What a status says of a Machine whose guest was not looked at, or whose spec cannot be read. What was known of the guest
/// stays.
pub fn stood(machine: &Machine, standing: &Standing, now: Timestamp) -> MachineStatus {
    let mut status = machine.status.clone().unwrap_or_default();
    let Standing { status: word, reason, message } = standing.clone();
    // Nobody has planned for another spec yet.
    status.wanted = status.wanted.filter(|_| status.observed_generation == machine.metadata.generation);
    status.observed_generation = machine.metadata.generation;
    set(&mut status, machine.metadata.generation, SYNCED, word, reason, message, now);
    status
}

/// The same of a Machine whose place cannot be looked at: what was known of its guest may not be so any more.
pub fn unseen(machine: &Machine, why: &str, now: Timestamp) -> MachineStatus {
    let standing = Standing::unobserved(why);
    let mut status = stood(machine, &standing, now);
    if condition(&status, READY).is_some() {
        let Standing { status: word, reason, message } = standing;
        set(&mut status, machine.metadata.generation, READY, word, reason, message, now);
    }
    status
}

/// The digests of the steps that are to be taken, as a status says them. What has to be waited for before that can be told
/// leaves it unknown.
pub fn wanted(plan: &ChangeSet) -> Option<Vec<String>> {
    let is_told = !plan.steps.is_empty() || plan.waiting.iter().all(|waiting| waiting.on == WaitsOn::Policy);
    let digests = plan.steps.iter().map(|step| step.digest.clone());
    (is_told && plan.steps.len() <= MAX_WANTED).then(|| digests.collect())
}

/// What was seen of the guest.
fn see(status: &mut MachineStatus, desired: &Desired, guest: &Guest, seen: &Seen<'_>, is_carried_out: bool) {
    let is_ours = guest.mark.is_some();
    if is_ours {
        status.provider_id = Some(guest.id.to_string());
    }
    if let Reading::Known(word) = &guest.run {
        status.run = Some(word.to_string());
    }
    status.hourly_cost = guest.hourly_price;
    // What was written from a Secret is hidden whatever the field; what may be one is shown only where it is desired in plain.
    let hides = |field: &Field, path: &str| {
        let is_recorded = status.secret_fields.iter().any(|secret| secret == path);
        is_recorded || (field.may_be_secret && !is_plain(desired, path))
    };
    if let Some(observed) = observed(&guest.config, seen.capabilities, hides) {
        status.observed = observed;
    }
    let changes = diff(desired, &guest.config, seen.capabilities).changes;
    let fields: Vec<FieldChange> = changes.iter().map(|change| change.shown()).collect();
    let run: Vec<FieldChange> = run_difference(desired, guest, seen).into_iter().collect();
    // Whether it is to run is not part of what a guest is made from: before that is carried out, it cannot drift.
    let of_run = if is_carried_out { Origin::Drift } else { Origin::Desired };
    let (before_run, before): (Vec<DriftedField>, Vec<DriftedField>) =
        std::mem::take(&mut status.drift).into_iter().partition(|drift| drift.field == RUN);
    let at = seen.observation.observed_at;
    status.drift = track(&before, &fields, desired.origin(guest, seen.key), guest, desired, at);
    status.drift.extend(track(&before_run, &run, of_run, guest, desired, at));
    status.drift.sort_by(|one, other| one.field.cmp(&other.field));
    status.drift.truncate(MAX_DRIFT);
}

/// What drifts of a guest that is not there: itself, if there was one and it did not go by our doing.
fn absence(before: &[DriftedField], desired: &Desired, settlement: &Settlement, at: Timestamp) -> Vec<DriftedField> {
    let is_awaited = desired.deletion.is_none() && settlement.intents.is_empty();
    let was = settlement.provider_id.as_deref().filter(|_| is_awaited);
    was.map(|was| vanished(before, was, at)).into_iter().collect()
}

/// What on a guest that is as desired came from Secrets: what was written now, and what was written once, still may be there
/// and was not written over. So the list is as long as what is desired and what the guest has.
fn secret_fields(before: &[String], desired: &Desired, guest: Option<&Guest>) -> Vec<String> {
    let mut paths: Vec<String> = desired.secrets().into_iter().map(String::from).collect();
    let may_be_there = |path: &str| guest.is_some_and(|guest| may_have(&guest.config, path));
    let left = before.iter().filter(|path| !is_plain(desired, path) && may_be_there(path) && !paths.contains(path));
    let left: Vec<String> = left.cloned().collect();
    paths.extend(left);
    paths
}

/// Whether a field or a key of it may be set on a guest, now or from its next start on.
fn may_have(config: &Config, path: &str) -> bool {
    let (name, key) = path.split_once('.').unwrap_or((path, ""));
    let has = |value: &Value| match value {
        Value::Map(entries) => entries.get(key).is_some(),
        _ => true,
    };
    let is_set = match config.field(name) {
        Reading::Known(value) => has(value),
        Reading::Absent => false,
        Reading::Unknown => true,
    };
    is_set || config.pending(name).is_some_and(has)
}

/// Whether a key of a field is desired, and not from a Secret.
fn is_plain(desired: &Desired, path: &str) -> bool {
    let (name, key) = path.split_once('.').unwrap_or((path, ""));
    match desired.fields.get(name) {
        Some(Value::Map(entries)) => entries.get(key).is_some_and(|value| !value.is_sensitive()),
        Some(value) => !value.is_sensitive(),
        None => false,
    }
}

fn run_difference(desired: &Desired, guest: &Guest, seen: &Seen<'_>) -> Option<FieldChange> {
    let (wanted, words) = run_words(desired.run?, seen);
    let word = guest.run.known()?;
    let is_fine = words.contains(&&**word) || seen.capabilities.passing_words.contains(&&**word);
    (!is_fine).then(|| FieldChange {
        field: RUN.to_owned(),
        from: Some(word.to_string()),
        to: Some(wanted.to_owned()),
        effect: Effect::InPlace,
    })
}

fn run_words<'s>(run: Run, seen: &Seen<'s>) -> (&'static str, &'s [&'static str]) {
    match run {
        Run::Running => ("running", seen.capabilities.running_words),
        Run::Stopped => ("stopped", seen.capabilities.stopped_words),
    }
}

type Said = (ConditionStatus, &'static str, String);

fn ready(desired: &Desired, guest: Option<&Guest>, is_complete: bool, seen: &Seen<'_>) -> Said {
    use ConditionStatus::{False, True, Unknown};
    let Some(guest) = guest else {
        return match (&desired.record.provider_id, is_complete) {
            (_, false) => (Unknown, "Unobserved", "its guest was not seen, and not everything could be".to_owned()),
            (Some(was), true) => (False, "Missing", format!("missing (was {was})")),
            (None, true) => (False, "Missing", "it has no guest yet".to_owned()),
        };
    };
    let (run, words) = run_words(desired.run.unwrap_or(Run::Running), seen);
    match &guest.run {
        Reading::Known(word) if words.contains(&&**word) => {
            (True, "AsDesired", format!("guest {} is {word}", guest.id))
        }
        Reading::Known(word) => (False, "OtherState", format!("run \"{word}\"->{run}")),
        Reading::Absent => (False, "OtherState", format!("run none->{run}")),
        Reading::Unknown => (Unknown, "Unobserved", "whether it runs could not be read".to_owned()),
    }
}

fn drifted(drift: &[DriftedField]) -> Said {
    let summary = Summary(drift);
    match summary.since() {
        Some(_) => (ConditionStatus::True, "Drifted", summary.to_string()),
        None => (ConditionStatus::False, "NoDrift", summary.to_string()),
    }
}

fn set(
    status: &mut MachineStatus,
    generation: Option<i64>,
    type_: &str,
    word: ConditionStatus,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let condition = Condition {
        type_: type_.to_owned(),
        status: word,
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: None,
        observed_generation: generation,
    };
    // As Kubernetes writes the time of a condition: in whole seconds.
    conditions::set(&mut status.conditions, condition, Timestamp::from_second(now.as_second()).unwrap_or(now));
}
