//! What a Job's Pods came to, each counted once.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::batch::v1::{Job, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::failure_policy::{Consequence, consequence};
use super::indexes::{self, Indexes};
use super::verdict::Verdict;
use super::{Facts, completed_indexes, is_indexed, is_tracked, number, per_index, replaces_only_ended, valid_indexes};
use crate::workload::pod_state;

/// How many uids the status lists at most; the rest waits for the next round.
const UNCOUNTED_MAX: usize = 500;

/// The Pods by what became of them, and the numbers that follow.
#[derive(Debug)]
pub struct Tally<'a> {
    job: &'a Job,
    /// Those that run, or will; in the order of their names.
    pub active: Vec<&'a Pod>,
    /// Those that are on their way out and may still run.
    pub terminating: Vec<&'a Pod>,
    /// Those that succeeded or failed, whether or not they are counted.
    pub succeeded_pods: Vec<&'a Pod>,
    pub failed_pods: Vec<&'a Pod>,
    /// Those that are kept until they are counted.
    tracked: BTreeSet<&'a str>,
    /// Those that the status lists, by what it says of them.
    listed_succeeded: BTreeSet<&'a str>,
    listed_failed: BTreeSet<&'a str>,
    /// How many have succeeded and failed, those included that are yet to be counted.
    pub succeeded: i32,
    pub failed: i32,
    /// Of an indexed Job, what has succeeded.
    pub completed: Indexes,
    /// Of a Job that counts failures of each index, what has failed for good.
    pub failed_indexes: Option<Indexes>,
    /// The same: the Pod of each index that is to be replaced.
    pub to_be_replaced: BTreeMap<i32, &'a Pod>,
}

/// What the status says of counting, and who may go once it does.
#[derive(Debug, Default)]
pub struct Tracking<'a> {
    pub succeeded: i32,
    pub failed: i32,
    pub completed: Indexes,
    pub uncounted: UncountedTerminatedPods,
    pub release: Vec<&'a Pod>,
    /// Whether some have to wait for the next round.
    pub is_partial: bool,
}

impl<'a> Tally<'a> {
    pub fn of(facts: &Facts<'a>) -> Tally<'a> {
        let job = facts.job;
        let mut pods = facts.pods.to_vec();
        pods.sort_by_key(|pod| &pod.metadata.name);
        let of = |is: &dyn Fn(&Pod) -> bool| -> Vec<&'a Pod> { pods.iter().filter(|pod| is(pod)).copied().collect() };
        let listed = job.status.as_ref().and_then(|status| status.uncounted_terminated_pods.as_ref());
        let listed_succeeded = uids(listed.and_then(|listed| listed.succeeded.as_ref()));
        let listed_failed = uids(listed.and_then(|listed| listed.failed.as_ref()));
        // What was listed as failed stays so, even if it gets to its end after all.
        let succeeded = |pod: &Pod| has_succeeded(pod) && !listed_failed.contains(uid(pod));
        let mut tally = Tally {
            job,
            active: of(&pod_state::is_active),
            terminating: of(&pod_state::is_terminating),
            succeeded_pods: of(&succeeded),
            failed_pods: of(&|pod| has_failed(job, pod) || (has_succeeded(pod) && !succeeded(pod))),
            tracked: pods.iter().filter(|pod| is_tracked(pod)).map(|pod| uid(pod)).collect(),
            listed_succeeded,
            listed_failed,
            succeeded: 0,
            failed: 0,
            completed: completed_indexes(job),
            failed_indexes: None,
            to_be_replaced: BTreeMap::new(),
        };
        tally.count();
        tally
    }

    /// Those that failed and are not counted yet, or were kept although they are.
    pub fn tracked_failures(&self) -> impl Iterator<Item = &'a Pod> {
        self.failed_pods.iter().filter(|pod| self.tracked.contains(uid(pod))).copied()
    }

    fn count(&mut self) {
        let status = self.job.status.as_ref();
        let is_tracked = |pod: &&&'a Pod| self.tracked.contains(uid(pod));
        let new_failures =
            self.failed_pods.iter().filter(is_tracked).filter(|pod| !self.listed_failed.contains(uid(pod)));
        let new_failures = new_failures.filter(|pod| self.is_blamed(pod)).count();
        let counted = status.and_then(|status| status.failed).unwrap_or_default();
        self.failed = counted.saturating_add(number(self.listed_failed.len() + new_failures));
        if !is_indexed(self.job) {
            let new = self.succeeded_pods.iter().filter(is_tracked);
            let new = new.filter(|pod| !self.listed_succeeded.contains(uid(pod))).count();
            let counted = status.and_then(|status| status.succeeded).unwrap_or_default();
            self.succeeded = counted.saturating_add(number(self.listed_succeeded.len() + new));
            return;
        }
        let valid = valid_indexes(self.job);
        let done: Vec<&Pod> = self.succeeded_pods.iter().filter(is_tracked).copied().collect();
        for index in done.into_iter().filter_map(|pod| indexes::of_pod(pod, &valid)) {
            self.completed.insert(index);
        }
        self.succeeded = number(self.completed.len());
        let failures: Vec<&Pod> = self.tracked_failures().collect();
        self.failed_indexes = per_index::failed(self.job, &failures);
        if let Some(failed) = &self.failed_indexes {
            let active: BTreeSet<i32> = self.active.iter().filter_map(|pod| indexes::of_pod(pod, &valid)).collect();
            let is_open =
                |index| !active.contains(&index) && !self.completed.contains(index) && !failed.contains(index);
            self.to_be_replaced = per_index::to_be_replaced(self.job, &failures, is_open);
        }
    }

