//! The status of a Deployment: counts, conditions, and whether a rollout makes progress.
//!
//! `lastTransitionTime` moves when a condition's status does; `lastUpdateTime` when its reason does, and for
//! Progressing whenever there was progress: from there the deadline counts.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetCondition, ReplicaSetStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::family::{Family, Member};
use super::{Desired, Mode, WaitsOn};
use crate::workload::replica_set::whole_seconds;

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";

const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// What happened in this round, besides what the ReplicaSets tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened<'a> {
    Nothing,
    /// The new ReplicaSet of this name was created.
    Created(&'a str),
    /// The new ReplicaSet of this name could not be created, for this reason.
    CreateFailed {
        name: &'a str,
        message: &'a str,
    },
}

/// A status, and when it will change though nothing happens.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub status: DeploymentStatus,
    /// When the rollout is late, if it makes no progress until then.
    pub look_again: Option<Timestamp>,
}

/// How far a rollout is, as its status says: what `rollout status` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The controller has not seen the present spec.
    Unobserved,
    /// It made no progress for too long.
    Late,
    /// Not all new pods exist.
    Updating {
        updated: i32,
        desired: i32,
    },
    /// Old pods are still there.
    Retiring {
        old: i32,
    },
    /// Not all new pods are available.
    Starting {
        available: i32,
        updated: i32,
    },
    Done,
}

/// The status to write.
pub fn status(
    deployment: &Deployment,
    replica_sets: &[&ReplicaSet],
    happened: Happened<'_>,
    now: Timestamp,
) -> Option<Status> {
    let desired = Desired::of(deployment)?;
    let family = Family::of(desired.spec, replica_sets);
    let mode = desired.mode(&family);
    if mode == Mode::Idle(WaitsOn::Selector) {
        let before = deployment.status.clone().unwrap_or_default();
        let status = DeploymentStatus { observed_generation: deployment.metadata.generation, ..before };
        return Some(Status { status, look_again: None });
    }
    let mut status = counts(&desired, &family);
    let before = deployment.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut conditions = Conditions { all: before, now: Time(whole_seconds(now)) };
    if mode != Mode::Idle(WaitsOn::Deleted) {
        conditions.note_pause(&desired);
        conditions.note(&desired, &family, happened);
    }
    conditions.note_availability(&desired, &status);
    let mut look_again = None;
    if matches!(mode, Mode::Rolling | Mode::Recreate) {
        conditions.note_progress(&desired, &family, &status, now);
        conditions.note_failures(&family);
        look_again = conditions.deadline(&desired).filter(|_| !is_complete(&desired, &status));
    }
    status.conditions = (!conditions.all.is_empty()).then_some(conditions.all);
    Some(Status { status, look_again })
}

/// How far the rollout is.
pub fn progress(deployment: &Deployment) -> Progress {
    let status = deployment.status.clone().unwrap_or_default();
    if status.observed_generation < deployment.metadata.generation {
        return Progress::Unobserved;
    }
    let count = |number: Option<i32>| number.unwrap_or_default();
    let desired = deployment.spec.as_ref().map_or(0, |spec| spec.replicas.unwrap_or(1));
    let (updated, available) = (count(status.updated_replicas), count(status.available_replicas));
    let is_late = |condition: &DeploymentCondition| {
        condition.type_ == PROGRESSING && condition.reason.as_deref() == Some(TIMED_OUT)
    };
    if status.conditions.iter().flatten().any(is_late) {
        Progress::Late
    } else if updated < desired {
        Progress::Updating { updated, desired }
    } else if count(status.replicas) > updated {
        Progress::Retiring { old: count(status.replicas).saturating_sub(updated) }
    } else if available < updated {
        Progress::Starting { available, updated }
    } else {
        Progress::Done
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Unobserved => f.write_str("waiting for the change to be observed"),
            Progress::Late => f.write_str("exceeded its progress deadline"),
            Progress::Updating { updated, desired } => write!(f, "{updated} of {desired} new replicas exist"),
            Progress::Retiring { old } => write!(f, "{old} old replicas are still to go"),
            Progress::Starting { available, updated } => {
                write!(f, "{available} of {updated} new replicas are available")
            }
            Progress::Done => f.write_str("rolled out"),
        }
    }
}

