//! Entries of a change set only close: how each goes on, row by row.

use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_api::change_set::{ChangeSet, Entry, EntryState};
use setpoint_api::environment::{Approval, ApprovalRule};
use setpoint_api::machine::Machine;
use setpoint_api::step::Step;
use setpoint_core::authority::{
    Candidate, Fact, Opening, Subject, entries, opening, progress, requesters, rules, steps_to_open, stricter,
};
use setpoint_core::gate::{Decision, Judged, Refusal, Verdict};

use crate::authority::{Case, GENERATION, entry, policy, step, time};

const OWNER: &str = "uid-of-web";
const MINUTE: i64 = 60;
const DAY: i64 = 24 * 3_600;

/// The object, at a generation and as it was planned then.
struct Object {
    machine: Machine,
}

impl Object {
    /// It wants these steps, at its generation.
    fn wants(generation: i64, steps: &[Step]) -> Object {
        Object::planned(generation, generation, "Known", steps)
    }

    fn planned(generation: i64, planned: i64, certainty: &str, steps: &[Step]) -> Object {
        let pending =
            json!({"generation": planned, "observedAt": time(0).to_string(), "certainty": certainty, "steps": steps});
        Object::of(generation, json!({"observedGeneration": planned, "pending": pending}))
    }

    fn of(generation: i64, status: Value) -> Object {
        let machine = serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
            "metadata": {
                "name": "web", "namespace": "shop", "uid": OWNER, "generation": generation,
                "annotations": {"setpoint.dev/requested-by": "dave\nerin"},
            },
            "spec": {"environment": "lab"}, "status": status,
        }));
        Object { machine: machine.expect("a Machine") }
    }

    fn with(mut self, field: &str, value: Value) -> Object {
        let mut status = json!(self.machine.status);
        status[field] = value;
        self.machine.status = serde_json::from_value(status).expect("a status");
        self
    }

    fn fact(&self) -> Fact<'_> {
        Fact { subject: Some(Subject::of_machine(&self.machine)), ..Fact::default() }
    }
}

fn decision(verdict: Option<Verdict>) -> Decision {
    let judged = |verdict| Judged { step: step("a").id, digest: "a".to_owned(), verdict };
    Decision { steps: verdict.map(judged).into_iter().collect(), ..Decision::default() }
}

fn rejected() -> Verdict {
    let by = ["bob".to_owned()].into();
    Verdict::Refuse { reason: Refusal::Rejected { by, reviews: ["no".to_owned()].into() } }
}

fn waiting() -> Verdict {
    Verdict::Wait { needs: Vec::new() }
}

/// The change set with this entry, that was opened a minute before.
fn change_set(entry: Option<Entry>) -> ChangeSet {
    let mut set = Case::of("one", -MINUTE, &["a"]).change_set;
    set.status.as_mut().expect("a status").entries = entry.into_iter().collect();
    set
}

fn open() -> Entry {
    entry("a", OWNER, GENERATION, 0)
}

fn next(entry: Option<Entry>, fact: Fact<'_>, decision: &Decision, now: i64) -> Entry {
    entries(&change_set(entry), &[fact], decision, time(now)).remove(0)
}

