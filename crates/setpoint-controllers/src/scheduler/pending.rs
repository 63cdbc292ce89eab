//! The Pods that have no node: those to look at next, and those that wait for something to change.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use crate::runtime::Name;

const SCHEDULER: &str = "default-scheduler";
/// When a Pod that could not be bound is looked at again; it doubles each time.
const FIRST_RETRY: SignedDuration = SignedDuration::from_millis(500);
const LAST_RETRY: SignedDuration = SignedDuration::from_secs(30);

/// The more important first, then the older.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    priority: Reverse<i32>,
    created: Option<Timestamp>,
    pub(super) name: Name,
    pub(super) uid: Arc<str>,
}

/// A Pod is in none of these only once it is settled: whoever takes it may be cut off before that.
#[derive(Debug, Default)]
pub(super) struct Pending {
    ready: BTreeSet<Turn>,
    /// Those whose turn it was, until what was decided has been carried out.
    taken: BTreeSet<Turn>,
    /// Those that fit nowhere, until something changes.
    waiting: BTreeMap<Arc<str>, Turn>,
    /// Those whose binding failed, until a time; and how often it did.
    retries: BTreeSet<(Timestamp, Turn)>,
    failures: BTreeMap<Arc<str>, u32>,
}

impl Turn {
    pub(super) fn of(pod: &Pod) -> Option<Turn> {
        Some(Turn {
            priority: Reverse(pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()),
            created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            name: Name::of(pod),
            uid: pod.metadata.uid.as_deref()?.into(),
        })
    }
}

impl Pending {
    pub(super) fn add(&mut self, turn: Turn) {
        self.forget(&turn);
        self.ready.insert(turn);
    }

    pub(super) fn forget(&mut self, turn: &Turn) {
        self.ready.remove(turn);
        self.taken.remove(turn);
        self.waiting.remove(&turn.uid);
        self.failures.remove(&turn.uid);
        self.retries.retain(|(_, retried)| retried.uid != turn.uid);
    }

    /// The next one whose turn it is. Whoever takes it says when it is done with.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<Turn> {
        while self.retries.first().is_some_and(|(due, _)| *due <= now) {
            self.ready.extend(self.retries.pop_first().map(|(_, turn)| turn));
        }
        let turn = self.ready.pop_first()?;
        self.taken.insert(turn.clone());
        Some(turn)
    }

    /// What was decided for it has been carried out.
    pub(super) fn done(&mut self, turn: &Turn) {
        self.taken.remove(turn);
    }

    /// Whoever took turns was cut off: it is theirs again. Nobody may hold one.
    pub(super) fn take_back(&mut self) {
        let mut taken = std::mem::take(&mut self.taken);
        self.ready.append(&mut taken);
    }

    /// It fits nowhere. What changes from now on may let it, also while that is still being told.
    pub(super) fn wait(&mut self, turn: Turn) {
        self.failures.remove(&turn.uid);
        self.waiting.insert(turn.uid.clone(), turn);
    }

    /// Something changed for which those who wait may fit. Whether any do.
    pub(super) fn wake(&mut self) -> bool {
        let woken = std::mem::take(&mut self.waiting);
        let is_any = !woken.is_empty();
        self.ready.extend(woken.into_values());
        is_any
    }

    pub(super) fn retry(&mut self, turn: Turn, now: Timestamp) {
        let failures = self.failures.entry(turn.uid.clone()).or_default();
        let after = FIRST_RETRY.checked_mul(1 << (*failures).min(8)).unwrap_or(LAST_RETRY).min(LAST_RETRY);
        *failures += 1;
        self.retries.insert((now.checked_add(after).unwrap_or(now), turn));
    }

    pub(super) fn next_retry(&self) -> Option<Timestamp> {
        self.retries.first().map(|(due, _)| *due)
    }
}

