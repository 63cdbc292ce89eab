//! What is known of an Environment with limits: the calls that take something there and may not show yet, and a look at all
//! of it.
//!
//! Whoever is about to make a call takes down what it adds at most. That counts until the call was refused, or until a look
//! that was begun after its end shows what it did. So calls may be under way side by side, and looks be made meanwhile.
//!
//! Calls that make a guest are on record in their Machines, and the record says which are left: one that made nothing is
//! taken off it, whoever finds that out. Only until the caches show the record does the account know better than they do. Of
//! a call that was begun by an earlier leader the record is all that is left: until it shows, or is off the record, nobody
//! knows how much there is.
//!
//! A look tells how much there is until something comes or goes. After that it still tells how much there is at most:
//! together with all that was begun since. As long as that leaves room, nobody has to look again. What comes without being
//! begun here shows in the looks of others, and the largest of them counts.
//!
//! While a look does not show all that was begun, nobody who comes next would see more: for a while they take its word.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::machine::Machine;
use setpoint_api::step::{Action, Step};
use setpoint_core::gate::{Added, Usage};
use setpoint_core::intent::makes_a_guest;
use setpoint_core::observation::Observation;

use crate::runtime::Name;
use crate::runtime::cache::{Cache, Expected, Follows};
use crate::runtime::caches::MACHINES_BY_MAKING;

/// For how long nobody looks again where a look did not show everything.
const UNSEEN: SignedDuration = SignedDuration::from_secs(4);
/// For how long a change of a guest may still come whose answer was lost.
const LATE: SignedDuration = SignedDuration::from_secs(60);

/// What was begun in an Environment.
#[derive(Debug, Default)]
pub struct Account {
    /// Counts what begins and ends: what came first has the smaller number.
    moment: u64,
    /// What was begun and may not show yet, by the ids of the calls.
    calls: BTreeMap<String, Call>,
    look: Option<Look>,
    unseen: Option<Unseen>,
    /// When a look was begun that has not come back.
    looking: Option<u64>,
}

/// A call that takes something, or gives something back that others may wait for.
#[derive(Debug)]
pub(super) struct Call {
    /// What it adds to what there is, at most.
    added: Added,
    what: What,
    /// The Machine that has it on record, and the write that put it there; none where nothing is kept of it.
    record: Option<(Name, Expected)>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// A guest is made, which carries the id of the call.
    Makes,
    /// The same, but the one that it replaces goes before: in between there is less than before and after.
    MakesInPlace,
    Changes,
}

/// How far a call is, and when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    UnderWay,
    Answered {
        moment: u64,
    },
    /// Nobody knows what became of it.
    Lost {
        moment: u64,
        at: Timestamp,
    },
    /// It surely had no effect, and will have none.
    Refused,
}

/// A look that did not tell how much there is, for the rules of this generation.
#[derive(Debug)]
struct Unseen {
    rules: Option<i64>,
    /// The calls that it did not show.
    calls: BTreeSet<String>,
    until: Timestamp,
}

/// A look, and the generation of the rules it was made for: by others, anybody may have spent.
#[derive(Debug)]
struct Look {
    rules: Option<i64>,
    observation: Arc<Observation>,
    /// When it was begun.
    moment: u64,
    /// The open calls of which it shows what they made.
    shown: BTreeSet<String>,
    /// How much it shows there is, or what others saw later if that is more.
    usage: Usage,
    /// When the last of these looks was made.
    seen_at: Timestamp,
    /// Whether something came or went since.
    is_outdated: bool,
    /// What was added by calls that are settled and that it may not show.
    added: Added,
}

/// The calls on record that were not begun here, by their ids: what they made has to show.
pub(super) type Others = BTreeSet<String>;

impl Call {
    /// A step that is about to be taken. A Machine has it on record, if anything is kept of it.
    pub(super) fn new(step: &Step, added: Added, machine: Option<(&Machine, &Cache<Machine>)>) -> Call {
        let what = match step.action {
            Action::Replace if !step.create_first => What::MakesInPlace,
            action if makes_a_guest(action) => What::Makes,
            _ => What::Changes,
        };
        let record = machine.map(|(machine, machines)| (Name::of(machine), machines.expect(machine)));
        Call { added, what, record, state: State::UnderWay }
    }

