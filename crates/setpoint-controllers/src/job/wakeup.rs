//! Which Jobs a change concerns.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use setpoint_core::workload::job;
use setpoint_core::workload::selection::{self, Claim, Owner};

use super::Subject;
use crate::queue::Queue;
use crate::runtime::caches::{JOBS_BY_SELECTOR, PODS_BY_OWNER, selected_by};
use crate::runtime::{Cache, Caches, Change, Name};

pub(super) fn wire(caches: &Caches, queue: &Arc<Queue<Subject>>) {
    let (own, pods) = (queue.clone(), caches.pods.clone());
    caches.jobs.listen(move |change| {
        if concerns_itself(change) {
            own.add(Subject::Job(Name::of(&**change.latest())));
        }
        if let Some(gone) = change.before.as_ref().filter(|before| is_another(before, change.after.as_deref())) {
            for pod in pods.by(&PODS_BY_OWNER, super::uid(gone)) {
                own.add(Subject::Orphan(Name::of(&*pod)));
            }
        }
    });
    let (own, jobs) = (queue.clone(), caches.jobs.clone());
    caches.pods.listen(move |change| {
        let is_of_no_concern = matches!((&change.before, &change.after), (Some(before), Some(after))
            if job::is_as_before(before, after));
        if is_of_no_concern {
            return;
        }
        change.both().for_each(|pod| wake(pod, &jobs, &own));
    });
}

/// Whether more of a Job changed than what we say of it ourselves; that it is over is news.
fn concerns_itself(change: &Change<Job>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let what_counts = |job: &Job| {
        let metadata = &job.metadata;
        (metadata.uid.clone(), metadata.generation, metadata.deletion_timestamp.is_some(), job::is_finished(job))
    };
    what_counts(before) != what_counts(after)
}

fn is_another(before: &Job, after: Option<&Job>) -> bool {
    after.is_none_or(|after| after.metadata.uid != before.metadata.uid)
}

/// Wakes the Pod's Job; or those that might adopt it, if it is nobody's. A Pod that is kept for a Job that is not there is
/// looked at itself.
fn wake(pod: &Pod, jobs: &Cache<Job>, queue: &Queue<Subject>) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    match selection::controller_of(&pod.metadata) {
        Some(owner) if owner.kind == "Job" => {
            let name = Name::new(namespace, &owner.name);
            let is_there = jobs.get(&name).is_some_and(|job| super::uid(&job) == owner.uid);
            queue.add(if is_there { Subject::Job(name) } else { Subject::Orphan(Name::of(pod)) });
        }
        Some(_) => {}
        None => {
            if job::is_tracked(pod) {
                queue.add(Subject::Orphan(Name::of(pod)));
            }
            let found = selected_by(&pod.metadata).flat_map(|value| jobs.by(&JOBS_BY_SELECTOR, &value));
            for job in found.filter(|job| Owner::from(&**job).claim_pod(pod) == Claim::Adopt) {
                queue.add(Subject::Job(Name::of(&*job)));
            }
        }
    }
}
