//! Lines on their way to where they are kept: requests put them into a buffer, one thread writes them out.
//!
//! A request pays for writing its line to memory, and waits only when the buffer is full. The thread lets lines gather for
//! some milliseconds, so it wakes seldom and writes much; a process that is killed may lose these last lines.
//!
//! When writing fails, the server goes on: an administrator who is locked out by a full disk cannot empty it. What cannot
//! be written is kept and tried again; only when the buffer is full are lines dropped, and they are counted. The same when
//! writing neither fails nor ends, on a hung mount or into a pipe that nobody reads, once a request has waited some seconds
//! for room. The log, the metrics and `/readyz?verbose` tell.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::strangers::Budget;

/// How many bytes may wait to be written.
const FULL: usize = 4 << 20;
/// How long lines gather.
const GATHER: Duration = Duration::from_millis(5);
/// How long to wait after a failure before trying again.
const RETRY: Duration = Duration::from_secs(1);
/// How long a request waits for room, and the end of the program for the last lines.
const PATIENCE: Duration = Duration::from_secs(5);

/// An audit log. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Log {
    shared: Arc<Shared>,
    has_routine: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// There is something to write, or it is time to stop.
    work: Condvar,
    /// There is room again, or everything is written.
    progress: Notify,
    patience: Duration,
}

#[derive(Debug)]
struct State {
    pending: Vec<u8>,
    /// What is being written, and not in `pending` any more.
    writing: bool,
    failing: bool,
    lost: u64,
    strangers: Budget,
    /// Lines of strangers that were not written down.
    left_out: u64,
    stopping: bool,
    /// The thread has nothing more to do.
    ended: bool,
}

impl State {
    fn new(now: Instant) -> State {
        State {
            pending: Vec::new(),
            writing: false,
            failing: false,
            lost: 0,
            strangers: Budget::of_strangers(now),
            left_out: 0,
            stopping: false,
            ended: false,
        }
    }
}

impl Log {
    /// Starts a log that is written here.
    pub fn to(writer: impl Write + Send + 'static) -> std::io::Result<Log> {
        Log::with_patience(writer, PATIENCE)
    }

    fn with_patience(writer: impl Write + Send + 'static, patience: Duration) -> std::io::Result<Log> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(Instant::now())),
            work: Condvar::new(),
            progress: Notify::new(),
            patience,
        });
        std::thread::Builder::new().name("audit".into()).spawn({
            let shared = shared.clone();
            move || shared.run(writer)
        })?;
        Ok(Log { shared, has_routine: false })
    }

    /// The same log with the routine writes of our own controllers and nodes, which it leaves out otherwise.
    #[must_use]
    pub fn with_routine(self) -> Log {
        Log { has_routine: true, ..self }
    }

    /// Whether it has the routine writes of our own controllers and nodes.
    pub fn has_routine(&self) -> bool {
        self.has_routine
    }

    /// Puts a line into the log: at once, or as soon as there is room. When there is none for long, it is lost, and the
    /// next ones do not wait until something is written again.
    pub async fn put(&self, line: &[u8]) {
        let taken = tokio::time::timeout(self.shared.patience, self.shared.until(|| self.shared.take(line))).await;
        if taken.is_err() {
            let mut state = self.shared.state.lock();
            state.lost += 1;
            if !std::mem::replace(&mut state.failing, true) {
                tracing::error!("the audit log is full and nothing of it is being written");
            }
        }
    }

    /// Whether a line about somebody whom nobody knows may be put, which is counted if not.
    pub fn admits_stranger(&self, line: &[u8]) -> bool {
        let mut state = self.shared.state.lock();
        let admitted = state.strangers.spend(line.len(), Instant::now());
        state.left_out += u64::from(!admitted);
        admitted
    }

    /// Waits until everything that was put is written, or cannot be.
    pub async fn flush(&self) {
        let written = || {
            let state = self.shared.state.lock();
            state.failing || (state.pending.is_empty() && !state.writing)
        };
        self.shared.until(written).await;
    }

    /// Writes out what is there, and ends; or ends without, if that takes too long.
    pub async fn close(&self) {
        self.shared.state.lock().stopping = true;
        self.shared.work.notify_one();
        let ended = self.shared.until(|| self.shared.state.lock().ended);
        if tokio::time::timeout(self.shared.patience, ended).await.is_err() {
            tracing::error!("the audit log could not be written in time and ends without its last lines");
        }
    }

    /// Whether lines are being written.
    pub fn is_healthy(&self) -> bool {
        !self.shared.state.lock().failing
    }

    /// How many lines could not be written.
    pub fn lost(&self) -> u64 {
        self.shared.state.lock().lost
    }

    /// How many lines about strangers were left out.
    pub fn left_out(&self) -> u64 {
        self.shared.state.lock().left_out
    }
}

