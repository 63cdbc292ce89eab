//! Nobody acts without leave, and no leave serves twice: rows, and every order in which people and machines can meet.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use proptest::prelude::*;
use setpoint_api::change_set::{ChangeSet, ChangeSetSpec, ChangeSetStatus, Mode, StepState, StepStatus};
use setpoint_api::environment::{Approval, ApprovalRule, ApproverKey};
use setpoint_api::machine::{DoneStep, MAX_DONE};
use setpoint_api::price::Price;
use setpoint_api::review::{Decision, Review, ReviewSpec};
use setpoint_api::step::{Action, Class, Origin, Step, Target};
use setpoint_core::authority::{Authorized, Input, Set, authorize, is_unrecorded, record_done};
use setpoint_core::gate::{Evidence, Signature, Usage, Verdict};

const OWNER: &str = "uid-of-web";
const EXPIRY_S: i64 = 600;

fn time(seconds: i64) -> Timestamp {
    Timestamp::constant(1_794_744_000, 0) + SignedDuration::from_secs(seconds)
}

fn step(digest: &str) -> Step {
    Step {
        id: format!("shop/web/{digest}"),
        target: Target { namespace: "shop".to_owned(), name: "web".to_owned(), kind: "Machine".to_owned() },
        action: Action::Delete,
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
    DoneStep { action: Action::Delete, digest: digest.to_owned(), at: time(at), change_set: set.map(str::to_owned) }
}

/// A change set of carol's, and the reviews that name its gate.
#[derive(Debug, Clone)]
struct Case {
    change_set: ChangeSet,
    reviews: Vec<(Review, Timestamp)>,
}

impl Case {
    fn of(name: &str, created: i64, digests: &[&str]) -> Case {
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
        change_set.status = Some(ChangeSetStatus { steps, ..ChangeSetStatus::default() });
        Case { change_set, reviews: Vec::new() }
    }

    fn uid(&self) -> &str {
        self.change_set.metadata.uid.as_deref().expect("a uid")
    }

    fn status(&mut self) -> &mut ChangeSetStatus {
        self.change_set.status.as_mut().expect("a status")
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
        let recorded = StepStatus { id, digest, state: StepState::Done, message: None, since: time(0) };
        self.status().step_states.push(recorded);
        self
    }

    fn set(&self) -> Option<Set<'_>> {
        let evidence = self.reviews.iter().map(|(review, created_at)| Evidence {
            review,
            created_at: *created_at,
            // The key of somebody has their name.
            signature: match review.spec.signature {
                Some(_) => Signature::Valid { material: &review.spec.reviewer },
                None => Signature::Unsigned,
            },
        });
        Set::of(&self.change_set, evidence.collect(), BTreeSet::new())
    }
}

fn review(gate: &str, reviewer: &str, decision: Decision, digest: &str, at: i64) -> (Review, Timestamp) {
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
fn signed(mut review: Review, set: &Case, nonce: usize, at: i64) -> Review {
    let spec = &mut review.spec;
    spec.expires_at = Some(time(at + EXPIRY_S));
    spec.nonce = Some(format!("0123456789abcdef-{nonce}"));
    spec.cluster_uid = Some("cluster".to_owned());
    spec.change_set_uid = Some(set.uid().to_owned());
    spec.signature = Some("armored".to_owned());
    review
}

/// So many approvals are needed, and keys are listed; whether one must sign is `signature`.
fn policy(approvals: u32, signature: bool) -> Approval {
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
    ask_by(&policy(approvals, false), wanted, cases, done, now)
}

fn ask_by(approval: &Approval, wanted: &[&str], cases: &[Case], done: &[DoneStep], now: i64) -> Vec<Authorized> {
    let steps: Vec<Step> = wanted.iter().map(|digest| step(digest)).collect();
    let sets: Vec<Set<'_>> = cases.iter().filter_map(Case::set).collect();
    authorize(&Input {
        steps: &steps,
        environment: "lab",
        owner: OWNER,
        requested_by: "dave",
        done,
        sets: &sets,
        approval: Some(approval),
        guardrails: None,
        expires_at: None,
        ledger: &[],
        under_way: &BTreeSet::new(),
        usage: Usage::default(),
        gpus: &BTreeMap::new(),
        cluster_uid: "cluster",
        now: time(now),
    })
}

#[test]
fn a_step_runs_by_the_leave_of_a_change_set_that_lists_exactly_it() {
    let owned_by = |uid: &'static str| {
        move |set: &mut ChangeSet| {
            let owner = OwnerReference { uid: uid.to_owned(), controller: Some(true), ..OwnerReference::default() };
            set.metadata.owner_references = Some(vec![owner]);
        }
    };
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
        ("it was made for this object", vec![approved().with(owned_by(OWNER))], vec![], "may run", "uid-one-0"),
        ("it was made for another of this name", vec![approved().with(owned_by("gone"))], vec![], waits, ""),
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
}

