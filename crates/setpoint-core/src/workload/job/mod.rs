//! What a Job does next: which Pods it makes and takes away, what it has counted, and whether it is over.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`tally`] | what the Pods came to, each counted once |
//! | [`verdict`] | whether the Job has succeeded or failed, and why |
//! | [`failure_policy`] | what a Pod's failure means |
//! | [`indexes`], [`per_index`] | which indexes are done, to be done, or have failed too often |
//! | [`staffing`] | which Pods to make and to take away |
//! | [`back_off`] | how long to wait after failures |
//! | [`pod`] | the Pod of a Job |
//! | [`status`] | the status, and what people are told |
//!
//! No Pod that ended is counted twice or lost, whoever dies where. Each carries a finalizer. When it has ended, its uid is
//! written into the status; then the finalizer goes; and only what has no finalizer any more moves from the list of uids to
//! the number, in one write. So a Pod is either to be seen, or listed, or counted.

pub mod back_off;
pub mod failure_policy;
pub mod indexes;
pub mod per_index;
pub mod pod;
#[cfg(test)]
mod properties;
pub mod staffing;
pub mod status;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod verdict;

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use self::indexes::Indexes;
use self::staffing::Staffing;
use self::tally::Tally;
use crate::pod::NoticeKind;
use crate::workload::pod_state;

/// Keeps a Pod until it is counted.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Who looks after a Job that does not say.
pub const CONTROLLER: &str = "kubernetes.io/job-controller";

/// Everything that is known of a Job.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub job: &'a Job,
    /// The Pods that it owns, in any state.
    pub pods: &'a [&'a Pod],
    /// Whether there is a Pod of this name in its namespace, whosever it is.
    pub is_taken: &'a dyn Fn(&str) -> bool,
    pub now: Timestamp,
}

/// What to do, in this order: make Pods, take Pods away, write the status; then, and only if it is written, let Pods go.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision<'a> {
    pub create: Vec<Pod>,
    pub remove: Vec<Removal<'a>>,
    /// The status, but for the Pods that are to be made.
    pub status: JobStatus,
    /// The Pods that are counted, and need not be kept for that any longer.
    pub release: Vec<&'a Pod>,
    pub notices: Vec<Notice>,
    /// When something is to be done though nothing happens.
    pub look_again: Option<Timestamp>,
    /// It is over for so long that it goes itself.
    pub is_expired: bool,
}

/// A Pod that is to go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Removal<'a> {
    pub pod: &'a Pod,
    /// It was not its fault: it is let go first, and never counted as failed.
    pub is_blameless: bool,
}

/// Something that people are told of the Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub kind: NoticeKind,
    pub reason: String,
    pub message: String,
}

impl fmt::Debug for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts")
            .field("job", &self.job.metadata.name)
            .field("pods", &self.pods.len())
            .finish_non_exhaustive()
    }
}

impl Decision<'_> {
    /// The status to write when so many Pods were made; `None` if it is so already.
    pub fn status(&self, job: &Job, made: usize) -> Option<JobStatus> {
        let active = self.status.active.unwrap_or_default().saturating_add(number(made));
        let status = JobStatus { active: nonzero(active), ..self.status.clone() };
        (job.status.as_ref() != Some(&status)).then_some(status)
    }
}

/// Decides what to do next.
pub fn decide<'a>(facts: &Facts<'a>) -> Decision<'a> {
    let old = facts.job.status.clone().unwrap_or_default();
    if is_managed_elsewhere(facts.job) {
        return Decision { status: old, ..Decision::default() };
    }
    if let Some(finished_at) = finished_at(facts.job) {
        return when_finished(facts, old, finished_at);
    }
    if facts.job.metadata.deletion_timestamp.is_some() {
        return Decision { status: old, release: all_tracked(facts.pods), ..Decision::default() };
    }
    let tally = Tally::of(facts);
    let verdict = verdict::reached(facts, &tally);
    let staffing = match &verdict {
        Some(_) => Staffing::dismissal(&tally),
        None => Staffing::of(facts, &tally),
    };
    let verdict = verdict.or_else(|| verdict::completed(facts.job, &tally, &staffing));
    let tracking = tally.tracking(verdict.as_ref());
    status::decision(facts, &tally, tracking, staffing, verdict.as_ref())
}

