//! No step is taken without its approvals, and no approval is used twice: row by row.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use setpoint_api::change_set::{ChangeSet, ChangeSetSpec, ChangeSetStatus, Entry, EntryState, Mode};
use setpoint_api::environment::{Approval, ApprovalRule, ApproverKey};
use setpoint_api::machine::{DoneStep, Intent, MAX_DONE};
use setpoint_api::price::Price;
use setpoint_api::review::{Decision, Review, ReviewSpec};
use setpoint_api::step::{Action, Class, Origin, Step, Target};
use setpoint_core::authority::{Authorized, Input, Set, authorize};
use setpoint_core::gate::{Evidence, Signature, Usage, Verdict};

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

pub(crate) fn done(digest: &str, set: Option<&str>, at: i64) -> DoneStep {
    let change_set = set.map(str::to_owned);
    let (action, digest) = (action(digest), digest.to_owned());
    DoneStep { action, digest, at: time(at), change_set, unseen: false, hourly_price: None }
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
        hourly_price: None,
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

/// A change set, and the reviews that name its gate.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) change_set: ChangeSet,
    pub(crate) reviews: Vec<(Review, Timestamp)>,
    /// Whose right to approve was taken away.
    pub(crate) without_right: Vec<&'static str>,
}

pub(crate) fn entry(digest: &str, object: &str, generation: i64, at: i64) -> Entry {
    Entry {
        digest: digest.to_owned(),
        state: EntryState::Waiting,
        message: None,
        since: time(at),
        object: Some(object.to_owned()),
        generation: Some(generation),
        wanted_at: Some(time(at)),
        unwanted_since: None,
    }
}

impl Case {
    pub(crate) fn of(name: &str, created: i64, digests: &[&str]) -> Case {
        let spec = ChangeSetSpec {
            environment: "lab".to_owned(),
            mode: Mode::Execute,
            objects: Vec::new(),
            deletes: Vec::new(),
            requested_by: "dave".to_owned(),
            steps: digests.iter().map(|digest| step(digest)).collect(),
            generations: vec![GENERATION; digests.len()],
            rules: Vec::new(),
        };
        let mut change_set = ChangeSet::new(name, spec);
        change_set.metadata.namespace = Some("shop".to_owned());
        change_set.metadata.uid = Some(format!("uid-{name}-{created}"));
        change_set.metadata.creation_timestamp = Some(Time(time(created)));
        let entries = digests.iter().map(|digest| entry(digest, OWNER, GENERATION, created)).collect();
        change_set.status = Some(ChangeSetStatus { entries, ..ChangeSetStatus::default() });
        Case { change_set, reviews: Vec::new(), without_right: Vec::new() }
    }

    pub(crate) fn uid(&self) -> &str {
        self.change_set.metadata.uid.as_deref().expect("a uid")
    }

    pub(crate) fn status(&mut self) -> &mut ChangeSetStatus {
        self.change_set.status.as_mut().expect("a status")
    }

    /// The same with every entry changed.
    pub(crate) fn each(mut self, change: impl Fn(&mut Entry)) -> Case {
        self.status().entries.iter_mut().for_each(change);
        self
    }

    pub(crate) fn in_state(self, state: EntryState) -> Case {
        self.each(|entry| entry.state = state)
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

    pub(crate) fn set(&self) -> Set<'_> {
        let evidence = self.reviews.iter().map(|(review, created_at)| Evidence {
            review,
            created_at: *created_at,
            // The key of somebody has their name.
            signature: match review.spec.signature {
                Some(_) => Signature::Valid { material: &review.spec.reviewer },
                None => Signature::Unsigned,
            },
            may_approve: !self.without_right.contains(&review.spec.reviewer.as_str()),
        });
        Set { change_set: &self.change_set, evidence: evidence.collect() }
    }
}

