//! Every order in which people and controllers can meet: no approval lets a step be tried twice, none outlives a write that took
//! its step away, and no rejection is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use setpoint_api::change_set::{ChangeSet, EntryState};
use setpoint_api::machine::{DoneStep, Intent, Machine, MachineStatus};
use setpoint_api::pending::{Certainty, PendingSteps};
use setpoint_api::review::Decision;
use setpoint_api::step::{Action, Step};
use setpoint_core::authority::{Fact, Subject, close, entries, entry, steps_to_open};
use setpoint_core::gate::{self, Requesters, Usage, Verdict};
use setpoint_core::intent::Outcome;

use crate::authority::{Case, EXPIRY_S, Object, PEOPLE, ask_by, intent, policy, review, signed, step, time};

/// What can happen between the planning of a step and the end of it, in any order.
#[derive(Debug, Clone)]
enum Event {
    /// Somebody writes the object, which wants these steps then.
    Edit(Vec<&'static str>),
    /// The object's controller writes down what is pending.
    Plan,
    /// A change set is opened for what is pending and listed nowhere.
    Open,
    /// The state of each entry of each change set is written down.
    Record,
    /// Somebody says something in one of the change sets.
    Review(prop::sample::Index, &'static str, Decision, &'static str),
    Wait(i64),
    /// What may be done is written down.
    Begin,
    /// A call that was written down is made.
    Call(usize),
    /// A look settles what was begun. A change that was made may not show. Where no call was made, whoever was to make it died.
    Settle {
        shows: bool,
    },
    /// The object goes, and one of the same name is made.
    Remake,
}

/// A create, whose digest is the same for whichever object of the name, a change, and a removal.
const KINDS: [&str; 3] = ["a", "b", "c"];

fn event() -> impl Strategy<Value = Event> {
    use Decision::{Approve, Reject, Withdraw};
    let kinds = prop::sample::subsequence(KINDS.to_vec(), 0..=3);
    let decision = prop::sample::select(vec![Approve, Approve, Approve, Approve, Reject, Withdraw]);
    let kind = prop::sample::select(&KINDS[..]);
    prop_oneof![
        2 => kinds.prop_map(Event::Edit),
        4 => Just(Event::Plan),
        4 => Just(Event::Open),
        4 => Just(Event::Record),
        8 => (any::<prop::sample::Index>(), prop::sample::select(&PEOPLE[..]), decision, kind)
            .prop_map(|(set, who, decision, kind)| Event::Review(set, who, decision, kind)),
        1 => prop::sample::select(vec![0, 1, 30, EXPIRY_S]).prop_map(Event::Wait),
        5 => Just(Event::Begin),
        4 => (0..8usize).prop_map(Event::Call),
        4 => any::<bool>().prop_map(|shows| Event::Settle { shows }),
        1 => Just(Event::Remake),
    ]
}

#[derive(Default)]
struct World {
    now: i64,
    wanted: Vec<&'static str>,
    /// How often the object was written since it was made.
    generation: i64,
    /// How often the object was made anew.
    life: usize,
    pending: Option<PendingSteps>,
    cases: Vec<Case>,
    /// The steps of change sets that a write took away since these were opened.
    left: BTreeSet<(String, String)>,
    /// The digests that are rejected by what is on record.
    rejected: BTreeSet<String>,
    done: Vec<DoneStep>,
    intents: Vec<Intent>,
    begun: usize,
    /// The calls that were made, by their ids.
    called: BTreeSet<String>,
    /// Which change set let which step be tried.
    used: BTreeSet<(String, String)>,
}

impl World {
    fn happen(&mut self, event: Event) {
        match event {
            Event::Edit(wanted) => self.edit(wanted),
            Event::Plan => self.plan(),
            Event::Open => self.open(),
            Event::Record => self.record(),
            Event::Review(which, who, decision, kind) => {
                if self.cases.is_empty() {
                    return;
                }
                let (digest, now, number) = (digest(kind, self.life), self.now, self.begun);
                let place = which.index(self.cases.len());
                let case = &mut self.cases[place];
                let name = case.change_set.metadata.name.clone().expect("a name");
                let (mut said, at) = review(&name, who, decision, &digest, now);
                said.metadata.name = Some(format!("{who}-{}", case.reviews.len()));
                let said = signed(said, case, number, now);
                case.reviews.push((said, at));
            }
            Event::Wait(seconds) => self.now += seconds,
            Event::Begin => self.begin(),
            Event::Call(which) => self.call(which),
            Event::Settle { shows } => self.settle(shows),
            Event::Remake => {
                (self.done, self.intents, self.pending) = (Vec::new(), Vec::new(), None);
                (self.life, self.generation) = (self.life + 1, 1);
            }
        }
    }