/// Whether a Pod of a Job is kept to be counted.
pub fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == TRACKING)
}

/// Whether a change of a Pod says nothing new to its Job. Heartbeats and the like do not.
pub fn is_as_before(before: &Pod, after: &Pod) -> bool {
    let what_counts = |pod: &Pod| {
        let is_going = pod.metadata.deletion_timestamp.is_some();
        (is_going, is_tracked(pod), pod_state::is_ready(pod), verdict::restarts_of(pod))
    };
    let (old, new) = (&before.metadata, &after.metadata);
    old.uid == new.uid
        && old.labels == new.labels
        && old.owner_references == new.owner_references
        && pod_state::phase(before) == pod_state::phase(after)
        && what_counts(before) == what_counts(after)
}

/// Whether a Job has come to its end.
pub fn is_finished(job: &Job) -> bool {
    finished_at(job).is_some()
}

/// What is left to do for a Job that is over: nothing of it is kept, and in time it goes.
fn when_finished<'a>(facts: &Facts<'a>, status: JobStatus, finished_at: Timestamp) -> Decision<'a> {
    let ttl = facts.job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
    let expires = ttl.and_then(|ttl| finished_at.checked_add(SignedDuration::from_secs(ttl.into())).ok());
    let is_deleted = facts.job.metadata.deletion_timestamp.is_some();
    let is_expired = !is_deleted && expires.is_some_and(|expires| expires <= facts.now);
    Decision {
        status,
        release: all_tracked(facts.pods),
        look_again: expires.filter(|_| !is_expired && !is_deleted),
        is_expired,
        ..Decision::default()
    }
}

fn all_tracked<'a>(pods: &[&'a Pod]) -> Vec<&'a Pod> {
    pods.iter().filter(|pod| is_tracked(pod)).copied().collect()
}

fn finished_at(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let is_final = |type_: &str| matches!(type_, "Complete" | "Failed");
    let found = conditions.iter().find(|condition| is_final(&condition.type_) && condition.status == "True")?;
    Some(found.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

fn is_managed_elsewhere(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref()).is_some_and(|manager| manager != CONTROLLER)
}

fn spec(job: &Job) -> Option<&JobSpec> {
    job.spec.as_ref()
}

fn completions(job: &Job) -> Option<i32> {
    spec(job)?.completions
}

fn parallelism(job: &Job) -> i32 {
    spec(job).and_then(|spec| spec.parallelism).unwrap_or(1)
}

fn is_suspended(job: &Job) -> bool {
    spec(job).and_then(|spec| spec.suspend).unwrap_or(false)
}

fn is_indexed(job: &Job) -> bool {
    spec(job).and_then(|spec| spec.completion_mode.as_deref()) == Some("Indexed")
}

/// The indexes that an indexed Job has.
fn valid_indexes(job: &Job) -> std::ops::Range<i32> {
    0..completions(job).unwrap_or_default()
}

/// Whether a Pod is replaced only once it has ended, and not already when it is on its way out.
fn replaces_only_ended(job: &Job) -> bool {
    spec(job).and_then(|spec| spec.pod_replacement_policy.as_deref()) == Some("Failed")
}

fn completed_indexes(job: &Job) -> Indexes {
    let text = job.status.as_ref().and_then(|status| status.completed_indexes.as_deref());
    Indexes::parse(text.unwrap_or_default(), valid_indexes(job))
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn nonzero(number: i32) -> Option<i32> {
    (number != 0).then_some(number)
}
