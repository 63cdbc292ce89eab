//! Nobody acts without leave, and no leave serves twice: row by row.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use setpoint_api::change_set::{ChangeSet, ChangeSetSpec, ChangeSetStatus, Mode, StepState, StepStatus};
use setpoint_api::environment::{Approval, ApprovalRule, ApproverKey};
use setpoint_api::machine::{DoneStep, Intent, MAX_DONE};
use setpoint_api::price::Price;
use setpoint_api::review::{Decision, Review, ReviewSpec};
use setpoint_api::step::{Action, Class, Origin, Step, Target};
use setpoint_core::authority::{Authorized, Input, Set, authorize, close, is_unrecorded, record_done};
use setpoint_core::gate::{Evidence, Signature, Usage, Verdict};
use setpoint_core::intent::Outcome;

const OWNER: &str = "uid-of-web";
pub(crate) const EXPIRY_S: i64 = 600;
pub(crate) const PEOPLE: [&str; 3] = ["alice", "bob", "carol"];

pub(crate) fn time(seconds: i64) -> Timestamp {
    Timestamp::constant(1_794_744_000, 0) + SignedDuration::from_secs(seconds)
}

/// Something is made, changed or deleted: the first letter tells.
pub(crate) fn action(digest: &str) -> Action {
    match digest.chars().next() {
        Some('a') => Action::Create,
        Some('b') => Action::Update,
        _ => Action::Delete,
    }
}

pub(crate) fn step(digest: &str) -> Step {
    Step {
        id: format!("shop/web/{digest}"),
        target: Target { namespace: "shop".to_owned(), name: "web".to_owned(), kind: "Machine".to_owned() },
        action: action(digest),
        provider_id: None,
        reason: String::new(),
        origin: Origin::Desired,
        changes: Vec::new(),
        class: Class::Destructive,
        class_reason: String::new(),
        interrupts: false,
        create_first: false,
        hourly_cost_delta: Some(Price::ZERO),
        spends: false,
        depends_on: Vec::new(),
        old_spec_digest: None,
        new_spec_digest: None,
        digest: digest.to_owned(),
    }
}

fn done(digest: &str, set: Option<&str>, at: i64) -> DoneStep {
    let change_set = set.map(str::to_owned);
    DoneStep { action: action(digest), digest: digest.to_owned(), at: time(at), change_set, unseen: false }
}

fn tried(digest: &str, set: &str, at: i64) -> DoneStep {
    DoneStep { unseen: true, ..done(digest, Some(set), at) }
}

pub(crate) fn intent(id: &str, digest: &str, set: Option<&str>, at: i64) -> Intent {
    Intent {
        id: id.to_owned(),
        action: action(digest),
        class: None,
        digest: digest.to_owned(),
        started_at: time(at),
        epoch: 1,
        provider_id: None,
        change_set: set.map(str::to_owned),
    }
}

/// The generation of the object that steps are taken for, if nothing else is said.
pub(crate) const GENERATION: i64 = 7;

/// The object that steps are taken for, and what is on record of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Object<'a> {
    pub(crate) uid: &'a str,
    pub(crate) generation: i64,
    pub(crate) done: &'a [DoneStep],
    pub(crate) intents: &'a [Intent],
}

/// A change set of carol's, and the reviews that name its gate.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) change_set: ChangeSet,
    pub(crate) reviews: Vec<(Review, Timestamp)>,
    /// Whether it brings the object along otherwise than it is.
    is_contradicted: bool,
}

