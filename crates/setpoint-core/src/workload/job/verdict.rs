//! Whether a Job has succeeded or failed, and why.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::failure_policy::{Consequence, consequence};
use super::indexes::Indexes;
use super::staffing::Staffing;
use super::tally::Tally;
use super::{Facts, completions, is_indexed, is_suspended, per_index, spec, valid_indexes};
use crate::workload::pod_state;

const DEFAULT_LIMIT: i32 = 6;

/// How a Job ends. First it is said that it will; when nothing of it runs and all is counted, that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Success { reason: String, message: String },
    Failure { reason: String, message: String },
}

impl Verdict {
    fn success(reason: &str, message: &str) -> Verdict {
        Verdict::Success { reason: reason.to_owned(), message: message.to_owned() }
    }

    fn failure(reason: &str, message: &str) -> Verdict {
        Verdict::Failure { reason: reason.to_owned(), message: message.to_owned() }
    }

    pub fn is_success(&self) -> bool {
        matches!(self, Verdict::Success { .. })
    }

    pub fn reason(&self) -> &str {
        let (Verdict::Success { reason, .. } | Verdict::Failure { reason, .. }) = self;
        reason
    }

    pub fn message(&self) -> &str {
        let (Verdict::Success { message, .. } | Verdict::Failure { message, .. }) = self;
        message
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason(), self.message())
    }
}

/// How the Job ends, whatever still runs of it. What was said before holds.
pub fn reached(facts: &Facts<'_>, tally: &Tally<'_>) -> Option<Verdict> {
    let job = facts.job;
    said_before(job)
        .or_else(|| failed_by_policy(job, tally))
        .or_else(|| failed_too_often(job, tally))
        .or_else(|| took_too_long(job, facts.now))
        .or_else(|| failed_by_index(job, tally))
        .or_else(|| succeeded_by_policy(job, tally))
}

/// Whether enough has succeeded and nothing runs any more.
pub fn completed(job: &Job, tally: &Tally<'_>, staffing: &Staffing<'_>) -> Option<Verdict> {
    // Where no number is asked for, one success is enough, and the others are waited for.
    let wanted = completions(job).unwrap_or(1);
    let is_complete = tally.succeeded >= wanted && tally.active.is_empty() && staffing.create.is_empty();
    is_complete.then(|| Verdict::success("CompletionsReached", "Reached expected number of succeeded pods"))
}

/// The time at which a Job that began then has run for too long, if it may not run for ever. While it is suspended, no time
/// passes.
pub fn deadline(job: &Job, start: Option<&Time>) -> Option<Timestamp> {
    let seconds = spec(job)?.active_deadline_seconds.filter(|_| !is_suspended(job))?;
    start?.0.checked_add(SignedDuration::from_secs(seconds)).ok()
}

pub(super) fn condition<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
}

fn said_before(job: &Job) -> Option<Verdict> {
    let said = |condition: &JobCondition| {
        (condition.reason.clone().unwrap_or_default(), condition.message.clone().unwrap_or_default())
    };
    let success = condition(job, "SuccessCriteriaMet").map(said);
    let failure = || condition(job, "FailureTarget").map(said);
    let success = success.map(|(reason, message)| Verdict::Success { reason, message });
    success.or_else(|| failure().map(|(reason, message)| Verdict::Failure { reason, message }))
}

fn failed_by_policy(job: &Job, tally: &Tally<'_>) -> Option<Verdict> {
    tally.tracked_failures().find_map(|pod| match consequence(job, pod) {
        Consequence::FailsJob(message) => Some(Verdict::failure("PodFailurePolicy", &message)),
        _ => None,
    })
}

fn failed_too_often(job: &Job, tally: &Tally<'_>) -> Option<Verdict> {
    let default = if per_index::limit(job).is_some() { i32::MAX } else { DEFAULT_LIMIT };
    let limit = spec(job).and_then(|spec| spec.backoff_limit).unwrap_or(default);
    let restarts = restarts(job, tally);
    let has_restarted = if limit == 0 { restarts > 0 } else { restarts >= i64::from(limit) };
    (tally.failed > limit || has_restarted)
        .then(|| Verdict::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"))
}

/// How often containers were started again in Pods where that is the way to try again.
fn restarts(job: &Job, tally: &Tally<'_>) -> i64 {
    let policy = spec(job).and_then(|spec| spec.template.spec.as_ref()?.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return 0;
    }
    let running = tally.active.iter().chain(&tally.terminating);
    let running = running.filter(|pod| matches!(pod_state::phase(pod), "Running" | "Pending"));
    running.map(|pod| restarts_of(pod)).sum()
}

/// How often containers of a Pod were started again.
pub(super) fn restarts_of(pod: &Pod) -> i64 {
    let containers = pod.status.iter().flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    });
    containers.map(|container| i64::from(container.restart_count)).sum()
}

fn took_too_long(job: &Job, now: Timestamp) -> Option<Verdict> {
    // One that is being resumed begins anew.
    let start = job.status.as_ref().and_then(|status| status.start_time.as_ref());
    deadline(job, start.filter(|_| condition(job, "Suspended").is_none()))
        .filter(|deadline| *deadline <= now)
        .map(|_| Verdict::failure("DeadlineExceeded", "Job was active longer than specified deadline"))
}

fn failed_by_index(job: &Job, tally: &Tally<'_>) -> Option<Verdict> {
    let failed = tally.failed_indexes.as_ref()?.len();
    let max = spec(job)?.max_failed_indexes.and_then(|max| usize::try_from(max).ok());
    if max.is_some_and(|max| failed > max) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Verdict::failure("MaxFailedIndexesExceeded", message));
    }
    let is_over = failed > 0 && failed + tally.completed.len() >= valid_indexes(job).len();
    is_over.then(|| Verdict::failure("FailedIndexes", "Job has failed indexes"))
}

fn succeeded_by_policy(job: &Job, tally: &Tally<'_>) -> Option<Verdict> {
    let policy = spec(job)?.success_policy.as_ref().filter(|_| is_indexed(job))?;
    let is_met = |rule: &k8s_openapi::api::batch::v1::SuccessPolicyRule| {
        let required = rule.succeeded_indexes.as_deref().map(|text| Indexes::parse(text, valid_indexes(job)));
        let count = rule.succeeded_count.and_then(|count| usize::try_from(count).ok());
        match (required, count) {
            (Some(required), count) => {
                let met = required.iter().filter(|index| tally.completed.contains(*index)).count();
                !required.is_empty() && met >= count.unwrap_or(required.len())
            }
            (None, Some(count)) => !tally.completed.is_empty() && tally.completed.len() >= count,
            (None, None) => false,
        }
    };
    let number = policy.rules.iter().position(is_met)?;
    Some(Verdict::success("SuccessPolicy", &format!("Matched rules at index {number}")))
}
