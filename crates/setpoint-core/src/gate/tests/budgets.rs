//! Limits that hold whatever was approved.

use setpoint_api::environment::MAX_LEDGER;

use super::*;

fn destroys(limit: u32) -> Guardrails {
    Guardrails { max_destroys_per_hour: Some(limit), ..Guardrails::default() }
}

fn added(limit: &str) -> Guardrails {
    Guardrails { max_added_cost_per_hour: Some(price(limit)), ..Guardrails::default() }
}

fn cost(limit: &str) -> Guardrails {
    Guardrails { max_hourly_cost: Some(price(limit)), ..Guardrails::default() }
}

fn instances(limit: u32) -> Guardrails {
    Guardrails { max_instances: Some(limit), ..Guardrails::default() }
}

fn gpus(limit: u32) -> Guardrails {
    Guardrails { max_gpus: Some(limit), ..Guardrails::default() }
}

/// Approved destroys of the named guests.
fn destroying(names: &[&str]) -> World {
    World::of(names.iter().map(|name| destroy(name)).collect()).reviews(vec![approve("alice", names)])
}

/// What was begun so long ago, by a call named after the step.
fn begun(step: &Step, seconds: i64) -> LedgerEntry {
    let all = Guardrails { max_added_cost_per_hour: Some(Price::ZERO), ..destroys(0) };
    ledger_entry(step, &step.id, &all, ago(seconds)).expect("the step counts")
}

impl World {
    fn ledger(self, ledger: Vec<LedgerEntry>) -> World {
        World { ledger, ..self }
    }

    /// The outcomes of these calls are not known.
    fn under_way(self, intents: &[&str]) -> World {
        World { under_way: intents.iter().map(|id| (*id).to_owned()).collect(), ..self }
    }

    fn has(self, instances: u32, gpus: u32, hourly_cost: &str) -> World {
        let usage = Usage { instances: Some(instances), gpus: Some(gpus), hourly_cost: Some(price(hourly_cost)) };
        World { usage, ..self }
    }

    fn knows_nothing(self) -> World {
        World { usage: Usage::default(), ..self }
    }

    fn gpus(mut self, name: &str, held: u32, wanted: u32) -> World {
        self.gpus.insert(target(name), Gpus { held, wanted });
        self
    }
}

