//! Keys that are ready, each in its lane, and which lane is next.
//!
//! A lane has room when fewer than `at_least` of its keys are being worked on, or when fewer than `in_lane` are and fewer than
//! `at_once` of all keys. So a lane whose work takes long holds up to `in_lane` places and no more, and every other lane
//! always has `at_least`, however many lanes are stuck. What is worked on at the same time is therefore bounded by the number
//! of lanes: by `at_once`, and `at_least` for each lane beyond. Lanes with room take turns, those first that have fewer than
//! `at_least` and of them those that have the fewest. A lane without room is not in line, so however many of its keys wait,
//! nobody has to pass them by.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Key;

/// What keys have in common that wait for the same place. Keys that wait for none are in the lane without a name.
pub type Lane = Arc<str>;

/// In which lane a key is.
pub type LaneOf<K> = Box<dyn Fn(&K) -> Lane + Send + Sync>;

/// How many keys are worked on at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// In one lane at most.
    pub in_lane: usize,
    /// What each lane has room for, whatever the others hold; no less than one.
    pub at_least: usize,
    /// Of all lanes together, beyond what each has at least.
    pub at_once: usize,
}

impl Room {
    /// For work that waits for no place: so many at the same time, in whatever lane.
    pub const fn of(at_once: usize) -> Room {
        Room { in_lane: at_once, at_least: 1, at_once }
    }
}

pub(super) struct Lanes<K> {
    room: Room,
    lane_of: LaneOf<K>,
    /// Lanes with keys that are ready or being worked on.
    lanes: BTreeMap<Lane, Keys<K>>,
    /// Lanes with ready keys that have room, as far as that does not depend on other lanes.
    line: BTreeMap<Place, Lane>,
    places: u64,
    ready: usize,
    working: usize,
    /// How many lanes have ready keys and no room for them.
    full: usize,
}

struct Keys<K> {
    /// In the order in which they became ready.
    ready: BTreeMap<u64, K>,
    working: usize,
    place: Option<Place>,
}

/// Where a lane stands in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// How many of its keys are being worked on, up to what it has room for at least.
    level: usize,
    number: u64,
}

impl<K> fmt::Debug for Lanes<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").field("ready", &self.ready).field("working", &self.working).finish_non_exhaustive()
    }
}

impl<K: Key> Lanes<K> {
    pub(super) fn new(room: Room, lane_of: LaneOf<K>) -> Lanes<K> {
        let (lanes, line) = (BTreeMap::new(), BTreeMap::new());
        let room = Room { at_least: room.at_least.max(1), ..room };
        Lanes { room, lane_of, lanes, line, places: 0, ready: 0, working: 0, full: 0 }
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        self.lanes.clear();
        self.line.clear();
        (self.ready, self.working, self.full) = (0, 0, 0);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.line.is_empty()
    }

    /// How many keys are ready.
    pub(super) fn depth(&self) -> usize {
        self.ready
    }

    /// In how many lanes ready keys wait for others of their lane.
    pub(super) fn full(&self) -> usize {
        self.full
    }

    /// All ready keys, in the order in which they became so.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &K> {
        let all: BTreeMap<u64, &K> =
            self.lanes.values().flat_map(|keys| keys.ready.iter().map(|(turn, key)| (*turn, key))).collect();
        all.into_values()
    }

    /// The key that is to be worked on next.
    pub(super) fn first(&self) -> Option<&K> {
        let (place, lane) = self.line.first_key_value()?;
        if place.level >= self.room.at_least && self.working >= self.room.at_once {
            return None;
        }
        self.lanes.get(lane)?.ready.values().next()
    }

    /// Adds a ready key. Says in which lane it is.
    pub(super) fn add(&mut self, turn: u64, key: K) -> Lane {
        let lane = (self.lane_of)(&key);
        self.ready += 1;
        self.change(&lane, false, |keys| drop(keys.ready.insert(turn, key)));
        lane
    }

    /// Begins the work on a ready key.
    pub(super) fn begin_ready(&mut self, lane: &Lane, turn: u64) {
        self.ready -= 1;
        self.working += 1;
        self.change(lane, true, |keys| {
            keys.ready.remove(&turn);
            keys.working += 1;
        });
    }

    /// Begins the work on a key that was not ready. Says in which lane it is.
    pub(super) fn begin(&mut self, key: &K) -> Lane {
        let lane = (self.lane_of)(key);
        self.working += 1;
        self.change(&lane, false, |keys| keys.working += 1);
        lane
    }

    /// The work on a key of this lane is over.
    pub(super) fn end(&mut self, lane: &Lane) {
        self.working -= 1;
        self.change(lane, false, |keys| keys.working -= 1);
    }

    /// Changes what a lane holds, and puts it where it belongs in line: at the end, if it has just had its turn.
    fn change(&mut self, lane: &Lane, has_had_its_turn: bool, change: impl FnOnce(&mut Keys<K>)) {
        let keys = self.lanes.entry(lane.clone()).or_default();
        let was_full = keys.is_full();
        change(keys);
        let has_room = !keys.ready.is_empty() && keys.working < self.room.in_lane.max(self.room.at_least);
        let level = has_room.then_some(keys.working.min(self.room.at_least));
        if has_had_its_turn || level != keys.place.map(|place| place.level) {
            if let Some(place) = keys.place.take() {
                self.line.remove(&place);
            }
            keys.place = level.map(|level| Place { level, number: self.places });
            self.places += 1;
            self.line.extend(keys.place.map(|place| (place, lane.clone())));
        }
        self.full = self.full + usize::from(keys.is_full()) - usize::from(was_full);
        if keys.ready.is_empty() && keys.working == 0 {
            self.lanes.remove(lane);
        }
    }
}

impl<K> Keys<K> {
    /// Whether keys are ready for which there is no room.
    fn is_full(&self) -> bool {
        !self.ready.is_empty() && self.place.is_none()
    }
}

impl<K> Default for Keys<K> {
    fn default() -> Keys<K> {
        Keys { ready: BTreeMap::new(), working: 0, place: None }
    }
}
