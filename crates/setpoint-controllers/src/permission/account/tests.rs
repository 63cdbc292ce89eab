//! What is known of an Environment, row by row, and in whatever order things happen.

use kube::runtime::watcher::Event;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use setpoint_core::observation::{Completeness, Guest, Mark};

use super::*;
use crate::runtime::Caches;

type Machines = Arc<Cache<Machine>>;

fn machines() -> Machines {
    Caches::default().machines
}

fn look(second: i64) -> Arc<Observation> {
    showing(second, &[])
}

/// A look that shows what was made by these calls.
fn showing(second: i64, calls: &[&str]) -> Arc<Observation> {
    let guest = |call: &&str| Guest::new(call, Some(Mark::new("ours", "web", Some(call))));
    let guests = calls.iter().map(guest).collect();
    Arc::new(Observation { completeness: Completeness::Complete, guests, observed_at: at(second) })
}

fn at(second: i64) -> Timestamp {
    Timestamp::constant(second, 0)
}

fn seen(instances: u32) -> Usage {
    Usage { instances: Some(instances), gpus: Some(0), hourly_cost: None }
}

fn count(look: &Observation) -> Usage {
    seen(u32::try_from(look.guests.len()).unwrap())
}

fn names(names: &[&str]) -> Others {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn step(action: &str) -> Step {
    serde_json::from_value(json!({
        "id": "default/web/step", "target": {"namespace": "default", "name": "web", "kind": "Machine"}, "action": action,
        "reason": "new", "origin": "Desired", "class": "Benign", "classReason": "nothing can be lost",
        "createFirst": false, "digest": "sha256:a",
    }))
    .expect("a step")
}

/// A call of a Machine, which has it on record from this version on.
fn call(action: &str, version: u32, machines: &Machines) -> Call {
    let added = Added::by([&step(action)], &Default::default());
    Call::new(&step(action), added, Some((&machine("web", version, &[]), &**machines)))
}

fn machine(name: &str, version: u32, intents: &[&str]) -> Machine {
    let intent = |id: &&str| -> Value {
        json!({"id": id, "action": "Create", "digest": "d", "startedAt": "2026-03-01T12:00:00Z", "epoch": 1})
    };
    let intents: Vec<Value> = intents.iter().map(intent).collect();
    serde_json::from_value(json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string()},
        "spec": {"environment": "lab"}, "status": {"intents": intents},
    }))
    .expect("a Machine")
}

/// Asks as whoever is about to spend does.
fn at_most(account: &mut Account, rules: i64, others: &Others) -> Option<Usage> {
    account.at_most(Some(rules), others, None, |_| Usage::default())
}

#[test]
fn a_look_holds_until_something_comes_or_goes() {
    let (none, machines) = (names(&[]), machines());
    let mut account = Account::default();
    assert_eq!(account.look(Some(1), &none, Some(look(5))), None, "who knows what was spent before");
    account.keep(Some(1), &names(&["call"]), look(10), seen(1), at(10));
    assert_eq!(account.look(Some(1), &none, None), None, "one that lacks what others made is not kept");
    account.keep(Some(1), &none, look(10), seen(1), at(10));
    let rows = [
        ("as it was kept", Some(1), names(&[]), None, Some(10)),
        ("a later one tells more", Some(1), names(&[]), Some(look(20)), Some(20)),
        ("an earlier one does not", Some(1), names(&[]), Some(look(5)), Some(10)),
        ("something has to show that does not", Some(1), names(&["call"]), Some(look(20)), None),
        ("other rules", Some(2), names(&[]), None, None),
    ];
    for (name, rules, others, later, expected) in rows {
        let found = account.look(rules, &others, later).map(|look| look.observed_at.as_second());
        assert_eq!(found, expected, "{name}");
    }
    account.begin("call", call("Delete", 5, &machines));
    assert_eq!(account.look(Some(1), &none, Some(look(30))), None, "something may be gone any moment");
    account.refused("call");
    assert!(account.look(Some(1), &none, None).is_some(), "nothing went");
    account.begin("call", call("Delete", 5, &machines));
    account.answered("call");
    machines.apply(Event::Apply(machine("web", 5, &[])));
    account.others("lab", &machines, at(30));
    assert_eq!(account.look(Some(1), &none, Some(look(30))), None, "it went");
}

