//! What becomes of a node that falls silent, and of its Pods.
//!
//! A node says that it is alive by renewing its Lease. One that has not for a while is `Unknown`: its taints say so, and
//! whoever does not put up with them, or not for so long, has to go.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::scheduling::tolerations::{NO_EXECUTE, NO_SCHEDULE, tolerates};

/// For how long a node may be silent.
pub const GRACE: SignedDuration = SignedDuration::from_secs(40);

/// For how long a node has to be gone before its Pods are taken for gone.
pub const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
/// How many Pods of a node go at a time, and how long that is: a mistake must not empty a node at once.
const AT_A_TIME: usize = 50;
const PAUSE: SignedDuration = SignedDuration::from_secs(1);

const READY: &str = "Ready";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What a node should say of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Its condition `Ready`, where it has to be another.
    pub ready: Option<NodeCondition>,
    /// Its taints, where they have to be others.
    pub taints: Option<Vec<Taint>>,
    /// When it has to be looked at again, if nothing is heard of it.
    pub until: Option<Timestamp>,
    /// Whether its Pods are ready as far as it is concerned.
    pub is_ready: bool,
}

/// Which Pods of a node go now, and when it has to be looked at for those that go later.
#[derive(Debug, Clone, PartialEq)]
pub struct Departures<'p> {
    pub now: Vec<&'p Pod>,
    pub next: Option<Timestamp>,
    /// Whether some have to wait although their time has come.
    pub is_more_due: bool,
}

/// Judges a node that was last heard of at `heard`.
pub fn judge(node: &Node, heard: Timestamp, now: Timestamp) -> Judgement {
    let expires = heard.checked_add(GRACE).unwrap_or(Timestamp::MAX);
    let present = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let present = present.into_iter().find(|condition| condition.type_ == READY);
    let is_silent = expires <= now;
    let ready = (is_silent && present.is_none_or(|ready| ready.status != "Unknown")).then(|| unknown(present, now));
    let status = ready.as_ref().or(present).map_or("Unknown", |ready| ready.status.as_str());
    Judgement {
        is_ready: status == "True",
        taints: taints(node, status, now),
        until: (!is_silent).then_some(expires),
        ready,
    }
}

fn unknown(before: Option<&NodeCondition>, now: Timestamp) -> NodeCondition {
    NodeCondition {
        type_: READY.to_owned(),
        status: "Unknown".to_owned(),
        reason: Some("NodeStatusUnknown".to_owned()),
        message: Some("Kubelet stopped posting node status.".to_owned()),
        last_heartbeat_time: before.and_then(|before| before.last_heartbeat_time.clone()),
        last_transition_time: Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
    }
}

/// The taints that a node should have, where it has others. Those of other keys stay.
fn taints(node: &Node, ready: &str, now: Timestamp) -> Option<Vec<Taint>> {
    let spec = node.spec.as_ref();
    let present = spec.and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let is_cordoned = spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
    let of_health: &[(&str, &str)] = match ready {
        "True" => &[],
        "False" => &[(NOT_READY, NO_SCHEDULE), (NOT_READY, NO_EXECUTE)],
        _ => &[(UNREACHABLE, NO_SCHEDULE), (UNREACHABLE, NO_EXECUTE)],
    };
    let wanted = || of_health.iter().copied().chain(is_cordoned.then_some((UNSCHEDULABLE, NO_SCHEDULE)));
    let is_ours = |taint: &&Taint| [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&taint.key.as_str());
    let is = |taint: &Taint, (key, effect): (&str, &str)| taint.key == key && taint.effect == effect;
    let has_all = wanted().all(|wanted| present.iter().any(|taint| is(taint, wanted)));
    let has_more = present.iter().filter(is_ours).any(|taint| !wanted().any(|wanted| is(taint, wanted)));
    if has_all && !has_more {
        return None;
    }
    let foreign = present.iter().filter(|taint| !is_ours(taint)).cloned();
    let own = wanted().map(|(key, effect)| {
        let same = present.iter().find(|taint| is(taint, (key, effect))).cloned();
        same.unwrap_or_else(|| Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            value: None,
            time_added: (effect == NO_EXECUTE).then(|| Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
        })
    });
    Some(foreign.chain(own).collect())
}

