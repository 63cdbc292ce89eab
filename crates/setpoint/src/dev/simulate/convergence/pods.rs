//! Nothing is left of what went, and all that should run runs.

use k8s_openapi::api::core::v1::Pod;
use setpoint_core::workload::{pod_state, selection};

use crate::dev::simulate::ledger::Books;
use crate::dev::simulate::rules::{by_uid, is_available, title};

pub(super) fn settled(books: &Books, pod: &Pod, unmet: &mut Vec<String>) {
    let title = title(&pod.metadata);
    if pod.metadata.deletion_timestamp.is_some() {
        unmet.push(format!("the Pod {title} is still being deleted"));
    } else if pod_state::is_active(pod) && !is_available(pod) && !ends_by_itself(pod) {
        unmet.push(format!("the Pod {title} is not ready"));
    }
    if let Some(owner) = selection::controller_of(&pod.metadata)
        && by_uid(&books.replica_sets, &owner.uid).is_none()
        && by_uid(&books.jobs, &owner.uid).is_none()
    {
        unmet.push(format!("the Pod {title} is of {} {}, which is gone", owner.kind, owner.name));
    }
}

/// Whoever was told to go has gone, and Pods have somewhere to run.
pub(super) fn environments(books: &Books, unmet: &mut Vec<String>) {
    let leaving = books.environments.iter().filter(|(_, it)| it.metadata.deletion_timestamp.is_some());
    unmet.extend(leaving.map(|(name, _)| format!("the Environment {name} is still being deleted")));
    if books.environments.is_empty() {
        unmet.push("there is no Environment".to_owned());
    }
}

/// What is to end is waited for by its Job.
fn ends_by_itself(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) == Some("Never")
}