impl Case {
    pub(crate) fn of(name: &str, created: i64, digests: &[&str]) -> Case {
        let spec = ChangeSetSpec {
            environment: "lab".to_owned(),
            mode: Mode::Execute,
            objects: Vec::new(),
            deletes: Vec::new(),
            requested_by: "carol".to_owned(),
        };
        let mut change_set = ChangeSet::new(name, spec);
        change_set.metadata.namespace = Some("shop".to_owned());
        change_set.metadata.uid = Some(format!("uid-{name}-{created}"));
        change_set.metadata.creation_timestamp = Some(Time(time(created)));
        let steps = digests.iter().map(|digest| step(digest)).collect();
        let object_generation = Some(GENERATION);
        change_set.status = Some(ChangeSetStatus { steps, object_generation, ..ChangeSetStatus::default() });
        Case { change_set, reviews: Vec::new(), is_contradicted: false }
    }

    pub(crate) fn uid(&self) -> &str {
        self.change_set.metadata.uid.as_deref().expect("a uid")
    }

    pub(crate) fn status(&mut self) -> &mut ChangeSetStatus {
        self.change_set.status.as_mut().expect("a status")
    }

    /// The controller of an object made it.
    pub(crate) fn asked_for(self, uid: &str) -> Case {
        let owner = OwnerReference { uid: uid.to_owned(), controller: Some(true), ..OwnerReference::default() };
        self.with(|set| set.metadata.owner_references = Some(vec![owner]))
    }

    /// It is about the object since the write that made this its generation; nobody knows where none is said.
    pub(crate) fn since(mut self, generation: Option<i64>) -> Case {
        self.status().object_generation = generation;
        self
    }

    pub(crate) fn generation(&self) -> Option<i64> {
        self.change_set.status.as_ref().and_then(|status| status.object_generation)
    }

    /// A user asked in it about the write that makes this the object's generation, as it is on record with each step.
    pub(crate) fn asked_with_each(mut self, generation: i64) -> Case {
        let steps = self.status().steps.clone();
        let asked = steps.iter().map(|step| StepStatus {
            id: step.id.clone(),
            digest: step.digest.clone(),
            state: StepState::Pending,
            message: None,
            since: time(0),
            spent: false,
            object: None,
            generation: Some(generation),
        });
        self.status().step_states = asked.collect();
        self
    }

    pub(crate) fn contradicted(self, is_contradicted: bool) -> Case {
        Case { is_contradicted, ..self }
    }

    fn with(mut self, change: impl FnOnce(&mut ChangeSet)) -> Case {
        change(&mut self.change_set);
        self
    }

    fn review(mut self, reviewer: &str, decision: Decision, digest: &str, at: i64) -> Case {
        self.reviews.push(review(
            self.change_set.metadata.name.as_deref().expect("a name"),
            reviewer,
            decision,
            digest,
            at,
        ));
        self
    }

    fn approved(self, digest: &str, at: i64) -> Case {
        self.review("alice", Decision::Approve, digest, at)
    }

    fn record(mut self, digest: &str) -> Case {
        let (id, digest) = (step(digest).id, digest.to_owned());
        let (state, since) = (StepState::Done, time(0));
        let recorded =
            StepStatus { id, digest, state, message: None, since, spent: false, object: None, generation: None };
        self.status().step_states.push(recorded);
        self
    }

    fn begun(self, digest: &str, uid: &str) -> Case {
        let mut case = self.record(digest);
        case.status().step_states.iter_mut().for_each(|step| {
            (step.state, step.object) = (StepState::Running, Some(uid.to_owned()));
        });
        case
    }

    /// It is about the write that makes this the object's generation, and this object where it was as it says once.
    fn about(self, digest: &str, generation: i64, uid: Option<&str>) -> Case {
        let mut case = self.record(digest);
        case.status().step_states.iter_mut().for_each(|step| {
            (step.state, step.generation) = (StepState::Approved, Some(generation));
            step.object = uid.map(str::to_owned);
        });
        case
    }

    fn record_tried(self, digest: &str) -> Case {
        let mut case = self.record(digest);
        case.status().step_states.iter_mut().for_each(|step| (step.state, step.spent) = (StepState::Stale, true));
        case
    }

