//! In which of the change sets that list steps of one object people are asked: in one at most, the one that says what is
//! to be done now. All others are outdated, whoever made them: an answer there would be wasted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;

/// A change set that lists steps of an object, as far as it asks people about these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question<'a> {
    /// The change set, by its uid.
    pub uid: &'a str,
    pub name: &'a str,
    pub created_at: Timestamp,
    /// Whether the controller of the object made it.
    pub is_own: bool,
    /// Whether nobody is waited for in it: it has all the approvals that it needs.
    pub is_approved: bool,
    /// Whether the object is as the change set says. One that brings no objects along always says what is there.
    pub is_written: bool,
    /// The digests of the steps on which people can decide in it.
    pub open: BTreeSet<&'a str>,
    /// The digests of those that somebody rejected in it.
    pub rejected: BTreeSet<&'a str>,
}

/// Why nobody is to decide in a change set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated<'a> {
    /// Nothing of it is to be done any more.
    Unwanted,
    /// The same is asked in another change set, which this is the name of.
    AskedIn(&'a str),
    /// The same was rejected in another change set, which this is the name of.
    RejectedIn(&'a str),
}

impl fmt::Display for Outdated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outdated::Unwanted => f.write_str("it is no longer what is to be done"),
            Outdated::AskedIn(name) => write!(f, "people are asked in the change set {name}"),
            Outdated::RejectedIn(name) => write!(f, "it was rejected in the change set {name}"),
        }
    }
}

/// Those that are outdated, by uid, given the digests of the steps that are to be taken for the object now; while these are
/// not known, none is. Of all that ask about what is wanted, the one does that asks about most of it; of several the one that
/// has its approvals already, and else the last; what was rejected in one is asked in none. What is not written yet is judged
/// when it is.
pub fn outdated<'a>(questions: &[Question<'a>], wanted: Option<&BTreeSet<&str>>) -> BTreeMap<&'a str, Outdated<'a>> {
    let mut outdated = BTreeMap::new();
    let Some(wanted) = wanted else { return outdated };
    let rejected: BTreeMap<&str, &'a str> =
        questions.iter().flat_map(|question| question.rejected.iter().map(|digest| (*digest, question.name))).collect();
    let asks = |question: &Question<'_>| {
        question.open.iter().filter(|digest| wanted.contains(**digest) && !rejected.contains_key(**digest)).count()
    };
    let current = || questions.iter().filter(|question| question.is_written);
    let asking = current()
        .filter(|question| asks(question) > 0)
        .max_by_key(|question| (asks(question), question.is_approved, question.order()));
    for question in current().filter(|question| asking.is_none_or(|asking| asking.uid != question.uid)) {
        let mut listed = question.open.iter().filter(|digest| wanted.contains(**digest));
        let why = match (listed.clone().next(), asking.filter(|_| asks(question) > 0)) {
            (None, _) => Outdated::Unwanted,
            (Some(_), Some(asking)) => Outdated::AskedIn(asking.name),
            (Some(_), None) => listed
                .find_map(|digest| rejected.get(digest))
                .map_or(Outdated::Unwanted, |name| Outdated::RejectedIn(name)),
        };
        outdated.insert(question.uid, why);
    }
    outdated
}

