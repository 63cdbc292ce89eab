//! A shim as the control plane holds it: a process that is told apart from all others, whatever their ids.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::readiness::readiness;
use super::shim;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, pidfd_send_signal, waitid,
};

/// A process by its descriptor. It stays the same process also after it has ended.
#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) pid: i32,
    fd: Arc<OwnedFd>,
}

impl Process {
    /// A process that is our child and was not waited for: its id cannot be anybody else's yet.
    pub(super) fn of_child(child: &std::process::Child) -> io::Result<Process> {
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        Process::open(pid)
    }

    pub(super) fn open(pid: i32) -> io::Result<Process> {
        let number = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Process { pid, fd: Arc::new(pidfd_open(number, PidfdFlags::empty())?) })
    }

    pub(super) fn is_alive(&self) -> bool {
        let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
        matches!(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
    }

    /// Blocks until it ends, but not for long.
    pub(super) fn wait_a_moment(&self) {
        let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
        let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }));
    }

    /// A signal to a process that has ended does nothing.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.fd, signal);
    }

    /// Takes the exit status, if it is our child and has ended: it is no zombie from then on.
    pub(super) fn reap(&self) -> Option<WaitIdStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        waitid(WaitId::PidFd(self.fd.as_fd()), options).ok().flatten()
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) -> io::Result<()> {
        let fd = readiness(self.fd.try_clone()?)?;
        fd.readable().await.map(drop)
    }

    /// Whether it ends within this time.
    pub(super) async fn ends_within(&self, time: Duration) -> bool {
        matches!(tokio::time::timeout(time, self.ended()).await, Ok(Ok(())))
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Starts the shim of a folder. It gets nothing of ours but its log, and begins a session of its own: it outlives us. It
/// works in the folder and is told it by nothing else: all users can read what stands in its arguments, and a folder that
/// is moved stays the one that it works in.
pub(super) fn spawn_shim(executable: &Path, folder: &Path) -> io::Result<Process> {
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(folder.join("shim.log"))?;
    let child = Command::new(executable)
        .arg(shim::SUBCOMMAND)
        .env_clear()
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(File::try_clone(&log)?)
        .stderr(log)
        .spawn()?;
    Process::of_child(&child)
}
