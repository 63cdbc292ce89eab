//! A lock that one process of this machine holds, and that is free as soon as it ends.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::beneath;

#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Waits for a lock that is only ever held for a short time.
    pub(super) fn wait(path: &Path) -> io::Result<Lock> {
        Lock::take(path, FlockOperation::LockExclusive)
    }

    /// `None` if somebody holds it.
    pub(super) fn attempt(path: &Path) -> io::Result<Option<Lock>> {
        match Lock::take(path, FlockOperation::NonBlockingLockExclusive) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            taken => taken.map(Some),
        }
    }

    fn take(path: &Path, operation: FlockOperation) -> io::Result<Lock> {
        let file = beneath::append(path, 1)?;
        loop {
            match flock(&file, operation) {
                Err(rustix::io::Errno::INTR) => {}
                result => return result.map(|()| Lock(file)).map_err(io::Error::from),
            }
        }
    }
}

impl Drop for Lock {
    /// Closing is not enough: a process that is just being started may have a copy of the descriptor for a moment.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
