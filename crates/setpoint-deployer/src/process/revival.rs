//! What is on record of an instance whose shim is gone: how it is ended, and how it is made to run again.

use jiff::Timestamp;
use setpoint_core::pod::{ContainerState, Exit, Phase, PodState, Role};

/// Nobody saw how what still ran has ended.
pub(super) fn end(state: &mut PodState, now: Timestamp) {
    state.stopping_since.get_or_insert(now);
    for container in &mut state.containers {
        let (started_at, code, reason) = match (&container.phase, &container.last_exit) {
            (Phase::Ended(_), _) => continue,
            // What waited to run again has ended as its last run did.
            (Phase::Waiting { .. }, Some(last)) => {
                container.phase = Phase::Ended(last.clone());
                continue;
            }
            (Phase::Running { started_at }, _) => (Some(*started_at), 137, "ContainerStatusUnknown"),
            (Phase::Waiting { .. }, None) => (None, 137, "ContainerStatusUnknown"),
        };
        let message = "The container could not be located when the pod was terminated".to_owned();
        let exit = Exit { code, signal: None, reason: reason.to_owned(), message, started_at, finished_at: now };
        container.phase = Phase::Ended(exit);
        container.is_started = false;
        container.is_ready = false;
    }
}

/// Nobody knows any more how far an instance had come: everything of it may have run, and nothing does now.
pub(super) fn lose(state: &mut PodState) {
    for container in &mut state.containers {
        container.phase = Phase::Running { started_at: state.started_at };
    }
}

/// An instance that has ended begins a new life, from its first container on: `true`. One that has not goes on by itself.
pub(super) fn revive(state: &mut PodState) -> bool {
    state.stopping_since = None;
    if !state.has_ended() {
        return false;
    }
    let has_init = state.containers.iter().any(|container| container.role != Role::Main);
    let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
    for container in &mut state.containers {
        *container = ContainerState::waiting(&container.name, container.role, reason);
    }
    true
}