pub(crate) fn review(gate: &str, reviewer: &str, decision: Decision, digest: &str, at: i64) -> (Review, Timestamp) {
    let spec = ReviewSpec {
        gate: gate.to_owned(),
        decision,
        digests: vec![digest.to_owned()],
        reviewer: reviewer.to_owned(),
        reviewer_uid: None,
        reviewer_groups: Vec::new(),
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
        service_accounts: false,
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
    let sets: Vec<Set<'_>> = cases.iter().map(Case::set).collect();
    authorize(&Input {
        steps,
        windows: &[],
        environment: "lab",
        owner: object.uid,
        generation: object.generation,
        requested_by: "dave",
        done: object.done,
        most_done: MAX_DONE,
        sets: &sets,
        approval: Some(approval),
        guardrails: None,
        expires_at: None,
        ledger: &[],
        intents: object.intents,
        usage: &Usage::default(),
        gpus: &BTreeMap::new(),
        cluster_uid: "cluster",
        now: time(now),
    })
}

#[test]
fn a_step_runs_by_the_approvals_of_a_change_set_that_lists_exactly_it() {
    use EntryState::{Blocked, Done, NotWanted, Rejected, Superseded, Tried};
    let asked = || Case::of("one", 0, &["a"]);
    let approved = || asked().approved("a", 10);
    let other = || Case::of("two", 5, &["a"]);
    let rejected_by_bob = || asked().review("bob", Decision::Reject, "a", 10);
    let waits = "waits: Destructive: 0 of 1 approval";
    let rejected = "refused: rejected by bob";
    let full = |at: i64| (0..MAX_DONE).map(|number| done(&format!("x{number}"), Some("s"), at)).collect::<Vec<_>>();
    let rule = |approvals| ApprovalRule { approvals, ..policy(approvals, false).rules.remove(0) };
    let at_generation = |generation: Option<i64>| approved().each(|entry| entry.generation = generation);
    let dear = || step("a").hourly_cost_delta.map(|_| "1".parse::<Price>().expect("a price"));
    let shown = |delta: Option<Price>| approved().with(|set| set.spec.steps[0].hourly_cost_delta = delta);
    let rows = [
        ("nobody was asked", vec![], vec![], waits, ""),
        ("nobody answered", vec![asked()], vec![], waits, ""),
        ("it is approved", vec![approved()], vec![], "may run", "uid-one-0"),
        ("a limit held it until now", vec![approved().in_state(Blocked)], vec![], "may run", "uid-one-0"),
        ("the approval is over", vec![asked().approved("a", 20 - EXPIRY_S)], vec![], waits, ""),
        ("another step was approved", vec![Case::of("one", 0, &["b"]).approved("b", 10)], vec![], waits, ""),
        (
            "it is approved where it is not listed",
            vec![Case::of("one", 0, &["b"]).approved("a", 10)],
            vec![],
            waits,
            "",
        ),
        ("who wrote the object approves", vec![asked().review("dave", Decision::Approve, "a", 10)], vec![], waits, ""),
        (
            "the right of who approved was taken away",
            vec![Case { without_right: vec!["alice"], ..approved() }],
            vec![],
            waits,
            "",
        ),
        (
            "a ServiceAccount approves, and no rule lets it",
            vec![asked().review("system:serviceaccount:shop:bot", Decision::Approve, "a", 10)],
            vec![],
            waits,
            "",
        ),
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
        ("it has no entry yet", vec![approved().with(|set| set.status = None)], vec![], waits, ""),
        (
            "it is for another object of this name",
            vec![approved().each(|entry| entry.object = Some("gone".to_owned()))],
            vec![],
            waits,
            "",
        ),
        ("an edit left the step as it is", vec![at_generation(Some(GENERATION - 1))], vec![], "may run", "uid-one-0"),
        ("a write went unseen", vec![at_generation(Some(GENERATION - 2))], vec![], waits, ""),
        ("it was written while it was rejected", vec![at_generation(None)], vec![], waits, ""),
        ("it was shown to cost more", vec![shown(dear())], vec![], "may run", "uid-one-0"),
        (
            "more approvals were asked for when it was opened",
            vec![approved().with(|set| set.spec.rules = vec![rule(2)])],
            vec![],
            "waits: Destructive: 1 of 2 approvals",
            "",
        ),
        (
            "fewer were, and the policy is stricter now",
            vec![asked().with(|set| set.spec.rules = vec![rule(0)])],
            vec![],
            waits,
            "",
        ),
        ("it closed as no longer wanted", vec![approved().in_state(NotWanted)], vec![], waits, ""),
        ("another change set took its place", vec![approved().in_state(Superseded)], vec![], waits, ""),
        (
            "the other one is approved, and the older counts",
            vec![asked(), other().approved("a", 10)],
            vec![],
            waits,
            "",
        ),
        ("both are approved", vec![other().approved("a", 10), approved()], vec![], "may run", "uid-one-0"),
        (
            "a rejection holds everywhere",
            vec![approved(), other().review("bob", Decision::Reject, "a", 10)],
            vec![],
            rejected,
            "",
        ),
        (
            "a rejection holds though the object was written again",
            vec![rejected_by_bob().in_state(Rejected).each(|entry| entry.generation = None)],
            vec![],
            rejected,
            "",
        ),
        (
            "and for another object of this name",
            vec![rejected_by_bob().in_state(Rejected).each(|entry| entry.object = Some("gone".to_owned()))],
            vec![],
            rejected,
            "",
        ),
        (
            "it is on record as rejected, and the review was deleted",
            vec![approved().in_state(Rejected)],
            vec![],
            "refused: rejected by a review that was deleted since",
            "",
        ),
        (
            "who rejected approves after all",
            vec![asked().review("bob", Decision::Reject, "a", 10).review("bob", Decision::Approve, "a", 11)],
            vec![],
            "may run",
            "uid-one-0",
        ),
        (
            "who rejected withdraws that",
            vec![approved().review("bob", Decision::Reject, "a", 11).review("bob", Decision::Withdraw, "a", 12)],
            vec![],
            "may run",
            "uid-one-0",
        ),
        (
            "somebody else who may approve withdraws it",
            vec![approved().review("bob", Decision::Reject, "a", 11).review("carol", Decision::Withdraw, "a", 12)],
            vec![],
            "may run",
            "uid-one-0",
        ),
        (
            "somebody else withdraws it who may not approve",
            vec![Case {
                without_right: vec!["carol"],
                ..approved().review("bob", Decision::Reject, "a", 11).review("carol", Decision::Withdraw, "a", 12)
            }],
            vec![],
            rejected,
            "",
        ),
        (
            "a withdrawal of before is none of this rejection",
            vec![approved().review("carol", Decision::Withdraw, "a", 10).review("bob", Decision::Reject, "a", 11)],
            vec![],
            rejected,
            "",
        ),
        ("it was done by these approvals", vec![approved()], vec![done("a", Some("uid-one-0"), 0)], waits, ""),
        ("it was tried by these approvals", vec![approved()], vec![tried("a", "uid-one-0", 12)], waits, ""),
        ("it is on the change set's own record as tried", vec![approved().in_state(Tried)], vec![], waits, ""),
        ("it is on the change set's own record", vec![approved().in_state(Done)], vec![], waits, ""),
        ("it was done without approvals since", vec![approved()], vec![done("a", None, 12)], waits, ""),
        ("it was done without approvals before", vec![approved()], vec![done("a", None, -1)], "may run", "uid-one-0"),
        ("it was done by another's approvals since", vec![approved()], vec![done("a", Some("s"), 12)], waits, ""),
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
fn a_step_runs_at_the_price_that_was_shown_or_less() {
    let price = |text: Option<&str>| text.map(|text| text.parse::<Price>().expect("a price"));
    let rows = [
        ("the same", Some("0.30"), Some("0.30"), true),
        ("less", Some("0.30"), Some("0.20"), true),
        ("nothing any more", Some("0.30"), Some("0"), true),
        ("more", Some("0.30"), Some("0.31"), false),
        ("it was free", Some("0"), Some("0.01"), false),
        ("it is not known any more", Some("0.30"), None, false),
        ("it was never known", None, None, true),
        ("it was not known then", None, Some("0.30"), false),
    ];
    for (name, shown, now, may_run) in rows {
        let at = |price: Option<Price>| Step { hourly_cost_delta: price, spends: price.is_none(), ..step("a") };
        let case = Case::of("one", 0, &["a"]).approved("a", 10).with(|set| set.spec.steps = vec![at(price(shown))]);
        let object = Object { uid: OWNER, generation: GENERATION, done: &[], intents: &[] };
        let answer = authorized(&policy(1, false), &[at(price(now))], &[case], object, 20).remove(0);
        assert_eq!(answer.verdict == Verdict::Run, may_run, "{name}: {}", answer.verdict);
    }
}

#[test]
fn the_creation_that_finishes_a_replacement_needs_no_further_approval() {
    let replace = |spec: &str| Step { action: Action::Replace, new_spec_digest: Some(spec.to_owned()), ..step("r") };
    let create = |spec: &str, price: &str| Step {
        new_spec_digest: Some(spec.to_owned()),
        hourly_cost_delta: Some(price.parse().expect("a price")),
        ..step("a")
    };
    let set =
        || Case::of("one", 0, &["r"]).with(|set| set.spec.steps = vec![replace("new")]).in_state(EntryState::Tried);
    let halved = |set: Option<&str>| DoneStep {
        action: Action::Replace,
        hourly_price: Some("0.30".parse().expect("a price")),
        unseen: true,
        ..done("r", set, 15)
    };
    let own = Some("uid-one-0");
    let rows = [
        ("it got as far as the removal", create("new", "0.30"), vec![halved(own)], own),
        ("something else was done since", create("new", "0.30"), vec![halved(own), done("b", None, 16)], None),
        ("the replacement was done", create("new", "0.30"), vec![DoneStep { unseen: false, ..halved(own) }], None),
        ("something else is wanted", create("newer", "0.30"), vec![halved(own)], None),
        ("it costs more", create("new", "0.31"), vec![halved(own)], None),
        ("nothing was replaced", create("new", "0.30"), vec![], None),
    ];
    for (name, create, done, by) in rows {
        let object = Object { uid: OWNER, generation: GENERATION, done: &done, intents: &[] };
        let answer = authorized(&policy(1, false), std::slice::from_ref(&create), &[set()], object, 20).remove(0);
        assert_eq!(answer.verdict == Verdict::Run, by.is_some(), "{name}: {}", answer.verdict);
        assert_eq!(answer.by.as_deref(), by, "{name}");
    }
    let object = Object { uid: OWNER, generation: GENERATION + 1, done: &[halved(own)], intents: &[] };
    let written = authorized(&policy(1, false), &[create("new", "0.30")], &[set()], object, 20).remove(0);
    assert!(written.verdict.waits_for_people(), "the object was written since");
}

#[test]
fn a_call_under_way_uses_its_approvals() {
    let case = Case::of("one", 0, &["b"]).approved("b", 10);
    let rows = [
        ("nothing is under way", vec![], true),
        ("the same, by these approvals", vec![intent("call", "b", Some("uid-one-0"), 15)], false),
        ("the same, by those of another", vec![intent("call", "b", Some("s"), 15)], true),
        ("something else, by these approvals", vec![intent("call", "c", Some("uid-one-0"), 15)], true),
    ];
    for (name, intents, may_run) in rows {
        let object = Object { uid: OWNER, generation: GENERATION, done: &[], intents: &intents };
        let answer = ask_by(&policy(1, false), &["b"], std::slice::from_ref(&case), object, 20);
        assert_eq!(answer[0].verdict == Verdict::Run, may_run, "{name}");
    }
}

#[test]
fn the_start_that_finishes_a_restart_needs_no_further_approval() {
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
    let both = one.review("bob", Decision::Approve, "a", 10);
    assert_eq!(ask(2, &["a"], &[both], &[], 20)[0].verdict, Verdict::Run);
}

#[test]
fn what_needs_no_approval_uses_none() {
    let answer = ask(0, &["a"], &[Case::of("one", 0, &["a"]).approved("a", 10)], &[], 20);
    assert_eq!((&answer[0].verdict, &answer[0].by), (&Verdict::Run, &None));
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