#[test]
fn no_more_is_destroyed_within_an_hour_than_allowed() {
    let benign = |name: &str| step(name, Action::Delete);
    let old = |name: &str, seconds: i64| begun(&destroy(name), seconds);
    let call =
        |name: &str, intent: &str, seconds: i64| LedgerEntry { intent: Some(intent.to_owned()), ..old(name, seconds) };
    let used_up = |until: &str| format!("b: waits: maxDestroysPerHour 1 is used up until {until}");
    let (at_half, at_full) = (used_up("2026-11-15T12:30:00Z"), used_up("2026-11-15T13:00:00Z"));
    assert_verdicts([
        ("no limit", destroying(&["a", "b"]), &["a: may run", "b: may run"]),
        ("within the limit", destroying(&["a", "b"]).limits(destroys(2)), &["a: may run", "b: may run"]),
        (
            "those that run use it up for those after",
            destroying(&["a", "b"]).limits(destroys(1)),
            &["a: may run", &at_full],
        ),
        (
            "those that wait for a person use nothing up",
            World { evidence: vec![approve("alice", &["b"])], ..destroying(&["a", "b"]) }.limits(destroys(1)),
            &["a: waits: Destructive: 0 of 1 approval", "b: may run"],
        ),
        (
            "what was destroyed within the hour counts",
            destroying(&["b"]).limits(destroys(1)).ledger(vec![old("x", 1_800)]),
            &[&at_half],
        ),
        (
            "an hour later it no longer does",
            destroying(&["b"]).limits(destroys(1)).ledger(vec![old("x", HOUR)]),
            &["b: may run"],
        ),
        (
            "it has room when enough of it lapsed, not when the first does",
            destroying(&["b"]).limits(destroys(1)).ledger(vec![old("x", 1_800), old("y", 3_000)]),
            &[&at_half],
        ),
        (
            "what is dated in the future counts: a clock set back makes no room",
            destroying(&["b"]).limits(destroys(1)).ledger(vec![old("x", -1_800)]),
            &[&used_up("2026-11-15T13:30:00Z")],
        ),
        (
            "a call that is tried again is counted once, and goes on",
            destroying(&["b"]).limits(destroys(1)).ledger(vec![old("b", 60)]).under_way(&["b"]),
            &["b: may run"],
        ),
        (
            "a step that was done counts again when it is to be done again",
            destroying(&["b"]).limits(destroys(1)).ledger(vec![old("b", 1_800)]),
            &[&at_half],
        ),
        (
            "another call under way does not excuse it",
            destroying(&["b"]).limits(destroys(1)).ledger(vec![old("b", 1_800)]).under_way(&["a"]),
            &[&at_half],
        ),
        (
            "a loop of two replacements uses an entry for each, not one for each of the two",
            destroying(&["b"]).limits(destroys(4)).ledger(vec![
                call("a", "1", 400),
                call("b", "2", 300),
                call("a", "3", 200),
                call("b", "4", 100),
            ]),
            &["b: waits: maxDestroysPerHour 4 is used up until 2026-11-15T12:53:20Z"],
        ),
        (
            "an entry that names no call counts for itself",
            destroying(&["b"]).limits(destroys(2)).ledger(vec![
                LedgerEntry { intent: None, ..old("x", 60) },
                LedgerEntry { intent: None, ..old("x", 1_800) },
            ]),
            &["b: waits: maxDestroysPerHour 2 is used up until 2026-11-15T12:30:00Z"],
        ),
        (
            "and leaves no room for another",
            destroying(&["a", "b"]).limits(destroys(1)).ledger(vec![old("a", 1_800)]).under_way(&["a"]),
            &["a: may run", &at_half],
        ),
        (
            "a call that was begun twice is counted once, when it was last",
            destroying(&["b"]).limits(destroys(2)).ledger(vec![old("x", 60), old("x", 90)]),
            &["b: may run"],
        ),
        (
            "what destroys nothing is not counted",
            World::of(vec![benign("a"), benign("b")]).limits(destroys(1)).ledger(vec![old("x", 60)]),
            &["a: may run", "b: may run"],
        ),
        (
            "zero allows nothing, whoever approves",
            destroying(&["a"]).limits(destroys(0)),
            &["a: refused: this step alone is more than maxDestroysPerHour 0 allows"],
        ),
        (
            "zero stops even what was begun",
            destroying(&["a"]).limits(destroys(0)).ledger(vec![old("a", 60)]),
            &["a: refused: this step alone is more than maxDestroysPerHour 0 allows"],
        ),
        (
            "what waits for a budget holds what depends on it",
            World { steps: vec![destroy("b"), after(create("c"), &["b"])], ..destroying(&["b"]) }
                .limits(destroys(1))
                .ledger(vec![old("x", 1_800)]),
            &[&at_half, "c: waits: b must be done first"],
        ),
    ]);
}

