//! One seeded schedule: what is desired changes, everything goes wrong, operators die; then it is calm, and all must be
//! as desired.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{self, Either};
use jiff::Timestamp;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use setpoint_api::step::Target;
use setpoint_core::desired::{DeletionPolicy, Desired, Run};
use setpoint_core::observation::Mark;
use setpoint_core::value::{Fields, Value};
use setpoint_deployer::Operation;
use setpoint_deployer::simulated::{DriftKind, Fate, Outage, Place, Program};

use super::ledger::{Kind, Ledger};
use super::operator::{CLUSTER, FRESH, Operator, Sin};
use super::verdict::Inspector;

const MOST_OBJECTS: usize = 36;
const GPUS: [&str; 3] = ["H100", "A100", "L4"];
/// How long everything goes wrong.
const STORM: Duration = Duration::from_secs(240);
/// How many rounds it may take until all is as desired, once it is calm.
const ROUNDS: usize = 60;

/// Runs the schedule of a seed. The hash of its trace, or what was wrong.
pub(super) fn run(seed: u64, sin: Sin) -> Result<u64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let schedule = Schedule::new(seed, sin);
        let ended = match schedule.storm().await {
            Ok(()) => schedule.calm().await,
            Err(problem) => Err(problem),
        };
        ended.map_err(|problem| schedule.told(problem))
    })
}

struct Schedule {
    seed: u64,
    sin: Sin,
    place: Place,
    ledger: RefCell<Ledger>,
    inspector: RefCell<Inspector>,
    /// What has lost its mark, and which one that was.
    unmarked: RefCell<Vec<(Box<str>, Mark)>>,
}

impl Schedule {
    fn new(seed: u64, sin: Sin) -> Schedule {
        let mut dice = SmallRng::seed_from_u64(seed);
        let place = Place::new(calm_program(&mut dice), Timestamp::from_second(1_800_000_000).unwrap());
        let another = Mark {
            cluster: "theirs".into(),
            owner_uid: "uid-1".into(),
            intent: Some("intent-1".into()),
            spec_digest: None,
        };
        let fields = Fields::from_iter([("cores", Value::Integer(2)), ("image", Value::from("debian"))]);
        for index in 0..4 {
            let mark = Some(Mark { owner_uid: format!("uid-{index}").into(), ..another.clone() });
            place.plant(&format!("foreign-{index}"), mark.filter(|_| index % 2 == 0), &fields);
        }
        let inspector = RefCell::new(Inspector::new(&place));
        let schedule =
            Schedule { seed, sin, place, ledger: RefCell::default(), inspector, unmarked: RefCell::default() };
        for _ in 0..dice.random_range(12..24) {
            schedule.add(&mut dice);
        }
        schedule
    }

    fn dice(&self, purpose: u64) -> SmallRng {
        SmallRng::seed_from_u64(self.seed.wrapping_mul(31).wrapping_add(purpose))
    }

    /// A problem with all requests that had to do with it, if only this seed is run.
    fn told(&self, problem: String) -> String {
        if std::env::var_os("SETPOINT_SEED").is_none() {
            return problem;
        }
        let entries: Vec<String> = self.place.log(|log| {
            let changing = log.since(0).filter(|entry| entry.operation != Operation::Observe);
            changing.map(ToString::to_string).collect()
        });
        format!("{problem}\n{}", entries.join("\n"))
    }

