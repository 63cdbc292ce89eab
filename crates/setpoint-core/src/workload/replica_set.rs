//! What a ReplicaSet does next: create so many pods, delete these, or nothing; and what its status says.
//!
//! The caller passes what it has observed together with its own writes that it has not observed yet. So a slow watch
//! makes it neither create twice nor delete twice, and no expectation has to expire.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{pod_state, ranking};

/// How many pods are created or deleted in one go.
pub const BURST: usize = 500;

/// What is known of a ReplicaSet's pods.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a, 'p> {
    /// The pods that the ReplicaSet owns and selects, in any state.
    pub pods: &'a [&'p Pod],
    /// The pods of all ReplicaSets of the same owner; these ones among them.
    pub related: &'a [&'p Pod],
    /// What was written and has not come back yet.
    pub unseen: &'a Unseen,
}

/// Our own writes, by uid, that the observation may not show yet. What it does show counts once; what it has shown
/// must be taken out, or a pod that came and went would be waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Pods that were created.
    pub created: BTreeSet<String>,
    /// Pods that were deleted.
    pub deleted: BTreeSet<String>,
}

/// What to do, and from how many to how many.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision<'p> {
    /// There are as many pods as there should be.
    Nothing,
    /// The ReplicaSet is being deleted: its pods are the garbage collector's.
    Deleted,
    /// Too few: create `count`, in the batches of [`slow_start`].
    Create { count: usize, replicas: usize, desired: usize },
    /// Too many: delete these, in any order.
    Delete { pods: Vec<&'p Pod>, replicas: usize, desired: usize },
}

impl fmt::Display for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decision::Nothing => f.write_str("nothing to do"),
            Decision::Deleted => f.write_str("nothing to do: it is being deleted"),
            Decision::Create { count, replicas, desired } => {
                write!(f, "create {count}: {replicas} of {desired} replicas")
            }
            Decision::Delete { pods, replicas, desired } => {
                let names = pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap_or_default());
                write!(f, "delete {}: {replicas} of {desired} replicas", names.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// A status, and when it will change though nothing happens.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub status: ReplicaSetStatus,
    /// When the next ready pod has been ready for long enough to count as available.
    pub look_again: Option<Timestamp>,
}

/// What to do about the number of pods.
pub fn decide<'p>(set: &ReplicaSet, observed: &Observed<'_, 'p>, now: Timestamp) -> Decision<'p> {
    if set.metadata.deletion_timestamp.is_some() {
        return Decision::Deleted;
    }
    let pods = observed.active();
    let replicas = pods.len() + observed.unseen_creations();
    let desired = desired_replicas(set);
    if replicas < desired {
        Decision::Create { count: (desired - replicas).min(BURST), replicas, desired }
    } else if replicas > desired && !pods.is_empty() {
        let count = (replicas - desired).min(pods.len()).min(BURST);
        let pods = ranking::first_to_delete(&pods, observed.related, count, min_ready_seconds(set), now);
        Decision::Delete { pods, replicas, desired }
    } else {
        Decision::Nothing
    }
}

/// Batch sizes for `count` creations: 1, 2, 4 and so on, each to be tried only when all before it succeeded. What
/// cannot be created (no quota, say) then fails once and not five hundred times.
pub fn slow_start(count: usize) -> impl Iterator<Item = usize> {
    let mut left = count;
    let mut next = 1;
    std::iter::from_fn(move || {
        let batch = next.min(left);
        left -= batch;
        next *= 2;
        (batch > 0).then_some(batch)
    })
}

