//! Who is served next: some seats, and the users who wait for one, each in turn.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a user who came by is still reckoned with.
const COMPANY: Duration = Duration::from_secs(1);

/// Seats for one sort of work. Whoever finds none waits behind the others of the same user, and the users take turns: so
/// what one of them sends delays the next one by one piece of work, however much of it there is. Who is alone may have all
/// seats; in company nobody has the last one, so that somebody who asks now and then beside a user in a loop finds it free.
#[derive(Debug)]
pub(super) struct Lane<W> {
    seats: usize,
    taken: usize,
    /// How many seats each has who has one.
    seated: HashMap<Arc<str>, usize>,
    /// The user who came last and when, and before that the last one who was somebody else.
    callers: [Option<(Arc<str>, Instant)>; 2],
    tickets: u64,
    queued: usize,
    /// Nobody is in it with an empty queue.
    waiting: HashMap<Arc<str>, VecDeque<(Ticket, W)>>,
    /// Those who wait, each once, the next one first.
    turns: VecDeque<Arc<str>>,
}

/// A place in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

impl<W> Lane<W> {
    pub(super) fn new(seats: usize) -> Lane<W> {
        let (seated, waiting, turns) = (HashMap::new(), HashMap::new(), VecDeque::new());
        Lane { seats: seats.max(1), taken: 0, seated, callers: [None, None], tickets: 0, queued: 0, waiting, turns }
    }

    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Takes a free seat, and gives the name to leave it under. While one is free, only those wait who may not have more.
    pub(super) fn sit(&mut self, user: &str, now: Instant) -> Option<Arc<str>> {
        match &mut self.callers[0] {
            Some((last, at)) if **last == *user => *at = now,
            _ => self.callers = [Some((user.into(), now)), self.callers[0].take()],
        }
        (self.taken < self.seats && self.may_sit(user, now)).then(|| self.seat(user))
    }

    /// Whether a user has fewer seats than one may have now.
    fn may_sit(&self, user: &str, now: Instant) -> bool {
        let others = self.callers.iter().flatten().filter(|(other, _)| **other != *user);
        let company = others.into_iter().any(|(_, at)| now.duration_since(*at) < COMPANY);
        // Who has none may always have one, also where there is only one.
        let most = if company { self.seats - 1 } else { self.seats };
        self.seated.get(user).is_none_or(|seats| *seats < most)
    }

    fn seat(&mut self, user: &str) -> Arc<str> {
        self.taken += 1;
        let name = self.seated.get_key_value(user).map_or_else(|| user.into(), |(name, _)| name.clone());
        *self.seated.entry(name.clone()).or_default() += 1;
        name
    }

    /// Waits for a seat; `None` if the user has this many waiting already.
    pub(super) fn wait(&mut self, user: &str, waiter: W, limit: usize) -> Option<Ticket> {
        if self.waiting.get(user).map_or(0, VecDeque::len) >= limit {
            return None;
        }
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.queued += 1;
        match self.waiting.get_mut(user) {
            Some(queue) => queue.push_back((ticket, waiter)),
            None => {
                let user: Arc<str> = user.into();
                self.turns.push_back(user.clone());
                self.waiting.insert(user, VecDeque::from([(ticket, waiter)]));
            }
        }
        Some(ticket)
    }

    /// Leaves a user's seat.
    pub(super) fn leave(&mut self, user: &str) {
        self.taken -= 1;
        let seats = self.seated.get_mut(user).expect("only who has a seat leaves one");
        *seats -= 1;
        if *seats == 0 {
            self.seated.remove(user);
        }
    }

    /// Gives a free seat to whoever is next among those who may have more.
    pub(super) fn next(&mut self, now: Instant) -> Option<(Arc<str>, W)> {
        if self.taken >= self.seats {
            return None;
        }
        // Only one or two can have all that they may have, so this does not look far.
        let next = self.turns.iter().position(|waiting| self.may_sit(waiting, now))?;
        let user = self.turns.remove(next).expect("it was found there");
        let queue = self.waiting.get_mut(&user).expect("everybody who has a turn waits");
        let (_, waiter) = queue.pop_front().expect("nobody has an empty queue");
        self.queued -= 1;
        match queue.is_empty() {
            true => drop(self.waiting.remove(&user)),
            false => self.turns.push_back(user.clone()),
        }
        Some((self.seat(&user), waiter))
    }