    /// Everything that can go wrong does.
    async fn storm(&self) -> Result<(), String> {
        let trouble = std::pin::pin!(self.trouble());
        let first = self.lives(1, Duration::ZERO);
        let second = self.lives(2, STORM / 3);
        let operators = std::pin::pin!(future::join(first, second));
        match future::select(trouble, operators).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => unreachable!("operators are replaced for as long as there is trouble"),
        }
    }

    /// One operator after the other, each until it is killed.
    async fn lives(&self, number: u64, from: Duration) {
        let mut dice = self.dice(number);
        tokio::time::sleep(from).await;
        loop {
            let mut operator = Operator::new(&self.ledger, &self.place, SmallRng::from_rng(&mut dice), self.sin);
            let life = Duration::from_millis(dice.random_range(5..50_000));
            // Dropped wherever it is: its record survives, its memory does not.
            drop(tokio::time::timeout(life, operator.work()).await);
            let absence = if number == 1 { dice.random_range(0..5_000) } else { dice.random_range(0..30_000) };
            tokio::time::sleep(Duration::from_millis(absence)).await;
        }
    }

    async fn trouble(&self) -> Result<(), String> {
        let mut dice = self.dice(3);
        let end = self.place.now() + STORM;
        self.place.reprogram(stormy(self.place.program(), &mut dice)).unwrap();
        while self.place.now() < end {
            tokio::time::sleep(Duration::from_millis(dice.random_range(100..6_000))).await;
            match dice.random_range(0..10) {
                0..4 => self.change_desire(&mut dice),
                4..6 => self.drift(&mut dice),
                6 => self.place.reprogram(stormy(self.place.program(), &mut dice)).unwrap(),
                7 => self.place.arrange(*FATES.choose(&mut dice).unwrap(), dice.random()),
                8 => {
                    let down = *[Outage::Refuses, Outage::Silent].choose(&mut dice).unwrap();
                    self.place.reprogram(Program { down: Some(down), ..self.place.program() }).unwrap();
                    tokio::time::sleep(Duration::from_millis(dice.random_range(100..20_000))).await;
                    self.place.reprogram(Program { down: None, ..self.place.program() }).unwrap();
                }
                _ => {}
            }
            self.inspect()?;
        }
        Ok(())
    }

    /// Nothing goes wrong any more, and somebody sees to what has lost its mark: then all becomes as desired, and stays.
    async fn calm(&self) -> Result<u64, String> {
        let mut dice = self.dice(4);
        self.place.disarrange();
        self.place.reprogram(calmed(self.place.program())).unwrap();
        for (id, mark) in self.unmarked.take() {
            let is_given_back = dice.random_bool(0.5) && self.place.mark(&id, &mark);
            if !is_given_back {
                self.place.drift(&id, DriftKind::Vanished);
            }
        }
        let mut operator = Operator::new(&self.ledger, &self.place, self.dice(5), self.sin);
        let mut quiet = 0;
        for _ in 0..ROUNDS {
            let is_quiet = operator.round().await;
            self.inspect()?;
            quiet = if is_quiet { quiet + 1 } else { 0 };
            // Twice, and far enough apart that what was under way has shown.
            if quiet == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        self.inspector.borrow().verdict(&self.place, &self.ledger.borrow())?;
        Ok(self.place.log(|log| log.hash()))
    }

    fn inspect(&self) -> Result<(), String> {
        self.inspector.borrow_mut().inspect(&self.place, &self.ledger.borrow())
    }

    fn add(&self, dice: &mut SmallRng) {
        let mut ledger = self.ledger.borrow_mut();
        let number = ledger.objects.len() + ledger.past.len();
        if ledger.objects.len() >= MOST_OBJECTS {
            return;
        }
        let kind = if dice.random_bool(0.6) { Kind::Machine } else { Kind::Pod };
        let target = Target {
            namespace: "lab".to_owned(),
            name: format!("object-{number}"),
            kind: if kind == Kind::Machine { "Machine" } else { "Pod" }.to_owned(),
        };
        let mut desired = Desired::new(target, &format!("uid-{number}"));
        desired.run = Some(if dice.random_bool(0.8) { Run::Running } else { Run::Stopped });
        if kind == Kind::Machine {
            let image = *["debian", "alpine"].choose(dice).unwrap();
            desired.fields =
                Fields::from_iter([("cores", Value::Integer(dice.random_range(1..9))), ("image", image.into())]);
        }
        ledger.insert(kind, desired);
    }

    fn change_desire(&self, dice: &mut SmallRng) {
        if dice.random_bool(0.25) {
            return self.add(dice);
        }
        let uids: Vec<Box<str>> = self.ledger.borrow().objects.keys().cloned().collect();
        let Some(uid) = uids.choose(dice) else { return };
        let kind = self.ledger.borrow().objects[uid].kind;
        let change = dice.random_range(0..9);
        self.ledger.borrow_mut().amend(uid, |desired| match change {
            0 => desired.deletion = Some(DeletionPolicy::Delete),
            1 => desired.run = Some(Run::Stopped),
            2 => desired.run = Some(Run::Running),
            _ if kind == Kind::Pod => {}
            3 => desired.fields.set("cores", Value::Integer(dice.random_range(1..9))),
            4 => desired.fields.set("memory", Value::Integer(dice.random_range(1_i64 << 28..1 << 32))),
            5 => desired.fields.set("env", [("MODEL", Value::secret(&format!("hush-{}", dice.random::<u8>())))]),
            6 => desired.fields.set("image", *["debian", "alpine", "fedora"].choose(dice).unwrap()),
            7 => desired.fields.set("gpu.type", *GPUS.choose(dice).unwrap()),
            _ => {
                let size = match desired.fields.get("disk") {
                    Some(Value::Integer(size)) => size + (1 << 30),
                    _ => 10 << 30,
                };
                desired.fields.set("disk", Value::Integer(size));
            }
        });
    }

    fn drift(&self, dice: &mut SmallRng) {
        let ours: Vec<(Box<str>, Mark)> = (self.place.truth().into_iter())
            .filter_map(|instance| Some((instance.guest.id, instance.guest.mark?)))
            .filter(|(_, mark)| *mark.cluster == *CLUSTER)
            .collect();
        let Some((id, mark)) = ours.choose(dice).cloned() else { return };
        let kind = match dice.random_range(0..8) {
            0..3 => DriftKind::Changed,
            3..5 => DriftKind::Stopped,
            5..7 => DriftKind::Vanished,
            _ => DriftKind::Unmarked,
        };
        if kind != DriftKind::Changed {
            self.inspector.borrow_mut().excuse(&mark.owner_uid);
        }
        self.place.drift(&id, kind);
        if kind == DriftKind::Unmarked {
            self.unmarked.borrow_mut().push((id, mark));
        }
    }
}

