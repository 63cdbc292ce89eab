//! What a ReplicaSet does next: create so many pods, delete these, or nothing; and what its status says.
//!
//! The caller passes what it has observed together with its own writes that it has not observed yet. So a slow watch
//! makes it neither create twice nor delete twice, and no expectation has to expire.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::selection::Owner;
use super::{pod_name, pod_state, ranking};

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
    /// Pods whose deletion was tried and not answered: if there are too many pods, these go first, lest two go for one.
    pub tried: BTreeSet<String>,
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
        let (mut first, others): (Vec<_>, Vec<_>) =
            pods.into_iter().partition(|pod| observed.unseen.tried.contains(uid(pod)));
        first.truncate(count);
        let count = count - first.len();
        first.extend(ranking::first_to_delete(&others, observed.related, count, min_ready_seconds(set), now));
        Decision::Delete { pods: first, replicas, desired }
    } else {
        Decision::Nothing
    }
}

/// Whether there are more pods than desired. Only then [`decide`] looks at [`Observed::related`].
pub fn has_surplus(set: &ReplicaSet, pods: usize) -> bool {
    pods > desired_replicas(set)
}

/// A pod of the ReplicaSet, as it is created.
pub fn pod(set: &ReplicaSet, name: &str) -> Pod {
    let template = spec(set).and_then(|spec| spec.template.as_ref());
    let metadata = template.and_then(|template| template.metadata.as_ref());
    Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            generate_name: set.metadata.name.as_deref().map(pod_name::prefix),
            namespace: set.metadata.namespace.clone(),
            labels: metadata.and_then(|metadata| metadata.labels.clone()),
            annotations: metadata.and_then(|metadata| metadata.annotations.clone()),
            finalizers: metadata.and_then(|metadata| metadata.finalizers.clone()),
            owner_references: Some(vec![Owner::from(set).reference()]),
            ..ObjectMeta::default()
        },
        spec: template.and_then(|template| template.spec.clone()),
        status: None,
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::fixtures::{at, laid_over, noon, not_ready, object, pod, ready_since};

    fn replica_set(replicas: Value, over: Value) -> ReplicaSet {
        let base = json!({
            "metadata": {"name": "web-1", "uid": "rs-uid", "namespace": "shop", "generation": 4},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}},
            },
        });
        object(laid_over(base, over))
    }

    fn unseen(created: &[&str], deleted: &[&str]) -> Unseen {
        let set = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect();
        Unseen { created: set(created), deleted: set(deleted), ..Unseen::default() }
    }

    fn terminating() -> Value {
        json!({"metadata": {"deletionTimestamp": "2026-03-01T11:59:00Z"}})
    }

    struct Row {
        name: &'static str,
        set: ReplicaSet,
        pods: Vec<(&'static str, Value)>,
        unseen: Unseen,
        decision: &'static str,
    }

    fn row(name: &'static str, replicas: i32, pods: Vec<(&'static str, Value)>, decision: &'static str) -> Row {
        Row { name, set: replica_set(json!(replicas), json!({})), pods, unseen: Unseen::default(), decision }
    }

    #[test]
    fn what_a_replica_set_does() {
        let fine = |names: &[&'static str]| names.iter().map(|name| (*name, json!({}))).collect::<Vec<_>>();
        let rows = vec![
            row("as many as desired: nothing", 2, fine(&["a", "b"]), "nothing to do"),
            row("none yet: all are created", 3, vec![], "create 3: 0 of 3 replicas"),
            row(
                "the replica with the lowest name was deleted: it heals",
                3,
                fine(&["b", "c"]),
                "create 1: 2 of 3 replicas",
            ),
            row("the replica in the middle was deleted: it heals", 3, fine(&["a", "c"]), "create 1: 2 of 3 replicas"),
            row("scaled to zero: all go", 0, fine(&["a", "b"]), "delete a, b: 2 of 0 replicas"),
            row("more than fit in one burst: as many as fit", 10_000, vec![], "create 500: 0 of 10000 replicas"),
            row(
                "a failed pod is replaced and left for others to remove",
                2,
                vec![("a", json!({})), ("b", json!({"status": {"phase": "Failed"}}))],
                "create 1: 1 of 2 replicas",
            ),
            row(
                "a terminating pod is replaced at once",
                2,
                vec![("a", json!({})), ("b", terminating())],
                "create 1: 1 of 2 replicas",
            ),
            row(
                "a terminating pod is not deleted twice",
                1,
                vec![("a", json!({})), ("b", terminating())],
                "nothing to do",
            ),
            row(
                "the pod that is not ready goes first",
                1,
                vec![("a", json!({})), ("b", not_ready())],
                "delete b: 2 of 1 replicas",
            ),
            row(
                "a pod with neither spec nor status stops nobody",
                1,
                vec![("a", json!({"spec": null, "status": null})), ("b", json!({}))],
                "delete a: 2 of 1 replicas",
            ),
            Row {
                unseen: Unseen { tried: BTreeSet::from(["a".to_owned()]), ..Unseen::default() },
                ..row(
                    "the pod whose deletion was not answered goes first, though another is worse by now",
                    1,
                    vec![("a", json!({})), ("b", not_ready())],
                    "delete a: 2 of 1 replicas",
                )
            },
            Row {
                unseen: Unseen { tried: BTreeSet::from(["a".to_owned()]), ..Unseen::default() },
                ..row("and stays if it is needed again", 2, fine(&["a", "b"]), "nothing to do")
            },
            Row {
                unseen: unseen(&["x", "y"], &[]),
                ..row("pods that were created but are not in sight count", 3, fine(&["a"]), "nothing to do")
            },
            Row {
                unseen: unseen(&["a"], &[]),
                ..row("a created pod that is in sight counts once", 2, fine(&["a"]), "create 1: 1 of 2 replicas")
            },
            Row {
                unseen: unseen(&[], &["b"]),
                ..row(
                    "a pod that was deleted but is still in sight does not count",
                    1,
                    fine(&["a", "b"]),
                    "nothing to do",
                )
            },
            Row {
                unseen: unseen(&["x"], &["x"]),
                ..row("a pod created and deleted out of sight does not count", 1, vec![], "create 1: 0 of 1 replicas")
            },
            Row {
                unseen: unseen(&["x", "y"], &[]),
                ..row("what is not in sight cannot be deleted yet", 1, vec![], "nothing to do")
            },
            Row {
                set: replica_set(json!(3), terminating()),
                ..row("a deleted ReplicaSet creates nothing", 3, vec![], "nothing to do: it is being deleted")
            },
            Row {
                set: replica_set(json!(0), terminating()),
                ..row("a deleted ReplicaSet deletes nothing", 0, fine(&["a"]), "nothing to do: it is being deleted")
            },
            Row {
                set: replica_set(Value::Null, json!({})),
                ..row("where no number is given it is one", 1, vec![], "create 1: 0 of 1 replicas")
            },
            row("a number below zero is zero", -3, fine(&["a"]), "delete a: 1 of 0 replicas"),
        ];
        for row in rows {
            let pods: Vec<Pod> = row.pods.into_iter().map(|(name, over)| pod(name, over)).collect();
            let pods: Vec<&Pod> = pods.iter().collect();
            let observed = Observed { pods: &pods, related: &pods, unseen: &row.unseen };
            assert_eq!(decide(&row.set, &observed, noon()).to_string(), row.decision, "{}", row.name);
            let reversed: Vec<&Pod> = pods.iter().rev().copied().collect();
            let observed = Observed { pods: &reversed, related: &reversed, unseen: &row.unseen };
            assert_eq!(decide(&row.set, &observed, noon()).to_string(), row.decision, "{}, reversed", row.name);
        }
    }

    #[test]
    fn a_pod_is_what_the_template_says_and_names_its_owner() {
        let template = json!({"spec": {"template": {
            "metadata": {"annotations": {"note": "x"}, "finalizers": ["a/b"]}, "spec": {"containers": [{"name": "c"}]},
        }}});
        let pod = super::pod(&replica_set(json!(1), template), "web-1-bcdfg");
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-1-bcdfg", "generateName": "web-1-", "namespace": "shop",
                "labels": {"app": "web"}, "annotations": {"note": "x"}, "finalizers": ["a/b"],
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs-uid",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {"containers": [{"name": "c"}]},
        });
        assert_eq!(serde_json::to_value(pod).unwrap(), expected);
    }

    #[test]
    fn batches_start_slow() {
        let rows: [(&str, usize, &[usize]); 4] = [
            ("none", 0, &[]),
            ("one", 1, &[1]),
            ("they double", 7, &[1, 2, 4]),
            ("the last takes what is left", 500, &[1, 2, 4, 8, 16, 32, 64, 128, 245]),
        ];
        for (name, count, batches) in rows {
            assert_eq!(slow_start(count).collect::<Vec<_>>(), batches, "{name}");
        }
    }

    #[test]
    fn what_the_status_counts() {
        let spec = json!({"spec": {"minReadySeconds": 60}});
        let pods: Vec<Pod> = vec![
            pod("available", ready_since(-60)),
            pod("ready", ready_since(-50)),
            pod("ready-later", ready_since(-10)),
            pod("starting", not_ready()),
            pod("other-labels", laid_over(not_ready(), json!({"metadata": {"labels": {"app": "web2"}}}))),
            pod("terminating", terminating()),
            pod("just-deleted", ready_since(-600)),
            pod("failed", json!({"status": {"phase": "Failed"}})),
        ];
        let pods: Vec<&Pod> = pods.iter().collect();
        let unseen = unseen(&["just-created"], &["just-deleted"]);
        let observed = Observed { pods: &pods, related: &[], unseen: &unseen };
        let answer = status(&replica_set(json!(6), spec), &observed, None, noon());
        let counted = answer.status;
        let rows = [
            ("replicas are active pods and those just created", Some(counted.replicas), Some(6)),
            ("fully labelled are those with the template's labels", counted.fully_labeled_replicas, Some(4)),
            ("ready are the ready ones", counted.ready_replicas, Some(3)),
            ("available are those ready for long enough, and not just deleted", counted.available_replicas, Some(1)),
            ("terminating are those, and the one just deleted", counted.terminating_replicas, Some(2)),
        ];
        for (name, count, expected) in rows {
            assert_eq!(count, expected, "{name}");
        }
        assert_eq!(counted.observed_generation, Some(4), "the generation that was acted on");
        assert_eq!(answer.look_again, Some(at(10)), "the next pod becomes available in ten seconds");
    }

    #[test]
    fn a_failure_is_said_until_it_is_gone() {
        let observed = Observed { pods: &[], related: &[], unseen: &Unseen::default() };
        let conditions = |set: &ReplicaSet, failure, now| status(set, &observed, failure, now).status.conditions;
        let fresh = replica_set(json!(1), json!({}));
        let failed = conditions(&fresh, Some("quota exceeded"), at(0));
        let first = failed.as_ref().and_then(|all| all.first()).unwrap();
        assert_eq!((first.type_.as_str(), first.reason.as_deref()), ("ReplicaFailure", Some("FailedCreate")));
        assert_eq!(first.message.as_deref(), Some("quota exceeded"));
        let told = replica_set(json!(1), json!({"status": {"replicas": 0, "conditions": failed}}));
        assert_eq!(conditions(&told, Some("again"), at(60)), failed, "its time does not move while it lasts");
        assert_eq!(conditions(&told, None, at(90)), None, "it goes with the first success");
        let surplus: Vec<Pod> = vec![pod("a", json!({})), pod("b", json!({}))];
        let surplus: Vec<&Pod> = surplus.iter().collect();
        let observed = Observed { pods: &surplus, related: &[], unseen: &Unseen::default() };
        let conditions = status(&fresh, &observed, Some("no"), noon()).status.conditions.unwrap();
        assert_eq!(conditions[0].reason.as_deref(), Some("FailedDelete"), "too many: it was a deletion that failed");
    }
}