#[test]
fn who_comes_after_a_look_that_showed_too_little_does_not_look_again_at_once() {
    let mut account = Account::default();
    assert!(!account.is_unseen(Some(1), &names(&[]), at(10)), "nobody has looked");
    account.keep(Some(1), &names(&["a"]), look(10), seen(1), at(10));
    let rows = [
        ("at once", Some(1), names(&["a"]), 10, true),
        ("something else was begun", Some(1), names(&["a", "b"]), 12, true),
        ("what was missed is settled", Some(1), names(&["b"]), 12, false),
        ("a while later", Some(1), names(&["a"]), 14, false),
        ("by other rules", Some(2), names(&["a"]), 12, false),
    ];
    for (name, rules, others, second, expected) in rows {
        assert_eq!(account.is_unseen(rules, &others, at(second)), expected, "{name}");
    }
    let partial = Observation { completeness: Completeness::Partial("half".into()), ..(*look(20)).clone() };
    account.keep(Some(1), &names(&[]), Arc::new(partial), seen(1), at(20));
    assert!(account.is_unseen(Some(1), &names(&[]), at(21)), "it did not show all of the place");
    account.keep(Some(1), &names(&[]), look(22), seen(1), at(22));
    assert!(!account.is_unseen(Some(1), &names(&[]), at(22)), "everything is seen");
    account.begin("call", call("Create", 5, &machines()));
    account.begin_look();
    account.keep(Some(1), &names(&[]), look(30), seen(1), at(30));
    assert!(account.is_unseen(Some(1), &names(&[]), at(31)), "a call is under way that does not show");
    account.refused("call");
    assert!(!account.is_unseen(Some(1), &names(&[]), at(31)), "it was refused");
    account.begin_look();
    account.give_up_look(Some(1), at(40));
    assert!(account.is_unseen(Some(1), &names(&[]), at(41)), "the place did not answer");
}

#[test]
fn a_look_and_what_was_begun_since_tell_how_much_there_is_at_most() {
    let (machines, none) = (machines(), names(&[]));
    let mut account = Account::default();
    assert_eq!(at_most(&mut account, 1, &none), None, "nobody has looked");
    account.keep(Some(1), &none, look(10), seen(3), at(10));
    assert_eq!(at_most(&mut account, 1, &none), Some(seen(3)));
    assert_eq!(at_most(&mut account, 2, &none), None, "by other rules anybody may have spent");
    account.begin("call", call("Create", 5, &machines));
    assert_eq!(at_most(&mut account, 1, &none), Some(seen(4)), "it need not show yet");
    account.begin("again", call("Create", 5, &machines));
    assert_eq!(at_most(&mut account, 1, &none), Some(seen(5)), "two are under way");
    account.refused("again");
    assert_eq!(at_most(&mut account, 1, &none), Some(seen(4)), "what was refused is given back");
    account.answered("call");
    machines.apply(Event::Apply(machine("web", 5, &[])));
    account.others("lab", &machines, at(12));
    assert_eq!(at_most(&mut account, 1, &none), Some(seen(4)), "it was made, and the look is older");
    account.begin("gone", call("Delete", 5, &machines));
    assert_eq!(at_most(&mut account, 1, &none), Some(seen(4)), "what goes leaves no room before it was seen to");
    account.refused("gone");
    account.others("lab", &machines, at(12));
    assert_eq!(at_most(&mut account, 1, &names(&["of another"])), None, "what an earlier leader began has to show");
    for (name, at, instances, expected) in
        [("others came", 15, 6, 7), ("that was seen before", 12, 9, 7), ("some went", 16, 0, 7)]
    {
        let found = account.at_most(Some(1), &none, Some(&look(at)), |_| seen(instances));
        assert_eq!(found, Some(seen(expected)), "{name}");
    }
    account.begin_look();
    account.keep(Some(1), &none, look(20), seen(2), at(20));
    assert_eq!(at_most(&mut account, 1, &none), Some(seen(2)), "what was seen is seen");
}