const FATES: [Fate; 8] = [
    Fate::Unreachable,
    Fate::LostRequest,
    Fate::Late,
    Fate::FailedBefore,
    Fate::HalfDone,
    Fate::FailedAfter,
    Fate::LostResponse,
    Fate::Garbled,
];

/// A place as it is in good times: slow and late, but sound.
fn calm_program(dice: &mut SmallRng) -> Program {
    let listed_after_ms = *[0, 0, 2_000, 8_000].choose(dice).unwrap();
    let late_request_ms = dice.random_range(500..12_000);
    let settle = Duration::from_millis(listed_after_ms + late_request_ms) + FRESH;
    let latency_ms = dice.random_range(0..50);
    Program {
        seed: dice.random(),
        latency_ms,
        latency_max_ms: Some(latency_ms + dice.random_range(0..1_000)),
        timeout_ms: dice.random_range(1_000..10_000),
        start_ms: dice.random_range(0..4_000),
        stop_ms: dice.random_range(0..4_000),
        busy_ms: *[0, 0, 500].choose(dice).unwrap(),
        listed_after_ms,
        late_request_ms,
        delisted_after_ms: *[0, 0, 3_000].choose(dice).unwrap(),
        // And a second for the network.
        settle_seconds: u32::try_from(settle.as_secs()).unwrap() + 2,
        creates_before_delete: dice.random(),
        hourly_price: Some("0.10".parse().unwrap()),
        ..Program::default()
    }
}

/// The same place in bad times.
fn stormy(calm: Program, dice: &mut SmallRng) -> Program {
    let worst = *[0.0, 0.02, 0.05, 0.1].choose(dice).unwrap();
    let mut rate = || if worst == 0.0 { 0.0 } else { dice.random_range(0.0..worst) };
    Program {
        unreachable_rate: rate(),
        lost_request_rate: rate(),
        late_request_rate: rate(),
        failure_rate: rate(),
        half_done_rate: rate(),
        failure_after_rate: rate(),
        lost_response_rate: rate(),
        garbled_rate: rate(),
        partial_rate: rate() * 3.0,
        unreadable_rate: rate(),
        requests_per_second: dice.random_bool(0.3).then(|| dice.random_range(2..20)),
        capacity: dice.random_bool(0.2).then(|| dice.random_range(5..40)),
        stock_out: match dice.random_range(0..6) {
            0 => BTreeSet::from(["*".to_owned()]),
            1 | 2 => BTreeSet::from([(*GPUS.choose(dice).unwrap()).to_owned()]),
            _ => BTreeSet::new(),
        },
        ..calm
    }
}

/// A place after bad times.
fn calmed(stormy: Program) -> Program {
    let Program {
        seed,
        latency_ms,
        latency_max_ms,
        timeout_ms,
        start_ms,
        stop_ms,
        busy_ms,
        listed_after_ms,
        late_request_ms,
        delisted_after_ms,
        settle_seconds,
        creates_before_delete,
        hourly_price,
        ..
    } = stormy;
    Program {
        seed,
        latency_ms,
        latency_max_ms,
        timeout_ms,
        start_ms,
        stop_ms,
        busy_ms,
        listed_after_ms,
        late_request_ms,
        delisted_after_ms,
        settle_seconds,
        creates_before_delete,
        hourly_price,
        ..Program::default()
    }
}