    pub(crate) fn set(&self) -> Option<Set<'_>> {
        let evidence = self.reviews.iter().map(|(review, created_at)| Evidence {
            review,
            created_at: *created_at,
            // The key of somebody has their name.
            signature: match review.spec.signature {
                Some(_) => Signature::Valid { material: &review.spec.reviewer },
                None => Signature::Unsigned,
            },
        });
        let steps = self.change_set.status.iter().flat_map(|status| &status.steps);
        let digests = steps.map(|step| step.digest.as_str()).collect();
        Set::of(&self.change_set, &digests, self.is_contradicted, evidence.collect(), BTreeSet::new())
    }
}

pub(crate) fn review(gate: &str, reviewer: &str, decision: Decision, digest: &str, at: i64) -> (Review, Timestamp) {
    let spec = ReviewSpec {
        gate: gate.to_owned(),
        decision,
        digests: vec![digest.to_owned()],
        reviewer: reviewer.to_owned(),
        comment: None,
        expires_at: None,
        nonce: None,
        cluster_uid: None,
        change_set_uid: None,
        signature: None,
    };
    let mut review = Review::new(&format!("{reviewer}-{at}"), spec);
    review.metadata.namespace = Some("shop".to_owned());
    (review, time(at))
}

/// The same with a signature over all that one binds.
pub(crate) fn signed(mut review: Review, set: &Case, nonce: usize, at: i64) -> Review {
    let spec = &mut review.spec;
    spec.expires_at = Some(time(at + EXPIRY_S));
    spec.nonce = Some(format!("0123456789abcdef-{nonce}"));
    spec.cluster_uid = Some("cluster".to_owned());
    spec.change_set_uid = Some(set.uid().to_owned());
    spec.signature = Some("armored".to_owned());
    review
}

/// So many approvals are needed, and keys are listed; whether one must sign is `signature`.
pub(crate) fn policy(approvals: u32, signature: bool) -> Approval {
    let rule = ApprovalRule {
        class: Class::Destructive,
        approvals,
        roles: Vec::new(),
        signature,
        requester_may_approve: false,
        expiry_seconds: EXPIRY_S as u32,
    };
    let keys = PEOPLE.iter().map(|who| ApproverKey {
        public_key: format!("ssh-ed25519 {who}"),
        principal: (*who).to_owned(),
        role: "operator".to_owned(),
    });
    Approval { rules: vec![rule], keys: keys.collect() }
}

fn ask(approvals: u32, wanted: &[&str], cases: &[Case], done: &[DoneStep], now: i64) -> Vec<Authorized> {
    ask_by(
        &policy(approvals, false),
        wanted,
        cases,
        Object { uid: OWNER, generation: GENERATION, done, intents: &[] },
        now,
    )
}

pub(crate) fn ask_by(
    approval: &Approval,
    wanted: &[&str],
    cases: &[Case],
    object: Object<'_>,
    now: i64,
) -> Vec<Authorized> {
    let steps: Vec<Step> = wanted.iter().map(|digest| step(digest)).collect();
    authorized(approval, &steps, cases, object, now)
}

fn authorized(approval: &Approval, steps: &[Step], cases: &[Case], object: Object<'_>, now: i64) -> Vec<Authorized> {
    let sets: Vec<Set<'_>> = cases.iter().filter_map(Case::set).collect();
    authorize(&Input {
        steps,
        environment: "lab",
        owner: object.uid,
        generation: Some(object.generation),
        requested_by: "dave",
        done: object.done,
        sets: &sets,
        approval: Some(approval),
        guardrails: None,
        expires_at: None,
        ledger: &[],
        intents: object.intents,
        usage: Usage::default(),
        gpus: &BTreeMap::new(),
        cluster_uid: "cluster",
        now: time(now),
    })
}

