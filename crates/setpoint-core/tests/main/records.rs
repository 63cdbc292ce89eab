//! What is on record of calls that have ended: what used an approval is remembered.

use setpoint_api::machine::{Intent, MAX_DONE};
use setpoint_api::step::Action;
use setpoint_core::authority::{close, record_done};
use setpoint_core::intent::Outcome;

use crate::authority::{done, intent, time};

#[test]
fn what_used_an_approval_is_remembered_unless_it_is_proven_that_there_was_no_call() {
    let was_done = || Outcome::Done { provider_id: "101".into() };
    type Row<'a> = (&'a str, &'a str, Option<&'a str>, Outcome, Option<bool>);
    let rows: [Row<'_>; 7] = [
        ("a change that shows", "b", Some("s"), was_done(), Some(false)),
        ("a change that does not show", "b", Some("s"), Outcome::Lost, Some(true)),
        ("a change that does not show and needed no approval", "b", None, Outcome::Lost, None),
        ("a change that shows and needed no approval", "b", None, was_done(), Some(false)),
        ("a create that shows", "a", Some("s"), was_done(), Some(false)),
        ("a create of which nothing is there", "a", Some("s"), Outcome::Lost, None),
        ("a delete of what is still there", "c", Some("s"), Outcome::Lost, None),
    ];
    for (name, digest, set, outcome, unseen) in rows {
        let record = close(Vec::new(), intent("call", digest, set, 0), &outcome, time(5));
        assert_eq!(record.first().map(|step| step.unseen), unseen, "{name}");
    }
    for (name, set, unseen) in [
        ("an approved replacement that got as far as the removal", Some("s"), Some(true)),
        ("one that needed no approval", None, None),
    ] {
        let replace = Intent { action: Action::Replace, ..intent("call", "c", set, 0) };
        let record = close(Vec::new(), replace, &Outcome::Removed { provider_id: "101".into() }, time(5));
        assert_eq!(record.first().map(|step| step.unseen), unseen, "{name}");
    }
}

#[test]
fn what_used_an_approval_is_remembered_longest() {
    let mut record = record_done(Vec::new(), done("kept", Some("s"), 0), MAX_DONE);
    for number in 0..100 {
        record = record_done(record, done(&format!("x{number}"), None, number), MAX_DONE);
    }
    assert_eq!((record.len(), record[0].digest.as_str()), (MAX_DONE, "kept"));
    let again = record_done(record, done("x99", None, 200), MAX_DONE);
    assert_eq!(again.iter().filter(|step| step.digest == "x99").count(), 1, "the same again is one entry");
}