fn counts(desired: &Desired<'_>, family: &Family<'_>) -> DeploymentStatus {
    let sum = |count: fn(&ReplicaSetStatus) -> Option<i32>| -> i64 {
        family.all().filter_map(|member| member.set.status.as_ref().and_then(count)).map(i64::from).sum()
    };
    let available = sum(|status| status.available_replicas);
    let wanted: i64 = family.all().map(|member| member.replicas).sum();
    DeploymentStatus {
        observed_generation: desired.deployment.metadata.generation,
        replicas: nonzero(sum(|status| Some(status.replicas))),
        updated_replicas: nonzero(family.new.as_ref().map_or(0, |new| new.pods)),
        ready_replicas: nonzero(sum(|status| status.ready_replicas)),
        available_replicas: nonzero(available),
        unavailable_replicas: nonzero((wanted - available).max(0)),
        terminating_replicas: terminating(family),
        collision_count: desired.deployment.status.as_ref().and_then(|status| status.collision_count),
        conditions: None,
    }
}

/// How many pods terminate; unknown if one ReplicaSet that knows its pods does not say.
fn terminating(family: &Family<'_>) -> Option<i32> {
    let says = |member: &Member<'_>| {
        let status = member.set.status.as_ref();
        let is_new_born = status.and_then(|status| status.observed_generation).unwrap_or_default() == 0;
        status.and_then(|status| status.terminating_replicas).or(is_new_born.then_some(0))
    };
    let sum: i64 = family.all().map(|member| says(member).map(i64::from)).sum::<Option<i64>>()?;
    Some(saturated(sum))
}

fn is_complete(desired: &Desired<'_>, status: &DeploymentStatus) -> bool {
    [status.updated_replicas, status.replicas, status.available_replicas]
        .iter()
        .all(|count| i64::from(count.unwrap_or_default()) == desired.replicas)
}

/// Whether more is done than the last status said: more new pods, fewer old ones, more ready or available.
fn has_progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let count = |number: Option<i32>| i64::from(number.unwrap_or_default());
    let old = |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(after.updated_replicas) > count(before.updated_replicas)
        || old(after) < old(before)
        || count(after.ready_replicas) > count(before.ready_replicas)
        || count(after.available_replicas) > count(before.available_replicas)
}

/// The conditions as they become.
struct Conditions {
    all: Vec<DeploymentCondition>,
    now: Time,
}

impl Conditions {
    fn get(&self, type_: &str) -> Option<&DeploymentCondition> {
        self.all.iter().find(|condition| condition.type_ == type_)
    }

    fn progressing_reason(&self) -> Option<&str> {
        self.get(PROGRESSING)?.reason.as_deref()
    }

    fn remove(&mut self, type_: &str) {
        self.all.retain(|condition| condition.type_ != type_);
    }

