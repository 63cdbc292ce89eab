//! Control groups of version 1: one tree for each controller, each of which may or may not be ours to use.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use setpoint_core::pod::Usage;

use super::mounts::Trees;
use super::{Cgroup, Controller, Limits, MAX_PROCESSES, Made, PERIOD_MICROSECONDS, Version, field, limit, number};

const CONTROLLERS: [(Controller, &str); 4] = [
    (Controller::Memory, "memory"),
    (Controller::Cpu, "cpu"),
    (Controller::CpuAccounting, "cpuacct"),
    (Controller::Processes, "pids"),
];

pub(super) fn make(trees: &Trees, name: &str, limits: Limits) -> Option<Made> {
    let mut folders = BTreeMap::new();
    for (controller, tree) in CONTROLLERS {
        let Some(folder) = trees.v1.get(tree).map(|folder| folder.join(name)) else { continue };
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {}
            _ => drop(folders.insert(controller, folder)),
        }
    }
    if folders.is_empty() {
        return None;
    }
    let mut unlimited = Vec::new();
    let file = |controller, name: &str| folders.get(&controller).map(|folder: &PathBuf| folder.join(name));
    if let Some(bytes) = limits.memory_bytes {
        let bytes = bytes.to_string();
        limit("memory", file(Controller::Memory, "memory.limit_in_bytes"), &bytes, &mut unlimited);
        // Where swap is counted, it is not to be a way out.
        limit("swap", file(Controller::Memory, "memory.memsw.limit_in_bytes"), &bytes, &mut Vec::new());
    }
    if let Some(quota) = limits.quota_microseconds() {
        limit("cpu", file(Controller::Cpu, "cpu.cfs_period_us"), &PERIOD_MICROSECONDS.to_string(), &mut Vec::new());
        limit("cpu", file(Controller::Cpu, "cpu.cfs_quota_us"), &quota.to_string(), &mut unlimited);
    }
    limit("pids", file(Controller::Processes, "pids.max"), &MAX_PROCESSES.to_string(), &mut Vec::new());
    Some(Made { cgroup: Some(Cgroup { version: Version::V1, folders }), unlimited })
}

pub(super) fn usage(cgroup: &Cgroup) -> Option<Usage> {
    let memory = cgroup.folder(Controller::Memory);
    let cpu = cgroup.folder(Controller::CpuAccounting);
    memory.or(cpu)?;
    let used = memory.and_then(|folder| number(&folder.join("memory.usage_in_bytes"))).unwrap_or(0);
    let cache = memory.and_then(|folder| field(&folder.join("memory.stat"), "total_inactive_file")).unwrap_or(0);
    let peak = memory.and_then(|folder| number(&folder.join("memory.max_usage_in_bytes"))).unwrap_or(0);
    Some(Usage {
        cpu_microseconds: cpu.and_then(|folder| number(&folder.join("cpuacct.usage"))).unwrap_or(0) / 1000,
        memory_bytes: used.saturating_sub(cache),
        peak_memory_bytes: peak,
    })
}