/// A look and a call side by side: whether the look shows what the call did follows from which of them came first.
#[test]
fn a_look_tells_of_a_call_that_ended_before_it_was_begun() {
    type Happens = fn(&mut Account);
    let begin = |account: &mut Account, action: &str| account.begin("call", call(action, 5, &machines()));
    let keep: fn(&mut Account, &[&str]) = |account, shown| {
        account.keep(Some(1), &names(&[]), showing(20, shown), seen(1), at(20));
    };
    type Row<'r> = (&'r str, &'r str, Happens, Happens, &'r [&'r str], Option<u32>);
    let rows: [Row<'_>; 7] = [
        ("it was answered before, and shows", "Create", |it| it.answered("call"), |_| (), &["call"], Some(1)),
        ("it was answered before, and does not show", "Create", |it| it.answered("call"), |_| (), &[], Some(2)),
        ("it was answered meanwhile", "Create", |_| (), |it| it.answered("call"), &["call"], Some(2)),
        ("it is under way", "Create", |_| (), |_| (), &["call"], Some(2)),
        ("its answer was lost", "Create", |it| it.lost("call", at(15)), |_| (), &[], Some(2)),
        ("it was refused", "Create", |it| it.refused("call"), |_| (), &[], Some(1)),
        // In between there is neither the old one nor the new one.
        ("a guest is being replaced in its place", "Replace", |_| (), |_| (), &[], None),
    ];
    for (name, action, before, meanwhile, shown, expected) in rows {
        let mut account = Account::default();
        begin(&mut account, action);
        before(&mut account);
        account.begin_look();
        meanwhile(&mut account);
        keep(&mut account, shown);
        assert_eq!(at_most(&mut account, 1, &names(&[])), expected.map(seen), "{name}");
        let is_exact = account.look(Some(1), &names(&[]), None).is_some();
        assert_eq!(is_exact, expected == Some(1), "{name}: whether that is all there is");
    }
}

#[test]
fn a_call_is_open_until_the_record_says_otherwise() {
    let machines = machines();
    let mut account = Account::default();
    account.keep(Some(1), &names(&[]), look(10), seen(0), at(10));
    machines.apply(Event::Apply(machine("web", 1, &[])));
    account.begin("call", call("Create", 5, &machines));
    account.lost("call", at(11));
    let rows = [
        ("the caches do not show it yet", None, true),
        ("something older is shown", Some(machine("web", 3, &[])), true),
        ("it is on record", Some(machine("web", 5, &["call"])), true),
        ("so it is while its outcome is not known", Some(machine("web", 6, &["call"])), true),
        ("what became of it was seen, and it was taken off the record", Some(machine("web", 7, &[])), false),
    ];
    for (name, shown, is_open) in rows {
        shown.into_iter().for_each(|machine| machines.apply(Event::Apply(machine)));
        assert_eq!(account.others("lab", &machines, at(999)), names(&[]), "{name}: it is ours");
        assert_eq!(account.calls.contains_key("call"), is_open, "{name}");
        assert_eq!(at_most(&mut account, 1, &names(&[])), Some(seen(1)), "{name}: the look is older");
    }
    machines.apply(Event::Apply(machine("web", 8, &["begun by another"])));
    assert_eq!(account.others("lab", &machines, at(999)), names(&["begun by another"]));
    assert_eq!(account.others("elsewhere", &machines, at(999)), names(&[]), "another place has nothing to do with it");
}

#[test]
fn what_changed_a_guest_is_waited_for_no_longer_than_it_may_take() {
    let (machines, mut account) = (machines(), Account::default());
    machines.apply(Event::Apply(machine("web", 5, &["call"])));
    for (name, ended, second, is_open) in [
        ("it was answered", true, 10, false),
        ("its answer was lost", false, 10, true),
        ("that was long ago", false, 70, false),
    ] {
        account.begin("call", call("Update", 5, &machines));
        match ended {
            true => account.answered("call"),
            false => account.lost("call", at(10)),
        }
        account.others("lab", &machines, at(second));
        assert_eq!(account.calls.contains_key("call"), is_open, "{name}");
    }
}

#[test]
fn a_call_of_a_machine_that_is_gone_holds_nobody() {
    let (machines, mut account) = (machines(), Account::default());
    account.begin("call", call("Create", 5, &machines));
    machines.apply(Event::Init);
    machines.apply(Event::InitDone);
    account.others("lab", &machines, at(10));
    assert!(account.calls.contains_key("call"), "it is under way");
    account.lost("call", at(10));
    account.others("lab", &machines, at(10));
    assert!(account.calls.is_empty());
}

/// A place with Machines that each want one guest, and a limit on how many there may be.
struct World {
    dice: StdRng,
    account: Account,
    machines: Machines,
    version: u32,
    limit: u32,
    /// What is there, by the calls that made it.
    there: BTreeSet<String>,
    /// The Machines: what each is at.
    each: Vec<Stage>,
    /// What a look showed that is on its way back, with what had to show.
    look: Option<(Option<Arc<Observation>>, Others)>,
    /// How many times a second call was under way beside another.
    side_by_side: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Nothing,
    /// A guest is being made: whether it is there by now, and whether the answer has come, if it was not lost.
    Making {
        has_landed: bool,
        has_ended: bool,
    },
    Made,
    Removing {
        has_landed: bool,
    },
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = StdRng::seed_from_u64(seed);
        let (count, limit) = (dice.random_range(2..6), dice.random_range(1..4));
        World {
            dice,
            account: Account::default(),
            machines: machines(),
            version: 1,
            limit,
            there: BTreeSet::new(),
            each: vec![Stage::Nothing; count],
            look: None,
            side_by_side: 0,
        }
    }

    fn write(&mut self, number: usize, intents: &[&str]) -> Machine {
        self.version += 1;
        machine(&format!("m{number}"), self.version, intents)
    }

    /// As whoever decides does. Whether there surely is room for one more.
    fn has_room(&mut self) -> bool {
        let others = self.account.others("lab", &self.machines, at(1));
        let room = |usage: Usage| usage.instances.is_some_and(|now| now < self.limit);
        let at_most = self.account.at_most(Some(1), &others, None, count);
        at_most.is_some_and(room) || self.account.look(Some(1), &others, None).is_some_and(|look| room(count(&look)))
    }

    fn act(&mut self, number: usize) {
        let call = format!("c{number}");
        let choice = self.dice.random_range(0..4);
        self.each[number] = match self.each[number].clone() {
            Stage::Nothing if self.has_room() => {
                let under_way = self.each.iter().filter(|stage| matches!(stage, Stage::Making { .. })).count();
                self.side_by_side += usize::from(under_way > 0);
                let machine = self.write(number, &[call.as_str()]);
                let added = Added { instances: 1, ..Added::default() };
                self.account.begin(&call, Call::new(&step("Create"), added, Some((&machine, &*self.machines))));
                self.machines.apply(Event::Apply(machine));
                Stage::Making { has_landed: false, has_ended: false }
            }
            Stage::Making { has_landed: false, has_ended } if choice == 0 => {
                self.there.insert(call);
                Stage::Making { has_landed: true, has_ended }
            }
            Stage::Making { has_landed: true, has_ended: false } if choice == 1 => {
                self.account.answered(&call);
                Stage::Making { has_landed: true, has_ended: true }
            }
            Stage::Making { has_landed, has_ended: false } if choice == 2 => {
                self.account.lost(&call, at(1));
                Stage::Making { has_landed, has_ended: true }
            }
            Stage::Making { has_landed: false, has_ended: false } => {
                self.account.refused(&call);
                let machine = self.write(number, &[]);
                self.machines.apply(Event::Apply(machine));
                Stage::Nothing
            }
            // Its own look shows what became of it; where nothing did, nothing comes any more.
            Stage::Making { has_landed, has_ended: true } if choice == 3 => {
                let machine = self.write(number, &[]);
                self.machines.apply(Event::Apply(machine));
                if has_landed { Stage::Made } else { Stage::Nothing }
            }
            Stage::Made if choice == 0 => {
                let machine = self.write(number, &["delete"]);
                let added = Added::default();
                let delete = format!("d{number}");
                self.account.begin(&delete, Call::new(&step("Delete"), added, Some((&machine, &*self.machines))));
                Stage::Removing { has_landed: false }
            }
            Stage::Removing { has_landed: false } => {
                self.there.remove(&call);
                Stage::Removing { has_landed: true }
            }
            Stage::Removing { has_landed: true } => {
                self.account.answered(&format!("d{number}"));
                let machine = self.write(number, &[]);
                self.machines.apply(Event::Apply(machine));
                Stage::Nothing
            }
            stage => stage,
        };
    }

    /// A look is begun, then sees what is there, then comes back.
    fn look(&mut self) {
        let shown: Vec<&str> = self.there.iter().map(String::as_str).collect();
        self.look = match self.look.take() {
            None => {
                let others = self.account.others("lab", &self.machines, at(1));
                self.account.begin_look();
                Some((None, others))
            }
            Some((None, others)) => Some((Some(showing(i64::from(self.version), &shown)), others)),
            Some((Some(look), others)) => {
                let usage = count(&look);
                self.account.keep(Some(1), &others, look, usage, at(1));
                None
            }
        };
    }

    /// The process dies: what it had in mind is gone, and what was under way goes on.
    fn restart(&mut self) {
        (self.account, self.look) = (Account::default(), None);
    }
}

