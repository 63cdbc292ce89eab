//! Who is served next: some seats, and the users who wait for one, each in turn.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Seats for one sort of work. Whoever finds none waits behind the others of the same user, and the users take turns: so
/// what one of them sends delays the next one by one piece of work, however much of it there is.
#[derive(Debug)]
pub(super) struct Lane<W> {
    seats: usize,
    taken: usize,
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
        let (waiting, turns) = (HashMap::new(), VecDeque::new());
        Lane { seats: seats.max(1), taken: 0, tickets: 0, queued: 0, waiting, turns }
    }

    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Takes a free seat. There is none while somebody waits: a seat that is left goes to them.
    pub(super) fn sit(&mut self) -> bool {
        let free = self.taken < self.seats;
        self.taken += usize::from(free);
        free
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

    /// Leaves a seat to whoever is next; `None` if nobody waits, and it is free.
    pub(super) fn leave(&mut self) -> Option<W> {
        let Some(user) = self.turns.pop_front() else {
            self.taken -= 1;
            return None;
        };
        let queue = self.waiting.get_mut(&user).expect("everybody who has a turn waits");
        let (_, waiter) = queue.pop_front().expect("nobody has an empty queue");
        self.queued -= 1;
        match queue.is_empty() {
            true => drop(self.waiting.remove(&user)),
            false => self.turns.push_back(user),
        }
        Some(waiter)
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
        Leave,
        GiveUp(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..USERS.len()).prop_map(Step::Arrive),
            2 => Just(Step::Leave),
            1 => (0usize..8).prop_map(Step::GiveUp),
        ]
    }

    proptest! {
        /// Against a model that is a plain list of who waits.
        #[test]
        fn seats_are_bounded_and_go_round(seats in 1usize..4, steps in prop::collection::vec(step(), 0..200)) {
            let mut lane = Lane::new(seats);
            let mut waiting: Vec<(usize, u32, Ticket)> = Vec::new();
            let mut seated = 0;
            // How often each of the others was served since a user began to wait.
            let mut passed: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
            for (number, step) in (0u32..).zip(steps) {
                match step {
                    Step::Arrive(user) => {
                        let free = lane.sit();
                        prop_assert_eq!(free, seated < seats, "a seat is given if and only if one is free");
                        if free {
                            seated += 1;
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
                    Step::Leave if seated == 0 => {}
                    Step::Leave => match lane.leave() {
                        None => {
                            prop_assert!(waiting.is_empty(), "nobody is forgotten");
                            seated -= 1;
                        }
                        Some(next) => {
                            let place = waiting.iter().position(|(_, waiter, _)| *waiter == next);
                            prop_assert!(place.is_some(), "who is served waits");
                            let (user, ..) = waiting.remove(place.unwrap_or_default());
                            let first = !waiting.iter().any(|(waits, waiter, _)| *waits == user && *waiter < next);
                            prop_assert!(first, "one user's are served in their order");
                            for (other, passed) in passed.iter_mut().filter(|(other, _)| **other != user) {
                                let times = passed.entry(user).or_default();
                                *times += 1;
                                prop_assert!(*times <= 1, "{} was passed twice", USERS[*other]);
                            }
                            passed.remove(&user);
                            if waiting.iter().any(|(waits, ..)| *waits == user) {
                                passed.insert(user, BTreeMap::new());
                            }
                        }
                    },
                    Step::GiveUp(place) if place < waiting.len() => {
                        let (user, _, ticket) = waiting.remove(place);
                        lane.give_up(USERS[user], ticket);
                        if !waiting.iter().any(|(waits, ..)| *waits == user) {
                            passed.remove(&user);
                        }
                    }
                    Step::GiveUp(_) => {}
                }
                prop_assert_eq!((lane.taken(), lane.queued()), (seated, waiting.len()));
                let users = waiting.iter().map(|(user, ..)| user).collect::<std::collections::BTreeSet<_>>().len();
                prop_assert_eq!((lane.waiting.len(), lane.turns.len()), (users, users), "who is gone leaves no trace");
            }
        }
    }
}
