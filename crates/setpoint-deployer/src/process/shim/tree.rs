//! All processes of a container, and of a whole instance: found and killed.
//!
//! A control group knows its own. Without one, what belongs to a container is told by where it came from: by its parents,
//! its session, or the folder that it was told is its own. Whatever loses its parent falls to the shim, so nothing gets lost.

use std::path::Path;

use rustix::process::{Pid, Signal};

use super::super::cgroup::Cgroup;
use super::super::process_table::{self, Entry};

/// Kills everything of a container, and says whether anything was left to kill.
pub(super) fn kill_container(leader: u32, cgroup: Option<&Cgroup>, root: &Path) -> bool {
    let members = match cgroup {
        Some(cgroup) => cgroup.members().into_iter().filter(|pid| is_alive(*pid)).collect(),
        None => members(leader, root),
    };
    members.iter().for_each(|pid| kill(*pid));
    !members.is_empty()
}

/// Kills everything that this process has started, directly or not, and says whether anything was left to kill.
pub(super) fn kill_descendants() -> bool {
    let entries = process_table::entries().unwrap_or_default();
    let alive = process_table::descendants(&entries, std::process::id()).into_iter().filter(|entry| !entry.is_zombie);
    alive.inspect(|entry| kill(entry.identity.pid)).count() > 0
}

/// Kills what an instance's earlier shim has left behind, and says whether anything was left to kill.
pub fn kill_leftovers(instance: &str) -> bool {
    let entries = process_table::entries().unwrap_or_default();
    let own = std::process::id();
    let is_left = |entry: &&Entry| {
        let pid = entry.identity.pid;
        pid != own && !entry.is_zombie && process_table::has_variable(pid, "SETPOINT_INSTANCE", instance)
    };
    entries.iter().filter(is_left).inspect(|entry| kill(entry.identity.pid)).count() > 0
}

/// Asks the container's own process and its group to end.
pub(super) fn signal(leader: u32, signal: Signal) {
    if let Some(pid) = pid(leader) {
        // Who has ended by itself needs no asking.
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

/// The signal of a name as a Pod gives it.
pub(super) fn named(name: Option<&str>) -> Signal {
    match name {
        Some("SIGINT") => Signal::INT,
        Some("SIGQUIT") => Signal::QUIT,
        Some("SIGHUP") => Signal::HUP,
        Some("SIGUSR1") => Signal::USR1,
        Some("SIGUSR2") => Signal::USR2,
        Some("SIGKILL") => Signal::KILL,
        Some("SIGABRT") => Signal::ABORT,
        Some("SIGALRM") => Signal::ALARM,
        Some("SIGCONT") => Signal::CONT,
        Some("SIGPIPE") => Signal::PIPE,
        Some("SIGWINCH") => Signal::WINCH,
        Some("SIGPWR") => Signal::POWER,
        _ => Signal::TERM,
    }
}

fn members(leader: u32, root: &Path) -> Vec<u32> {
    let entries = process_table::entries().unwrap_or_default();
    let ours = process_table::descendants(&entries, std::process::id());
    let below = process_table::descendants(&entries, leader);
    let root = root.to_string_lossy();
    let belongs = |entry: &&Entry| {
        let pid = entry.identity.pid;
        pid == leader
            || entry.session == leader
            || below.iter().any(|other| other.identity == entry.identity)
            || process_table::has_variable(pid, "SETPOINT_ROOT", &root)
    };
    ours.iter().filter(|entry| !entry.is_zombie).filter(belongs).map(|entry| entry.identity.pid).collect()
}

fn is_alive(pid: u32) -> bool {
    process_table::entry(pid).is_ok_and(|entry| !entry.is_zombie)
}

fn kill(of: u32) {
    if let Some(pid) = pid(of) {
        // It may just have ended.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

fn pid(of: u32) -> Option<Pid> {
    i32::try_from(of).ok().and_then(Pid::from_raw)
}
