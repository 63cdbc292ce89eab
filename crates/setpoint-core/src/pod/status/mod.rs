//! The status of a Pod as a kubelet writes it, from what is observed.
//!
//! It is made from the whole of what is known each time: whoever died before it was written makes the same one again. From
//! the status that stands in the Pod it takes only what nobody can observe any more: when conditions turned, how
//! containers ended whose traces are gone, and that it has ended, which is never taken back.

mod conditions;
mod containers;
mod phase;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{HostIP, Pod, PodIP, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::fields::NodeFacts;
use super::state::PodState;

pub use phase::PodPhase;

/// Why a Pod that could be started is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The container in whose way it is, if not in that of all.
    pub container: Option<String>,
    /// `CreateContainerConfigError`, `CreateContainerError`, `ContainerCreating`.
    pub reason: String,
    pub message: String,
}

/// Why a Pod fails whatever its containers do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// `DeadlineExceeded`, `NodeAffinity`.
    pub reason: String,
    pub message: String,
}

/// What a status is made from besides the Pod.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// What is observed; `None` where nothing of the Pod is there.
    pub state: Option<&'a PodState>,
    pub hold: Option<&'a Hold>,
    /// Why it must not run here at all, if it must not.
    pub rejection: Option<&'a Verdict>,
    /// That nothing of it will run again, whatever its restart policy.
    pub is_over: bool,
    pub node: &'a NodeFacts,
    pub now: Timestamp,
}

/// The status that the Pod should have.
pub fn status(pod: &Pod, sight: Sight<'_>) -> PodStatus {
    let old = pod.status.clone().unwrap_or_default();
    let spec = pod.spec.clone().unwrap_or_default();
    let sight = Sight { now: whole_seconds(sight.now), ..sight };
    let mut status = old.clone();
    let containers = containers::Statuses::make(&spec, &old, sight);
    let observed = phase::phase(&spec, &containers, sight.is_over);
    let was = PodPhase::read(old.phase.as_deref());
    let verdict = sight.rejection.cloned().or_else(|| deadline_verdict(pod, sight.now));
    let (phase, verdict) = match verdict {
        _ if was.is_final() => (was, None),
        Some(verdict) if !observed.is_final() || sight.rejection.is_some() => (PodPhase::Failed, Some(verdict)),
        _ => (observed, None),
    };
    if phase != was {
        status.reason = verdict.as_ref().map(|verdict| verdict.reason.clone());
        status.message = verdict.map(|verdict| verdict.message);
    }
    status.phase = Some(phase.to_string());
    status.conditions = Some(conditions::conditions(pod, &containers, phase, sight));
    status.observed_generation = pod.metadata.generation;
    let seen = sight.state.map_or(sight.now, |state| whole_seconds(state.started_at));
    status.start_time = old.start_time.or(Some(Time(seen)));
    set_addresses(&mut status, &spec, sight);
    status.container_statuses = Some(containers.main);
    status.init_container_statuses = (!containers.init.is_empty()).then_some(containers.init);
    status
}

/// The instant at which a Pod has run for too long, if it may not run for ever.
pub fn deadline(pod: &Pod) -> Option<Timestamp> {
    let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
    let started = pod.status.as_ref()?.start_time.as_ref()?.0;
    started.checked_add(SignedDuration::from_secs(seconds)).ok()
}

fn deadline_verdict(pod: &Pod, now: Timestamp) -> Option<Verdict> {
    deadline(pod).filter(|deadline| *deadline <= now).map(|_| Verdict {
        reason: "DeadlineExceeded".to_owned(),
        message: "Pod was active on the node longer than the specified deadline".to_owned(),
    })
}

fn set_addresses(status: &mut PodStatus, spec: &PodSpec, sight: Sight<'_>) {
    let hosts: Vec<String> = sight.node.addresses.iter().map(ToString::to_string).collect();
    if let Some(first) = hosts.first() {
        status.host_ip = Some(first.clone());
        status.host_ips = Some(hosts.iter().map(|ip| HostIP { ip: ip.clone() }).collect());
    }
    let own = sight.state.and_then(|state| state.ip).map(|ip| ip.to_string());
    let shared = hosts.first().filter(|_| spec.host_network.unwrap_or(false)).cloned();
    if let Some(ip) = own.or(shared) {
        status.pod_ips = Some(vec![PodIP { ip: ip.clone() }]);
        status.pod_ip = Some(ip);
    }
}

/// Times in the API have no fractions: what is compared with what was read must not have either.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
