//! The process table, read from outside: who runs, since when, and what it costs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// What Linux shows to programs, whatever it counts in itself.
const TICKS_PER_SECOND: u64 = 100;

/// A process as the kernel tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    /// In the kernel's ticks since it started; with the pid, a name that is never used again.
    pub start_time: u64,
    pub is_zombie: bool,
    /// The program and its arguments, separated by spaces; empty for a zombie.
    pub command: String,
    /// How long it has kept a processor busy.
    pub processor_time: Duration,
}

/// Every process that runs now.
pub fn processes() -> Result<Vec<Process>> {
    let folders = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // One that ends while we look is not there.
    Ok(folders.filter_map(|pid| Process::read(pid).ok()).collect())
}

/// The processes whose command holds this text.
pub fn commanded(text: &str) -> Result<Vec<Process>> {
    Ok(processes()?.into_iter().filter(|process| process.command.contains(text)).collect())
}

/// The shims of the Pods whose folders lie in this one. They name none of them: they work in theirs.
pub fn shims_in(folder: &Path) -> Result<Vec<Process>> {
    let is_shim = |process: &Process| process.command.ends_with(" shim") && works_in(process.pid, folder);
    Ok(processes()?.into_iter().filter(is_shim).collect())
}

fn works_in(pid: u32, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|place| place.starts_with(folder))
}

/// Ends every process that works in this folder: it is there, or its command or its variables name it.
pub fn end_all_of(folder: &Path) -> Result<()> {
    let name = folder.to_str().context("a folder's name is not text")?;
    let is_named = |pid: u32, file: &str| {
        let content = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&content).contains(name)
    };
    let is_there = |pid: u32| works_in(pid, folder) || is_named(pid, "cmdline") || is_named(pid, "environ");
    for Process { pid, .. } in processes()? {
        let pid_number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if let Some(number) = pid_number.filter(|_| is_there(pid)) {
            // It may have ended by itself.
            let _ = kill_process(number, Signal::KILL);
        }
    }
    Ok(())
}

impl Process {
    pub fn read(pid: u32) -> Result<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let command = fs::read(format!("/proc/{pid}/cmdline"))?;
        // The name in parentheses may itself hold spaces and parentheses.
        let (_, rest) = stat.rsplit_once(") ").context("a line of stat without a name")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        // Numbered from 3 in the kernel's documentation.
        let field = |number: usize| fields.get(number - 3).copied().context("a short line of stat");
        let ticks: u64 = field(14)?.parse::<u64>()? + field(15)?.parse::<u64>()?;
        Ok(Process {
            pid,
            parent: field(4)?.parse()?,
            start_time: field(22)?.parse()?,
            is_zombie: field(3)? == "Z",
            command: String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned(),
            processor_time: Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND),
        })
    }

    /// Its memory in bytes, shared pages in proportion.
    pub fn proportional_memory(&self) -> Result<u64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid))?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).context("no Pss")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }
}
