//! Which pods go first when there are too many.
//!
//! The order is Kubernetes', with one rule more: a pod that is ready but not yet available goes before one that is. A
//! Deployment scales an old ReplicaSet down by the number of its unavailable pods, counting on those to go.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::pod_state;

/// The annotation by which a pod says how dear it is; cheaper pods go first, zero is the default.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// How long ago something was, in powers of two: pods that are about as old are equal, so that the one rule which
/// cares for age does not override all after it by a second's difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    Unknown,
    NotYet,
    PowerOfTwo(u32),
}

/// Where a pod stands in the order of deletion: compared field by field, the least goes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'p> {
    is_assigned: bool,
    phase: u8,
    is_ready: bool,
    is_available: bool,
    deletion_cost: i32,
    neighbours: Reverse<usize>,
    ready_for: Age,
    restarts: Reverse<(i32, i32)>,
    age: Age,
    name: &'p str,
}

/// The `count` pods to delete first, in order. `related` are the pods of all ReplicaSets of the same owner, these ones
/// among them: of two equal pods, the one that shares its node with more of them goes first.
pub fn first_to_delete<'p>(
    pods: &[&'p Pod],
    related: &[&Pod],
    count: usize,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Vec<&'p Pod> {
    if count == 0 {
        return Vec::new();
    }
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related.iter().filter(|pod| pod_state::is_active(pod)) {
        *on_node.entry(node_of(pod)).or_default() += 1;
    }
    let rank = |pod: &'p Pod| {
        let neighbours = on_node.get(node_of(pod)).copied().unwrap_or_default();
        Rank::of(pod, neighbours, min_ready_seconds, now)
    };
    let mut ranked: Vec<(Rank<'p>, &'p Pod)> = pods.iter().map(|pod| (rank(pod), *pod)).collect();
    if count < ranked.len() {
        ranked.select_nth_unstable_by(count, |(left, _), (right, _)| left.cmp(right));
        ranked.truncate(count);
    }
    ranked.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    ranked.into_iter().map(|(_, pod)| pod).collect()
}

impl<'p> Rank<'p> {
    fn of(pod: &'p Pod, neighbours: usize, min_ready_seconds: i32, now: Timestamp) -> Rank<'p> {
        let is_ready = pod_state::is_ready(pod);
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Rank {
            is_assigned: !node_of(pod).is_empty(),
            phase: match pod_state::phase(pod) {
                "Unknown" => 1,
                "Running" => 2,
                _ => 0,
            },
            is_ready,
            is_available: pod_state::is_available(pod, min_ready_seconds, now),
            deletion_cost: deletion_cost(pod),
            neighbours: Reverse(neighbours),
            ready_for: if is_ready { Age::since(pod_state::ready_since(pod), now) } else { Age::Unknown },
            restarts: Reverse(restarts(pod)),
            age: Age::since(created, now),
            name: pod.metadata.name.as_deref().unwrap_or_default(),
        }
    }
}

impl Age {
    fn since(then: Option<Timestamp>, now: Timestamp) -> Age {
        let Some(then) = then else { return Age::Unknown };
        match now.duration_since(then).as_nanos() {
            nanoseconds if nanoseconds > 0 => Age::PowerOfTwo(nanoseconds.ilog2()),
            _ => Age::NotYet,
        }
    }
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// A cost that is no number is as if none were given: one bad pod must not stop the others' deletion.
fn deletion_cost(pod: &Pod) -> i32 {
    let cost = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DELETION_COST));
    cost.and_then(|cost| cost.parse().ok()).unwrap_or_default()
}

