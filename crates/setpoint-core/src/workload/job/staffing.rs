//! Which Pods a Job makes and takes away. Not both at once: what is to go goes first.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::tally::Tally;
use super::{
    Facts, Removal, back_off, completions, indexes, is_indexed, is_suspended, is_tracked, parallelism, per_index, pod,
    replaces_only_ended, valid_indexes,
};
use crate::workload::ranking;

/// How many Pods are made or taken away in one go.
pub const BURST: usize = 500;

#[derive(Debug, Default)]
pub struct Staffing<'a> {
    pub create: Vec<Pod>,
    pub remove: Vec<Removal<'a>>,
    /// When the time after failures is over.
    pub waits_until: Option<Timestamp>,
}

impl<'a> Staffing<'a> {
    /// When the Job is over, all that still runs goes, and counts as failed if the Job did.
    pub fn dismissal(tally: &Tally<'a>) -> Staffing<'a> {
        let remove = tally.active.iter().map(|pod| Removal { pod, is_blameless: false });
        Staffing { remove: remove.collect(), ..Staffing::default() }
    }

    pub fn of(facts: &Facts<'a>, tally: &Tally<'a>) -> Staffing<'a> {
        let remove = surplus(facts, tally);
        if !remove.is_empty() {
            let remove = remove.into_iter().take(BURST).map(|pod| Removal { pod, is_blameless: true });
            return Staffing { remove: remove.collect(), ..Staffing::default() };
        }
        let missing = missing(facts, tally).min(BURST);
        if missing == 0 {
            return Staffing::default();
        }
        if per_index::limit(facts.job).is_some() {
            return replacements(facts, tally, missing);
        }
        let counts = |pod: &&&Pod| pod.metadata.deletion_timestamp.is_none() || is_tracked(pod);
        let failed: Vec<&Pod> = tally.failed_pods.iter().filter(counts).copied().collect();
        let waits_until = back_off::until(&failed, &tally.succeeded_pods).filter(|until| *until > facts.now);
        if waits_until.is_some() {
            return Staffing { waits_until, ..Staffing::default() };
        }
        let create = if is_indexed(facts.job) {
            pod::of_indexes(facts, &open_indexes(facts, tally, missing), tally)
        } else {
            pod::of_ordinals(facts, missing)
        };
        Staffing { create, ..Staffing::default() }
    }
}

/// The Pods that should not be there: all of a suspended Job, those that were on their way out already, those that work on
/// what another works on, and those that are too many.
fn surplus<'a>(facts: &Facts<'a>, tally: &Tally<'a>) -> Vec<&'a Pod> {
    // Each Pod is made with a finalizer. One without was let go in order to be deleted, and whoever did it got no further.
    let (mut gone, mut left): (Vec<&Pod>, Vec<&Pod>) = tally.active.iter().partition(|pod| !is_tracked(pod));
    if is_indexed(facts.job) {
        let valid = valid_indexes(facts.job);
        let mut worked_on = BTreeSet::new();
        let (kept, doubled) = left.into_iter().partition::<Vec<&Pod>, _>(|pod| {
            indexes::of_pod(pod, &valid)
                .is_some_and(|index| !tally.completed.contains(index) && worked_on.insert(index))
        });
        gone.extend(doubled);
        left = kept;
    }
    let too_many = tally.active.len().saturating_sub(wanted(facts, tally)).saturating_sub(gone.len());
    gone.extend(ranking::first_to_delete(&left, &left, too_many, 0, facts.now));
    gone
}

/// How many Pods should be active.
fn wanted(facts: &Facts<'_>, tally: &Tally<'_>) -> usize {
    let parallelism = usize::try_from(parallelism(facts.job)).unwrap_or_default();
    if is_suspended(facts.job) {
        return 0;
    }
    match completions(facts.job) {
        // Once one has succeeded, no more are begun; those that are at work finish it.
        None if tally.succeeded > 0 => tally.active.len().min(parallelism),
        None => parallelism,
        Some(completions) => {
            usize::try_from(completions.saturating_sub(tally.succeeded)).unwrap_or_default().min(parallelism)
        }
    }
}

fn missing(facts: &Facts<'_>, tally: &Tally<'_>) -> usize {
    let leaving = if replaces_only_ended(facts.job) { tally.terminating.len() } else { 0 };
    wanted(facts, tally).saturating_sub(tally.active.len() + leaving)
}

/// The first indexes that nobody works on and that are neither done nor given up.
fn open_indexes(facts: &Facts<'_>, tally: &Tally<'_>, count: usize) -> Vec<i32> {
    let valid = valid_indexes(facts.job);
    let leaving = tally.terminating.iter().filter(|_| replaces_only_ended(facts.job));
    let taken: BTreeSet<i32> =
        tally.active.iter().chain(leaving).filter_map(|pod| indexes::of_pod(pod, &valid)).collect();
    let is_failed = |index| tally.failed_indexes.as_ref().is_some_and(|failed| failed.contains(index));
    let is_open = |index: &i32| !taken.contains(index) && !tally.completed.contains(*index) && !is_failed(*index);
    valid.filter(is_open).take(count).collect()
}

/// Where each index is tried again by itself, each waits by itself too.
fn replacements<'a>(facts: &Facts<'a>, tally: &Tally<'a>, missing: usize) -> Staffing<'a> {
    let wait = |index: &i32| {
        let failed = tally.to_be_replaced.get(index)?;
        let (counted, ignored) = per_index::failures_with(facts.job, failed);
        let delay = back_off::delay(u32::try_from(counted.saturating_add(ignored)).unwrap_or_default());
        back_off::finish_time(failed).checked_add(delay).ok().filter(|until| *until > facts.now)
    };
    let open = open_indexes(facts, tally, missing);
    let waits_until = open.iter().filter_map(&wait).min();
    let now: Vec<i32> = open.into_iter().filter(|index| wait(index).is_none()).collect();
    Staffing { create: pod::of_indexes(facts, &now, tally), waits_until, ..Staffing::default() }
}