#[test]
fn a_step_runs_by_the_leave_of_a_change_set_that_lists_exactly_it() {
    let asked = || Case::of("one", 0, &["a"]);
    let approved = || asked().approved("a", 10);
    let other = || Case::of("two", 5, &["a"]);
    let waits = "waits: Destructive: 0 of 1 approval";
    let rejected = "refused: rejected by bob";
    let full = |at: i64| (0..MAX_DONE).map(|number| done(&format!("x{number}"), Some("s"), at)).collect::<Vec<_>>();
    let rows = [
        ("nobody was asked", vec![], vec![], waits, ""),
        ("nobody answered", vec![asked()], vec![], waits, ""),
        ("it is approved", vec![approved()], vec![], "may run", "uid-one-0"),
        ("the approval is over", vec![asked().approved("a", 20 - EXPIRY_S)], vec![], waits, ""),
        ("another step was approved", vec![Case::of("one", 0, &["b"]).approved("b", 10)], vec![], waits, ""),
        (
            "it is approved where it is not listed",
            vec![Case::of("one", 0, &["b"]).approved("a", 10)],
            vec![],
            waits,
            "",
        ),
        ("who asked approves", vec![asked().review("carol", Decision::Approve, "a", 10)], vec![], waits, ""),
        ("who wrote the object approves", vec![asked().review("dave", Decision::Approve, "a", 10)], vec![], waits, ""),
        ("a preview is approved", vec![approved().with(|set| set.spec.mode = Mode::Preview)], vec![], waits, ""),
        (
            "it is approved in another environment",
            vec![approved().with(|set| set.spec.environment = "production".to_owned())],
            vec![],
            waits,
            "",
        ),
        (
            "a change set that is being deleted",
            vec![approved().with(|set| set.metadata.deletion_timestamp = Some(Time(time(15))))],
            vec![],
            waits,
            "",
        ),
        ("it was made for this object", vec![approved().asked_for(OWNER)], vec![], "may run", "uid-one-0"),
        ("it was made for another of this name", vec![approved().asked_for("gone")], vec![], waits, ""),
        (
            "it was made before the object was written again",
            vec![approved().since(Some(GENERATION - 1))],
            vec![],
            waits,
            "",
        ),
        ("nobody knows for which write it was made", vec![approved().since(None)], vec![], waits, ""),
        ("it brings the object along otherwise", vec![approved().contradicted(true)], vec![], waits, ""),
        (
            "what was rejected stays so though the object was written again",
            vec![asked().review("bob", Decision::Reject, "a", 10).since(Some(GENERATION - 1)).contradicted(true)],
            vec![],
            rejected,
            "",
        ),
        ("the other one is approved", vec![asked(), other().approved("a", 10)], vec![], "may run", "uid-two-5"),
        ("both are approved", vec![other().approved("a", 10), approved()], vec![], "may run", "uid-one-0"),
        (
            "a rejection holds everywhere",
            vec![approved(), other().review("bob", Decision::Reject, "a", 10)],
            vec![],
            rejected,
            "",
        ),
        (
            "who rejected approves after all",
            vec![
                asked().review("bob", Decision::Reject, "a", 10).review("bob", Decision::Approve, "a", 11),
                other().review("alice", Decision::Approve, "a", 10),
            ],
            vec![],
            "may run",
            "uid-one-0",
        ),
        ("it was done by this leave", vec![approved()], vec![done("a", Some("uid-one-0"), 0)], waits, ""),
        ("it was tried by this leave", vec![approved()], vec![tried("a", "uid-one-0", 12)], waits, ""),
        ("it is being taken for this object", vec![approved().begun("a", OWNER)], vec![], "may run", "uid-one-0"),
        ("it was being taken for one that is gone", vec![approved().begun("a", "gone")], vec![], waits, ""),
        (
            "the object is as it says",
            vec![approved().about("a", GENERATION, Some(OWNER))],
            vec![],
            "may run",
            "uid-one-0",
        ),
        ("the object is yet to be written", vec![approved().about("a", GENERATION + 1, None)], vec![], waits, ""),
        ("the object was written otherwise", vec![approved().about("a", GENERATION - 1, None)], vec![], waits, ""),
        ("it was for one that is gone", vec![approved().about("a", GENERATION, Some("gone"))], vec![], waits, ""),
        (
            "a rejection is not forgotten, however much was done since",
            vec![asked().review("bob", Decision::Reject, "a", 10)],
            full(12),
            rejected,
            "",
        ),
        (
            "nor is one that came when its change set was over",
            vec![asked().record_tried("a").review("bob", Decision::Reject, "a", 10), other().approved("a", 10)],
            vec![],
            rejected,
            "",
        ),
        (
            "nor by an object that was written otherwise meanwhile",
            vec![asked().review("bob", Decision::Reject, "a", 10).about("a", GENERATION - 1, None)],
            vec![],
            rejected,
            "",
        ),
        ("it is on the change set's own record as tried", vec![approved().record_tried("a")], vec![], waits, ""),
        ("it is on the change set's own record", vec![approved().record("a")], vec![], waits, ""),
        ("it was done by nobody's leave since", vec![approved()], vec![done("a", None, 12)], waits, ""),
        ("it was done by nobody's leave before", vec![approved()], vec![done("a", None, -1)], "may run", "uid-one-0"),
        ("it was done by another's leave since", vec![approved()], vec![done("a", Some("s"), 12)], waits, ""),
        ("it was done before", vec![approved()], vec![done("a", Some("s"), 0)], "may run", "uid-one-0"),
        ("something else was done", vec![approved()], vec![done("b", Some("uid-one-0"), 12)], "may run", "uid-one-0"),
        ("the record does not reach back", vec![approved()], full(12), waits, ""),
        ("the record reaches back", vec![approved()], full(0), "may run", "uid-one-0"),
    ];
    for (name, cases, done, verdict, by) in rows {
        let answer = ask(1, &["a"], &cases, &done, 20);
        assert!(answer[0].verdict.to_string().starts_with(verdict), "{name}: {}", answer[0].verdict);
        assert_eq!(answer[0].by.as_deref().unwrap_or_default(), by, "{name}");
    }
}

