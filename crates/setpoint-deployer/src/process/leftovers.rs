//! What outlived the shim of an instance: processes that are known by a variable or by their control group.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::record::{self, STATE, StateRecord};
use super::shim::kill_leftovers;
use super::shim_process::Process;

/// How long what was killed may take to be gone.
const LAST_MOMENT: Duration = Duration::from_secs(5);

/// Ends all that is left of an instance, and removes its control groups. Nobody may be starting anything for it.
pub(super) fn kill(folder: &Path, id: &str) -> io::Result<()> {
    let record = record::read::<StateRecord>(folder, STATE).ok().flatten();
    let cgroups: Vec<_> = record.into_iter().flat_map(|record| record.processes).filter_map(|it| it.cgroup).collect();
    let deadline = Instant::now() + LAST_MOMENT;
    loop {
        let members = cgroups.iter().flat_map(|cgroup| cgroup.members());
        let members: Vec<Process> =
            members.filter_map(|pid| Process::open(i32::try_from(pid).ok()?).ok()).filter(Process::is_alive).collect();
        members.iter().for_each(|process| process.signal(Signal::KILL));
        if !kill_leftovers(id) && members.is_empty() {
            break;
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "its processes cannot be ended"));
        }
        members.iter().for_each(Process::wait_a_moment);
        std::thread::yield_now();
    }
    for cgroup in &cgroups {
        // One that is still busy is used again, or removed with the next end.
        let _ = cgroup.remove();
    }
    Ok(())
}
