//! The conditions of a Pod: what of its start is done, and whether it is ready.

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Sight;
use super::containers::{Statuses, has_run, is_sidecar};
use super::phase::PodPhase;

/// The conditions that are ours to write.
const OWN: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// Others' conditions as they are, then ours.
pub(super) fn conditions(pod: &Pod, containers: &Statuses, phase: PodPhase, sight: Sight<'_>) -> Vec<PodCondition> {
    let spec = pod.spec.clone().unwrap_or_default();
    let old = || pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut conditions: Vec<PodCondition> =
        old().filter(|condition| !OWN.contains(&condition.type_.as_str())).cloned().collect();
    let containers_ready = containers_ready(&spec, containers, phase);
    let ready = ready(&spec, &containers_ready, &conditions);
    let has_place = sight.state.is_some_and(|state| !state.has_ended());
    let own = [Truth::of(has_place), initialized(&spec, containers, phase), ready, containers_ready, Truth::of(true)];
    for (type_, verdict) in OWN.into_iter().zip(own) {
        let before = old().find(|condition| condition.type_ == type_);
        let status = if verdict.holds { "True" } else { "False" };
        let same = before.filter(|before| before.status == status);
        let since = same.and_then(|before| before.last_transition_time.clone());
        conditions.push(PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: verdict.reason.map(str::to_owned),
            message: verdict.message,
            last_probe_time: None,
            last_transition_time: since.or(Some(Time(sight.now))),
            observed_generation: pod.metadata.generation,
        });
    }
    conditions
}

/// Whether a condition holds, and why not; or why although there is nothing more to say.
#[derive(Debug, Clone, Default)]
struct Truth {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Truth {
    fn of(holds: bool) -> Truth {
        Truth { holds, ..Truth::default() }
    }

    fn not(reason: &'static str, message: Option<String>) -> Truth {
        Truth { holds: false, reason: Some(reason), message }
    }
}

fn containers_ready(spec: &PodSpec, containers: &Statuses, phase: PodPhase) -> Truth {
    match phase {
        PodPhase::Succeeded => return Truth::not("PodCompleted", None),
        PodPhase::Failed => return Truth::not("PodFailed", None),
        PodPhase::Pending | PodPhase::Running => {}
    }
    let unready = containers.lasting(spec).filter(|status| !status.ready).map(|status| status.name.as_str());
    match listed(unready) {
        None => Truth::of(true),
        Some(names) => {
            let message = format!("containers with unready status: {names}");
            Truth::not("ContainersNotReady", Some(message))
        }
    }
}

/// A Pod is ready when its containers are, and when all agree whom its readiness gates name.
fn ready(spec: &PodSpec, containers_ready: &Truth, others: &[PodCondition]) -> Truth {
    if !containers_ready.holds {
        return containers_ready.clone();
    }
    let mut messages = Vec::new();
    for gate in spec.readiness_gates.iter().flatten() {
        let name = &gate.condition_type;
        match others.iter().find(|condition| condition.type_ == *name) {
            None => messages.push(format!("corresponding condition of pod readiness gate {name:?} does not exist.")),
            Some(condition) if condition.status != "True" => {
                let status = &condition.status;
                messages.push(format!("the status of pod readiness gate {name:?} is not \"True\", but {status}"));
            }
            Some(_) => {}
        }
    }
    if messages.is_empty() { Truth::of(true) } else { Truth::not("ReadinessGatesNotReady", Some(messages.join(", "))) }
}

fn initialized(spec: &PodSpec, containers: &Statuses, phase: PodPhase) -> Truth {
    if phase == PodPhase::Succeeded {
        return Truth { holds: true, reason: Some("PodCompleted"), message: None };
    }
    // What was initialized once stays so, whatever a sidecar does later.
    if containers.main.iter().any(has_run) {
        return Truth::of(true);
    }
    let init = containers.init.iter().zip(spec.init_containers.iter().flatten());
    let incomplete = init.filter(|(status, container)| {
        let is_done = if is_sidecar(container) { status.started == Some(true) } else { status.ready };
        !is_done
    });
    match listed(incomplete.map(|(status, _)| status.name.as_str())) {
        None => Truth::of(true),
        Some(names) => {
            let message = format!("containers with incomplete status: {names}");
            Truth::not("ContainersNotInitialized", Some(message))
        }
    }
}

/// `[a b]`; `None` if there is none.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.collect();
    (!names.is_empty()).then(|| format!("[{}]", names.join(" ")))
}
