//! What an agent remembers of its Pods. All of it may be forgotten: then something is done twice that does no harm.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_core::pod::status::Hold;
use tokio::time::Instant;

use super::Uid;
use super::refresh::Given;
use crate::events::Told;

/// For how long whoever looks after a Pod has to live for their start to have held.
const HELD: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pub(super) ordered_grace: Option<Duration>,
    /// When it was last started again, and how often in a row before that.
    started: Option<(Instant, u32)>,
    pub(super) hold: Option<Hold>,
    pub(super) told: Told,
    pub(super) given: Option<Given>,
    /// The version that our own last write made, which is no news.
    pub(super) written: Option<String>,
}

/// By the uids of Pods, and whose instances are whose.
#[derive(Debug, Default)]
pub(super) struct Memories {
    pods: Mutex<BTreeMap<Uid, Memory>>,
    /// Whose instance it is, by the provider's id of it.
    owners: Mutex<BTreeMap<Box<str>, Uid>>,
}

impl Memories {
    pub(super) fn of(&self, uid: &Uid) -> Memory {
        self.pods.lock().get(uid).cloned().unwrap_or_default()
    }

    pub(super) fn read<T>(&self, uid: &str, read: impl FnOnce(&Memory) -> Option<T>) -> Option<T> {
        self.pods.lock().get(uid).and_then(read)
    }

    pub(super) fn change(&self, uid: &Uid, change: impl FnOnce(&mut Memory)) {
        change(self.pods.lock().entry(uid.clone()).or_default());
    }

    pub(super) fn keep(&self, uid: &Uid, memory: Memory) {
        self.pods.lock().insert(uid.clone(), memory);
    }

    pub(super) fn forget(&self, uid: &Uid) {
        self.pods.lock().remove(uid);
    }

    pub(super) fn owner(&self, id: &str) -> Option<Uid> {
        self.owners.lock().get(id).cloned()
    }

    pub(super) fn all_owners(&self) -> Vec<Uid> {
        self.owners.lock().values().cloned().collect()
    }

    pub(super) fn owns(&self, uid: &Uid, id: &str) {
        let mut owners = self.owners.lock();
        if owners.get(id) != Some(uid) {
            owners.insert(id.into(), uid.clone());
        }
    }

    pub(super) fn disown(&self, id: &str) {
        self.owners.lock().remove(id);
    }

    /// Whether this version of a Pod is the one that we wrote ourselves.
    pub(super) fn is_own_write(&self, uid: &str, version: Option<&String>) -> bool {
        version.is_some() && self.read(uid, |memory| memory.written.clone()).as_ref() == version
    }
}

impl Memory {
    /// How long to wait before whoever looks after a Pod is started again: each time longer, until one has held. Otherwise
    /// counts this start.
    pub(super) fn start_is_early(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if let Some((last, starts)) = self.started {
            let pause = Duration::from_secs(1 << starts.min(8));
            if now < last + pause {
                return Some(last + pause - now);
            }
        }
        let held = self.started.is_some_and(|(last, _)| now.duration_since(last) > HELD);
        self.started = Some((now, self.started.filter(|_| !held).map_or(0, |(_, starts)| starts + 1)));
        None
    }
}

/// A uid that is cheap to copy.
pub(super) fn uid(text: &str) -> Uid {
    Arc::from(text)
}
