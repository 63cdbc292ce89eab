//! The statuses of a Pod's containers.

use k8s_openapi::api::core::v1::{
    Container, ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, PodSpec, PodStatus, VolumeMount, VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Hold, Sight, whole_seconds};
use crate::pod::state::{ContainerState, Exit, Phase, Role};

/// Init containers and the others, each in their order.
pub(super) struct Statuses {
    pub(super) init: Vec<ContainerStatus>,
    pub(super) main: Vec<ContainerStatus>,
}

impl Statuses {
    pub(super) fn make(spec: &PodSpec, old: &PodStatus, sight: Sight<'_>) -> Statuses {
        let has_init = spec.init_containers.as_ref().is_some_and(|init| !init.is_empty());
        let each = |container: &Container, olds: &Option<Vec<ContainerStatus>>| {
            let old = olds.iter().flatten().find(|old| old.name == container.name);
            let observed = sight.state.and_then(|state| state.container(&container.name));
            match observed {
                Some(observed) => from_state(container, observed, &sight.node.runtime),
                None => unobserved(container, old, has_init, sight),
            }
        };
        let init = spec.init_containers.iter().flatten();
        Statuses {
            init: init.map(|container| each(container, &old.init_container_statuses)).collect(),
            main: spec.containers.iter().map(|container| each(container, &old.container_statuses)).collect(),
        }
    }

    /// Init containers that go on and the others, which together make a Pod ready.
    pub(super) fn lasting<'a>(&'a self, spec: &'a PodSpec) -> impl Iterator<Item = &'a ContainerStatus> {
        let init = self.init.iter().zip(spec.init_containers.iter().flatten());
        init.filter(|(_, container)| is_sidecar(container)).map(|(status, _)| status).chain(&self.main)
    }
}

pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

pub(super) fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// Whether it has ended and will not be started again.
pub(super) fn has_ended(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.terminated.is_some())
}

/// Whether it runs, or did.
pub(super) fn has_run(status: &ContainerStatus) -> bool {
    let ended_before = status.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    is_running(status) || has_ended(status) || ended_before
}

/// How it ended for good.
pub(super) fn exit_code(status: &ContainerStatus) -> Option<i32> {
    status.state.as_ref()?.terminated.as_ref().map(|terminated| terminated.exit_code)
}

fn from_state(container: &Container, observed: &ContainerState, runtime: &str) -> ContainerStatus {
    let id = observed.run_id.as_ref().map(|id| format!("{runtime}://{id}"));
    let state = match &observed.phase {
        Phase::Waiting { reason, message } => waiting(reason, message),
        Phase::Running { started_at } => ApiState {
            running: Some(ContainerStateRunning { started_at: Some(Time(whole_seconds(*started_at))) }),
            ..ApiState::default()
        },
        // A kubelet lets it wait for ever.
        Phase::Ended(exit) if exit.is_of_what_never_ran() => waiting("PodInitializing", ""),
        Phase::Ended(exit) => terminated(exit, id.clone()),
    };
    let is_running = observed.is_running();
    let is_done = matches!(&observed.phase, Phase::Ended(exit) if exit.code == 0);
    ContainerStatus {
        container_id: id,
        last_state: Some(observed.last_exit.as_ref().map(|exit| terminated(exit, None)).unwrap_or_default()),
        ready: if observed.role == Role::Init { is_done } else { is_running && observed.is_ready },
        restart_count: i32::try_from(observed.restarts).unwrap_or(i32::MAX),
        started: Some(is_running && observed.is_started),
        state: Some(state),
        ..plain(container)
    }
}

/// A container of which nothing is there: not yet, or not any more.
fn unobserved(
    container: &Container,
    old: Option<&ContainerStatus>,
    has_init: bool,
    sight: Sight<'_>,
) -> ContainerStatus {
    let status = match old {
        Some(old) if has_ended(old) => return old.clone(),
        Some(old) => {
            ContainerStatus { restart_count: old.restart_count, last_state: old.last_state.clone(), ..plain(container) }
        }
        None => plain(container),
    };
    let ran = old.is_some_and(is_running);
    // Nobody saw how it ended: that counts as a failure.
    let lost = || ContainerStateTerminated {
        exit_code: 137,
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some("The container could not be located when the pod was terminated".to_owned()),
        ..ContainerStateTerminated::default()
    };
    if sight.is_over {
        return ContainerStatus { state: Some(ApiState { terminated: Some(lost()), ..ApiState::default() }), ..status };
    }
    let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
    let held = sight.hold.filter(|hold| hold.container.as_deref().is_none_or(|name| name == container.name));
    let state = match held {
        Some(Hold { reason, message, .. }) if reason != "ContainerCreating" => waiting(reason, message),
        _ => waiting(reason, ""),
    };
    let last_state = if ran {
        Some(ApiState { terminated: Some(lost()), ..ApiState::default() })
    } else {
        status.last_state.clone()
    };
    let restart_count = status.restart_count + i32::from(ran);
    ContainerStatus { state: Some(state), last_state, restart_count, ..status }
}

/// What is told of a container however it is.
fn plain(container: &Container) -> ContainerStatus {
    let resources = container.resources.clone().unwrap_or_default();
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        allocated_resources: resources.requests.clone(),
        resources: Some(resources),
        last_state: Some(ApiState::default()),
        started: Some(false),
        volume_mounts: container.volume_mounts.as_ref().map(|mounts| mounts.iter().map(mount).collect()),
        ..ContainerStatus::default()
    }
}

fn mount(mount: &VolumeMount) -> VolumeMountStatus {
    let is_read_only = mount.read_only.unwrap_or(false);
    VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: is_read_only.then_some(true),
        recursive_read_only: is_read_only.then(|| "Disabled".to_owned()),
        volume_status: None,
    }
}

fn waiting(reason: &str, message: &str) -> ApiState {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let waiting = ContainerStateWaiting { reason: text(reason), message: text(message) };
    ApiState { waiting: Some(waiting), ..ApiState::default() }
}

fn terminated(exit: &Exit, container_id: Option<String>) -> ApiState {
    let terminated = ContainerStateTerminated {
        container_id,
        exit_code: exit.code,
        signal: exit.signal,
        reason: Some(exit.reason.clone()),
        message: (!exit.message.is_empty()).then(|| exit.message.clone()),
        started_at: exit.started_at.map(|at| Time(whole_seconds(at))),
        finished_at: Some(Time(whole_seconds(exit.finished_at))),
    };
    ApiState { terminated: Some(terminated), ..ApiState::default() }
}
