//! Asks after every process that has ended below the shim, so that none stays in the table, and tells who waits for one.

use std::collections::BTreeMap;

use rustix::process::{WaitOptions, WaitStatus};
use tokio::sync::oneshot;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    /// As a shell tells it.
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
}

#[derive(Debug, Default)]
pub(super) struct Reaper {
    expected: BTreeMap<u32, oneshot::Sender<i32>>,
    /// Whether nothing at all is left below the shim.
    pub(super) is_childless: bool,
}

impl Reaper {
    /// Tells how a process that was just started ends.
    pub(super) fn expect(&mut self, pid: u32) -> oneshot::Receiver<i32> {
        let (sender, receiver) = oneshot::channel();
        self.expected.insert(pid, sender);
        receiver
    }

    /// Those that have ended and that nobody waits for here.
    pub(super) fn reap(&mut self) -> Vec<(u32, Status)> {
        let mut ended = Vec::new();
        self.is_childless = loop {
            let (pid, status) = match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => (pid.as_raw_nonzero().get().unsigned_abs(), Status::of(status)),
                Ok(None) => break false,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => break true,
            };
            match self.expected.remove(&pid) {
                // Who does not listen any more has given up on it.
                Some(sender) => drop(sender.send(status.code)),
                None => ended.push((pid, status)),
            }
        };
        ended
    }
}

impl Status {
    fn of(status: WaitStatus) -> Status {
        let signal = status.terminating_signal();
        let code = signal.map_or_else(|| status.exit_status().unwrap_or(255), |signal| 128 + signal);
        Status { code, signal }
    }
}