/// The most restarts of any container, and of any sidecar.
fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let most = |statuses: &mut dyn Iterator<Item = &ContainerStatus>| {
        statuses.map(|status| status.restart_count).max().unwrap_or_default()
    };
    let is_sidecar = |name: &str| {
        let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        init.filter(|container| container.name == name).any(|it| it.restart_policy.as_deref() == Some("Always"))
    };
    let mut sidecars = status.init_container_statuses.iter().flatten().filter(|status| is_sidecar(&status.name));
    (most(&mut status.container_statuses.iter().flatten()), most(&mut sidecars))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::fixtures::{at, laid_over, noon, not_ready, pod, ready_since};

    fn restarted(count: i32) -> Value {
        json!({"status": {"containerStatuses": [
            {"name": "c", "restartCount": count, "ready": true, "image": "", "imageID": ""},
        ]}})
    }

    fn sidecar_restarted(count: i32, restart_policy: Option<&str>) -> Value {
        json!({
            "spec": {"initContainers": [{"name": "s", "restartPolicy": restart_policy}]},
            "status": {"initContainerStatuses": [
                {"name": "s", "restartCount": count, "ready": true, "image": "", "imageID": ""},
            ]},
        })
    }

    /// Each row is a pair of pods: the first goes first, whichever of the two has the smaller name.
    #[test]
    fn which_of_two_pods_goes_first() {
        let cost = |cost: &str| json!({"metadata": {"annotations": {DELETION_COST: cost}}});
        let created = |seconds: i64| json!({"metadata": {"creationTimestamp": at(seconds).to_string()}});
        let rows: Vec<(&str, Value, Value)> = vec![
            (
                "an unassigned pod before an assigned one, even if that is not ready",
                json!({"spec": {"nodeName": null}}),
                not_ready(),
            ),
            (
                "a pending pod before one in an unknown phase",
                json!({"status": {"phase": "Pending"}}),
                json!({"status": {"phase": "Unknown"}}),
            ),
            ("a pod in an unknown phase before a running one", json!({"status": {"phase": "Unknown"}}), not_ready()),
            ("a pod without a phase is like a pending one", json!({"status": {"phase": null}}), not_ready()),
            ("a pod that is not ready before a ready one, however dear", laid_over(not_ready(), cost("9")), json!({})),
            (
                "a ready pod that is not yet available before an available one, however dear",
                laid_over(ready_since(-5), cost("9")),
                ready_since(-11),
            ),
            ("a cheap pod before a dear one", cost("-1"), json!({})),
            ("a cheap pod before one that restarted", cost("-1"), restarted(9)),
            ("a cost that is no number counts as none", cost("-1"), cost("a lot")),
            (
                "a pod that shares its node before one that is alone",
                json!({"spec": {"nodeName": "crowded"}}),
                laid_over(restarted(9), ready_since(-100)),
            ),
            ("ready for a short time before ready for long", ready_since(-60), laid_over(restarted(9), json!({}))),
            (
                "ready since nobody knows when before ready for a time",
                json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
                ready_since(-3600),
            ),
            (
                "ready for about as long is equal, then restarts decide",
                laid_over(ready_since(-3700), restarted(1)),
                ready_since(-3600),
            ),
            ("the pod with more restarts first", restarted(3), restarted(2)),
            ("then the one whose sidecar restarted more", sidecar_restarted(2, Some("Always")), json!({})),
            ("the newer pod before the older", created(-600), created(-7200)),
            ("a pod created nobody knows when first", json!({"metadata": {"creationTimestamp": null}}), created(-1)),
        ];
        for (name, first, second) in rows {
            for (first_name, second_name) in [("a", "b"), ("b", "a")] {
                let first: Pod = pod(first_name, first.clone());
                let second: Pod = pod(second_name, second.clone());
                let crowd: Pod = pod("crowd", json!({"spec": {"nodeName": "crowded"}}));
                for pods in [[&first, &second], [&second, &first]] {
                    let related = [&first, &second, &crowd];
                    let min_ready = if name.contains("not yet available") { 10 } else { 0 };
                    let order = first_to_delete(&pods, &related, 1, min_ready, noon());
                    assert_eq!(order, [&first], "{name}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_decide() {
        let terminating = json!({"metadata": {"deletionTimestamp": "2026-03-01T11:59:00Z"}});
        let rows = [
            ("equal pods go by name", json!({}), json!({})),
            ("restarts of an init container that ends are none", json!({}), sidecar_restarted(9, None)),
            ("a neighbour that terminates is none", json!({}), json!({"spec": {"nodeName": "leaving"}})),
            (
                "a few seconds of age are none",
                json!({}),
                json!({"metadata": {"creationTimestamp": "2026-03-01T10:00:03Z"}}),
            ),
        ];
        for (name, a, b) in rows {
            let (a, b): (Pod, Pod) = (pod("a", a), pod("b", b));
            let leaving: Pod = pod("c", laid_over(json!({"spec": {"nodeName": "leaving"}}), terminating.clone()));
            // Alone on its node each: whatever else differs must not decide.
            let related: Vec<&Pod> = if name.contains("neighbour") { vec![&a, &b, &leaving] } else { vec![] };
            assert_eq!(first_to_delete(&[&b, &a], &related, 2, 0, noon()), [&a, &b], "{name}");
        }
    }
}