    fn ended(&self) -> Option<u64> {
        match self.state {
            State::UnderWay | State::Refused => None,
            State::Answered { moment } | State::Lost { moment, .. } => Some(moment),
        }
    }

    /// Whether nothing more comes of it, and whatever it did shows from now on.
    fn is_settled(&self, id: &str, machines: &Cache<Machine>, now: Timestamp) -> bool {
        let is_off_record =
            || self.record.as_ref().is_none_or(|(name, write)| is_off_record(name, write, id, machines));
        match (self.state, self.what) {
            (State::UnderWay, _) => false,
            (State::Answered { .. }, What::Changes) => true,
            (State::Lost { at, .. }, What::Changes) => now.duration_since(at) >= LATE || is_off_record(),
            _ => is_off_record(),
        }
    }
}

fn is_off_record(machine: &Name, write: &Expected, id: &str, machines: &Cache<Machine>) -> bool {
    let lists = |machine: &Machine| {
        let mut intents = machine.status.iter().flat_map(|status| &status.intents);
        intents.any(|intent| intent.id == id)
    };
    machines.has_seen(write) && machines.get(machine).is_none_or(|machine| !lists(&machine))
}

impl Look {
    /// Whether what a call did is part of how much this look shows there is.
    fn has(&self, id: &str, call: &Call) -> bool {
        call.what != What::Changes && call.ended().is_some_and(|ended| ended < self.moment) && self.shown.contains(id)
    }
}

impl Account {
    fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// A call is about to be made, and counts from now on.
    pub(super) fn begin(&mut self, id: &str, call: Call) {
        self.calls.insert(id.to_owned(), call);
    }

    /// A call was answered: it was made.
    pub(super) fn answered(&mut self, id: &str) {
        let moment = self.tick();
        self.end(id, State::Answered { moment });
    }

    /// Nobody knows what became of a call.
    pub(super) fn lost(&mut self, id: &str, at: Timestamp) {
        let moment = self.tick();
        self.end(id, State::Lost { moment, at });
    }

    /// A call surely had no effect: what it was to add is given back.
    pub(super) fn refused(&mut self, id: &str) {
        self.end(id, State::Refused);
    }

    fn end(&mut self, id: &str, state: State) {
        if let Some(call) = self.calls.get_mut(id) {
            call.state = state;
        }
    }

    /// Takes note of the calls that are settled by now. Gives back those on record that were not begun here.
    pub(super) fn others(&mut self, environment: &str, machines: &Cache<Machine>, now: Timestamp) -> Others {
        // What was settled while a look is under way may or may not show in it.
        if self.looking.is_none() {
            self.forget_settled(machines, now);
        }
        let making = machines.by(&MACHINES_BY_MAKING, environment);
        let intents = making.iter().filter_map(|machine| machine.status.as_ref()).flat_map(|status| &status.intents);
        let others = intents.filter(|intent| makes_a_guest(intent.action) && !self.calls.contains_key(&intent.id));
        others.map(|intent| intent.id.clone()).collect()
    }

    fn forget_settled(&mut self, machines: &Cache<Machine>, now: Timestamp) {
        let look = &mut self.look;
        self.calls.retain(|id, call| {
            if !call.is_settled(id, machines, now) {
                return true;
            }
            if let Some(look) = look.as_mut().filter(|look| call.state != State::Refused && !look.has(id, call)) {
                look.added = look.added.and(call.added);
                look.is_outdated = true;
            }
            false
        });
    }

    /// How much there is at most, if there is a look by which that can be said.
    pub(super) fn at_most(
        &mut self,
        rules: Option<i64>,
        others: &Others,
        later: Option<&Observation>,
        usage: impl Fn(&Observation) -> Usage,
    ) -> Option<Usage> {
        let look = self.look.as_mut().filter(|look| look.rules == rules && others.is_subset(&look.shown))?;
        let is_later = |later: &&Observation| later.observed_at > look.seen_at && later.completeness.is_complete();
        if let Some(later) = later.filter(is_later) {
            look.seen_at = later.observed_at;
            look.usage = look.usage.or_more(usage(later));
        }
        let counting = self.calls.iter().filter(|(_, call)| call.state != State::Refused);
        let unseen = counting.filter(|(id, call)| !look.has(id, call));
        Some(look.usage.plus(unseen.fold(look.added, |sum, (_, call)| sum.and(call.added))))
    }

