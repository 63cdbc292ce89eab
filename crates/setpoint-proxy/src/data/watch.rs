//! What is known of one connection from outside it: whether it is idle, what it waits for, and whether it shall end.
//!
//! A sweeper looks at all connections of a thread a few times a second, so that no connection needs timers of its own.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::head::Refusal;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the next request on a connection.
    pub idle: Duration,
    /// For a whole head, from its first byte, and for a TLS handshake.
    pub head: Duration,
    /// Between two reads of a body.
    pub body: Duration,
    /// Between two writes, when the client does not read.
    pub write: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(75),
            head: Duration::from_secs(15),
            body: Duration::from_secs(60),
            write: Duration::from_secs(60),
        }
    }
}

/// Where the reading side of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle = 0,
    Head = 1,
    Body = 2,
    /// Another protocol, or HTTP/2: only idleness and writing are watched.
    Passing = 3,
    /// Refused; what still comes is thrown away for a moment, so that the client gets to read why.
    Lingering = 4,
}

/// Times are in milliseconds of the thread's coarse clock; zero is "not waiting".
#[derive(Debug, Default)]
pub(crate) struct Watch {
    phase: AtomicU8,
    phase_since: AtomicU64,
    write_waits_since: AtomicU64,
    /// Requests that are being served.
    pub(crate) active: AtomicU32,
    /// How many requests were handed to the service.
    pub(crate) served: AtomicU64,
    /// Which request is refused: its place on the connection, and why.
    refused: Mutex<Option<(u64, Refusal)>>,
    body_refused: Mutex<Option<Refusal>>,
    /// The place of the request that asks for another protocol, plus one; nothing is read until it is answered.
    upgrade_awaited: AtomicU64,
    upgrade: AtomicU8,
    reader: Mutex<Option<Waker>>,
    expired: AtomicBool,
    /// When it was told to end after what it does; zero is not at all.
    draining_since: AtomicU64,
    /// Wakes the connection's task after one of the above was set.
    pub(crate) changed: Notify,
}

/// So long the next request may take on a connection that is to end.
const LAST_CALL: Duration = Duration::from_secs(1);

const UNDECIDED: u8 = 0;
const ACCEPTED: u8 = 1;
const DECLINED: u8 = 2;

impl Watch {
    pub(crate) fn enter(&self, phase: Phase, now_ms: u64) {
        self.phase.store(phase as u8, Relaxed);
        self.phase_since.store(now_ms, Relaxed);
    }

    pub(crate) fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Relaxed) == phase as u8
    }

    pub(crate) fn begin_request(&self) {
        self.active.fetch_add(1, Relaxed);
        if self.is_draining() {
            self.changed.notify_one();
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.active.load(Relaxed) > 0
    }

    /// The time until the next request is counted from the end of this one.
    pub(crate) fn end_request(&self, now_ms: u64) {
        if self.active.fetch_sub(1, Relaxed) == 1 && (self.is_in(Phase::Idle) || self.is_in(Phase::Passing)) {
            self.phase_since.store(now_ms, Relaxed);
        }
    }

    pub(crate) fn write_waits(&self, now_ms: u64) {
        let _already = self.write_waits_since.compare_exchange(0, now_ms, Relaxed, Relaxed);
    }

    pub(crate) fn wrote(&self) {
        if self.write_waits_since.load(Relaxed) != 0 {
            self.write_waits_since.store(0, Relaxed);
        }
    }

    pub(crate) fn refuse(&self, request: u64, refusal: Refusal) {
        *self.refused.lock() = Some((request, refusal));
    }

    pub(crate) fn refuse_body(&self, refusal: Refusal) {
        *self.body_refused.lock() = Some(refusal);
    }

    /// Why the request at this place of the connection is refused.
    pub(crate) fn refusal_of(&self, request: u64) -> Option<Refusal> {
        self.refused.lock().filter(|(refused, _)| *refused == request).map(|(_, refusal)| refusal)
    }

    pub(crate) fn body_refusal(&self) -> Option<Refusal> {
        *self.body_refused.lock()
    }

    pub(crate) fn await_upgrade(&self, request: u64) {
        self.upgrade_awaited.store(request + 1, Relaxed);
    }

    pub(crate) fn is_upgrade_awaited_by(&self, request: u64) -> bool {
        self.upgrade_awaited.load(Relaxed) == request + 1
    }

    /// Says whether another protocol follows; what the client sent meanwhile is read then.
    pub(crate) fn decide_upgrade(&self, is_accepted: bool) {
        self.upgrade.store(if is_accepted { ACCEPTED } else { DECLINED }, Relaxed);
        if let Some(reader) = self.reader.lock().take() {
            reader.wake();
        }
    }

    pub(crate) fn take_upgrade_decision(&self, reader: &Waker) -> Option<bool> {
        *self.reader.lock() = Some(reader.clone());
        match self.upgrade.swap(UNDECIDED, Relaxed) {
            ACCEPTED => Some(true),
            DECLINED => Some(false),
            _ => None,
        }
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.expired.load(Relaxed)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining_since.load(Relaxed) != 0
    }

    /// It ends after the request that it serves, or the next one, or when none comes for a moment: a client that is just
    /// sending one is not turned away.
    pub(crate) fn drain(&self, now_ms: u64) {
        if self.draining_since.compare_exchange(0, now_ms.max(1), Relaxed, Relaxed).is_ok() {
            self.changed.notify_one();
        }
    }

    pub(crate) fn expire(&self) {
        if !self.expired.swap(true, Relaxed) {
            self.changed.notify_one();
        }
    }

    /// Whether the client has taken longer than it may.
    pub(crate) fn is_overdue(&self, now_ms: u64, patience: &Patience) -> bool {
        let longer = |since: u64, limit: Duration| now_ms.saturating_sub(since) > limit.as_millis() as u64;
        let since = self.phase_since.load(Relaxed);
        let write_waits_since = self.write_waits_since.load(Relaxed);
        let is_idle = self.active.load(Relaxed) == 0;
        let is_stuck = write_waits_since != 0 && longer(write_waits_since, patience.write);
        let reads_too_long = match self.phase.load(Relaxed) {
            phase if phase == Phase::Head as u8 => longer(since, patience.head),
            phase if phase == Phase::Body as u8 => longer(since, patience.body),
            phase if phase == Phase::Lingering as u8 => longer(since, Duration::from_secs(1)),
            _ => is_idle && longer(since, patience.idle),
        };
        let drained_since = self.draining_since.load(Relaxed);
        let is_drained =
            drained_since != 0 && self.is_idle_since().is_some() && longer(drained_since.max(since), LAST_CALL);
        is_stuck || reads_too_long || is_drained
    }

    /// Whether it could be closed without interrupting anything.
    pub(crate) fn is_idle_since(&self) -> Option<u64> {
        let is_idle = self.active.load(Relaxed) == 0 && !self.is_in(Phase::Head) && !self.is_in(Phase::Lingering);
        is_idle.then(|| self.phase_since.load(Relaxed))
    }
}