    fn edit(&mut self, wanted: Vec<&'static str>) {
        (self.wanted, self.generation) = (wanted, self.generation + 1);
        let wanted: BTreeSet<String> = self.digests().into_iter().collect();
        for case in &self.cases {
            let gone = case.change_set.spec.steps.iter().filter(|step| !wanted.contains(&step.digest));
            self.left.extend(gone.map(|step| (case.uid().to_owned(), step.digest.clone())));
        }
    }

    fn plan(&mut self) {
        let steps = self.digests().iter().map(|digest| step(digest)).collect();
        let observed_at = time(self.now);
        let (generation, certainty) = (self.generation, Certainty::Known);
        self.pending = Some(PendingSteps { generation, observed_at, certainty, steps });
    }

    fn machine(&self) -> Machine {
        let spec = serde_json::from_value(serde_json::json!({"environment": "lab"})).expect("a spec");
        let mut machine = Machine::new("web", spec);
        machine.metadata.uid = Some(self.uid());
        machine.metadata.generation = Some(self.generation);
        machine.status = Some(MachineStatus {
            observed_generation: self.pending.as_ref().map(|pending| pending.generation),
            pending: self.pending.clone(),
            intents: self.intents.clone(),
            done: self.done.clone(),
            ..MachineStatus::default()
        });
        machine
    }

    fn open(&mut self) {
        let machine = self.machine();
        let sets: Vec<Arc<ChangeSet>> = self.cases.iter().map(|case| Arc::new(case.change_set.clone())).collect();
        let listing = |digest: &str| {
            let lists = |set: &&Arc<ChangeSet>| set.spec.steps.iter().any(|step| step.digest == digest);
            sets.iter().filter(lists).cloned().collect::<Vec<_>>()
        };
        let subjects = [Subject::of_machine(&machine)];
        let found = steps_to_open(&subjects, listing);
        let digests: Vec<&str> = found.iter().map(|candidate| candidate.step.digest.as_str()).collect();
        if !digests.is_empty() {
            self.now += 1;
            let mut case = Case::of(&format!("set-{}", self.cases.len()), self.now, &digests);
            case.status().entries.clear();
            case.change_set.spec.generations = found.iter().map(|candidate| candidate.generation).collect();
            // What was written since it was planned is known to nobody who reads the list.
            let wanted: BTreeSet<String> = self.digests().into_iter().collect();
            let gone = digests.iter().filter(|digest| !wanted.contains(**digest));
            self.left.extend(gone.map(|digest| (case.uid().to_owned(), (*digest).to_owned())));
            self.cases.push(case);
        }
    }

