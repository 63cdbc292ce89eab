//! Reads what a container writes, into its log and to whoever is attached.
//!
//! It reads as fast as the container writes and waits for nobody: a pipe that nobody empties would stop the workload.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::attach::Attachers;
use super::lines::{LONGEST, Splitter};
use super::log_file::{LogFile, Stream};

/// Reads one stream to its end.
pub(super) async fn capture(stream: Stream, output: OwnedFd, log: Arc<Mutex<LogFile>>, attachers: Attachers) {
    let mut splitter = Splitter::default();
    let Ok(output) = waitable(output, Interest::READABLE) else { return };
    while let Ok(mut ready) = output.readable().await {
        let read = ready.try_io(|output| {
            let mut bytes = [0; LONGEST];
            let count = rustix::io::read(output.get_ref(), &mut bytes)?;
            attachers.send(stream, &bytes[..count]);
            let (at, mut log) = (Timestamp::now(), log.lock());
            splitter.push(&bytes[..count], |line, is_whole| log.add(at, stream, line, is_whole));
            log.flush();
            Ok(count)
        });
        match read {
            Ok(Ok(count)) if count > 0 => tokio::task::yield_now().await,
            // A terminal ends with an error once nobody has it open any more.
            Ok(_) => break,
            Err(_would_block) => {}
        }
    }
    let (at, mut log) = (Timestamp::now(), log.lock());
    splitter.finish(|line, is_whole| log.add(at, stream, line, is_whole));
    log.flush();
}

/// Writes what the attached say, until there is no more or nobody reads it.
pub(super) async fn feed(input: OwnedFd, mut said: tokio::sync::mpsc::Receiver<bytes::Bytes>) {
    let Ok(input) = waitable(input, Interest::WRITABLE) else { return };
    while let Some(bytes) = said.recv().await {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let Ok(mut ready) = input.writable().await else { return };
            match ready.try_io(|input| Ok(rustix::io::write(input.get_ref(), rest)?)) {
                Ok(Ok(count)) => rest = &rest[count..],
                Ok(Err(_)) => return,
                Err(_would_block) => {}
            }
        }
    }
}

#[expect(deprecated, reason = "an `OwnedFd` keeps what the newer function has its caller promise, which is unsafe")]
pub(super) fn waitable(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    AsyncFd::with_interest(fd, interest)
}