    /// Sets a condition, unless it has this status and reason already.
    fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let is_same = |it: &DeploymentCondition| it.status == status && it.reason.as_deref() == Some(reason);
        if !self.get(type_).is_some_and(is_same) {
            self.renew(type_, status, reason, message);
        }
    }

    /// Sets a condition, as of now.
    fn renew(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let now = self.now.clone();
        let since = self.get(type_).filter(|before| before.status == status);
        let since = since.and_then(|before| before.last_transition_time.clone()).unwrap_or_else(|| now.clone());
        self.put(DeploymentCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_update_time: Some(now),
            last_transition_time: Some(since),
        });
    }

    fn put(&mut self, condition: DeploymentCondition) {
        match self.all.iter_mut().find(|it| it.type_ == condition.type_) {
            Some(before) => *before = condition,
            None => self.all.push(condition),
        }
    }

    /// A pause stops the deadline, and the end of one starts it anew. That a rollout was late stays said.
    fn note_pause(&mut self, desired: &Desired<'_>) {
        let reason = self.progressing_reason();
        if deadline_seconds(desired).is_none() || reason == Some(TIMED_OUT) {
            return;
        }
        match (desired.is_paused(), reason == Some(PAUSED)) {
            (true, false) => self.set(PROGRESSING, "Unknown", PAUSED, "Deployment is paused"),
            (false, true) => self.set(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed"),
            _ => {}
        }
    }

    fn note(&mut self, desired: &Desired<'_>, family: &Family<'_>, happened: Happened<'_>) {
        if deadline_seconds(desired).is_none() {
            return;
        }
        match (happened, &family.new) {
            (Happened::Created(name), _) => {
                let message = format!("Created new replica set {name:?}");
                self.renew(PROGRESSING, "True", "NewReplicaSetCreated", &message);
            }
            (Happened::CreateFailed { name, message }, _) => {
                let message = format!("Failed to create new replica set {name:?}: {message}");
                self.set(PROGRESSING, "False", "ReplicaSetCreateError", &message);
            }
            (Happened::Nothing, Some(new)) if self.get(PROGRESSING).is_none() => {
                let message = format!("Found new replica set {:?}", new.name());
                self.set(PROGRESSING, "True", "FoundNewReplicaSet", &message);
            }
            _ => {}
        }
    }

    fn note_availability(&mut self, desired: &Desired<'_>, status: &DeploymentStatus) {
        let available = i64::from(status.available_replicas.unwrap_or_default());
        if available >= desired.min_available() {
            let message = "Deployment has minimum availability.";
            self.set(AVAILABLE, "True", "MinimumReplicasAvailable", message);
        } else {
            let message = "Deployment does not have minimum availability.";
            self.set(AVAILABLE, "False", "MinimumReplicasUnavailable", message);
        }
    }

    fn note_progress(&mut self, desired: &Desired<'_>, family: &Family<'_>, after: &DeploymentStatus, now: Timestamp) {
        if deadline_seconds(desired).is_none() {
            return self.remove(PROGRESSING);
        }
        let is_settled = after.replicas == after.updated_replicas && self.progressing_reason() == Some(NEW_AVAILABLE);
        if is_settled {
            return;
        }
        let name = desired.deployment.metadata.name.as_deref().unwrap_or_default();
        let subject = match &family.new {
            Some(new) => format!("ReplicaSet {:?}", new.name()),
            None => format!("Deployment {name:?}"),
        };
        let nothing = DeploymentStatus::default();
        let before = desired.deployment.status.as_ref().unwrap_or(&nothing);
        if is_complete(desired, after) {
            self.set(PROGRESSING, "True", NEW_AVAILABLE, &format!("{subject} has successfully progressed."));
        } else if has_progressed(before, after) {
            self.renew(PROGRESSING, "True", "ReplicaSetUpdated", &format!("{subject} is progressing."));
        } else if self.deadline(desired).is_some_and(|deadline| deadline <= now) {
            self.set(PROGRESSING, "False", TIMED_OUT, &format!("{subject} has timed out progressing."));
        }
    }

    /// A ReplicaSet's failure is the Deployment's; the new one's comes first.
    fn note_failures(&mut self, family: &Family<'_>) {
        let failure = family.new.iter().chain(&family.old).find_map(|member| {
            let mut conditions = member.set.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.find(|condition| condition.type_ == REPLICA_FAILURE)
        });
        let Some(failure) = failure else { return self.remove(REPLICA_FAILURE) };
        let is_same = |it: &DeploymentCondition| it.status == failure.status && it.reason == failure.reason;
        if !self.get(REPLICA_FAILURE).is_some_and(is_same) {
            self.put(promoted(failure));
        }
    }

    /// When the rollout is late; never, if it is done, was late already, or nothing says since when it stands still.
    fn deadline(&self, desired: &Desired<'_>) -> Option<Timestamp> {
        let seconds = deadline_seconds(desired)?;
        let progressing = self.get(PROGRESSING)?;
        if matches!(progressing.reason.as_deref(), Some(NEW_AVAILABLE | TIMED_OUT)) {
            return None;
        }
        progressing.last_update_time.as_ref()?.0.checked_add(SignedDuration::from_secs(seconds.into())).ok()
    }
}

/// After how many seconds without progress a rollout is late; never, if nothing or the largest number is said.
fn deadline_seconds(desired: &Desired<'_>) -> Option<i32> {
    desired.spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)
}

fn promoted(failure: &ReplicaSetCondition) -> DeploymentCondition {
    DeploymentCondition {
        type_: failure.type_.clone(),
        status: failure.status.clone(),
        reason: failure.reason.clone(),
        message: failure.message.clone(),
        last_transition_time: failure.last_transition_time.clone(),
        last_update_time: failure.last_transition_time.clone(),
    }
}

/// Zero is left out, as Kubernetes does.
fn nonzero(number: i64) -> Option<i32> {
    (number != 0).then(|| saturated(number))
}

/// The nearest number that a status can hold.
fn saturated(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}