impl Shared {
    /// Waits for something that comes with progress.
    async fn until(&self, mut reached: impl FnMut() -> bool) {
        loop {
            let progress = self.progress.notified();
            if reached() {
                return;
            }
            progress.await;
        }
    }

    /// Takes a line; false if there is no room now, but will be.
    fn take(&self, line: &[u8]) -> bool {
        let mut state = self.state.lock();
        if state.pending.len() < FULL {
            let first = state.pending.is_empty();
            state.pending.extend_from_slice(line);
            drop(state);
            if first {
                self.work.notify_one();
            }
            return true;
        }
        let lost = state.failing || state.stopping;
        state.lost += u64::from(lost);
        lost
    }

    fn run(&self, mut writer: impl Write) {
        let mut batch = Vec::new();
        while self.next_batch(&mut batch) {
            self.write_out(&mut writer, &mut batch);
            self.state.lock().writing = false;
            self.progress.notify_waiters();
        }
        self.state.lock().ended = true;
        self.progress.notify_waiters();
    }

    /// Waits for lines; false when there are none left and the log is closed.
    fn next_batch(&self, batch: &mut Vec<u8>) -> bool {
        let mut state = self.state.lock();
        while state.pending.is_empty() && !state.stopping {
            self.work.wait(&mut state);
        }
        if !state.stopping {
            // Nobody notifies while something is pending, so that only the end of the time ends this.
            self.work.wait_while_for(&mut state, |state| !state.stopping, GATHER);
        }
        std::mem::swap(batch, &mut state.pending);
        state.writing = !batch.is_empty();
        drop(state);
        self.progress.notify_waiters();
        !batch.is_empty()
    }

