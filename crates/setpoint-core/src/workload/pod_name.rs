//! How the pods of a ReplicaSet are called: `web-1-x2k4f`.
//!
//! A name follows from the ReplicaSet's uid and a number. So a creation whose answer was lost is tried again under the
//! same name, and whoever else creates for the same ReplicaSet, seeing the same, chooses the same: one of the two meets
//! the other's pod and takes it for done. Nobody ever makes two where one was meant.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::template_hash::letters;

const SUFFIX_LENGTH: usize = 5;
/// The longest name: it is a host's name too.
const NAME_MAX: usize = 63;

/// The numbers that one ReplicaSet's pods were given. To lose it risks no more than that the name of a pod that is gone
/// comes again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers {
    set: String,
    uid: String,
    next: u64,
    /// Those that were given, of which it is not known yet whether there is a pod.
    unsettled: BTreeSet<u64>,
}

/// A name, and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub number: u64,
    pub name: String,
}

impl Numbers {
    /// The beginning, for the ReplicaSet of this name and uid.
    pub fn of(set: &str, uid: &str) -> Numbers {
        Numbers { set: set.to_owned(), uid: uid.to_owned(), next: 0, unsettled: BTreeSet::new() }
    }

    /// Whether these are the numbers of the ReplicaSet of this uid, and not of one that had its name before.
    pub fn are_of(&self, uid: &str) -> bool {
        self.uid == uid
    }

    /// Names for so many pods, none of which anybody is seen to have. Those come first of which nothing was heard.
    pub fn choose(&mut self, count: usize, is_taken: impl Fn(&str) -> bool) -> Vec<Chosen> {
        let mut chosen: Vec<Chosen> = Vec::with_capacity(count);
        let mut names: BTreeSet<String> = BTreeSet::new();
        let mut again: BTreeSet<u64> = std::mem::take(&mut self.unsettled);
        while chosen.len() < count {
            let number = again.pop_first().unwrap_or_else(|| {
                self.next += 1;
                self.next - 1
            });
            let name = pod_name(&self.set, &self.uid, number);
            if !is_taken(&name) && names.insert(name.clone()) {
                self.unsettled.insert(number);
                chosen.push(Chosen { number, name });
            }
        }
        // What is left waits for its turn.
        self.unsettled.append(&mut again);
        chosen
    }

    /// The name of this number is used, by a pod of the ReplicaSet or by somebody else.
    pub fn settle(&mut self, number: u64) {
        self.unsettled.remove(&number);
    }
}

/// The name of a ReplicaSet's pod of a number; a ReplicaSet's name that is too long loses its end.
fn pod_name(set: &str, uid: &str, number: u64) -> String {
    let digest = Sha256::new().chain_update(uid).chain_update(number.to_be_bytes()).finalize();
    let prefix = prefix(set);
    let room = prefix.len().min(NAME_MAX - SUFFIX_LENGTH);
    let cut = (0..=room).rev().find(|end| prefix.is_char_boundary(*end)).unwrap_or_default();
    format!("{}{}", &prefix[..cut], letters(&digest, SUFFIX_LENGTH))
}

/// What all names of a ReplicaSet's pods begin with.
pub(super) fn prefix(set: &str) -> String {
    format!("{set}-")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(chosen: &[Chosen]) -> Vec<&str> {
        chosen.iter().map(|chosen| chosen.name.as_str()).collect()
    }

    #[test]
    fn names_never_change() {
        let rows = [
            ("the first", "web-1", "rs-uid", 0, "web-1-jhvgw"),
            ("the next", "web-1", "rs-uid", 1, "web-1-hxknb"),
            ("of another ReplicaSet of the name", "web-1", "other", 0, "web-1-hbmkz"),
        ];
        for (name, set, uid, number, expected) in rows {
            assert_eq!(pod_name(set, uid, number), expected, "{name}");
        }
        let long = pod_name(&"x".repeat(253), "rs-uid", 0);
        assert_eq!(long.len(), NAME_MAX, "a long name is cut to what a host may be called: {long}");
    }

    #[test]
    fn a_number_is_given_again_until_it_is_settled() {
        let mut numbers = Numbers::of("web-1", "rs-uid");
        let first = numbers.choose(3, |_| false);
        numbers.settle(first[0].number);
        numbers.settle(first[2].number);
        let second = numbers.choose(2, |_| false);
        assert_eq!(second[0], first[1], "its answer was lost: the same name is tried again");
        assert_eq!(second[1].number, 3, "those that are settled do not come again, though their pods may be gone");
    }

    #[test]
    fn a_name_that_is_seen_to_be_taken_is_passed_over() {
        let mut numbers = Numbers::of("web-1", "rs-uid");
        let taken = pod_name("web-1", "rs-uid", 1);
        let chosen = numbers.choose(2, |name| name == taken);
        assert_eq!(chosen.iter().map(|chosen| chosen.number).collect::<Vec<_>>(), [0, 2]);
        let seen = chosen[0].name.clone();
        let next = numbers.choose(1, |name| name == taken || name == seen);
        assert_eq!(next[0].number, 2, "what is seen needs no settling");
    }

    #[test]
    fn ten_thousand_names_differ() {
        let mut numbers = Numbers::of("web-1", "rs-uid");
        let chosen = numbers.choose(10_000, |_| false);
        let distinct: BTreeSet<&str> = names(&chosen).into_iter().collect();
        assert_eq!(distinct.len(), 10_000);
    }

    proptest! {
        /// Whoever sees the same names chooses the same ones, as long as nothing is gone that was there.
        #[test]
        fn two_who_see_the_same_choose_the_same(
            rounds in prop::collection::vec((1..9_usize, any::<u16>()), 1..9),
            wanted in 1..9_usize,
        ) {
            let mut one = Numbers::of("web-1", "rs-uid");
            let mut seen: BTreeSet<String> = BTreeSet::new();
            for (count, lost) in rounds {
                let chosen = one.choose(count, |name| seen.contains(name));
                for (index, chosen) in chosen.into_iter().enumerate() {
                    // Of some, the creation never arrived; of others, only the answer was lost.
                    if lost & (1 << index) == 0 {
                        seen.insert(chosen.name);
                        if lost & (256 << index) == 0 {
                            one.settle(chosen.number);
                        }
                    }
                }
            }
            let mut other = Numbers::of("web-1", "rs-uid");
            let (mine, theirs) =
                (one.choose(wanted, |name| seen.contains(name)), other.choose(wanted, |name| seen.contains(name)));
            prop_assert_eq!(names(&mine), names(&theirs));
        }
    }
}