    fn record(&mut self) {
        let (machine, rules) = (self.machine(), policy(2, true));
        let olds: Vec<ChangeSet> = self.cases.iter().map(|case| case.change_set.clone()).collect();
        self.rejected.clear();
        for (place, case) in self.cases.iter_mut().enumerate() {
            let subject = Subject::of_machine(&machine);
            let is_open =
                |set: &ChangeSet, digest: &str| entry(set, digest).is_none_or(|entry| !entry.state.is_closed());
            let steps: Vec<Step> = case.change_set.spec.steps.clone();
            let open: Vec<Step> =
                steps.iter().filter(|step| is_open(&case.change_set, &step.digest)).cloned().collect();
            let decision = {
                let set = case.set();
                gate::gate(&gate::Input {
                    steps: &open,
                    approval: Some(&rules),
                    guardrails: None,
                    windows: &[],
                    expires_at: None,
                    evidence: &set.evidence,
                    ledger: &[],
                    under_way: &BTreeSet::new(),
                    usage: &Usage::default(),
                    gpus: &BTreeMap::new(),
                    requesters: &Requesters::of_all(["dave"]),
                    cluster_uid: "cluster",
                    namespace: "shop",
                    gate: set.change_set.metadata.name.as_deref().expect("a name"),
                    change_set_uid: set.change_set.metadata.uid.as_deref().expect("a uid"),
                    opened_at: set.change_set.metadata.creation_timestamp.as_ref().expect("a time").0,
                    now: time(self.now),
                })
            };
            let facts = steps.iter().map(|step| {
                let recorded = entry(&case.change_set, &step.digest).and_then(|entry| entry.object.as_deref());
                let is_there = recorded.is_none_or(|uid| uid == subject.uid);
                let older = olds[..place].iter().any(|old| {
                    let entry = entry(old, &step.digest).filter(|entry| !entry.state.is_closed());
                    entry.is_some_and(|entry| entry.object.as_deref() == Some(subject.uid))
                });
                Fact { subject: is_there.then_some(subject), is_in_older: older, is_contradicted: false }
            });
            let facts: Vec<Fact<'_>> = facts.collect();
            let next = entries(&case.change_set, &facts, &decision, time(self.now));
            for (step, next) in steps.iter().zip(&next) {
                let was_closed = entry(&case.change_set, &step.digest).is_some_and(|old| old.state.is_closed());
                assert!(!was_closed || next.state.is_closed(), "an entry that is closed opened again");
                if next.state == EntryState::Rejected {
                    self.rejected.insert(step.digest.clone());
                }
            }
            case.status().entries = next;
        }
    }

    fn uid(&self) -> String {
        format!("uid-of-web-{}", self.life)
    }

    fn digests(&self) -> Vec<String> {
        self.wanted.iter().map(|kind| digest(kind, self.life)).collect()
    }

    fn begin(&mut self) {
        // Whoever acts plans first, and writes that down with the intent.
        self.plan();
        let (digests, uid) = (self.digests(), self.uid());
        let wanted: Vec<&str> = digests.iter().map(String::as_str).collect();
        let object = Object { uid: &uid, generation: self.generation, done: &self.done, intents: &self.intents };
        for answer in ask_by(&policy(2, true), &wanted, &self.cases, object, self.now) {
            if answer.verdict != Verdict::Run {
                continue;
            }
            let by = answer.by.expect("a gated step runs by somebody's approvals");
            let case = self.cases.iter().find(|case| case.uid() == by).expect("by a change set that is there");
            self.assert_approved(case, &answer.digest);
            let used = (by.clone(), answer.digest.clone());
            assert!(!self.left.contains(&used), "a write took {} away since {by} was opened", answer.digest);
            self.begun += 1;
            self.intents.push(intent(&format!("call-{}", self.begun), &answer.digest, Some(&by), self.now));
        }
    }

    fn call(&mut self, which: usize) {
        if self.intents.is_empty() {
            return;
        }
        let call = self.intents[which % self.intents.len()].clone();
        let by = call.change_set.expect("an approved call");
        if self.called.insert(call.id) {
            assert!(self.used.insert((by.clone(), call.digest.clone())), "{by} was used twice for {}", call.digest);
        }
    }

    fn settle(&mut self, shows: bool) {
        for intent in std::mem::take(&mut self.intents) {
            let is_seen = self.called.contains(&intent.id) && (shows || intent.action != Action::Update);
            let outcome = if is_seen { Outcome::Done { provider_id: "101".into() } } else { Outcome::Lost };
            self.done = close(std::mem::take(&mut self.done), intent, &outcome, time(self.now));
        }
    }

