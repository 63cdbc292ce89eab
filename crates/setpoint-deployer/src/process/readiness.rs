//! Waits until a descriptor can be read.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// To be called within a runtime.
#[expect(deprecated, reason = "an owned descriptor stays open and the same, which the unsafe one leaves to its caller")]
pub(super) fn readiness(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}