#[test]
fn a_limit_holds_in_whatever_order_calls_and_looks_come_and_go() {
    let (mut made, mut side_by_side) = (0, 0);
    for seed in 0..400 {
        let mut world = World::new(seed);
        for turn in 0..400 {
            match world.dice.random_range(0..10) {
                0..=5 => {
                    let number = world.dice.random_range(0..world.each.len());
                    world.act(number);
                }
                6..=8 => world.look(),
                _ if world.dice.random_range(0..40) == 0 => world.restart(),
                _ => {}
            }
            let there = u32::try_from(world.there.len()).unwrap();
            assert!(there <= world.limit, "seed {seed}, turn {turn}: {there} of {} in {:?}", world.limit, world.each);
            made += usize::from(world.each.contains(&Stage::Made));
        }
        side_by_side += world.side_by_side;
    }
    assert!(made > 10_000 && side_by_side > 500, "{made} {side_by_side}: or else this proves nothing");
}

#[test]
fn what_is_free_in_the_end_is_found() {
    for seed in 0..50 {
        let mut world = World::new(seed);
        for _ in 0..200 {
            let number = world.dice.random_range(0..world.each.len());
            world.act(number);
            world.look();
        }
        // Everything comes to its end, and somebody looks once more.
        for number in 0..world.each.len() {
            for _ in 0..200 {
                if !matches!(world.each[number], Stage::Nothing | Stage::Made) {
                    world.act(number);
                }
            }
        }
        (0..3).for_each(|_| world.look());
        (0..3).for_each(|_| world.look());
        let there = u32::try_from(world.there.len()).unwrap();
        assert_eq!(world.has_room(), there < world.limit, "seed {seed}: {there} of {}", world.limit);
    }
}