/// Whether a Pod is to be put on a node, and by us.
pub(super) fn is_to_be_placed(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let is_ours = spec.scheduler_name.as_deref().is_none_or(|name| name == SCHEDULER);
    let is_gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    let is_placed = spec.node_name.as_ref().is_some_and(|node| !node.is_empty());
    is_ours && !is_gated && !is_placed && pod.metadata.deletion_timestamp.is_none() && !has_ended(pod)
}

/// Whether a Pod takes up room no more.
pub(super) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(over: Value) -> Pod {
        serde_json::from_value(over).unwrap()
    }

    #[test]
    fn some_pods_are_left_alone() {
        let rows = [
            ("an ordinary one", json!({"spec": {"containers": []}}), true),
            (
                "one that is deleted",
                json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}, "spec": {"containers": []}}),
                false,
            ),
            ("one that is gated", json!({"spec": {"containers": [], "schedulingGates": [{"name": "x"}]}}), false),
            ("another scheduler's", json!({"spec": {"containers": [], "schedulerName": "mine"}}), false),
            ("one that is placed", json!({"spec": {"containers": [], "nodeName": "local"}}), false),
            ("one that has ended", json!({"spec": {"containers": []}, "status": {"phase": "Failed"}}), false),
        ];
        for (name, over, expected) in rows {
            assert_eq!(is_to_be_placed(&pod(over)), expected, "{name}");
        }
    }

    #[test]
    fn the_important_come_first_then_the_old_and_those_who_failed_later() {
        let turn = |name: &str, priority: i32, created: &str| {
            let metadata = json!({"name": name, "uid": name, "creationTimestamp": created});
            Turn::of(&pod(json!({"metadata": metadata, "spec": {"containers": [], "priority": priority}}))).unwrap()
        };
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let mut pending = Pending::default();
        let (old, new) = ("2026-03-01T11:00:00Z", "2026-03-01T11:30:00Z");
        for turn in [turn("new", 0, new), turn("old", 0, old), turn("important", 9, new), turn("failed", 0, old)] {
            pending.add(turn);
        }
        let failed = turn("failed", 0, old);
        pending.forget(&failed);
        pending.retry(failed, now);
        let mut order = Vec::new();
        while let Some(turn) = pending.take(now) {
            order.push(turn.name.name.to_string());
            pending.wait(turn);
        }
        assert_eq!(order, ["important", "old", "new"]);
        assert!(pending.take(now + SignedDuration::from_secs(1)).is_some_and(|turn| &*turn.uid == "failed"));
        assert!(pending.wake() && !pending.wake());
        assert!(pending.take(now).is_some_and(|turn| &*turn.uid == "important"));
    }

    #[test]
    fn a_turn_that_was_taken_is_lost_only_once_it_is_done_with() {
        let turn = |name: &str| Turn::of(&pod(json!({"metadata": {"name": name, "uid": name}}))).unwrap();
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        type Then = fn(&mut Pending, Turn);
        let rows: [(&str, Then, &[&str]); 5] = [
            ("cut off", |_, _| {}, &["a", "b"]),
            ("carried out", |pending, turn| pending.done(&turn), &["b"]),
            ("bound or gone, as the cache says", |pending, turn| pending.forget(&turn), &["b"]),
            ("cut off while it was told that it waits", |pending, turn| pending.wait(turn), &["a", "b"]),
            (
                "waiting, and that is told",
                |pending, turn| {
                    pending.wait(turn.clone());
                    pending.done(&turn);
                },
                &["b"],
            ),
        ];
        for (name, then, expected) in rows {
            let mut pending = Pending::default();
            ["a", "b"].into_iter().for_each(|name| pending.add(turn(name)));
            let taken = pending.take(now).unwrap();
            then(&mut pending, taken);
            pending.take_back();
            let order: Vec<_> = std::iter::from_fn(|| pending.take(now)).map(|turn| turn.uid.to_string()).collect();
            assert_eq!(order, expected, "{name}");
        }
    }
}
