//! The processes that a server's Pods are, which outlive it: whoever ends with a test ends them.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Kills the supervisors of all Pods in a data folder, and with each all that it runs. A process that only has the same
/// number is left alone.
pub(crate) fn kill_all(data: &Path) {
    let Ok(instances) = fs::read_dir(data.join("pods")) else { return };
    for instance in instances.flatten() {
        let Ok(text) = fs::read_to_string(instance.path().join("shim.json")) else { continue };
        let shim: Value = serde_json::from_str(&text).unwrap_or_default();
        let Some(pid) = shim["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()) else { continue };
        if started_at(pid).is_some_and(|ticks| Some(ticks) == shim["startTime"].as_u64()) {
            // It may have ended just now.
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

/// When a process started, in clock ticks since the machine did.
fn started_at(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}