impl Question<'_> {
    /// The later, the greater. Of those of one second, one that somebody asked for in person comes last.
    fn order(&self) -> (Timestamp, bool, &str) {
        (self.created_at, !self.is_own, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that was made in this second and asks about these steps.
    fn question(name: &'static str, second: i64, open: &[&'static str]) -> Question<'static> {
        Question {
            uid: name,
            name,
            created_at: Timestamp::constant(1_794_744_000 + second, 0),
            is_own: false,
            is_approved: false,
            is_written: true,
            open: open.iter().copied().collect(),
            rejected: BTreeSet::new(),
        }
    }

    fn own(name: &'static str, second: i64, open: &[&'static str]) -> Question<'static> {
        Question { is_own: true, ..question(name, second, open) }
    }

    fn unwritten(name: &'static str, second: i64, open: &[&'static str]) -> Question<'static> {
        Question { is_written: false, ..question(name, second, open) }
    }

    fn approved(question: Question<'static>) -> Question<'static> {
        Question { is_approved: true, ..question }
    }

    fn rejected(question: Question<'static>) -> Question<'static> {
        Question { rejected: question.open.clone(), ..question }
    }

    #[test]
    fn people_are_asked_in_one_change_set_at_most() {
        use Outdated::{AskedIn, RejectedIn, Unwanted};
        type Row = (
            &'static str,
            Vec<Question<'static>>,
            Option<&'static [&'static str]>,
            &'static [(&'static str, Outdated<'static>)],
        );
        let rows: Vec<Row> = vec![
            ("the only one asks about what is wanted", vec![own("1", 1, &["a"])], Some(&["a"]), &[]),
            ("the only one asks about something else", vec![own("1", 1, &["a"])], Some(&["b"]), &[("1", Unwanted)]),
            ("nothing is wanted", vec![own("1", 1, &["a"])], Some(&[]), &[("1", Unwanted)]),
            ("what is wanted is not known", vec![own("1", 1, &["a"]), question("2", 2, &["b"])], None, &[]),
            (
                "to something else and back: the last one asks",
                vec![question("1", 1, &["a"]), question("2", 2, &["b"]), question("3", 3, &["a"])],
                Some(&["a"]),
                &[("1", AskedIn("3")), ("2", Unwanted)],
            ),
            (
                "of what the controller made the last asks",
                vec![own("1", 1, &["a"]), own("2", 2, &["a"])],
                Some(&["a"]),
                &[("1", AskedIn("2"))],
            ),
            (
                "the controller's last one asks about something else",
                vec![own("1", 1, &["a"]), own("2", 2, &["b"])],
                Some(&["a"]),
                &[("2", Unwanted)],
            ),
            (
                "it was done in one of the same second, whose name is greater",
                vec![own("2", 1, &[]), own("1", 1, &["a"])],
                Some(&["a"]),
                &[("2", Unwanted)],
            ),
            (
                "somebody asks for the same in person",
                vec![own("1", 1, &["a"]), question("2", 2, &["a"])],
                Some(&["a"]),
                &[("1", AskedIn("2"))],
            ),
            (
                "the earlier one has its approvals, and is what is carried out",
                vec![approved(own("1", 1, &["a"])), question("2", 2, &["a"])],
                Some(&["a"]),
                &[("2", AskedIn("1"))],
            ),
            (
                "one that has its approvals does not ask about all that is wanted",
                vec![approved(question("1", 1, &["a"])), own("2", 2, &["a", "b"])],
                Some(&["a", "b"]),
                &[("1", AskedIn("2"))],
            ),
            (
                "in the same second",
                vec![own("2", 1, &["a"]), question("1", 1, &["a"])],
                Some(&["a"]),
                &[("2", AskedIn("1"))],
            ),
            (
                "an earlier one asks about more",
                vec![own("1", 1, &["a", "b"]), question("2", 2, &["b", "c"])],
                Some(&["a", "b"]),
                &[("2", AskedIn("1"))],
            ),
            (
                "what is yet to be written is judged when it is",
                vec![own("1", 1, &["a"]), unwritten("2", 2, &["b"]), unwritten("3", 3, &["a"])],
                Some(&["a"]),
                &[],
            ),
            (
                "it was decided on by now",
                vec![own("1", 1, &[]), question("2", 2, &["a"])],
                Some(&["a"]),
                &[("1", Unwanted)],
            ),
            (
                "what was rejected is asked nowhere else",
                vec![rejected(question("1", 1, &["a"])), own("2", 2, &["a"])],
                Some(&["a"]),
                &[("1", RejectedIn("1")), ("2", RejectedIn("1"))],
            ),
            (
                "back to what was rejected: the question between is outdated",
                vec![rejected(question("1", 1, &["a"])), own("2", 2, &["b"])],
                Some(&["a"]),
                &[("1", RejectedIn("1")), ("2", Unwanted)],
            ),
            (
                "of what is wanted only a part was rejected",
                vec![rejected(question("1", 1, &["a"])), own("2", 2, &["a", "b"])],
                Some(&["a", "b"]),
                &[("1", RejectedIn("1"))],
            ),
        ];
        for (name, questions, wanted, expected) in rows {
            let wanted: Option<BTreeSet<&str>> = wanted.map(|digests| digests.iter().copied().collect());
            let found = outdated(&questions, wanted.as_ref());
            assert_eq!(found, expected.iter().copied().collect(), "{name}");
        }
    }
}
