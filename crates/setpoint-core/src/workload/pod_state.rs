//! What a pod's fields say: whether it counts, whether it is ready, and since when.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};

/// Whether the pod counts as a replica: it has not finished and is not on its way out.
pub fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Whether the pod is on its way out and may still be running.
pub fn is_terminating(pod: &Pod) -> bool {
    !is_finished(pod) && pod.metadata.deletion_timestamp.is_some()
}

/// Whether all containers have ended for good.
pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some()
}

/// Since when the pod has been ready, where it is and somebody wrote it down.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    ready_condition(pod)?.last_transition_time.as_ref().map(|time| time.0)
}

/// Whether the pod has been ready for at least `min_ready_seconds`.
pub fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_ready(pod) && (min_ready_seconds <= 0 || available_from(pod, min_ready_seconds).is_some_and(|from| from <= now))
}

/// From when a pod that is ready counts as available, if it stays ready.
pub fn available_from(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    ready_since(pod)?.checked_add(SignedDuration::from_secs(min_ready_seconds.max(0).into())).ok()
}

/// Whether a change of a pod may change what its owner does or says: whose it is, whether it counts, and as what.
/// Where it runs, or how its containers are getting on, does not.
pub fn concerns_owner(before: &Pod, after: &Pod) -> bool {
    let counts = |pod: &Pod| (is_finished(pod), pod.metadata.deletion_timestamp.is_some(), is_ready(pod));
    counts(before) != counts(after)
        || ready_since(before) != ready_since(after)
        || before.metadata.uid != after.metadata.uid
        || before.metadata.labels != after.metadata.labels
        || before.metadata.owner_references != after.metadata.owner_references
}

fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready").filter(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::fixtures::{noon, not_ready, pod, ready_since};

    #[test]
    fn whether_a_pod_counts() {
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-03-01T11:59:00Z"}});
        let rows: [(&str, Value, bool, bool); 6] = [
            ("a running pod is active", json!({}), true, false),
            ("a pod that has no status yet is active", json!({"status": null}), true, false),
            ("a pod that failed does not count", json!({"status": {"phase": "Failed"}}), false, false),
            ("a pod that succeeded does not count", json!({"status": {"phase": "Succeeded"}}), false, false),
            ("a deleted pod is terminating", deleted.clone(), false, true),
            (
                "a deleted pod that has ended is neither",
                json!({"metadata": deleted["metadata"], "status": {"phase": "Failed"}}),
                false,
                false,
            ),
        ];
        for (name, over, active, terminating) in rows {
            let pod = pod("p", over);
            assert_eq!((is_active(&pod), is_terminating(&pod)), (active, terminating), "{name}");
        }
    }

    #[test]
    fn which_changes_concern_the_owner() {
        let rows: [(&str, Value, bool); 9] = [
            ("nothing", json!({}), false),
            ("another node", json!({"spec": {"nodeName": "n2"}}), false),
            ("a restart", json!({"status": {"containerStatuses": []}}), false),
            ("it is deleted", json!({"metadata": {"deletionTimestamp": "2026-03-01T11:59:00Z"}}), true),
            ("it ends", json!({"status": {"phase": "Failed"}}), true),
            ("it is not ready any more", not_ready(), true),
            ("it was not ready in between", ready_since(-1), true),
            ("another label", json!({"metadata": {"labels": {"app": "db"}}}), true),
            ("another owner", json!({"metadata": {"ownerReferences": []}}), true),
        ];
        for (name, over, expected) in rows {
            assert_eq!(concerns_owner(&pod("p", json!({})), &pod("p", over)), expected, "{name}");
        }
    }

    #[test]
    fn whether_a_pod_is_available() {
        let timeless = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let rows: [(&str, Value, i32, bool); 7] = [
            ("ready is available where no time is asked for", ready_since(0), 0, true),
            ("not ready is not available", not_ready(), 0, false),
            ("a pod without conditions is not available", json!({"status": {"conditions": null}}), 0, false),
            ("ready for less than asked is not available", ready_since(-9), 10, false),
            ("ready for exactly as long as asked is available", ready_since(-10), 10, true),
            ("ready since an unknown time is available where no time is asked for", timeless.clone(), 0, true),
            ("ready since an unknown time is not available where time is asked for", timeless, 1, false),
        ];
        for (name, over, min_ready_seconds, expected) in rows {
            assert_eq!(is_available(&pod("p", over), min_ready_seconds, noon()), expected, "{name}");
        }
    }
}