#[test]
fn a_call_under_way_uses_its_leave() {
    let case = Case::of("one", 0, &["b"]).approved("b", 10);
    let rows = [
        ("nothing is under way", vec![], true),
        ("the same, by this leave", vec![intent("call", "b", Some("uid-one-0"), 15)], false),
        ("the same, by another's", vec![intent("call", "b", Some("s"), 15)], true),
        ("something else, by this leave", vec![intent("call", "c", Some("uid-one-0"), 15)], true),
    ];
    for (name, intents, may_run) in rows {
        let object = Object { uid: OWNER, generation: GENERATION, done: &[], intents: &intents };
        let answer = ask_by(&policy(1, false), &["b"], std::slice::from_ref(&case), object, 20);
        assert_eq!(answer[0].verdict == Verdict::Run, may_run, "{name}");
    }
}

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
fn the_start_that_finishes_a_restart_has_its_leave() {
    let start = |guest: &str| Step { action: Action::Start, provider_id: Some(guest.to_owned()), ..step("start") };
    let restart = |action: Action, set: Option<&str>| {
        vec![Intent { action, provider_id: Some("101".to_owned()), ..intent("call", "restart", set, 5) }]
    };
    let other = || Step { depends_on: vec!["shop/web/update".to_owned()], ..start("101") };
    let dearer = || Step { hourly_cost_delta: Some("1".parse().expect("a price")), ..start("101") };
    type Row<'a> = (&'a str, Step, Vec<Intent>, Option<Option<&'a str>>);
    let rows: [Row<'_>; 7] = [
        ("nothing was restarted", start("101"), vec![], None),
        ("an approved restart", start("101"), restart(Action::Restart, Some("set")), Some(Some("set"))),
        ("a restart that needed no approval", start("101"), restart(Action::Restart, None), Some(None)),
        ("another guest was restarted", start("102"), restart(Action::Restart, Some("set")), None),
        ("it was stopped for good", start("101"), restart(Action::Stop, Some("set")), None),
        ("something else is changed before", other(), restart(Action::Restart, Some("set")), None),
        ("it costs more than before", dearer(), restart(Action::Restart, Some("set")), None),
    ];
    for (name, start, intents, by) in rows {
        let object = Object { uid: OWNER, generation: GENERATION, done: &[], intents: &intents };
        let answer = authorized(&policy(1, false), std::slice::from_ref(&start), &[], object, 20).remove(0);
        let found = (answer.verdict == Verdict::Run).then_some(answer.by.as_deref());
        assert_eq!(found, by, "{name}: {}", answer.verdict);
    }
    let rejected = Case::of("one", 0, &["start"]).review("bob", Decision::Reject, "start", 10);
    let object =
        Object { uid: OWNER, generation: GENERATION, done: &[], intents: &restart(Action::Restart, Some("set")) };
    let answer = authorized(&policy(1, false), &[start("101")], &[rejected], object, 20).remove(0);
    assert!(answer.verdict.is_rejected(), "{}", answer.verdict);
}

