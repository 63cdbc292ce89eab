//! What is still known of an instance whose state was lost: a machine without power may leave its file empty or cut.
//!
//! Every run begins with a log, so the logs tell which containers have run, and how often.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use jiff::Timestamp;
use setpoint_core::pod::{Exit, NoticeKind, Phase, PodState, Role};

use crate::process::order::InstanceOrder;

/// The state to go on from: what has run counts as running when it was lost, and what others had to wait for as done.
pub(super) fn reconstruct(order: &InstanceOrder, folder: &Path, why: &str, now: Timestamp) -> PodState {
    let names = order.containers().map(|(_, container)| container.name.as_str());
    let runs = names.filter_map(|name| Some((name, last_run(&folder.join("logs").join(name))?))).collect();
    let mut state = state_after(order, &runs, now);
    let message = format!("The state of the Pod was lost; what had run counts as ended. ({why})");
    state.note(now, NoticeKind::Warning, "StateLost", None, message);
    state
}

fn state_after(order: &InstanceOrder, runs: &BTreeMap<&str, u32>, now: Timestamp) -> PodState {
    let mut state = order.first_state();
    let last = state.containers.iter().rposition(|container| runs.contains_key(container.name.as_str()));
    for (index, container) in state.containers.iter_mut().enumerate() {
        let Some(run) = runs.get(container.name.as_str()) else { continue };
        container.restarts = *run;
        let is_done = container.role == Role::Init && last.is_some_and(|last| index < last);
        container.phase = match is_done {
            false => Phase::Running { started_at: order.created_at },
            true => Phase::Ended(Exit {
                code: 0,
                signal: None,
                reason: "Completed".to_owned(),
                message: String::new(),
                started_at: None,
                finished_at: now,
            }),
        };
        container.is_ready = is_done;
    }
    state
}

/// The number of the newest run that has a log.
fn last_run(logs: &Path) -> Option<u32> {
    let names = fs::read_dir(logs).ok()?.flatten().map(|file| file.file_name());
    names.filter_map(|name| name.to_str()?.split_once('.')?.0.parse().ok()).max()
}
