//! What each user holds of what there is not endlessly much of.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// What can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// A watch that is open.
    Watch,
    /// A list that is being sent.
    List,
    /// A byte of a body that was announced or is being worked on.
    BodyByte,
    /// A log that is being read, or a session in a Pod.
    Stream,
}

/// How much of something one user, and all together, may hold.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    pub each: usize,
    pub all: usize,
}

/// How much everybody holds.
#[derive(Debug)]
pub(super) struct Accounts {
    allowances: [Allowance; 4],
    all: [usize; 4],
    /// Nobody is in it who holds nothing.
    each: HashMap<Arc<str>, [usize; 4]>,
}

impl Accounts {
    /// The allowances are in the order of [`Holding`].
    pub(super) fn new(allowances: [Allowance; 4]) -> Accounts {
        Accounts { allowances, all: [0; 4], each: HashMap::new() }
    }

    /// Takes some for a user, and gives the name to give it back under; `None` if that is too much.
    pub(super) fn take(&mut self, user: &str, what: Holding, amount: NonZeroUsize) -> Option<Arc<str>> {
        let amount = amount.get();
        let what = what as usize;
        let Allowance { each, all } = self.allowances[what];
        let (name, held) = match self.each.get_key_value(user) {
            Some((name, held)) => (name.clone(), held[what]),
            None => (user.into(), 0),
        };
        if held.saturating_add(amount) > each || self.all[what].saturating_add(amount) > all {
            return None;
        }
        self.each.entry(name.clone()).or_default()[what] += amount;
        self.all[what] += amount;
        Some(name)
    }

    pub(super) fn give_back(&mut self, user: &str, what: Holding, amount: NonZeroUsize) {
        let held = self.each.get_mut(user).expect("only who took gives back");
        held[what as usize] -= amount.get();
        self.all[what as usize] -= amount.get();
        if *held == [0; 4] {
            self.each.remove(user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_holds_too_much_and_who_gave_all_back_is_forgotten() {
        let small = Allowance { each: 2, all: 3 };
        let mut accounts = Accounts::new([small; 4]);
        let rows = [
            ("within both", "ada", Holding::Watch, 2, true),
            ("more than one's own", "ada", Holding::Watch, 1, false),
            ("the last of all", "ben", Holding::Watch, 1, true),
            ("more than all", "ben", Holding::Watch, 1, false),
            ("of something else", "ben", Holding::BodyByte, 2, true),
            ("at once too much", "cyd", Holding::BodyByte, usize::MAX, false),
        ];
        let some = |amount| NonZeroUsize::new(amount).expect("something");
        for (row, user, what, amount, taken) in rows {
            assert_eq!(accounts.take(user, what, some(amount)).is_some(), taken, "{row}");
        }
        for (_, user, what, amount, _) in rows.into_iter().filter(|(.., taken)| *taken) {
            accounts.give_back(user, what, some(amount));
        }
        assert!(accounts.each.is_empty() && accounts.all == [0; 4], "{accounts:?}");
    }
}
