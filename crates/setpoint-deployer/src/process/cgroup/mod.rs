//! Control groups: what limits a container's processes, counts what they use and knows them all.
//!
//! A machine has them in version 2 (one tree), in version 1 (one tree for each controller), or not to our use. Which it is
//! is found out by trying, below the control group that we are in ourselves. What cannot be limited so is told.

mod mounts;
mod v1;
mod v2;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use serde::{Deserialize, Serialize};
use setpoint_api::quantity::Quantity;
use setpoint_core::pod::Usage;

use self::mounts::Trees;

/// No container may have more processes and threads than this: what forks without end must not take the machine along.
const MAX_PROCESSES: u64 = 16_384;

/// The time in which a container may use its share of the processors.
const PERIOD_MICROSECONDS: u64 = 100_000;

/// The smallest share that the kernel knows.
const LEAST_QUOTA_MICROSECONDS: u64 = 1_000;

/// The control group of one run of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cgroup {
    version: Version,
    /// The folder for each controller: in version 2 the same for all.
    folders: BTreeMap<Controller, PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Version {
    V1,
    V2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Controller {
    Memory,
    Cpu,
    CpuAccounting,
    Processes,
}

/// What a container may use at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    pub cpu_millis: Option<u64>,
}

/// What came of making a control group.
#[derive(Debug, Default)]
pub struct Made {
    pub cgroup: Option<Cgroup>,
    /// The limits that are not in force, and why.
    pub unlimited: Vec<Unlimited>,
}

/// A limit that is not in force.
#[derive(Debug)]
pub struct Unlimited {
    pub resource: &'static str,
    pub reason: String,
}

impl Limits {
    pub fn of(container: &Container) -> Limits {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        let limit = |name: &str| {
            let quantity = Quantity::parse(&limits?.get(name)?.0).ok()?;
            (!quantity.is_negative()).then_some(quantity)
        };
        Limits {
            memory_bytes: limit("memory").and_then(|memory| u64::try_from(memory.value()).ok()),
            cpu_millis: limit("cpu").and_then(|cpu| u64::try_from(cpu.milli_value()).ok()),
        }
    }
}

impl Cgroup {
    /// Makes the control group of this name below our own, as far as the machine allows.
    pub fn make(name: &str, limits: Limits) -> Made {
        Cgroup::make_in(&Trees::of_this_process(), name, limits)
    }

    fn make_in(trees: &Trees, name: &str, limits: Limits) -> Made {
        let made = v2::make(trees, name, limits).or_else(|| v1::make(trees, name, limits));
        made.unwrap_or_else(|| Made { cgroup: None, unlimited: limits.all("the machine gives us no control groups") })
    }

    /// The files that a process joins it with.
    pub fn join_files(&self) -> Vec<PathBuf> {
        self.distinct().map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// The processes in it.
    pub fn members(&self) -> Vec<u32> {
        let read = |folder: &Path| fs::read_to_string(folder.join("cgroup.procs")).ok();
        let text = self.distinct().find_map(read).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// How many of its processes were killed because it had used up its memory.
    pub fn out_of_memory_kills(&self) -> u64 {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        self.folder(Controller::Memory).and_then(|folder| field(&folder.join(file), "oom_kill")).unwrap_or(0)
    }

    /// What its processes use and have used.
    pub fn usage(&self) -> Option<Usage> {
        match self.version {
            Version::V1 => v1::usage(self),
            Version::V2 => v2::usage(self),
        }
    }

    /// Removes it, once all its processes have ended.
    pub fn remove(&self) -> io::Result<()> {
        // One that cannot be removed yet must not keep the others.
        let mut outcome = Ok(());
        for folder in self.distinct() {
            match fs::remove_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => outcome = Err(error),
                _ => {}
            }
        }
        outcome
    }

    fn folder(&self, controller: Controller) -> Option<&Path> {
        self.folders.get(&controller).map(PathBuf::as_path)
    }

    fn distinct(&self) -> impl Iterator<Item = &Path> {
        let count = if self.version == Version::V2 { 1 } else { self.folders.len() };
        self.folders.values().take(count).map(PathBuf::as_path)
    }
}

impl Limits {
    /// How much of each period it may use the processors, if that is limited.
    fn quota_microseconds(self) -> Option<u64> {
        let quota = self.cpu_millis?.saturating_mul(PERIOD_MICROSECONDS) / 1000;
        Some(quota.max(LEAST_QUOTA_MICROSECONDS))
    }

