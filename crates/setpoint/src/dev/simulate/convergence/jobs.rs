//! Jobs have come to their end, whichever it was, and are gone where they were not to stay.

use k8s_openapi::api::batch::v1::Job;
use setpoint_core::workload::pod_state;

use super::owned;
use crate::dev::simulate::ledger::Books;
use crate::dev::simulate::rules::title;

pub(super) fn job(books: &Books, job: &Job, unmet: &mut Vec<String>) {
    let title = title(&job.metadata);
    let status = job.status.clone().unwrap_or_default();
    let holds = |kind: &str| {
        let mut conditions = status.conditions.iter().flatten();
        conditions.any(|condition| condition.type_ == kind && condition.status == "True")
    };
    if job.metadata.deletion_timestamp.is_some() {
        unmet.push(format!("the Job {title} is still being deleted"));
        return;
    }
    let spec = job.spec.clone().unwrap_or_default();
    if !holds("Complete") && !holds("Failed") {
        unmet.push(format!("the Job {title} has no end"));
    } else if spec.ttl_seconds_after_finished.is_some() {
        unmet.push(format!("the Job {title} has ended and is still there"));
    }
    let (succeeded, wanted) = (status.succeeded.unwrap_or_default(), spec.completions.unwrap_or(1));
    if holds("Complete") && succeeded != wanted {
        unmet.push(format!("the Job {title} is complete with {succeeded} successes of {wanted}"));
    }
    if let Some(active) = owned(books, &job.metadata).into_iter().find(|pod| pod_state::is_active(pod)) {
        unmet.push(format!("the Job {title} has ended, but {:?} has not", active.metadata.name));
    }
}
