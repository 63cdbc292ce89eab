//! Every order in which people and machines can meet: no approval lets a step be tried twice.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use setpoint_api::machine::{DoneStep, Intent};
use setpoint_api::review::{Decision, Review};
use setpoint_api::step::{Action, Step};
use setpoint_core::authority::{Version, Wanted, Work, close, is_unrecorded, progress};
use setpoint_core::gate::{self, Verdict};
use setpoint_core::intent::Outcome;

use crate::authority::{Case, EXPIRY_S, Object, PEOPLE, ask_by, intent, policy, review, signed, step, time};

/// What can happen between the planning of a step and the end of it, in any order.
#[derive(Debug, Clone)]
enum Event {
    /// Somebody writes the object, and wants other steps.
    Edit(Vec<&'static str>),
    /// Somebody writes what a user's change set brings along.
    Write,
    /// A user asks, before writing it or after, about an object that wants these steps, in place of the change set before.
    Propose(Vec<&'static str>),
    /// The controller asks about what is wanted, in place of the change set before.
    Ask,
    /// The controller writes down what is wanted now, where it still asks about the same write.
    Replan,
    Review(&'static str, &'static str, Decision, &'static str),
    /// A signed review from before is sent once more: to whatever has its gate's name now, with the date of now.
    Replay(prop::sample::Index),
    Wait(i64),
    /// What may be done is written down.
    Begin,
    /// A call that was written down is made.
    Call(usize),
    /// A look settles what was begun. A change that was made may not show: the provider did something else, or something
    /// else is wanted by now. Where no call was made, whoever was to make it died.
    Settle {
        shows: bool,
    },
    /// The gatekeeper writes down how far the change sets are.
    Record,
    /// The object goes, and one of the same name is made. Somebody with all rights may have torn it away, and the record
    /// of what was done for it, after the gatekeeper heard of that.
    Remake {
        by_force: bool,
    },
}

/// A create, whose digest is the same for whichever object of the name, a change, and a removal.
const KINDS: [&str; 3] = ["a", "b", "c"];
/// One of a user's, and one of the object's own.
const SETS: [&str; 2] = [USERS, OWN];
const USERS: &str = "one";
const OWN: &str = "own";

fn event() -> impl Strategy<Value = Event> {
    let kind = || prop::sample::select(&KINDS[..]);
    let kinds = || prop::sample::subsequence(KINDS.to_vec(), 1..=3);
    let set = || prop::sample::select(&SETS[..]);
    let decision =
        prop::sample::select(vec![Decision::Approve, Decision::Approve, Decision::Approve, Decision::Reject]);
    prop_oneof![
        1 => kinds().prop_map(Event::Edit),
        1 => Just(Event::Write),
        2 => kinds().prop_map(Event::Propose),
        2 => Just(Event::Ask),
        1 => Just(Event::Replan),
        8 => (set(), prop::sample::select(&PEOPLE[..]), decision, kind())
            .prop_map(|(set, who, decision, kind)| Event::Review(set, who, decision, kind)),
        1 => any::<prop::sample::Index>().prop_map(Event::Replay),
        1 => prop::sample::select(vec![0, 1, 30, EXPIRY_S]).prop_map(Event::Wait),
        5 => Just(Event::Begin),
        4 => (0..8usize).prop_map(Event::Call),
        4 => any::<bool>().prop_map(|shows| Event::Settle { shows }),
        2 => Just(Event::Record),
        1 => any::<bool>().prop_map(|by_force| Event::Remake { by_force }),
    ]
}

#[derive(Default)]
struct World {
    now: i64,
    wanted: Vec<&'static str>,
    /// How often the object was written since it was made.
    generation: i64,
    cases: BTreeMap<&'static str, Case>,
    /// For which write of the object each change set asks, by its uid: the life, the generation, and what is wanted then.
    asked: BTreeMap<String, (usize, i64, Vec<&'static str>)>,
    /// Everything that anybody ever said: set, review, when.
    said: Vec<(String, Review, i64)>,
    /// How often the object was made anew.
    life: usize,
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
            Event::Edit(wanted) => self.write(wanted),
            Event::Write => {
                let brought = self.cases.get(USERS).map(|case| self.asked[case.uid()].2.clone());
                brought.into_iter().for_each(|wanted| self.write(wanted));
            }
            Event::Propose(wanted) => {
                let version = Version { generation: self.generation, is_as_said: wanted == self.wanted };
                let made = self.make(USERS, version.asked(), wanted);
                self.cases.insert(USERS, made.asked_with_each(version.asked()));
            }
            Event::Ask => {
                let (generation, uid) = (self.generation, self.uid());
                let made = self.make(OWN, generation, self.wanted.clone());
                self.cases.insert(OWN, made.since(Some(generation)).asked_for(&uid));
            }
            Event::Replan => {
                let steps: Vec<Step> = digests(&self.wanted, self.life).iter().map(|digest| step(digest)).collect();
                let generation = self.generation;
                let case = self.cases.get_mut(OWN).filter(|case| case.generation() == Some(generation));
                case.into_iter().for_each(|case| case.status().steps.clone_from(&steps));
            }
            Event::Review(name, who, decision, kind) => {
                let digest = digest(kind, self.life);
                let Some(case) = self.cases.get_mut(name) else { return };
                let (review, at) = review(name, who, decision, &digest, self.now);
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
            Event::Begin => self.begin(),
            Event::Call(which) => self.call(which),
            Event::Settle { shows } => self.settle(shows),
            Event::Record => self.record(),
            Event::Remake { by_force } => self.remake(by_force),
        }
    }

    fn write(&mut self, wanted: Vec<&'static str>) {
        if wanted != self.wanted {
            (self.wanted, self.generation) = (wanted, self.generation + 1);
        }
    }

    /// A change set that asks about one write of the object.
    fn make(&mut self, name: &'static str, generation: i64, wanted: Vec<&'static str>) -> Case {
        // A name is not given twice within a second: its date would not tell the two apart.
        self.now += 1;
        let digests = digests(&wanted, self.life);
        let digests: Vec<&str> = digests.iter().map(String::as_str).collect();
        let made = Case::of(name, self.now, &digests).since(None);
        self.asked.insert(made.uid().to_owned(), (self.life, generation, wanted));
        made
    }

    /// Whether a user's change set says of the object what it is not.
    fn is_contradicted(&self, name: &str, case: &Case) -> bool {
        name == USERS && self.asked[case.uid()].2 != self.wanted
    }

    fn uid(&self) -> String {
        format!("uid-of-web-{}", self.life)
    }

    fn begin(&mut self) {
        let cases = self.cases.iter().map(|(name, case)| case.clone().contradicted(self.is_contradicted(name, case)));
        let (cases, digests, uid): (Vec<Case>, _, _) = (cases.collect(), digests(&self.wanted, self.life), self.uid());
        let wanted: Vec<&str> = digests.iter().map(String::as_str).collect();
        let object = Object { uid: &uid, generation: self.generation, done: &self.done, intents: &self.intents };
        for answer in ask_by(&policy(2, true), &wanted, &cases, object, self.now) {
            if answer.verdict != Verdict::Run {
                continue;
            }
            let by = answer.by.expect("a gated step runs by somebody's leave");
            let case = cases.iter().find(|case| case.uid() == by).expect("by a change set that is there");
            self.assert_approved(case, &answer.digest);
            let (_, generation, asked) = &self.asked[case.uid()];
            assert_eq!((generation, asked), (&self.generation, &self.wanted), "{by} was approved for another write");
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

    fn record(&mut self) {
        let (target, uid) = (step("a").target, self.uid());
        let contradicted = self.cases.iter().filter(|(name, case)| self.is_contradicted(name, case));
        let contradicted: BTreeSet<&str> = contradicted.map(|(name, _)| *name).collect();
        let unjudged = gate::Decision { steps: Vec::new(), reviews: Vec::new(), approved_until: None };
        for (name, case) in &mut self.cases {
            let is_as_said = !contradicted.contains(name);
            let work = Work {
                uid: Some(&uid),
                intents: &self.intents,
                done: &self.done,
                wanted: Wanted::Unknown,
                outdated: None,
                is_brought: *name == USERS && is_as_said,
                version: Some(Version { generation: self.generation, is_as_said }),
            };
            let objects = BTreeMap::from([(&target, work)]);
            let progress = progress(&case.change_set, &unjudged, &objects, None, time(self.now));
            case.status().step_states = progress.step_states;
        }
    }

    /// The object is let go once nothing is under way, and its change sets remember for it.
    fn remake(&mut self, by_force: bool) {
        if by_force {
            self.record();
        }
        let mut sets = self.cases.values().filter_map(Case::set);
        let is_let_go = self.intents.is_empty() && !sets.any(|set| is_unrecorded(&set, &self.done));
        if by_force || is_let_go {
            (self.done, self.intents, self.life) = (Vec::new(), Vec::new(), self.life + 1);
            self.generation = 1;
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
        // A controller asks for who wrote the object, which carol did not.
        let is_users = case.change_set.metadata.owner_references.is_none();
        let has_asked = |who: &str| who == "carol" && is_users;
        let yes = last.iter().filter(|(who, (at, decision))| {
            !has_asked(who) && *decision == Decision::Approve && at + EXPIRY_S > self.now
        });
        assert!(yes.count() >= 2, "{digest} by {}: {last:?}", case.uid());
        assert!(last.values().all(|(_, decision)| *decision != Decision::Reject), "{digest}: {last:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_events_lets_a_step_run_without_an_approval_of_its_own(events in prop::collection::vec(event(), 1..80)) {
        let mut world = World { wanted: vec!["a", "b"], ..World::default() };
        world.happen(Event::Propose(vec!["a", "b"]));
        events.into_iter().for_each(|event| world.happen(event));
    }
}

/// Only that of a create is the same for whichever object of the name.
fn digest(kind: &str, life: usize) -> String {
    if kind == "a" { kind.to_owned() } else { format!("{kind}-{life}") }
}

fn digests(kinds: &[&str], life: usize) -> Vec<String> {
    kinds.iter().map(|kind| digest(kind, life)).collect()
}

/// The same step, approved by both of them in a change set of its own, and whatever else happens then.
fn tried(world: &mut World, kind: &'static str, then: impl IntoIterator<Item = Event>) -> usize {
    let yes = |who| Event::Review(USERS, who, Decision::Approve, kind);
    let asked = [Event::Propose(vec![kind]), yes("alice"), Event::Begin, yes("bob"), Event::Begin, Event::Call(0)];
    asked.into_iter().chain(then).chain([Event::Begin, Event::Call(0)]).for_each(|event| world.happen(event));
    world.called.len()
}

#[test]
fn the_events_above_do_let_steps_run() {
    let mut world = World { wanted: vec!["b"], ..World::default() };
    let lost = || Event::Settle { shows: false };
    let seen = Event::Settle { shows: true };
    assert_eq!(tried(&mut world, "b", [seen]), 1, "once, by the second approval");
    assert_eq!(tried(&mut world, "b", [lost()]), 2, "and again by approvals of its own, which serve once");
    let remade = Event::Remake { by_force: false };
    assert_eq!(tried(&mut world, "b", [lost(), Event::Record, remade]), 3, "another object has other steps");
    world.wanted = vec!["a"];
    let torn_away = Event::Remake { by_force: true };
    assert_eq!(tried(&mut world, "a", [torn_away]), 4, "another object asks for the same create, and is not let");
}

#[test]
fn an_approval_does_not_come_back_with_what_it_was_of() {
    for is_recorded in [false, true] {
        let mut world = World { wanted: vec!["b"], ..World::default() };
        let yes = |who| Event::Review(OWN, who, Decision::Approve, "b");
        let away_and_back = [Event::Edit(vec!["a"]), Event::Record, Event::Edit(vec!["b"])];
        let away_and_back = away_and_back.into_iter().filter(|event| is_recorded || !matches!(event, Event::Record));
        let asked = [Event::Ask, yes("alice"), yes("bob")].into_iter();
        asked.chain(away_and_back).chain([Event::Begin]).for_each(|event| world.happen(event));
        assert_eq!(world.begun, 0, "nobody approved what was written last");
        [Event::Ask, yes("alice"), yes("bob"), Event::Begin].into_iter().for_each(|event| world.happen(event));
        assert_eq!(world.begun, 1);
    }
}

#[test]
fn what_a_user_asks_before_writing_it_serves_that_write_alone() {
    let yes = |who| Event::Review(USERS, who, Decision::Approve, "b");
    let asked = || vec![Event::Propose(vec!["b"]), yes("alice"), yes("bob")];
    let rows = [
        ("it is not written", vec![], 0),
        ("it is written", vec![Event::Write], 1),
        ("something else is written first", vec![Event::Edit(vec!["c"]), Event::Write], 0),
        ("it is written, then otherwise, then again", vec![Event::Write, Event::Edit(vec!["c"]), Event::Write], 0),
    ];
    for (name, then, expected) in rows {
        let mut world = World { wanted: vec!["a"], ..World::default() };
        let events = asked().into_iter().chain(then).chain([Event::Begin]);
        events.for_each(|event| world.happen(event));
        assert_eq!(world.begun, expected, "{name}");
    }
}