    /// None of them is in force, for this reason.
    fn all(self, reason: &str) -> Vec<Unlimited> {
        let memory = self.memory_bytes.map(|_| "memory");
        let names = memory.into_iter().chain(self.cpu_millis.map(|_| "cpu"));
        names.map(|resource| Unlimited { resource, reason: reason.to_owned() }).collect()
    }
}

/// Sets one limit, and tells if it could not be.
fn limit(resource: &'static str, file: Option<PathBuf>, value: &str, unlimited: &mut Vec<Unlimited>) {
    let reason = match file {
        Some(file) => match fs::write(&file, value) {
            Ok(()) => return,
            Err(error) => error.to_string(),
        },
        None => format!("no control group for {resource} could be made"),
    };
    unlimited.push(Unlimited { resource, reason });
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// One of the lines `name value` of a file.
fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_the_container() {
        let rows = [
            ("none", serde_json::json!({"name": "a"}), Limits::default()),
            (
                "both",
                serde_json::json!({"name": "a", "resources": {"limits": {"memory": "64Mi", "cpu": "250m"}}}),
                Limits { memory_bytes: Some(64 << 20), cpu_millis: Some(250) },
            ),
            (
                "what is no quantity limits nothing",
                serde_json::json!({"name": "a", "resources": {"limits": {"memory": "lots", "cpu": "-1"}}}),
                Limits::default(),
            ),
        ];
        for (what, container, limits) in rows {
            let container: Container = serde_json::from_value(container).unwrap();
            assert_eq!(Limits::of(&container), limits, "{what}");
        }
    }

    #[test]
    fn without_control_groups_every_limit_is_told() {
        let limits = Limits { memory_bytes: Some(1), cpu_millis: Some(1) };
        let made = Cgroup::make_in(&Trees::default(), "x", limits);
        assert!(made.cgroup.is_none());
        let resources: Vec<&str> = made.unlimited.iter().map(|unlimited| unlimited.resource).collect();
        assert_eq!(resources, ["memory", "cpu"]);
        assert!(Cgroup::make_in(&Trees::default(), "x", Limits::default()).unlimited.is_empty());
    }

    #[test]
    fn version_2_is_used_where_its_controllers_are_ours() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("cgroup.controllers"), "cpu memory pids").unwrap();
        fs::write(tree.path().join("cgroup.subtree_control"), "cpu memory pids\n").unwrap();
        let trees = Trees { v2: Some(tree.path().to_owned()), ..Trees::default() };
        let limits = Limits { memory_bytes: Some(1 << 20), cpu_millis: Some(1500) };
        let made = Cgroup::make_in(&trees, "a", limits);
        assert!(made.unlimited.is_empty());
        let folder = tree.path().join("a");
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!((read("memory.max"), read("cpu.max")), ("1048576".to_owned(), "150000 100000".to_owned()));
        let cgroup = made.cgroup.unwrap();
        assert_eq!(cgroup.join_files(), [folder.join("cgroup.procs")]);
        fs::write(folder.join("cgroup.procs"), "7\n8\n").unwrap();
        fs::write(folder.join("memory.events"), "oom 3\noom_kill 2\noom_group_kill 0\n").unwrap();
        fs::write(folder.join("cpu.stat"), "usage_usec 12\nuser_usec 3\n").unwrap();
        fs::write(folder.join("memory.current"), "100\n").unwrap();
        fs::write(folder.join("memory.stat"), "anon 5\ninactive_file 40\n").unwrap();
        fs::write(folder.join("memory.peak"), "120\n").unwrap();
        assert_eq!((cgroup.members(), cgroup.out_of_memory_kills()), (vec![7, 8], 2));
        let usage = Usage { cpu_microseconds: 12, memory_bytes: 60, peak_memory_bytes: 120 };
        assert_eq!(cgroup.usage(), Some(usage));
    }
}