#[test]
fn an_entry_follows_what_becomes_of_its_step() {
    use EntryState::{Approved, Blocked, Done, NotWanted, Running, Superseded, Tried};
    let wants = |generation: i64| Object::wants(generation, &[step("a")]);
    let nothing = |generation: i64| Object::wants(generation, &[]);
    let dear = || Step { hourly_cost_delta: Some("1".parse().expect("a price")), ..step("a") };
    let intent = |set: &str| json!([{"id": "call", "action": "Create", "digest": "a", "startedAt": time(5).to_string(), "epoch": 1, "changeSet": set}]);
    let done = |set: Option<&str>, at: i64, unseen: bool| json!([{"action": "Create", "digest": "a", "at": time(at).to_string(), "changeSet": set, "unseen": unseen}]);
    let (own, run) = ("uid-one--60", || Some(Verdict::Run));
    type Row = (&'static str, Entry, Object, Option<Verdict>, i64, EntryState);
    let rows: Vec<Row> = vec![
        ("it has its approvals", open(), wants(GENERATION), run(), 10, Approved),
        ("it waits for a limit", open(), wants(GENERATION), Some(waiting()), 10, Blocked),
        ("an edit leaves the step as it is", open(), wants(GENERATION + 1), run(), 10, Approved),
        ("a write went unseen", open(), wants(GENERATION + 2), run(), 10, Superseded),
        (
            "a write went unseen and is not planned yet",
            open(),
            Object::planned(GENERATION + 2, GENERATION, "Known", &[step("a")]),
            run(),
            10,
            Superseded,
        ),
        ("its object was written, and does not want it", open(), nothing(GENERATION + 1), run(), 10, NotWanted),
        ("reality changed just now", open(), nothing(GENERATION), run(), 10, Approved),
        (
            "reality changed four minutes ago",
            Entry { unwanted_since: Some(time(0)), ..open() },
            nothing(GENERATION),
            run(),
            4 * MINUTE,
            Approved,
        ),
        (
            "reality changed five minutes ago",
            Entry { unwanted_since: Some(time(0)), ..open() },
            nothing(GENERATION),
            run(),
            5 * MINUTE,
            NotWanted,
        ),
        (
            "the place has been down for an hour",
            Entry { unwanted_since: Some(time(0)), ..open() },
            Object::planned(GENERATION, GENERATION, "Unknown", &[]),
            run(),
            60 * MINUTE,
            Approved,
        ),
        (
            "it was written, and is yet to be planned",
            open(),
            Object::planned(GENERATION + 1, GENERATION, "Known", &[]),
            run(),
            10,
            Approved,
        ),
        ("its price rose", open(), Object::wants(GENERATION, &[dear()]), run(), 10, Superseded),
        ("it is being taken", open(), wants(GENERATION).with("intents", intent(own)), run(), 10, Running),
        ("it was taken", open(), nothing(GENERATION).with("done", done(Some(own), 5, false)), run(), 10, Done),
        ("it was tried", open(), wants(GENERATION).with("done", done(Some(own), 5, true)), run(), 10, Tried),
        ("it needed no approval", open(), nothing(GENERATION).with("done", done(None, 5, false)), run(), 10, Done),
        (
            "another's approvals were used",
            open(),
            nothing(GENERATION).with("done", done(Some("s"), 5, false)),
            run(),
            10,
            Superseded,
        ),
        (
            "it was done before",
            open(),
            wants(GENERATION).with("done", done(Some("s"), -90, false)),
            run(),
            10,
            Approved,
        ),
        ("a call surely had no effect", Entry { state: Running, ..open() }, wants(GENERATION), run(), 10, Approved),
        ("what is closed stays so", Entry { state: NotWanted, ..open() }, wants(GENERATION), run(), 10, NotWanted),
    ];
    for (name, entry, object, verdict, now, expected) in rows {
        let found = next(Some(entry), object.fact(), &decision(verdict), now);
        assert_eq!(found.state, expected, "{name}: {:?}", found.message);
    }
    let older = |object: &Object| next(Some(open()), Fact { is_in_older: true, ..object.fact() }, &decision(run()), 10);
    assert_eq!(older(&wants(GENERATION)).state, Superseded, "the older of two counts");
    let contradicted =
        |object: &Object| next(Some(open()), Fact { is_contradicted: true, ..object.fact() }, &decision(run()), 10);
    assert_eq!(contradicted(&wants(GENERATION)).state, Superseded, "nobody could approve it");
}

#[test]
fn a_guest_that_flaps_costs_no_approval() {
    let (wants, nothing) = (Object::wants(GENERATION, &[step("a")]), Object::wants(GENERATION, &[]));
    let mut entry = open();
    for minute in 0..60 {
        let object = if minute % 2 == 0 { &nothing } else { &wants };
        entry = next(Some(entry), object.fact(), &decision(Some(Verdict::Run)), minute * MINUTE);
        assert_eq!(entry.state, EntryState::Approved, "minute {minute}");
    }
}

#[test]
fn an_entry_opens_only_for_what_its_object_wants() {
    let altered = Step { reason: "nothing to worry about".to_owned(), ..step("a") };
    let rows = [
        ("it wants exactly this", Object::wants(GENERATION, &[step("a")]), EntryState::Waiting),
        ("it wants the same, and it is told otherwise", Object::wants(GENERATION, &[altered]), EntryState::NotWanted),
        ("it wants something else", Object::wants(GENERATION, &[step("b")]), EntryState::NotWanted),
        ("it was written away and back by now", Object::wants(GENERATION + 2, &[step("a")]), EntryState::NotWanted),
    ];
    for (name, object, expected) in rows {
        let found = next(None, object.fact(), &decision(None), 10);
        assert_eq!(found.state, expected, "{name}");
        let is_open = expected == EntryState::Waiting;
        assert_eq!(found.generation, is_open.then_some(GENERATION), "{name}");
        assert_eq!(found.object.as_deref(), is_open.then_some(OWNER), "{name}");
    }
    assert_eq!(next(None, Fact::default(), &decision(None), 10).state, EntryState::NotWanted, "there is no object");
}

#[test]
fn what_becomes_of_an_entry_whose_object_is_gone() {
    use EntryState::{Approved, Done, NotWanted, Rejected, Running};
    let gone = |state, digest: &str, verdict| {
        let mut set = Case::of("one", -MINUTE, &[digest]).change_set;
        set.status.as_mut().expect("a status").entries = vec![Entry { state, ..entry(digest, OWNER, GENERATION, 0) }];
        let judged = |verdict| Judged { step: step(digest).id, digest: digest.to_owned(), verdict };
        let decision = Decision { steps: vec![judged(verdict)], ..Decision::default() };
        entries(&set, &[Fact::default()], &decision, time(10)).remove(0).state
    };
    let rows = [
        ("it was begun", Running, "a", Verdict::Run, Done),
        ("it was about its removal", Approved, "c", Verdict::Run, Done),
        ("it was about something else", Approved, "a", Verdict::Run, NotWanted),
        ("it was rejected", Rejected, "a", rejected(), Rejected),
    ];
    for (name, state, digest, verdict, expected) in rows {
        assert_eq!(gone(state, digest, verdict), expected, "{name}");
    }
}

#[test]
fn a_rejection_holds_until_it_is_withdrawn() {
    use EntryState::{Approved, NotWanted, Rejected, Superseded};
    let no = || Entry { state: Rejected, ..open() };
    let (wants, nothing) =
        (|generation| Object::wants(generation, &[step("a")]), |generation| Object::wants(generation, &[]));
    let withdrawn = |at: i64| {
        let withdrawn = [("a".to_owned(), time(at))].into();
        Decision { withdrawn, ..decision(Some(Verdict::Run)) }
    };
    let missed = || Entry { generation: None, ..no() };
    type Row = (&'static str, Entry, Object, Decision, i64, EntryState);
    let rows: Vec<Row> = vec![
        ("somebody rejects it", open(), wants(GENERATION), decision(Some(rejected())), 10, Rejected),
        ("its object was written", no(), nothing(GENERATION + 1), decision(Some(rejected())), 10, Rejected),
        ("a write went unseen", no(), wants(GENERATION + 5), decision(Some(rejected())), 10, Rejected),
        ("the review of it was deleted", no(), wants(GENERATION), decision(Some(Verdict::Run)), 10, Rejected),
        ("a day later", no(), nothing(GENERATION), decision(Some(rejected())), DAY, Rejected),
        ("30 days later", no(), nothing(GENERATION), decision(Some(rejected())), 30 * DAY, NotWanted),
        ("30 days later, wanted until now", no(), wants(GENERATION), decision(Some(rejected())), 30 * DAY, Rejected),
        ("it is withdrawn", no(), wants(GENERATION), withdrawn(5), 10, Approved),
        ("an earlier one was withdrawn", no(), wants(GENERATION), withdrawn(-5), 10, Rejected),
        (
            "it is withdrawn after its object was written away and back",
            missed(),
            wants(GENERATION + 2),
            withdrawn(5),
            10,
            Superseded,
        ),
    ];
    for (name, entry, object, decision, now, expected) in rows {
        let found = next(Some(entry), object.fact(), &decision, now);
        assert_eq!(found.state, expected, "{name}: {:?}", found.message);
    }
    let away = next(Some(no()), nothing(GENERATION + 1).fact(), &decision(Some(rejected())), 10);
    assert_eq!(away.generation, None, "what was approved before does not come back with it");
}

#[test]
fn the_stricter_of_two_policies_holds() {
    let rule = |approvals: u32, change: fn(&mut ApprovalRule)| {
        let mut rule = policy(approvals, false).rules.remove(0);
        (rule.requester_may_approve, rule.service_accounts) = (true, true);
        change(&mut rule);
        rule
    };
    let plain = |approvals| rule(approvals, |_| {});
    let roles = |of: &'static [&'static str]| {
        let mut rule = plain(1);
        rule.roles = of.iter().map(|role| (*role).to_owned()).collect();
        rule
    };
    let rows = [
        ("more approvals were asked for", plain(2), plain(1), Some(plain(2))),
        ("more are asked for now", plain(1), plain(2), Some(plain(2))),
        (
            "a signature was",
            rule(1, |rule| rule.signature = true),
            plain(1),
            Some(rule(1, |rule| rule.signature = true)),
        ),
        (
            "who asked may not approve now",
            plain(1),
            rule(1, |rule| rule.requester_may_approve = false),
            Some(rule(1, |rule| rule.requester_may_approve = false)),
        ),
        (
            "ServiceAccounts do not count now",
            plain(1),
            rule(1, |rule| rule.service_accounts = false),
            Some(rule(1, |rule| rule.service_accounts = false)),
        ),
        (
            "approvals held for less",
            rule(1, |rule| rule.expiry_seconds = 60),
            plain(1),
            Some(rule(1, |rule| rule.expiry_seconds = 60)),
        ),
        ("a role is asked for now", plain(1), roles(&["owner"]), Some(roles(&["owner"]))),
        ("one of two roles", roles(&["owner", "operator"]), roles(&["operator"]), Some(roles(&["operator"]))),
        ("roles that nobody has at once", roles(&["owner"]), roles(&["operator"]), None),
    ];
    for (name, opened, in_force, expected) in rows {
        let class = opened.class;
        let approval = Approval { rules: vec![in_force], keys: Vec::new() };
        let found = stricter(&[opened], Some(&approval));
        let found = found.and_then(|policy| policy.rules.into_iter().find(|rule| rule.class == class));
        assert_eq!(found, expected, "{name}");
    }
    assert_eq!(rules(None).len(), 4, "defaults are filled in");
}

#[test]
fn a_change_set_is_opened_once_all_that_was_written_together_is_planned() {
    let at = |milliseconds: i64| time(0) + jiff::SignedDuration::from_millis(milliseconds);
    let rows = [
        ("it just came", 0, 0, true, 0, Opening::At(at(300))),
        ("nothing came for a moment", 0, 0, true, 300, Opening::Now),
        ("another came", 0, 200, true, 300, Opening::At(at(500))),
        ("one is not planned yet", 0, 0, false, 300, Opening::At(at(5_000))),
        ("it is not waited any longer", 0, 0, false, 5_000, Opening::Now),
        ("there is always another", 0, 4_900, true, 5_000, Opening::Now),
    ];
    for (name, first, last, is_all_planned, now, expected) in rows {
        assert_eq!(opening(at(first), at(last), is_all_planned, at(now)), expected, "{name}");
    }
}

#[test]
fn a_change_set_lists_what_no_other_does() {
    use EntryState::{NotWanted, Rejected, Waiting};
    let object = Object::wants(GENERATION, &[step("a"), step("b")]);
    let listed = |state| Case::of("one", 0, &["a"]).in_state(state).change_set;
    let of_another = |state| {
        Case::of("one", 0, &["a"]).in_state(state).each(|entry| entry.object = Some("gone".to_owned())).change_set
    };
    let fresh = || {
        let mut set = listed(Waiting);
        set.status = None;
        set
    };
    let rows: [(&str, Vec<ChangeSet>, &[&str]); 6] = [
        ("nothing is listed", vec![], &["a", "b"]),
        ("one step is", vec![listed(Waiting)], &["b"]),
        ("it was, and its entry is closed", vec![listed(NotWanted)], &["a", "b"]),
        ("it is for another object", vec![of_another(Waiting)], &["a", "b"]),
        ("a rejection is for all of them", vec![of_another(Rejected)], &["b"]),
        ("nobody has written its entries yet", vec![fresh()], &["b"]),
    ];
    for (name, sets, expected) in rows {
        let sets: Vec<std::sync::Arc<ChangeSet>> = sets.into_iter().map(std::sync::Arc::new).collect();
        let listing = |digest: &str| {
            let lists = |set: &&std::sync::Arc<ChangeSet>| set.spec.steps.iter().any(|step| step.digest == digest);
            sets.iter().filter(lists).cloned().collect::<Vec<_>>()
        };
        let subjects = [Subject::of_machine(&object.machine)];
        let found = steps_to_open(&subjects, listing);
        assert_eq!(found.iter().map(|it| it.step.digest.as_str()).collect::<Vec<_>>(), expected, "{name}");
    }
    let unplanned = Object::planned(GENERATION + 1, GENERATION, "Known", &[step("a")]);
    let found = steps_to_open(&[Subject::of_machine(&unplanned.machine)], |_| Vec::<std::sync::Arc<ChangeSet>>::new());
    assert!(found.is_empty(), "it was written since it was planned");
    let steps: Vec<Step> = (0..1_200).map(|number| step(&format!("a{number}"))).collect();
    let many = Object::wants(GENERATION, &steps);
    let found = steps_to_open(&[Subject::of_machine(&many.machine)], |_| Vec::<std::sync::Arc<ChangeSet>>::new());
    assert_eq!(found.len(), 1_000, "a change set holds so many");
    assert_eq!(requesters(&found), "dave and 1 more");
    let asked = step("a");
    assert_eq!(requesters(&[Candidate { step: &asked, object: OWNER, generation: 1, requested_by: "dave" }]), "dave");
}

#[test]
fn a_change_set_is_as_far_as_its_entries() {
    use EntryState::{Approved, Blocked, Done, NotWanted, Rejected, Running, Tried, Waiting};
    let rows: [(&str, &[EntryState], &str, &str); 9] = [
        ("somebody is waited for", &[Waiting, Done], "Waiting", "Waiting"),
        ("one runs meanwhile", &[Waiting, Running], "Running", "Waiting"),
        ("it may run", &[Approved], "Running", "Approved"),
        ("a limit holds it", &[Blocked], "Running", "Approved"),
        ("all is done", &[Done, Done], "Succeeded", "Approved"),
        ("one does not show", &[Done, Tried], "Stale", "Stale"),
        ("one is not wanted", &[NotWanted], "Stale", "Stale"),
        ("one was rejected", &[Rejected, Done], "Failed", "Rejected"),
        ("one was rejected, and another is waited for", &[Rejected, Waiting], "Waiting", "Waiting"),
    ];
    for (name, states, phase, approved) in rows {
        let set = Case::of("one", 0, &["a", "b"][..states.len()]).change_set;
        let entries: Vec<Entry> = states.iter().map(|state| Entry { state: *state, ..open() }).collect();
        let found = progress(&set, &entries, &Decision::default(), time(10));
        assert_eq!(format!("{:?}", found.phase), phase, "{name}");
        let condition = found.conditions.iter().find(|condition| condition.type_ == "Approved").expect("a condition");
        assert_eq!(condition.reason.as_deref(), Some(approved), "{name}");
    }
}

#[test]
fn times_are_of_the_second_that_they_are_in() {
    let at: Timestamp = time(10) + jiff::SignedDuration::from_millis(700);
    let mut entry = Entry { state: EntryState::Rejected, ..open() };
    entry.since = at;
    let withdrawn = Decision { withdrawn: [("a".to_owned(), time(10))].into(), ..decision(Some(Verdict::Run)) };
    let wants = Object::wants(GENERATION, &[step("a")]);
    assert_eq!(next(Some(entry), wants.fact(), &withdrawn, 11).state, EntryState::Approved);
}
