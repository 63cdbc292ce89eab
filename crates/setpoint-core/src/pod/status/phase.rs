//! Where a Pod as a whole stands in its life.

use std::fmt;

use k8s_openapi::api::core::v1::{ContainerStatus, PodSpec};

use super::containers::{Statuses, exit_code, has_ended, has_run, is_running, is_sidecar};

/// Where a Pod stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPhase {
    /// Not everything of it has been started yet.
    Pending,
    /// Everything was started, and something runs or will again.
    Running,
    /// All its containers have ended well, and none starts again.
    Succeeded,
    /// All its containers have ended, not all of them well, and none starts again.
    Failed,
}

impl PodPhase {
    pub fn read(phase: Option<&str>) -> PodPhase {
        match phase {
            Some("Running") => PodPhase::Running,
            Some("Succeeded") => PodPhase::Succeeded,
            Some("Failed") => PodPhase::Failed,
            _ => PodPhase::Pending,
        }
    }

    /// Whether it stays so.
    pub fn is_final(self) -> bool {
        matches!(self, PodPhase::Succeeded | PodPhase::Failed)
    }
}

impl fmt::Display for PodPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The phase that follows from the containers. `is_over` says that none will be started again, whatever was planned.
pub(super) fn phase(spec: &PodSpec, containers: &Statuses, is_over: bool) -> PodPhase {
    let init: Vec<(&ContainerStatus, bool)> =
        containers.init.iter().zip(spec.init_containers.iter().flatten().map(is_sidecar)).collect();
    let steps = || init.iter().filter(|(_, is_sidecar)| !is_sidecar).map(|(status, _)| *status);
    let sidecars = || init.iter().filter(|(_, is_sidecar)| *is_sidecar).map(|(status, _)| *status);
    let main = &containers.main;

    if steps().any(|step| exit_code(step).is_some_and(|code| code != 0)) {
        return PodPhase::Failed;
    }
    let was_initialized = main.iter().any(has_run);
    let step_pending = steps().any(|step| !has_ended(step));
    let sidecar_pending =
        sidecars().any(|sidecar| if is_running(sidecar) { sidecar.started != Some(true) } else { !has_run(sidecar) });
    let waits = sidecars().chain(main).any(|container| !has_run(container));
    let pending = (!was_initialized && (step_pending || sidecar_pending)) || waits;
    if pending {
        return if is_over { PodPhase::Failed } else { PodPhase::Pending };
    }
    if sidecars().chain(main).any(is_running) {
        return PodPhase::Running;
    }
    if !is_over && !main.iter().all(has_ended) {
        return PodPhase::Running;
    }
    let last_code = |status: &ContainerStatus| {
        let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        exit_code(status).or(last.map(|last| last.exit_code))
    };
    if main.iter().all(|status| last_code(status) == Some(0)) { PodPhase::Succeeded } else { PodPhase::Failed }
}