#[test]
fn a_signature_is_of_one_change_set_and_not_of_the_next_of_its_name() {
    let old = Case::of("one", 0, &["a"]);
    let (review, _) = review("one", "alice", Decision::Approve, "a", 5);
    let review = signed(review, &old, 0, 5);
    let sent_to = |mut case: Case| {
        case.reviews.push((review.clone(), time(15)));
        ask_by(&policy(1, true), &["a"], &[case], &[], 20).remove(0).verdict
    };
    assert_eq!(sent_to(old.clone()), Verdict::Run);
    assert!(sent_to(Case::of("one", 10, &["a"])).waits_for_people(), "the next one has another uid");
}

/// What can happen between the planning of a step and the taking of it, in any order.
#[derive(Debug, Clone)]
enum Event {
    /// Somebody wants other steps.
    Edit(Vec<&'static str>),
    /// A change set of this name is made for them, in place of the one before.
    Make(&'static str),
    /// The planner writes down what is wanted now.
    Replan(&'static str),
    Review(&'static str, &'static str, Decision, &'static str),
    /// A signed review from before is sent once more: to whatever has its gate's name now, with the date of now.
    Replay(prop::sample::Index),
    Wait(i64),
    /// What may be done is done, and recorded with the object.
    Apply,
    /// A change set records what was done; a crash may come before.
    Record,
}

const DIGESTS: [&str; 3] = ["a", "b", "c"];
const SETS: [&str; 2] = ["one", "two"];
const PEOPLE: [&str; 3] = ["alice", "bob", "carol"];

fn event() -> impl Strategy<Value = Event> {
    let digest = || prop::sample::select(&DIGESTS[..]);
    let set = || prop::sample::select(&SETS[..]);
    let decision =
        prop::sample::select(vec![Decision::Approve, Decision::Approve, Decision::Approve, Decision::Reject]);
    prop_oneof![
        1 => prop::sample::subsequence(DIGESTS.to_vec(), 1..=3).prop_map(Event::Edit),
        2 => set().prop_map(Event::Make),
        1 => set().prop_map(Event::Replan),
        6 => (set(), prop::sample::select(&PEOPLE[..]), decision, digest())
            .prop_map(|(set, who, decision, digest)| Event::Review(set, who, decision, digest)),
        1 => any::<prop::sample::Index>().prop_map(Event::Replay),
        1 => prop::sample::select(vec![0, 1, 30, EXPIRY_S]).prop_map(Event::Wait),
        5 => Just(Event::Apply),
        1 => Just(Event::Record),
    ]
}

#[derive(Default)]
struct World {
    now: i64,
    wanted: Vec<&'static str>,
    cases: BTreeMap<&'static str, Case>,
    /// Everything that anybody ever said: set, review, when.
    said: Vec<(String, Review, i64)>,
    done: Vec<DoneStep>,
    /// Which change set let which step run.
    used: BTreeSet<(String, String)>,
    ran: usize,
}

impl World {
    fn happen(&mut self, event: Event) {
        match event {
            Event::Edit(wanted) => self.wanted = wanted,
            Event::Make(name) => {
                // A name is not given twice within a second: its date would not tell the two apart.
                self.now += 1;
                self.cases.insert(name, Case::of(name, self.now, &self.wanted));
            }
            Event::Replan(name) => {
                let steps: Vec<Step> = self.wanted.iter().map(|digest| step(digest)).collect();
                self.cases.get_mut(name).into_iter().for_each(|case| case.status().steps.clone_from(&steps));
            }
            Event::Review(name, who, decision, digest) => {
                let Some(case) = self.cases.get_mut(name) else { return };
                let (review, at) = review(name, who, decision, digest, self.now);
                let review = signed(review, case, self.said.len(), self.now);
                self.said.push((case.uid().to_owned(), review.clone(), self.now));
                case.reviews.push((review, at));
            }
            Event::Replay(which) => {
                if self.said.is_empty() {
                    return;
                }
                let (_, mut review, _) = which.get(&self.said).clone();
                let Some(case) = self.cases.get_mut(review.spec.gate.as_str()) else { return };
                review.metadata.name = Some(format!("copy-{}", case.reviews.len()));
                case.reviews.push((review, time(self.now)));
            }
            Event::Wait(seconds) => self.now += seconds,
            Event::Apply => self.apply(),
            Event::Record => {
                for case in self.cases.values_mut() {
                    let uid = case.uid().to_owned();
                    let own = self.done.iter().filter(|step| step.change_set.as_deref() == Some(uid.as_str()));
                    *case = own.fold(case.clone(), |case, step| case.record(&step.digest));
                }
            }
        }
    }

    fn apply(&mut self) {
        let cases: Vec<Case> = self.cases.values().cloned().collect();
        for answer in ask_by(&policy(2, true), &self.wanted, &cases, &self.done, self.now) {
            if answer.verdict != Verdict::Run {
                continue;
            }
            let by = answer.by.clone().expect("a gated step runs by somebody's leave");
            let case = cases.iter().find(|case| case.uid() == by).expect("by a change set that is there");
            self.assert_approved(case, &answer.digest);
            assert!(self.used.insert((by.clone(), answer.digest.clone())), "{by} was used twice for {}", answer.digest);
            self.done = record_done(self.done.clone(), done(&answer.digest, Some(&by), self.now));
            self.ran += 1;
        }
    }

    /// Two people other than who asked said yes to exactly this in exactly this change set, lately, and did not think
    /// better of it; judged from what was said alone.
    fn assert_approved(&self, case: &Case, digest: &str) {
        assert!(case.change_set.status.as_ref().expect("a status").steps.iter().any(|step| step.digest == digest));
        let mut last: BTreeMap<&str, (i64, Decision)> = BTreeMap::new();
        let heard = self.said.iter().filter(|(set, review, _)| set == case.uid() && review.spec.digests == [digest]);
        for (_, review, at) in heard {
            let is_no = review.spec.decision == Decision::Reject;
            let earlier = last.get(review.spec.reviewer.as_str()).copied();
            // Of the same second, the no is taken for the later one.
            if is_no || earlier.is_none_or(|(before, decision)| decision != Decision::Reject || before < *at) {
                last.insert(&review.spec.reviewer, (*at, review.spec.decision));
            }
        }
        let yes = last.iter().filter(|(who, (at, decision))| {
            **who != "carol" && *decision == Decision::Approve && at + EXPIRY_S > self.now
        });
        assert_eq!(yes.count(), 2, "{digest} by {}: {last:?}", case.uid());
        assert!(last.values().all(|(_, decision)| *decision != Decision::Reject), "{digest}: {last:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_events_lets_a_step_run_without_an_approval_of_its_own(events in prop::collection::vec(event(), 1..60)) {
        let mut world = World { wanted: vec!["a", "b"], ..World::default() };
        world.happen(Event::Make("one"));
        events.into_iter().for_each(|event| world.happen(event));
    }
}

#[test]
fn the_events_above_do_let_steps_run() {
    let mut world = World { wanted: vec!["a"], ..World::default() };
    let yes = |who| Event::Review("one", who, Decision::Approve, "a");
    for event in [Event::Make("one"), yes("alice"), Event::Apply, yes("bob"), Event::Apply, Event::Apply] {
        world.happen(event);
    }
    assert_eq!(world.ran, 1, "once, by the second approval");
    for event in [Event::Make("one"), yes("alice"), yes("bob"), Event::Apply] {
        world.happen(event);
    }
    assert_eq!(world.ran, 2, "and again by approvals of its own");
}