    /// A look that shows how much there is, if there is one. One that somebody else made later tells more.
    pub(super) fn look(
        &self,
        rules: Option<i64>,
        others: &Others,
        later: Option<Arc<Observation>>,
    ) -> Option<Arc<Observation>> {
        let own = self.look.as_ref().filter(|look| look.rules == rules && !look.is_outdated)?;
        let is_seen = |(id, call): (&String, &Call)| call.state == State::Refused || own.has(id, call);
        if !others.is_subset(&own.shown) || !self.calls.iter().all(is_seen) {
            return None;
        }
        let open: Others =
            others.iter().chain(self.calls.keys()).filter(|id| own.shown.contains(*id)).cloned().collect();
        let later = later.filter(|later| later.observed_at > own.observation.observed_at && shows(later, &open));
        Some(later.unwrap_or_else(|| own.observation.clone()))
    }

    /// A look at everything is about to be made. One at a time may be.
    pub(super) fn begin_look(&mut self) {
        self.looking = Some(self.tick());
    }

    /// Keeps a look for those who ask next, with what it shows there is, if it shows what all others made. They are those
    /// that were on record before it was begun: what was off the record by then was seen by somebody.
    pub(super) fn keep(
        &mut self,
        rules: Option<i64>,
        others: &Others,
        observation: Arc<Observation>,
        usage: Usage,
        now: Timestamp,
    ) {
        let moment = self.looking.take().unwrap_or(self.moment);
        let (seen_at, added) = (observation.observed_at, Added::default());
        let mut hidden = unshown(&observation, others.iter().chain(self.calls.keys()));
        let shown = others.iter().chain(self.calls.keys()).filter(|id| !hidden.contains(*id)).cloned().collect();
        let is_complete = observation.completeness.is_complete();
        let look = Look { rules, observation, moment, shown, usage, seen_at, is_outdated: false, added };
        let unseen = self.calls.iter().filter(|(id, call)| call.state != State::Refused && !look.has(id, call));
        let unseen: Vec<(&String, &Call)> = unseen.collect();
        hidden.retain(|id| others.contains(id));
        let misses = !hidden.is_empty() || unseen.iter().any(|(_, call)| call.what == What::MakesInPlace);
        hidden.extend(unseen.iter().map(|(id, _)| (*id).clone()));
        let is_exact = is_complete && hidden.is_empty();
        self.unseen = (!is_exact).then(|| Unseen { rules, calls: hidden, until: now + UNSEEN });
        if is_complete && !misses {
            self.look = Some(look);
        }
    }

    /// A look came to nothing: for a while nobody tries again.
    pub(super) fn give_up_look(&mut self, rules: Option<i64>, now: Timestamp) {
        self.looking = None;
        self.unseen = Some(Unseen { rules, calls: BTreeSet::new(), until: now + UNSEEN });
    }

    /// Whether somebody has just looked and did not see how much there is, and nothing that they missed was settled since.
    pub(super) fn is_unseen(&self, rules: Option<i64>, others: &Others, now: Timestamp) -> bool {
        let is_open =
            |id: &String| others.contains(id) || self.calls.get(id).is_some_and(|call| call.state != State::Refused);
        let unseen = self.unseen.as_ref().filter(|unseen| unseen.rules == rules && now < unseen.until);
        unseen.is_some_and(|unseen| unseen.calls.iter().all(is_open))
    }
}

/// Whether a look tells how much there is: it shows everything, and what was made by each of these calls.
fn shows(look: &Observation, calls: &BTreeSet<String>) -> bool {
    look.completeness.is_complete() && unshown(look, calls.iter()).is_empty()
}

/// The calls of which a look shows nothing that they made.
fn unshown<'c>(look: &Observation, calls: impl Iterator<Item = &'c String>) -> BTreeSet<String> {
    let mut calls: BTreeSet<String> = calls.cloned().collect();
    if !calls.is_empty() {
        let marks = look.guests.iter().filter_map(|guest| guest.mark.as_ref());
        marks.filter_map(|mark| mark.intent.as_deref()).for_each(|intent| {
            calls.remove(intent);
        });
    }
    calls
}

#[cfg(test)]
mod tests;
