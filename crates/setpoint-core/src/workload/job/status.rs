//! The status of a Job, and what people are told when it turns.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::staffing::Staffing;
use super::tally::{Tally, Tracking};
use super::verdict::{self, Verdict};
use super::{Decision, Facts, Notice, completions, is_indexed, is_suspended, nonzero, number};
use crate::pod::NoticeKind;
use crate::workload::pod_state;
use crate::workload::replica_set::whole_seconds;

/// Everything that was found, put together.
pub(super) fn decision<'a>(
    facts: &Facts<'a>,
    tally: &Tally<'a>,
    tracking: Tracking<'a>,
    staffing: Staffing<'a>,
    verdict: Option<&Verdict>,
) -> Decision<'a> {
    let now = whole_seconds(facts.now);
    let old = facts.job.status.clone().unwrap_or_default();
    let mut turns = Turns { conditions: old.conditions.clone().unwrap_or_default(), notices: Vec::new(), now };
    let mut start_time = old.start_time.clone();
    let mut completion_time = old.completion_time.clone();
    match verdict {
        Some(verdict) => {
            turns.will_end(verdict);
            if is_settled(tally, &tracking, &staffing) {
                start_time = start_time.or(Some(Time(now)));
                turns.ended(verdict, completions(facts.job).is_some_and(|wanted| tracking.succeeded > wanted));
                if verdict.is_success() {
                    completion_time = completion_time.or(Some(Time(now)));
                }
            }
        }
        None if is_suspended(facts.job) => {
            if turns.turn("Suspended", "True", "JobSuspended", "Job suspended") {
                turns.tell(NoticeKind::Normal, "Suspended", "Job suspended");
            }
        }
        None => {
            // The time that it may take begins anew with each resumption.
            if turns.turn("Suspended", "False", "JobResumed", "Job resumed") {
                turns.tell(NoticeKind::Normal, "Resumed", "Job resumed");
                start_time = Some(Time(now));
            }
        }
    }
    if start_time.is_none() && !is_suspended(facts.job) {
        start_time = Some(Time(now));
    }
    let removed: BTreeSet<&Option<String>> = staffing.remove.iter().map(|removal| &removal.pod.metadata.uid).collect();
    let staying = tally.active.iter().filter(|pod| !removed.contains(&pod.metadata.uid));
    let staying: Vec<&Pod> = staying.copied().collect();
    let ready = staying.iter().filter(|pod| pod_state::is_ready(pod)).count();
    let failed_indexes = tally.failed_indexes.as_ref().map(ToString::to_string);
    let completed = tracking.completed.to_string();
    let status = JobStatus {
        active: nonzero(number(staying.len())),
        ready: Some(number(ready)),
        terminating: Some(number(tally.terminating.len() + staffing.remove.len())),
        succeeded: nonzero(tracking.succeeded),
        failed: nonzero(tracking.failed),
        completed_indexes: Some(completed).filter(|text| is_indexed(facts.job) && !text.is_empty()),
        failed_indexes,
        uncounted_terminated_pods: Some(tracking.uncounted),
        start_time,
        completion_time,
        conditions: (!turns.conditions.is_empty()).then_some(turns.conditions),
    };
    let deadline = verdict::deadline(facts.job, status.start_time.as_ref()).filter(|_| verdict.is_none());
    let waits = [deadline, staffing.waits_until, tracking.is_partial.then_some(facts.now)];
    Decision {
        create: staffing.create,
        remove: staffing.remove,
        status,
        release: tracking.release,
        notices: turns.notices,
        look_again: waits.into_iter().flatten().min(),
        is_expired: false,
    }
}

/// Whether nothing of the Job runs any more and everything is counted.
fn is_settled(tally: &Tally<'_>, tracking: &Tracking<'_>, staffing: &Staffing<'_>) -> bool {
    let is_listed = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    tally.active.is_empty()
        && tally.terminating.is_empty()
        && staffing.remove.is_empty()
        && tracking.release.is_empty()
        && !tracking.is_partial
        && !is_listed(&tracking.uncounted.succeeded)
        && !is_listed(&tracking.uncounted.failed)
}

/// Conditions as they turn, and what is told of it.
struct Turns {
    conditions: Vec<JobCondition>,
    notices: Vec<Notice>,
    now: Timestamp,
}

impl Turns {
    fn will_end(&mut self, verdict: &Verdict) {
        let type_ = if verdict.is_success() { "SuccessCriteriaMet" } else { "FailureTarget" };
        self.turn(type_, "True", verdict.reason(), verdict.message());
    }

    fn ended(&mut self, verdict: &Verdict, are_too_many: bool) {
        if verdict.is_success() {
            self.turn("Complete", "True", verdict.reason(), verdict.message());
            if are_too_many {
                let message = "Too many succeeded pods running after completion count reached";
                self.tell(NoticeKind::Warning, "TooManySucceededPods", message);
            }
            self.tell(NoticeKind::Normal, "Completed", "Job completed");
        } else {
            self.turn("Failed", "True", verdict.reason(), verdict.message());
            self.tell(NoticeKind::Warning, verdict.reason(), verdict.message());
        }
    }

    /// Puts a condition among the others. What was never true is not said to be false.
    fn turn(&mut self, type_: &str, status: &str, reason: &str, message: &str) -> bool {
        let old = self.conditions.iter_mut().find(|condition| condition.type_ == type_);
        if old.as_ref().map_or(status == "False", |old| old.status == status) {
            return false;
        }
        let new = JobCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_probe_time: Some(Time(self.now)),
            last_transition_time: Some(Time(self.now)),
        };
        match old {
            Some(old) => *old = new,
            None => self.conditions.push(new),
        }
        true
    }

    fn tell(&mut self, kind: NoticeKind, reason: &str, message: &str) {
        self.notices.push(Notice { kind, reason: reason.to_owned(), message: message.to_owned() });
    }
}