#[test]
fn approvals_in_different_change_sets_do_not_add_up() {
    let one = Case::of("one", 0, &["a"]).review("alice", Decision::Approve, "a", 10);
    let two = Case::of("two", 0, &["a"]).review("bob", Decision::Approve, "a", 10);
    let answer = ask(2, &["a"], &[one.clone(), two], &[], 20);
    assert!(answer[0].verdict.waits_for_people(), "{:?}", answer[0]);
    assert_eq!(answer[0].asked, ["one", "two"]);
    let both = one.review("bob", Decision::Approve, "a", 10);
    assert_eq!(ask(2, &["a"], &[both], &[], 20)[0].verdict, Verdict::Run);
}

#[test]
fn what_needs_no_leave_runs_by_nobodys() {
    let answer = ask(0, &["a"], &[Case::of("one", 0, &["a"]).approved("a", 10)], &[], 20);
    assert_eq!((&answer[0].verdict, &answer[0].by), (&Verdict::Run, &None));
}

#[test]
fn what_used_an_approval_is_remembered_longest() {
    let mut record = record_done(Vec::new(), done("kept", Some("s"), 0));
    for number in 0..100 {
        record = record_done(record, done(&format!("x{number}"), None, number));
    }
    assert_eq!((record.len(), record[0].digest.as_str()), (MAX_DONE, "kept"));
    let again = record_done(record, done("x99", None, 200));
    assert_eq!(again.iter().filter(|step| step.digest == "x99").count(), 1, "the same again is one entry");
}

#[test]
fn an_object_stays_until_its_change_sets_remember_for_it() {
    let case = Case::of("one", 0, &["a", "b"]);
    let was_done = [done("a", Some(case.uid()), 10), done("b", None, 10)];
    assert!(is_unrecorded(&case.set().unwrap(), &was_done));
    assert!(!is_unrecorded(&case.clone().record("a").set().unwrap(), &was_done));
    assert!(!is_unrecorded(&case.clone().record_tried("a").set().unwrap(), &was_done), "as tried it is on record");
}

#[test]
fn a_signature_is_of_one_change_set_and_not_of_the_next_of_its_name() {
    let old = Case::of("one", 0, &["a"]);
    let (review, _) = review("one", "alice", Decision::Approve, "a", 5);
    let review = signed(review, &old, 0, 5);
    let sent_to = |mut case: Case| {
        case.reviews.push((review.clone(), time(15)));
        let object = Object { uid: OWNER, generation: GENERATION, done: &[], intents: &[] };
        ask_by(&policy(1, true), &["a"], &[case], object, 20).remove(0).verdict
    };
    assert_eq!(sent_to(old.clone()), Verdict::Run);
    assert!(sent_to(Case::of("one", 10, &["a"])).waits_for_people(), "the next one has another uid");
}