    /// Writes lines until all are, however often that fails; when the log is closed, what fails is lost.
    fn write_out(&self, writer: &mut impl Write, batch: &mut Vec<u8>) {
        let mut written = 0;
        while written < batch.len() {
            let result = match writer.write(&batch[written..]) {
                Ok(0) => Err(std::io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    written += count;
                    Ok(())
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(()),
                Err(error) => Err(error),
            };
            let mut state = self.state.lock();
            match result {
                Ok(()) if !state.failing => {}
                Ok(()) => {
                    state.failing = false;
                    tracing::info!(lost = state.lost, "the audit log is written again");
                }
                Err(error) => {
                    if !std::mem::replace(&mut state.failing, true) {
                        tracing::error!(%error, "the audit log cannot be written; trying again every second");
                    }
                    if state.stopping {
                        let left = batch[written..].iter().filter(|byte| **byte == b'\n').count();
                        state.lost += u64::try_from(left).unwrap_or(u64::MAX);
                        tracing::error!(lost = state.lost, "the audit log ends without its last lines");
                        break;
                    }
                    self.progress.notify_waiters();
                    self.work.wait_while_for(&mut state, |state| !state.stopping, RETRY);
                }
            }
        }
        let _ = writer.flush();
        batch.clear();
        batch.shrink_to(FULL / 4);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind, Result};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A disk that can be full, and that takes a few bytes at a time.
    #[derive(Clone, Default)]
    struct Disk {
        content: Arc<Mutex<Vec<u8>>>,
        full: Arc<AtomicBool>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            if self.full.load(Ordering::SeqCst) {
                return Err(Error::from(ErrorKind::StorageFull));
            }
            let count = bytes.len().min(1000);
            self.content.lock().extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    impl Disk {
        fn lines(&self) -> Vec<String> {
            let content = self.content.lock();
            String::from_utf8_lossy(&content).lines().map(str::to_owned).collect()
        }
    }

    fn line(number: usize) -> String {
        format!("{number:0100}\n")
    }

    async fn eventually(what: &str, condition: impl Fn() -> bool) {
        let wait = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap_or_else(|_| panic!("{what}"));
    }

    #[tokio::test]
    async fn lines_are_written_in_order_and_none_is_lost_when_there_are_many() {
        let disk = Disk::default();
        let log = Log::to(disk.clone()).expect("a thread");
        let count = 2 * FULL / 101;
        for number in 0..count {
            log.put(line(number).as_bytes()).await;
        }
        log.close().await;
        let expected: Vec<String> = (0..count).map(|number| line(number).trim().to_owned()).collect();
        assert!(disk.lines() == expected, "{} of {count} lines", disk.lines().len());
        assert_eq!((log.lost(), log.is_healthy()), (0, true));
    }

    #[tokio::test]
    async fn a_full_disk_stops_nobody_and_what_was_lost_is_counted() {
        let disk = Disk::default();
        let log = Log::to(disk.clone()).expect("a thread");
        disk.full.store(true, Ordering::SeqCst);
        log.put(line(0).as_bytes()).await;
        eventually("the failure is noticed", || !log.is_healthy()).await;
        let count = FULL / 101 + 1000;
        for number in 1..=count {
            log.put(line(number).as_bytes()).await;
        }
        let lost = usize::try_from(log.lost()).expect("a number");
        assert!((900..1000).contains(&lost), "what has no room is lost, and nothing else: {lost}");
        disk.full.store(false, Ordering::SeqCst);
        eventually("it is tried again", || log.is_healthy()).await;
        log.flush().await;
        assert_eq!(disk.lines().len() + lost, count + 1);
        log.close().await;
    }

    #[tokio::test]
    async fn a_log_on_a_broken_disk_can_be_closed() {
        let disk = Disk::default();
        let log = Log::to(disk.clone()).expect("a thread");
        disk.full.store(true, Ordering::SeqCst);
        log.put(line(0).as_bytes()).await;
        tokio::time::timeout(Duration::from_secs(20), log.close()).await.expect("it ends");
        assert_eq!(log.lost(), 1);
    }

    #[tokio::test]
    async fn a_disk_that_hangs_holds_nobody_up_for_long() {
        /// Says that it was called, and ends when told to.
        struct Hung(std::sync::mpsc::Sender<()>, std::sync::mpsc::Receiver<()>);
        impl Write for Hung {
            fn write(&mut self, bytes: &[u8]) -> Result<usize> {
                let _ = self.0.send(());
                let _ = self.1.recv();
                Ok(bytes.len())
            }

            fn flush(&mut self) -> Result<()> {
                Ok(())
            }
        }
        let ((called, calls), (release, released)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let log = Log::with_patience(Hung(called, released), Duration::from_millis(50)).expect("a thread");
        log.put(line(0).as_bytes()).await;
        calls.recv().expect("it is being written");
        let put = async {
            for number in 0..=FULL / 101 {
                log.put(line(number).as_bytes()).await;
            }
            assert_eq!((log.lost(), log.is_healthy()), (0, true), "there was room");
            for number in 0..1000 {
                log.put(line(number).as_bytes()).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), put).await.expect("only the first waits");
        assert_eq!((log.lost(), log.is_healthy()), (1000, false));
        tokio::time::timeout(Duration::from_secs(20), log.close()).await.expect("it ends");
        drop(release);
        log.shared.until(|| log.shared.state.lock().ended).await;
    }
}