/// When a Pod has to leave its node; `None` if it may stay. It stays for as long as every taint lets it.
pub fn leaves_at(pod: &Pod, taints: &[Taint]) -> Option<Timestamp> {
    let tolerations = || pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    let leaves = |taint: &Taint| {
        let added = taint.time_added.as_ref().map_or(Timestamp::MIN, |time| time.0);
        let tolerating: Vec<Option<i64>> = tolerations()
            .filter(|toleration| tolerates(toleration, taint))
            .map(|toleration| toleration.toleration_seconds)
            .collect();
        if tolerating.is_empty() {
            return Some(added);
        }
        // The shortest of them counts, and one without an end is no bound.
        let seconds = tolerating.into_iter().flatten().min()?;
        Some(added.checked_add(SignedDuration::from_secs(seconds.max(0))).unwrap_or(Timestamp::MAX))
    };
    taints.iter().filter(|taint| taint.effect == NO_EXECUTE).filter_map(leaves).min()
}

/// The Pods that a node's taints drive out, those first whose time came first.
pub fn departures<'p>(pods: &[&'p Pod], taints: &[Taint], now: Timestamp) -> Departures<'p> {
    let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut leaving: Vec<(Timestamp, &'p Pod)> =
        staying.filter_map(|pod| Some((leaves_at(pod, taints)?, *pod))).collect();
    let name = |pod: &'p Pod| (&pod.metadata.namespace, &pod.metadata.name);
    leaving.sort_by(|one, other| (one.0, name(one.1)).cmp(&(other.0, name(other.1))));
    let later = leaving.split_off(leaving.partition_point(|(at, _)| *at <= now));
    let next = later.first().map(|(at, _)| *at);
    paced(leaving.into_iter().map(|(_, pod)| pod).collect(), next, now)
}

/// The Pods of a node that has been gone since then: once nobody will come back for them, those that are not ended yet.
pub fn left_behind<'p>(pods: &[&'p Pod], since: Timestamp, now: Timestamp) -> Departures<'p> {
    let due = since.checked_add(QUARANTINE).unwrap_or(Timestamp::MAX);
    if now < due {
        return Departures { now: Vec::new(), next: Some(due), is_more_due: false };
    }
    let is_ended =
        |pod: &Pod| pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0);
    paced(pods.iter().copied().filter(|pod| !is_ended(pod)).collect(), None, now)
}