#[test]
fn cost_rises_no_faster_and_no_higher_than_allowed() {
    let unpriced = |action: Action| Step { hourly_cost_delta: None, ..step("a", action) };
    let two = || World::of(vec![spend("a", "0.60"), spend("b", "0.60")]);
    let not_known = "a: waits: maxHourlyCost $5.00 is set, and the price of this step is not known";
    let used_up = "b: waits: maxAddedCostPerHour $1.00 is used up until 2026-11-15T13:00:00Z";
    let saves = || Step { hourly_cost_delta: Some(price("-2")), ..step("a", Action::Stop) };
    assert_verdicts([
        ("within what may be added", two().limits(added("1.20")), &["a: may run", "b: may run"]),
        ("beyond it", two().limits(added("1")), &["a: may run", used_up]),
        (
            "what was added within the hour counts",
            World::of(vec![spend("b", "0.60")]).limits(added("1")).ledger(vec![begun(&spend("x", "0.50"), 0)]),
            &[used_up],
        ),
        (
            "what was saved makes no room",
            World::of(vec![saves(), spend("b", "0.60")]).limits(added("1")).ledger(vec![begun(&spend("x", "0.50"), 0)]),
            &["a: may run", used_up],
        ),
        (
            "a call that is tried again is counted once",
            World::of(vec![spend("b", "0.60")])
                .limits(added("1"))
                .ledger(vec![begun(&spend("b", "0.60"), 60)])
                .under_way(&["b"]),
            &["b: may run"],
        ),
        (
            "a step that adds more than may ever be added",
            World::of(vec![spend("a", "2")]).limits(added("1")),
            &["a: refused: this step alone is more than maxAddedCostPerHour $1.00 allows"],
        ),
        ("within what all may cost", two().limits(cost("5")).has(0, 0, "3.80"), &["a: may run", "b: may run"]),
        (
            "beyond it",
            two().limits(cost("5")).has(0, 0, "3.81"),
            &["a: may run", "b: waits: maxHourlyCost $5.00 is used up until something else goes"],
        ),
        (
            "a step that costs more than all may",
            World::of(vec![spend("a", "5.01")]).limits(cost("5")),
            &["a: refused: this step alone is more than maxHourlyCost $5.00 allows"],
        ),
        (
            "what saves is never held, however much is spent",
            World::of(vec![saves()]).limits(cost("5")).has(0, 0, "9"),
            &["a: may run"],
        ),
        (
            "what costs nothing is not held either",
            World::of(vec![create("a")]).limits(cost("5")).has(0, 0, "9"),
            &["a: may run"],
        ),
        (
            "a create whose price is not known is not free",
            World::of(vec![unpriced(Action::Create)]).limits(cost("5")),
            &[not_known],
        ),
        ("nor a start", World::of(vec![unpriced(Action::Start)]).limits(cost("5")), &[not_known]),
        ("nor a replacement", World::of(vec![unpriced(Action::Replace)]).limits(cost("5")), &[not_known]),
        (
            "nor an update that is said to cost money",
            World::of(vec![Step { class: Class::Spend, ..unpriced(Action::Update) }]).limits(cost("5")),
            &[not_known],
        ),
        (
            "nor one that interrupts and is said to cost money",
            World::of(vec![Step { class: Class::Disruptive, spends: true, ..unpriced(Action::Update) }])
                .limits(cost("5")),
            &[not_known],
        ),
        (
            "an update is, where nothing is said",
            World::of(vec![unpriced(Action::Update)]).limits(cost("5")),
            &["a: may run"],
        ),
        ("a stop is free", World::of(vec![unpriced(Action::Stop)]).limits(cost("5")), &["a: may run"]),
        ("a delete is free", World::of(vec![unpriced(Action::Delete)]).limits(cost("5")), &["a: may run"]),
        (
            "an unknown price, where only the rise is limited",
            World::of(vec![unpriced(Action::Create)]).limits(added("5")),
            &["a: waits: maxAddedCostPerHour $5.00 is set, and the price of this step is not known"],
        ),
        (
            "an unknown price without a limit on cost",
            World::of(vec![unpriced(Action::Create)]).limits(instances(5)),
            &["a: may run"],
        ),
        (
            "what everything costs now is not known",
            World::of(vec![spend("a", "1")]).limits(cost("5")).knows_nothing(),
            &["a: waits: maxHourlyCost $5.00 is set, and how much there is now is not known"],
        ),
    ]);
}