    /// Two people other than who asked said yes to exactly this in exactly this change set, lately, and nobody's no stands;
    /// judged from what was said alone.
    fn assert_approved(&self, case: &Case, digest: &str) {
        assert!(case.change_set.spec.steps.iter().any(|step| step.digest == digest));
        let mut last: BTreeMap<&str, (i64, Decision)> = BTreeMap::new();
        let mut withdrawn: Vec<(&str, i64)> = Vec::new();
        for (review, at) in case.reviews.iter().filter(|(review, _)| review.spec.digests == [digest]) {
            let (who, at) = (review.spec.reviewer.as_str(), at.as_second());
            if review.spec.decision == Decision::Withdraw {
                withdrawn.push((who, at));
                continue;
            }
            let is_no = review.spec.decision == Decision::Reject;
            let earlier = last.get(who).copied();
            // Of the same second, the no is taken for the later one.
            if is_no || earlier.is_none_or(|(before, decision)| decision != Decision::Reject || before < at) {
                last.insert(who, (at, review.spec.decision));
            }
        }
        let now = time(self.now).as_second();
        let yes = last.values().filter(|(at, decision)| *decision == Decision::Approve && at + EXPIRY_S > now);
        assert!(yes.count() >= 2, "{digest} by {}: {last:?}", case.uid());
        let stands = |(who, (at, _)): &(&&str, &(i64, Decision))| {
            !withdrawn.iter().any(|(by, then)| if *by == **who { then >= at } else { then > at })
        };
        let mut no = last.iter().filter(|(_, (_, decision))| *decision == Decision::Reject);
        assert!(!no.any(|no| stands(&no)), "{digest}: {last:?}");
        let is_withdrawn = self
            .cases
            .iter()
            .flat_map(|case| &case.reviews)
            .any(|(review, _)| review.spec.decision != Decision::Reject && review.spec.digests == [digest]);
        assert!(!self.rejected.contains(digest) || is_withdrawn, "{digest} is rejected");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_events_lets_a_step_run_without_an_approval_of_its_own(events in prop::collection::vec(event(), 1..100)) {
        let mut world = World { wanted: vec!["a", "b"], generation: 1, ..World::default() };
        [Event::Plan, Event::Open, Event::Record].into_iter().for_each(|event| world.happen(event));
        events.into_iter().for_each(|event| world.happen(event));
    }
}

/// Only that of a create is the same for whichever object of the name.
fn digest(kind: &str, life: usize) -> String {
    if kind == "a" { kind.to_owned() } else { format!("{kind}-{life}") }
}

/// These steps, asked about in a change set of their own and approved by two people there.
fn approved(world: &mut World, kind: &'static str) {
    [Event::Plan, Event::Open, Event::Record].into_iter().for_each(|event| world.happen(event));
    let (digest, now) = (digest(kind, world.life), world.now);
    for who in ["alice", "bob"] {
        let case = world.cases.last_mut().expect("a change set");
        let name = case.change_set.metadata.name.clone().expect("a name");
        let (said, at) = review(&name, who, Decision::Approve, &digest, now);
        let said = signed(said, case, 0, now);
        case.reviews.push((said, at));
    }
}

#[test]
fn the_events_above_do_let_steps_run() {
    let mut world = World { wanted: vec!["b"], generation: 1, ..World::default() };
    approved(&mut world, "b");
    let seen = Event::Settle { shows: true };
    [Event::Begin, Event::Call(0), seen, Event::Record].into_iter().for_each(|event| world.happen(event));
    assert_eq!(world.called.len(), 1, "once, by these approvals");
    [Event::Begin, Event::Call(0)].into_iter().for_each(|event| world.happen(event));
    assert_eq!(world.called.len(), 1, "which serve once");
    approved(&mut world, "b");
    [Event::Begin, Event::Call(0)].into_iter().for_each(|event| world.happen(event));
    assert_eq!(world.called.len(), 2, "and again by approvals of its own");
}

#[test]
fn an_approval_does_not_come_back_with_what_it_was_of() {
    let away_and_back = |between: Vec<Event>| {
        let mut world = World { wanted: vec!["b"], generation: 1, ..World::default() };
        approved(&mut world, "b");
        world.happen(Event::Edit(vec!["a"]));
        between.into_iter().for_each(|event| world.happen(event));
        world.happen(Event::Edit(vec!["b"]));
        world.happen(Event::Begin);
        world.begun
    };
    assert_eq!(away_and_back(vec![]), 0, "no controller ran");
    assert_eq!(away_and_back(vec![Event::Plan]), 0, "nobody wrote down what became of it");
    assert_eq!(away_and_back(vec![Event::Plan, Event::Record]), 0, "it is closed");
    let mut world = World { wanted: vec!["b"], generation: 1, ..World::default() };
    approved(&mut world, "b");
    [Event::Edit(vec!["b"]), Event::Begin].into_iter().for_each(|event| world.happen(event));
    assert_eq!(world.begun, 1, "an edit that leaves the step as it is leaves its approval");
}