fn paced(mut due: Vec<&Pod>, next: Option<Timestamp>, now: Timestamp) -> Departures<'_> {
    let is_more_due = due.len() > AT_A_TIME;
    due.truncate(AT_A_TIME);
    let next = if is_more_due { now.checked_add(PAUSE).ok() } else { next };
    Departures { now: due, next, is_more_due }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_772_366_400 + second).unwrap()
    }

    fn node(ready: &str, spec: Value) -> Node {
        let ready = json!({"type": "Ready", "status": ready, "lastTransitionTime": "2026-03-01T00:00:00Z"});
        serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": [ready]}}))
            .unwrap()
    }

    fn shown(taints: Option<Vec<Taint>>) -> Option<Vec<String>> {
        taints.map(|taints| taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect())
    }

    #[test]
    fn a_node_is_judged_by_when_it_was_last_heard_of() {
        let unreachable =
            || json!([{"key": UNREACHABLE, "effect": "NoSchedule"}, {"key": UNREACHABLE, "effect": "NoExecute"}]);
        let both = |key: &str| vec![format!("{key}:NoSchedule"), format!("{key}:NoExecute")];
        let rows = [
            ("it was heard of", node("True", json!({})), 39, None, None, true),
            ("it fell silent", node("True", json!({})), 40, Some("Unknown"), Some(both(UNREACHABLE)), false),
            ("it says that it is not ready", node("False", json!({})), 1, None, Some(both(NOT_READY)), false),
            (
                "it is silent, and that is told",
                node("Unknown", json!({"taints": unreachable()})),
                99,
                None,
                None,
                false,
            ),
            ("it is back", node("True", json!({"taints": unreachable()})), 1, None, Some(vec![]), true),
            (
                "others' taints stay",
                node(
                    "True",
                    json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}, {"key": NOT_READY, "effect": "NoSchedule"}]}),
                ),
                1,
                None,
                Some(vec!["gpu:NoSchedule".to_owned()]),
                true,
            ),
            (
                "it is cordoned",
                node("True", json!({"unschedulable": true})),
                1,
                None,
                Some(vec![format!("{UNSCHEDULABLE}:NoSchedule")]),
                true,
            ),
        ];
        for (name, node, silent_for, ready, taints, is_ready) in rows {
            let judgement = judge(&node, at(0), at(silent_for));
            assert_eq!(judgement.ready.map(|ready| ready.status).as_deref(), ready, "{name}");
            assert_eq!(shown(judgement.taints), taints, "{name}");
            assert_eq!(judgement.is_ready, is_ready, "{name}");
            assert_eq!(judgement.until, (silent_for < 40).then(|| at(40)), "{name}");
        }
    }

    #[test]
    fn a_pod_leaves_when_a_taint_lets_it_stay_no_longer() {
        let taint = |key: &str, second: i64| Taint {
            key: key.to_owned(),
            effect: NO_EXECUTE.to_owned(),
            value: None,
            time_added: Some(Time(at(second))),
        };
        let pod = |tolerations: Value| -> Pod {
            serde_json::from_value(json!({"spec": {"containers": [], "tolerations": tolerations}})).unwrap()
        };
        let for_a_while = |key: &str, seconds: i64| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        let rows = [
            ("no taint", json!([]), vec![], None),
            ("it does not put up with it", json!([]), vec![taint("a", 7)], Some(at(7))),
            ("it does for a while", json!([for_a_while("a", 300)]), vec![taint("a", 7)], Some(at(307))),
            (
                "for the shortest of two",
                json!([for_a_while("a", 300), for_a_while("a", 20)]),
                vec![taint("a", 7)],
                Some(at(27)),
            ),
            ("for ever", json!([{"operator": "Exists"}]), vec![taint("a", 7)], None),
            ("one of two", json!([for_a_while("a", 300)]), vec![taint("a", 7), taint("b", 9)], Some(at(9))),
        ];
        for (name, tolerations, taints, expected) in rows {
            assert_eq!(leaves_at(&pod(tolerations), &taints), expected, "{name}");
        }
    }

    #[test]
    fn pods_go_a_few_at_a_time_and_none_before_its_time() {
        let pod = |number: usize, over: Value| -> Pod {
            let mut pod = json!({"metadata": {"name": format!("p{number:03}")}, "spec": {"containers": []}});
            for (field, value) in over.as_object().into_iter().flatten() {
                pod[field] = value.clone();
            }
            serde_json::from_value(pod).unwrap()
        };
        let taints =
            [Taint { key: "a".to_owned(), effect: NO_EXECUTE.to_owned(), value: None, time_added: Some(Time(at(0))) }];
        let patient = |seconds: i64| {
            let toleration = json!({"key": "a", "operator": "Exists", "tolerationSeconds": seconds});
            json!({"spec": {"containers": [], "tolerations": [toleration]}})
        };
        let deleted = json!({"metadata": {"name": "gone", "deletionTimestamp": "2026-03-01T12:00:00Z",
            "deletionGracePeriodSeconds": 0}});
        let many = |over: Value| -> Vec<Pod> { (0..60).map(|number| pod(number, over.clone())).collect() };
        let count = |departures: &Departures<'_>| (departures.now.len(), departures.next, departures.is_more_due);
        let rows = [
            ("nobody is there", vec![], (0, None, false)),
            ("more than at a time", many(json!({})), (50, Some(at(11)), true)),
            ("their time has not come", many(patient(30)), (0, Some(at(30)), false)),
            ("it has for one", vec![pod(0, patient(5)), pod(1, patient(30))], (1, Some(at(30)), false)),
            ("it is on its way", vec![pod(0, deleted.clone())], (0, None, false)),
        ];
        for (name, pods, expected) in rows {
            let pods: Vec<&Pod> = pods.iter().collect();
            assert_eq!(count(&departures(&pods, &taints, at(10))), expected, "{name}");
        }
        let held: Vec<Pod> = (0..60).map(|number| pod(number, deleted.clone())).chain([pod(60, json!({}))]).collect();
        let rows = [
            ("it went a moment ago", many(json!({})), 39, (0, Some(at(40)), false)),
            ("long ago", many(json!({})), 40, (50, Some(at(41)), true)),
            ("those that ended keep nobody", held, 40, (1, None, false)),
        ];
        for (name, pods, second, expected) in rows {
            let pods: Vec<&Pod> = pods.iter().collect();
            assert_eq!(count(&left_behind(&pods, at(0), at(second))), expected, "{name}");
        }
    }
}
