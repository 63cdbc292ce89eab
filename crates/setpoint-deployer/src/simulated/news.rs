//! Who tells of what happens at a simulated place, at the instant at which it does: nobody has to ask.
//!
//! What will become of an instance follows from what it is, so its next turn is known as soon as something is done to it.
//! One task waits for the earliest of all turns; where nobody listens, there is none and nothing is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use jiff::Timestamp;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::cloud::Cloud;
use super::place::Shared;
use super::program::Program;
use crate::changes::{Changes, Subscribers};
use crate::provider::Change;

#[derive(Debug, Default)]
pub(super) struct News {
    subscribers: Arc<Subscribers>,
    /// When each instance is next another.
    turns: BTreeSet<(Timestamp, u64)>,
    turn_of: BTreeMap<u64, Timestamp>,
    /// Wakes the one who waits for the earliest turn, once there is an earlier one.
    pub(super) sooner: Arc<Notify>,
    is_watched: bool,
}

impl News {
    fn is_heard(&self) -> bool {
        !self.subscribers.is_empty()
    }

    /// Tells of everything that was done since this was last asked, and takes note of what will come of it.
    pub(super) fn tell(&mut self, cloud: &mut Cloud, program: &Program, now: Timestamp) {
        let touched: BTreeSet<u64> = cloud.take_touched().into_iter().collect();
        if touched.is_empty() || !self.is_heard() {
            return;
        }
        let first = self.turns.first().copied();
        touched.iter().for_each(|serial| self.foresee(*serial, cloud, program, now));
        if self.turns.first() != first.as_ref() {
            self.sooner.notify_one();
        }
        // From a place that is down nothing comes; when it is back, it tells of everything.
        if program.down.is_none() {
            let ids = touched.into_iter().map(|serial| cloud.id(serial)).collect();
            self.subscribers.tell(&Changes { ids, everything: false });
        }
    }

    /// The place behaves otherwise from now on: anything may be another.
    pub(super) fn tell_everything(&mut self, cloud: &mut Cloud, program: &Program, now: Timestamp) {
        cloud.take_touched();
        if !self.is_heard() {
            return;
        }
        self.foresee_all(cloud, program, now);
        if program.down.is_none() {
            self.subscribers.tell(&Changes::everything());
        }
    }

    pub(super) fn foresee_all(&mut self, cloud: &Cloud, program: &Program, now: Timestamp) {
        self.turns.clear();
        self.turn_of.clear();
        cloud.all().for_each(|(serial, _)| self.foresee(serial, cloud, program, now));
        self.sooner.notify_one();
    }

    fn foresee(&mut self, serial: u64, cloud: &Cloud, program: &Program, now: Timestamp) {
        if let Some(before) = self.turn_of.remove(&serial) {
            self.turns.remove(&(before, serial));
        }
        if let Some(at) = cloud.get(serial).and_then(|instance| instance.turns_at(program, now)) {
            self.turn_of.insert(serial, at);
            self.turns.insert((at, serial));
        }
    }

    /// Those whose turn has come.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<u64> {
        let mut due = Vec::new();
        while let Some((_, serial)) = self.turns.first().copied().filter(|(at, _)| *at <= now) {
            self.turns.pop_first();
            self.turn_of.remove(&serial);
            due.push(serial);
        }
        due
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.turns.first().map(|(at, _)| *at)
    }
}

/// Has somebody told of what happens from now on.
pub(super) fn subscribe(shared: &Arc<Shared>) -> mpsc::Receiver<Change> {
    let now = shared.now();
    let mut state = shared.state.lock();
    let receiver = state.news.subscribers.subscribe();
    state.foresee_all(now);
    if !std::mem::replace(&mut state.news.is_watched, true) {
        tokio::spawn(watch(Arc::downgrade(shared), state.news.sooner.clone()));
    }
    receiver
}

/// Waits for turn after turn, as long as somebody listens.
async fn watch(place: Weak<Shared>, sooner: Arc<Notify>) {
    loop {
        let next = {
            let Some(shared) = place.upgrade() else { return };
            let now = shared.now();
            let mut state = shared.state.lock();
            state.come_about(now);
            if !state.news.is_heard() {
                state.news.is_watched = false;
                return;
            }
            state.next_turn().map(|at| shared.instant(at))
        };
        tokio::select! {
            biased;
            () = sooner.notified() => {}
            () = until(next) => {}
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