/// The status to write. Pass the writes made in this round among the unseen ones: what was just deleted is no longer
/// available, and a Deployment relies on that. `failure` is what the last attempt to create or delete met.
pub fn status(set: &ReplicaSet, observed: &Observed<'_, '_>, failure: Option<&str>, now: Timestamp) -> Status {
    let min_ready_seconds = min_ready_seconds(set);
    let template_labels = spec(set)
        .and_then(|spec| spec.template.as_ref()?.metadata.as_ref()?.labels.as_ref())
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    let is_fully_labelled = |pod: &Pod| {
        let labels = pod.metadata.labels.as_ref();
        template_labels.iter().all(|(key, value)| labels.and_then(|labels| labels.get(*key)) == Some(*value))
    };
    let active = observed.active();
    let (mut fully_labelled, mut ready, mut available, mut look_again) = (0, 0, 0, None::<Timestamp>);
    for pod in &active {
        fully_labelled += i32::from(is_fully_labelled(pod));
        ready += i32::from(pod_state::is_ready(pod));
        if pod_state::is_available(pod, min_ready_seconds, now) {
            available += 1;
        } else if let Some(from) = pod_state::available_from(pod, min_ready_seconds) {
            look_again = Some(look_again.map_or(from, |earliest| earliest.min(from)));
        }
    }
    let replicas = active.len() + observed.unseen_creations();
    let terminating = observed.pods.iter().filter(|pod| observed.is_terminating(pod)).count();
    let status = ReplicaSetStatus {
        replicas: count(replicas),
        fully_labeled_replicas: nonzero(fully_labelled),
        ready_replicas: nonzero(ready),
        available_replicas: nonzero(available),
        terminating_replicas: Some(count(terminating)),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, failure.map(|message| (message, replicas)), now),
    };
    Status { status, look_again }
}

impl<'p> Observed<'_, 'p> {
    /// The pods that count as replicas.
    fn active(&self) -> Vec<&'p Pod> {
        let counts = |pod: &&&Pod| pod_state::is_active(pod) && !self.was_deleted(pod);
        self.pods.iter().filter(counts).copied().collect()
    }

    fn is_terminating(&self, pod: &Pod) -> bool {
        pod_state::is_terminating(pod) || (pod_state::is_active(pod) && self.was_deleted(pod))
    }

    fn was_deleted(&self, pod: &Pod) -> bool {
        !self.unseen.deleted.is_empty() && self.unseen.deleted.contains(uid(pod))
    }

    /// How many pods were created that are not in sight yet.
    fn unseen_creations(&self) -> usize {
        let created = &self.unseen.created;
        if created.is_empty() {
            return 0;
        }
        let in_sight: BTreeSet<&str> =
            self.pods.iter().map(|pod| uid(pod)).filter(|uid| created.contains(*uid)).collect();
        let is_unseen = |uid: &&String| !in_sight.contains(uid.as_str()) && !self.unseen.deleted.contains(*uid);
        created.iter().filter(is_unseen).count()
    }
}

/// One condition: the last attempt failed. It goes when an attempt succeeds, and its time moves only when it comes.
fn conditions(set: &ReplicaSet, failure: Option<(&str, usize)>, now: Timestamp) -> Option<Vec<ReplicaSetCondition>> {
    const REPLICA_FAILURE: &str = "ReplicaFailure";
    let mut conditions = set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let Some((message, replicas)) = failure else {
        conditions.retain(|condition| condition.type_ != REPLICA_FAILURE);
        return (!conditions.is_empty()).then_some(conditions);
    };
    if !conditions.iter().any(|condition| condition.type_ == REPLICA_FAILURE) {
        let reason = if replicas < desired_replicas(set) { "FailedCreate" } else { "FailedDelete" };
        conditions.push(ReplicaSetCondition {
            type_: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: Some(Time(whole_seconds(now))),
        });
    }
    Some(conditions)
}

/// Kubernetes' times have no fractions; one that had would differ from itself once stored.
pub(super) fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// How many pods the ReplicaSet should have; one, where it does not say.
fn desired_replicas(set: &ReplicaSet) -> usize {
    spec(set).map_or(0, |spec| usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default())
}

fn min_ready_seconds(set: &ReplicaSet) -> i32 {
    spec(set).and_then(|spec| spec.min_ready_seconds).unwrap_or_default()
}

fn spec(set: &ReplicaSet) -> Option<&ReplicaSetSpec> {
    set.spec.as_ref()
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Zero is left out, as Kubernetes does.
fn nonzero(number: i32) -> Option<i32> {
    (number != 0).then_some(number)
}
