//! Control groups of version 2: one tree, whose controllers each folder hands down to the next.

use std::fs;
use std::io;
use std::path::Path;

use setpoint_core::pod::Usage;

use super::mounts::Trees;
use super::{Cgroup, Controller, Limits, MAX_PROCESSES, Made, PERIOD_MICROSECONDS, Version, field, limit, number};

/// Nothing if our own folder cannot hand down the memory controller: then the other version may.
pub(super) fn make(trees: &Trees, name: &str, limits: Limits) -> Option<Made> {
    let own = trees.v2.as_deref()?;
    if !hands_down(own) {
        return None;
    }
    let folder = own.join(name);
    match fs::create_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return None,
        _ => {}
    }
    let mut unlimited = Vec::new();
    if let Some(bytes) = limits.memory_bytes {
        limit("memory", Some(folder.join("memory.max")), &bytes.to_string(), &mut unlimited);
        limit("swap", Some(folder.join("memory.swap.max")), "0", &mut Vec::new());
    }
    if let Some(quota) = limits.quota_microseconds() {
        limit("cpu", Some(folder.join("cpu.max")), &format!("{quota} {PERIOD_MICROSECONDS}"), &mut unlimited);
    }
    limit("pids", Some(folder.join("pids.max")), &MAX_PROCESSES.to_string(), &mut Vec::new());
    let controllers = [Controller::Memory, Controller::Cpu, Controller::CpuAccounting, Controller::Processes];
    let folders = controllers.into_iter().map(|controller| (controller, folder.clone())).collect();
    Some(Made { cgroup: Some(Cgroup { version: Version::V2, folders }), unlimited })
}

/// Whether the folders below have controllers, if need be because we ask for it. The kernel refuses that to a folder with
/// processes of its own, unless it is the top.
fn hands_down(own: &Path) -> bool {
    let file = own.join("cgroup.subtree_control");
    let has_memory = || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.split_whitespace().any(|controller| controller == "memory")
    };
    if has_memory() {
        return true;
    }
    for controller in ["+memory", "+cpu", "+pids"] {
        // One that is missing must not keep the others away.
        let _ = fs::write(&file, controller);
    }
    has_memory()
}

pub(super) fn usage(cgroup: &Cgroup) -> Option<Usage> {
    let folder = cgroup.folder(Controller::Memory)?;
    let used = number(&folder.join("memory.current"))?;
    let cache = field(&folder.join("memory.stat"), "inactive_file").unwrap_or(0);
    Some(Usage {
        cpu_microseconds: field(&folder.join("cpu.stat"), "usage_usec").unwrap_or(0),
        memory_bytes: used.saturating_sub(cache),
        peak_memory_bytes: number(&folder.join("memory.peak")).unwrap_or(0),
    })
}
