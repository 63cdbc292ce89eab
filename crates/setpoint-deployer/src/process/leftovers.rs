//! Processes of an instance that outlived its shim: they are known by a variable that each was started with.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::process_table;
use super::shim_process::Process;

/// How long what was killed may take to be gone.
const LAST_MOMENT: Duration = Duration::from_secs(5);

/// Ends all that is left of an instance. Nobody may be starting anything for it.
pub(super) fn kill(id: &str) -> io::Result<()> {
    let deadline = Instant::now() + LAST_MOMENT;
    loop {
        let left = find(id)?;
        if left.is_empty() {
            return Ok(());
        }
        for process in &left {
            process.signal(Signal::KILL);
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "its processes cannot be ended"));
        }
        left.iter().for_each(Process::wait_a_moment);
    }
}

fn find(id: &str) -> io::Result<Vec<Process>> {
    let mut left = Vec::new();
    for entry in process_table::entries()?.into_iter().filter(|entry| !entry.is_zombie) {
        let pid = entry.identity.pid;
        let Some(process) = i32::try_from(pid).ok().and_then(|pid| Process::open(pid).ok()) else { continue };
        // Asked after it was opened: it is the process that is meant.
        if process_table::has_variable(pid, "SETPOINT_INSTANCE", id) {
            left.push(process);
        }
    }
    Ok(left)
}