#[test]
fn there_are_never_more_instances_or_gpus_than_allowed() {
    let replace = |create_first: bool| Step { create_first, ..step("a", Action::Replace) };
    let used_up = "a: waits: maxInstances 3 is used up until something else goes";
    let no_gpus = "b: waits: maxGpus 4 is used up until something else goes";
    let one = |action: Action| World::of(vec![step("a", action)]);
    assert_verdicts([
        ("room for one more", one(Action::Create).limits(instances(3)).has(2, 0, "0"), &["a: may run"]),
        ("no room", one(Action::Create).limits(instances(3)).has(3, 0, "0"), &[used_up]),
        (
            "two creates, and room for one",
            World::of(vec![create("b"), create("a")]).limits(instances(3)).has(2, 0, "0"),
            &["b: may run", used_up],
        ),
        (
            "a delete makes room only once it is done",
            World::of(vec![step("b", Action::Delete), create("a")]).limits(instances(3)).has(3, 0, "0"),
            &["b: may run", used_up],
        ),
        (
            "a delete is never held, however many there are",
            one(Action::Delete).limits(instances(3)).has(9, 0, "0"),
            &["a: may run"],
        ),
        ("an update is not held either", one(Action::Update).limits(instances(3)).has(9, 0, "0"), &["a: may run"]),
        ("an adopted guest is one more", one(Action::Adopt).limits(instances(3)).has(3, 0, "0"), &[used_up]),
        (
            "a replacement that comes first is one more for a while",
            World::of(vec![replace(true)]).limits(instances(3)).has(3, 0, "0"),
            &[used_up],
        ),
        (
            "a replacement that comes after is not",
            World::of(vec![replace(false)]).limits(instances(3)).has(3, 0, "0"),
            &["a: may run"],
        ),
        (
            "zero allows nothing",
            one(Action::Create).limits(instances(0)),
            &["a: refused: this step alone is more than maxInstances 0 allows"],
        ),
        (
            "how many there are is not known",
            one(Action::Create).limits(instances(3)).knows_nothing(),
            &["a: waits: maxInstances 3 is set, and how much there is now is not known"],
        ),
        (
            "what adds none does not need to know",
            one(Action::Delete).limits(instances(3)).knows_nothing(),
            &["a: may run"],
        ),
        (
            "room for its GPUs",
            World::of(vec![create("b")]).limits(gpus(4)).has(0, 2, "0").gpus("b", 0, 2),
            &["b: may run"],
        ),
        (
            "no room for its GPUs",
            World::of(vec![create("b")]).limits(gpus(4)).has(0, 3, "0").gpus("b", 0, 2),
            &[no_gpus],
        ),
        (
            "what has no GPUs needs no room for them",
            World::of(vec![create("b")]).limits(gpus(4)).has(0, 9, "0"),
            &["b: may run"],
        ),
        (
            "more GPUs than there may be",
            World::of(vec![create("b")]).limits(gpus(4)).gpus("b", 0, 8),
            &["b: refused: this step alone is more than maxGpus 4 allows"],
        ),
        (
            "a replacement that comes first holds both sets of GPUs",
            World::of(vec![Step { create_first: true, ..step("b", Action::Replace) }])
                .limits(gpus(4))
                .has(1, 4, "0")
                .gpus("b", 4, 4),
            &[no_gpus],
        ),
        (
            "a replacement that comes after holds one",
            World::of(vec![step("b", Action::Replace)]).limits(gpus(4)).has(1, 4, "0").gpus("b", 4, 4),
            &["b: may run"],
        ),
        (
            "a guest that is written and then started takes its GPUs once",
            World::of(vec![step("b", Action::Update), Step { target: target("b"), ..step("b2", Action::Start) }])
                .limits(gpus(4))
                .has(1, 0, "0")
                .gpus("b", 0, 4),
            &["b: may run", "b2: may run"],
        ),
    ]);
}

#[test]
fn every_budget_that_holds_a_step_is_said() {
    let limits = Guardrails { max_instances: Some(1), ..added("1") };
    let world = World::of(vec![spend("a", "0.60")]).limits(limits).has(1, 0, "0");
    let world = world.ledger(vec![begun(&spend("x", "0.50"), 1_800)]);
    let expected = "a: waits: maxInstances 1 is used up until something else goes; \
                    maxAddedCostPerHour $1.00 is used up until 2026-11-15T12:30:00Z";
    assert_eq!(world.verdicts(), [expected]);
    assert_eq!(world.decide().steps[0].verdict.until(), Some(ahead(1_800)));
}

#[test]
fn a_full_ledger_forgets_nothing() {
    let ledger: Vec<LedgerEntry> =
        (0..MAX_LEDGER).map(|n| begun(&spend(&format!("x{n}"), "0.000001"), 1_800)).collect();
    let full = "a: waits: the environment's ledger is full until 2026-11-15T12:30:00Z";
    let destroyed =
        || destroying(&["a"]).limits(Guardrails { max_added_cost_per_hour: Some(price("9")), ..destroys(5) });
    assert_verdicts([
        ("a step that counts waits", destroyed().ledger(ledger.clone()), &[full]),
        (
            "one that does not goes on",
            World { steps: vec![create("b")], ..destroyed() }.ledger(ledger.clone()),
            &["b: may run"],
        ),
        (
            "one that no limit counts goes on",
            destroying(&["a"]).limits(instances(5)).ledger(ledger.clone()),
            &["a: may run"],
        ),
        (
            "one that is in it and under way goes on",
            World { steps: vec![spend("x0", "0.000001")], ..destroyed() }.ledger(ledger.clone()).under_way(&["x0"]),
            &["x0: may run"],
        ),
        (
            "the last place is taken once",
            World { steps: vec![destroy("b"), destroy("a")], ..destroying(&["a", "b"]) }
                .limits(Guardrails { max_added_cost_per_hour: Some(price("9")), ..destroys(5) })
                .ledger(ledger[1..].to_vec()),
            &["b: may run", full],
        ),
    ]);
}