    /// Moves what nobody can see again from the list to the number, and what has ended since into the list.
    pub fn tracking(&self, verdict: Option<&Verdict>) -> Tracking<'a> {
        let status = self.job.status.clone().unwrap_or_default();
        let mut listed = status.uncounted_terminated_pods.unwrap_or_default();
        let settle = |list: &mut Option<Vec<String>>| -> i32 {
            let (kept, counted) = list
                .take()
                .unwrap_or_default()
                .into_iter()
                .partition::<Vec<_>, _>(|uid| self.tracked.contains(uid.as_str()));
            *list = (!kept.is_empty()).then_some(kept);
            number(counted.len())
        };
        let succeeded = status.succeeded.unwrap_or_default().saturating_add(settle(&mut listed.succeeded));
        let failed = status.failed.unwrap_or_default().saturating_add(settle(&mut listed.failed));
        let mut tracking = Tracking {
            succeeded,
            failed,
            completed: completed_indexes(self.job),
            uncounted: listed,
            ..Tracking::default()
        };
        let kept: BTreeSet<&str> = self.to_be_replaced.values().map(|pod| uid(pod)).collect();
        let failures = self.failed_pods.iter().filter(|pod| verdict.is_some() || !kept.contains(uid(pod)));
        // Once a Job has failed, so has everything of it that does not get to its end.
        let lost = self.terminating.iter().filter(|pod| verdict.is_some() && !has_failed(self.job, pod));
        let has_failed = verdict.is_some_and(|verdict| !verdict.is_success());
        let ended = self.succeeded_pods.iter().map(|pod| (pod, Outcome::Success));
        let ended = ended.chain(failures.map(|pod| (pod, Outcome::Failure)));
        let ended = ended.chain(lost.map(|pod| (pod, if has_failed { Outcome::Failure } else { Outcome::Neither })));
        for (pod, outcome) in ended.filter(|(pod, _)| self.tracked.contains(uid(pod))) {
            if tracking.listed() >= UNCOUNTED_MAX {
                tracking.is_partial = true;
                break;
            }
            match outcome {
                Outcome::Success if !self.listed_succeeded.contains(uid(pod)) => tracking.note_success(self.job, pod),
                Outcome::Failure if !self.listed_failed.contains(uid(pod)) && self.is_blamed(pod) => {
                    tracking.uncounted.failed.get_or_insert_default().push(uid(pod).to_owned());
                }
                _ => {}
            }
            tracking.release.push(pod);
        }
        if is_indexed(self.job) {
            tracking.succeeded = number(tracking.completed.len());
        }
        tracking
    }

    /// Whether a failure of a Pod counts: of an indexed Job, only if it worked on an index; and not if it is to be ignored.
    fn is_blamed(&self, pod: &Pod) -> bool {
        let is_within = !is_indexed(self.job) || indexes::of_pod(pod, &valid_indexes(self.job)).is_some();
        is_within && consequence(self.job, pod) != Consequence::Ignored
    }
}

enum Outcome {
    Success,
    Failure,
    Neither,
}

impl Tracking<'_> {
    fn listed(&self) -> usize {
        let lists = [&self.uncounted.succeeded, &self.uncounted.failed];
        lists.into_iter().map(|list| list.as_ref().map_or(0, Vec::len)).sum()
    }

    /// An index is done once, however often it succeeds: it needs no list.
    fn note_success(&mut self, job: &Job, pod: &Pod) {
        if !is_indexed(job) {
            self.uncounted.succeeded.get_or_insert_default().push(uid(pod).to_owned());
        } else if let Some(index) = indexes::of_pod(pod, &valid_indexes(job)) {
            self.completed.insert(index);
        }
    }
}

fn uids(list: Option<&Vec<String>>) -> BTreeSet<&str> {
    list.into_iter().flatten().map(String::as_str).collect()
}

fn has_succeeded(pod: &Pod) -> bool {
    pod_state::phase(pod) == "Succeeded"
}

/// Whether a Pod failed. One that somebody deletes has too, unless its Job waits for its end.
fn has_failed(job: &Job, pod: &Pod) -> bool {
    let is_going = pod.metadata.deletion_timestamp.is_some() && !has_succeeded(pod);
    pod_state::phase(pod) == "Failed" || (is_going && !replaces_only_ended(job))
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}