    /// Stops waiting. Nothing happens if the seat was given meanwhile.
    pub(super) fn give_up(&mut self, user: &str, ticket: Ticket) {
        let Some(queue) = self.waiting.get_mut(user) else { return };
        let Some(place) = queue.iter().position(|(waiting, _)| *waiting == ticket) else { return };
        queue.remove(place);
        self.queued -= 1;
        if queue.is_empty() {
            self.waiting.remove(user);
            self.turns.retain(|waiting| waiting.as_ref() != user);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const USERS: [&str; 4] = ["ada", "ben", "cyd", "dot"];
    const LIMIT: usize = 3;

    #[derive(Debug, Clone)]
    enum Step {
        Arrive(usize),
        Leave(usize),
        GiveUp(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..USERS.len()).prop_map(Step::Arrive),
            2 => (0usize..8).prop_map(Step::Leave),
            1 => (0usize..8).prop_map(Step::GiveUp),
        ]
    }

    #[test]
    fn who_is_alone_may_have_all_seats() {
        let begin = Instant::now();
        let mut lane: Lane<()> = Lane::new(2);
        let (first, second) = (lane.sit("ada", begin), lane.sit("ada", begin));
        assert!(first.is_some() && second.is_some(), "nobody else was there");
        assert!(lane.sit("ben", begin).is_none(), "until somebody comes");
        lane.leave("ada");
        assert!(lane.sit("ada", begin).is_none(), "then one seat is left to them");
        assert!(lane.sit("ben", begin).is_some());
        lane.leave("ben");
        assert!(lane.sit("ada", begin + COMPANY).is_some(), "for a while");
    }

    proptest! {
        /// Against a model that is two plain lists: who sits and who waits.
        #[test]
        fn seats_are_bounded_and_go_round(seats in 1usize..4, steps in prop::collection::vec(step(), 0..200)) {
            let mut lane = Lane::new(seats);
            let mut waiting: Vec<(usize, u32, Ticket)> = Vec::new();
            let mut seated: Vec<usize> = Vec::new();
            let now = Instant::now();
            let mut came: Vec<usize> = Vec::new();
            let most = |came: &[usize], user: usize| match came.iter().any(|other| *other != user) {
                true => (seats - 1).max(1),
                false => seats,
            };
            let has = |seated: &[usize], user: usize| seated.iter().filter(|sits| **sits == user).count();
            // How often each of the others was served while a user waited who could have been.
            let mut passed: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
            for (number, step) in (0u32..).zip(steps) {
                match step {
                    Step::Arrive(user) => {
                        came.push(user);
                        let sits = lane.sit(USERS[user], now).is_some();
                        let may = seated.len() < seats && has(&seated, user) < most(&came, user);
                        prop_assert_eq!(sits, may, "a seat is given if and only if one is free for this user");
                        if sits {
                            seated.push(user);
                            continue;
                        }
                        let before = waiting.iter().filter(|(waits, ..)| *waits == user).count();
                        let ticket = lane.wait(USERS[user], number, LIMIT);
                        prop_assert_eq!(ticket.is_some(), before < LIMIT, "a queue is bounded");
                        if let Some(ticket) = ticket {
                            waiting.push((user, number, ticket));
                            passed.entry(user).or_default();
                        }
                    }
                    Step::Leave(place) if place >= seated.len() => {}
                    Step::Leave(place) => {
                        lane.leave(USERS[seated.remove(place)]);
                        match lane.next(now) {
                        None => {
                            let could = waiting.iter().any(|(user, ..)| has(&seated, *user) < most(&came, *user));
                            prop_assert!(!could, "nobody is forgotten");
                        }
                        Some((name, next)) => {
                            let place = waiting.iter().position(|(_, waiter, _)| *waiter == next);
                            prop_assert!(place.is_some(), "who is served waits");
                            let (user, ..) = waiting.remove(place.unwrap_or_default());
                            let first = !waiting.iter().any(|(waits, waiter, _)| *waits == user && *waiter < next);
                            prop_assert!(first, "one user's are served in their order");
                            prop_assert_eq!(&*name, USERS[user]);
                            prop_assert!(has(&seated, user) < most(&came, user), "in company nobody has all seats");
                            let could = |other: usize| other != user && has(&seated, other) < most(&came, other);
                            for (other, passed) in passed.iter_mut().filter(|(other, _)| could(**other)) {
                                let times = passed.entry(user).or_default();
                                *times += 1;
                                prop_assert!(*times <= 1, "{} was passed twice", USERS[*other]);
                            }
                            seated.push(user);
                            passed.remove(&user);
                            if waiting.iter().any(|(waits, ..)| *waits == user) {
                                passed.insert(user, BTreeMap::new());
                            }
                        }
                    }
                    }
                    Step::GiveUp(place) if place < waiting.len() => {
                        let (user, _, ticket) = waiting.remove(place);
                        lane.give_up(USERS[user], ticket);
                        if !waiting.iter().any(|(waits, ..)| *waits == user) {
                            passed.remove(&user);
                        }
                    }
                    Step::GiveUp(_) => {}
                }
                prop_assert_eq!((lane.taken(), lane.queued()), (seated.len(), waiting.len()));
                let users = waiting.iter().map(|(user, ..)| user).collect::<std::collections::BTreeSet<_>>().len();
                prop_assert_eq!((lane.waiting.len(), lane.turns.len()), (users, users), "who is gone leaves no trace");
                let sitting = seated.iter().collect::<std::collections::BTreeSet<_>>().len();
                prop_assert_eq!(lane.seated.len(), sitting, "nor who sat");
            }
        }
    }
}