#[test]
fn nothing_is_created_in_an_environment_whose_time_is_over() {
    let over = |action: Action, at: Timestamp| World { expires_at: Some(at), ..World::of(vec![step("a", action)]) };
    let refused: &[&str] = &["a: refused: its time was over at 2026-11-15T12:00:00Z"];
    assert_verdicts([
        ("a create", over(Action::Create, now()), refused),
        ("a replacement", over(Action::Replace, now()), refused),
        ("a create before its end", over(Action::Create, ahead(1)), &["a: may run"]),
        ("a delete", over(Action::Delete, now()), &["a: may run"]),
        ("a stop", over(Action::Stop, now()), &["a: may run"]),
    ]);
}

#[test]
fn an_object_says_whether_people_are_needed_or_something_is_waited_for() {
    let judged = |world: World| world.decide().steps[0].verdict.why();
    let rows = [
        ("people", World::of(vec![destroy("a")]), "needs Destructive: 0 of 1 approval"),
        (
            "room",
            World::of(vec![create("a")]).limits(instances(2)).has(2, 0, "0"),
            "waits: maxInstances 2 is used up until something else goes",
        ),
        ("another step", World::of(vec![after(create("a"), &["b"])]), "waits: b must be done first"),
        (
            "nothing helps",
            World::of(vec![create("a")]).limits(instances(0)),
            "this step alone is more than maxInstances 0 allows",
        ),
    ];
    for (name, world, expected) in rows {
        assert_eq!(judged(world), expected, "{name}");
    }
}

#[test]
fn what_limits_would_hold_is_foreseen_whoever_has_yet_to_agree() {
    let full = "waits: maxInstances 2 is used up until something else goes";
    let (a, b) = (create("a"), create("b"));
    let rows: [(&str, World, &[&str]); 7] = [
        ("no limit", World::of(vec![a.clone()]), &[]),
        ("there is room", World::of(vec![a.clone()]).limits(instances(2)).has(1, 0, "0"), &[]),
        (
            "those before use it up",
            World::of(vec![a.clone(), b.clone()]).limits(instances(2)).has(1, 0, "0"),
            &[&format!("b: {full}")],
        ),
        (
            "what people have yet to agree to uses it up, too",
            World::of(vec![a.clone(), b]).rules(vec![rule(Class::Benign, 1)]).limits(instances(2)).has(1, 0, "0"),
            &[&format!("b: {full}")],
        ),
        (
            "it never has room",
            World::of(vec![a.clone()]).limits(instances(0)),
            &["a: refused: this step alone is more than maxInstances 0 allows"],
        ),
        (
            "what comes after one that is held is not held by the limit",
            World::of(vec![a.clone(), after(step("c", Action::Update), &["a"])]).limits(instances(2)).has(2, 0, "0"),
            &[&format!("a: {full}")],
        ),
        (
            "what is there is not known",
            World::of(vec![a]).limits(instances(2)).knows_nothing(),
            &["a: waits: maxInstances 2 is set, and how much there is now is not known"],
        ),
    ];
    for (name, world, expected) in rows {
        let no_limits = Guardrails::default();
        let room = Room {
            guardrails: world.guardrails.as_ref().unwrap_or(&no_limits),
            ledger: &world.ledger,
            under_way: &world.under_way,
            usage: world.usage,
            gpus: &world.gpus,
            now: now(),
        };
        let judged = beyond_limits(&world.steps, room);
        let told: Vec<String> = judged.iter().map(|judged| format!("{}: {}", judged.step, judged.verdict)).collect();
        assert_eq!(told, expected, "{name}");
    }
}
