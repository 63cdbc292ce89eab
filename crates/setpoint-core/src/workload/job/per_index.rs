//! Jobs whose indexes fail each by itself (`backoffLimitPerIndex`).
//!
//! How often an index has failed is written on its newest Pod. So that the number is not lost, a Pod that failed is not let
//! go before the one that replaces it is there.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use super::failure_policy::{Consequence, consequence};
use super::indexes::{self, Indexes};
use super::valid_indexes;

/// How often an index failed before this Pod, and how often that did not count.
pub const FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
pub const IGNORED_COUNT: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// How often an index may be tried again, if each is counted by itself.
pub fn limit(job: &Job) -> Option<i32> {
    job.spec.as_ref()?.backoff_limit_per_index
}

/// How often an index failed before a Pod: counting, and not.
pub fn failures_before(pod: &Pod) -> (i32, i32) {
    let number = |key: &str| {
        let text = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    (number(FAILURE_COUNT), number(IGNORED_COUNT))
}

/// How often an index has failed with this Pod.
pub fn failures_with(job: &Job, pod: &Pod) -> (i32, i32) {
    let (counted, ignored) = failures_before(pod);
    match consequence(job, pod) {
        Consequence::Ignored => (counted, ignored.saturating_add(1)),
        _ => (counted.saturating_add(1), ignored),
    }
}

/// The indexes that have failed for good: those that had, and those of these Pods that did now.
pub fn failed(job: &Job, failed_pods: &[&Pod]) -> Option<Indexes> {
    let limit = limit(job)?;
    let valid = valid_indexes(job);
    let text = job.status.as_ref().and_then(|status| status.failed_indexes.as_deref());
    let mut failed = Indexes::parse(text.unwrap_or_default(), valid.clone());
    for pod in failed_pods {
        let is_final = match consequence(job, pod) {
            Consequence::FailsIndex => true,
            Consequence::Ignored => false,
            _ => failures_before(pod).0 >= limit,
        };
        if let Some(index) = indexes::of_pod(pod, &valid).filter(|_| is_final) {
            failed.insert(index);
        }
    }
    Some(failed)
}

/// The Pod of each index that failed last and is to be replaced, among those that failed and are not let go.
pub fn to_be_replaced<'a>(job: &Job, failed_pods: &[&'a Pod], is_open: impl Fn(i32) -> bool) -> BTreeMap<i32, &'a Pod> {
    let valid = valid_indexes(job);
    let mut newest: BTreeMap<i32, &Pod> = BTreeMap::new();
    for pod in failed_pods {
        let Some(index) = indexes::of_pod(pod, &valid).filter(|index| is_open(*index)) else { continue };
        let failures = |pod: &Pod| {
            let (counted, ignored) = failures_before(pod);
            counted.saturating_add(ignored)
        };
        let is_newer = newest.get(&index).is_none_or(|other| failures(pod) > failures(other));
        if is_newer {
            newest.insert(index, pod);
        }
    }
    newest
}
