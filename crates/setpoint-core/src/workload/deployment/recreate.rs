//! The strategy Recreate: the old revision stops, its pods go, then the new one starts.

use k8s_openapi::api::core::v1::Pod;

use super::family::Family;
use super::{Decision, Desired, Reason, Step, WaitsOn, revision};
use crate::workload::{pod_state, selection};

pub(super) fn recreate(desired: &Desired<'_>, family: &Family<'_>, pods: &[&Pod]) -> Decision {
    let running = family.old.iter().filter(|old| old.replicas > 0);
    let stopped: Vec<Step> = running.filter_map(|old| old.scale(0, desired, Reason::RecreateStop)).collect();
    if !stopped.is_empty() {
        return Decision { waits_on: Some(WaitsOn::OldPods), ..Decision::steps(stopped) };
    }
    if old_pods_remain(family, pods) {
        return Decision::waiting(WaitsOn::OldPods);
    }
    let Some(new) = &family.new else {
        return Decision::steps(vec![revision::create(desired, family, desired.replicas)]);
    };
    if new.replicas != desired.replicas {
        let step = new.scale(desired.replicas, desired, Reason::RecreateStart);
        return Decision::steps(step.into_iter().collect());
    }
    let is_available = new.available == desired.replicas;
    let waits_on = WaitsOn::Availability { available: new.available, desired: desired.replicas };
    Decision { waits_on: (!is_available).then_some(waits_on), ..Decision::default() }
}

/// Whether anything of an old revision may still run: a ReplicaSet that says so or has not spoken, or a pod that has
/// not ended, terminating ones included.
fn old_pods_remain(family: &Family<'_>, pods: &[&Pod]) -> bool {
    let new_uid = family.new.as_ref().and_then(|new| new.set.metadata.uid.as_deref());
    let is_old = |pod: &Pod| {
        let owner = selection::controller_of(&pod.metadata).map(|controller| controller.uid.as_str());
        owner.is_some() && owner != new_uid
    };
    family.old.iter().any(|old| old.pods > 0 || !old.is_observed())
        || pods.iter().any(|pod| is_old(pod) && !pod_state::is_finished(pod))
}
