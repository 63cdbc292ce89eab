//! The simulated place on its own: the conformance suite on places of several tempers, and what it costs.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use setpoint_core::observation::{Mark, Reading};
use setpoint_core::value::{Fields, Value};
use setpoint_deployer::conformance::{self, GUARANTEES, Line, Subject, Unproven};
use setpoint_deployer::provider::{Abilities, Answer, Body, Order, Scope};
use setpoint_deployer::registry::{Context, Driver, Parts, Settings};
use setpoint_deployer::simulated::{
    DriftKind, Effect, Fate, Outage, Place, Program, Simulated, SimulatedDriver, SimulatedSubject,
};
use setpoint_deployer::{Error, Fault, Provider, Retry};

const CLUSTER: &str = "ours";

/// The simulated deployer on places without revisions of their own.
#[derive(Debug)]
struct WithoutRevisions(SimulatedDriver, Program);

impl Driver for WithoutRevisions {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn version(&self) -> &str {
        self.0.version()
    }

    fn abilities(&self) -> &Abilities {
        self.0.abilities()
    }

    fn open<'a>(&'a self, settings: &'a Settings, context: &'a Context) -> Answer<'a, Parts> {
        self.0.open(settings, context)
    }

    fn subject(&self) -> Answer<'_, Box<dyn Subject>> {
        let subject = SimulatedSubject::new(self.1.clone(), false);
        Box::pin(async { Ok(Box::new(subject) as Box<dyn Subject>) })
    }
}

/// The guarantees that say nothing about a simulated place.
const DO_NOT_APPLY: [&str; 1] = ["a_command_tells_what_it_said_and_how_it_ended"];

async fn passes(driver: &dyn Driver, temper: &str) {
    let report = conformance::run(driver, GUARANTEES, |_| {}).await;
    assert!(report.passed(), "{temper}:\n{report}");
    let skipped = |line: &&Line| matches!(line.verdict, Err(Unproven::NotApplicable(_)));
    let skipped: Vec<&str> = report.lines.iter().filter(skipped).map(|line| line.guarantee).collect();
    assert_eq!(skipped, DO_NOT_APPLY, "{temper}");
}

/// Places of all sound tempers, each with its seed.
fn tempers() -> Vec<(&'static str, Program)> {
    let at_once = Program { latency_ms: 1, latency_max_ms: Some(4), ..Program::default() };
    let slow = Program { latency_ms: 40, latency_max_ms: Some(90), start_ms: 900, ready_ms: 700, ..at_once.clone() };
    vec![
        ("at once", at_once),
        ("slow", slow.clone()),
        ("slow, another seed", Program { seed: 1, ..slow.clone() }),
        ("slow, a third seed", Program { seed: 2, stop_ms: 300, ..slow.clone() }),
        ("late", Program { seed: 3, listed_after_ms: 2_000, delisted_after_ms: 1_000, settle_seconds: 2, ..slow }),
    ]
}

#[tokio::test(start_paused = true)]
async fn the_suite_holds_on_a_platform_with_revisions() {
    for (temper, program) in tempers() {
        passes(&SimulatedDriver::new(program), temper).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_suite_holds_where_revisions_are_made_of_instances() {
    for (temper, program) in tempers() {
        passes(&WithoutRevisions(SimulatedDriver::default(), program), temper).await;
    }
}

/// What fifty thousand instances cost, and that a look at one of them does not look at all.
#[tokio::test(start_paused = true)]
async fn tens_of_thousands_of_instances_are_cheap() {
    const COUNT: usize = 50_000;
    let place = Place::new(Program::default(), Timestamp::UNIX_EPOCH);
    let client = Simulated::new(&place, CLUSTER);
    let memory = resident_bytes();
    let began = Instant::now();
    for number in 0..COUNT {
        client.create(&machine(number)).await.unwrap();
    }
    let created = began.elapsed();
    let bytes = resident_bytes().saturating_sub(memory) / COUNT;
    let began = Instant::now();
    let observed = Provider::observe(&client, &Scope::Everything).await.unwrap();
    let all = began.elapsed();
    assert_eq!(observed.instances.len(), COUNT);
    let id = observed.instances[COUNT / 2].guest.id.clone();
    drop(observed);
    let began = Instant::now();
    for number in 0..1_000 {
        let one = Provider::observe(&client, &Scope::Instance(id.clone())).await.unwrap();
        let owned = Provider::observe(&client, &Scope::Owner(format!("uid-{number}").into())).await.unwrap();
        assert_eq!((one.instances.len(), owned.instances.len()), (1, 1));
    }
    let one = began.elapsed() / 2_000;
    println!("{COUNT} created in {created:?}, {bytes} bytes each; all observed in {all:?}, one in {one:?}");
    assert!(one < all / 500, "a look at one took {one:?}, at all {all:?}");
    assert!(bytes < 2_000, "an instance takes {bytes} bytes");
}

fn machine(number: usize) -> Order {
    let fields = Fields::from_iter([
        ("cores", Value::Integer(4)),
        ("image", Value::from("debian-13")),
        ("memory", Value::Integer(1 << 30)),
    ]);
    let mark = Mark {
        cluster: CLUSTER.into(),
        owner_uid: format!("uid-{number}").into(),
        intent: Some(format!("intent-{number}").into()),
        spec_digest: Some("hmac-sha256:0000".into()),
    };
    Order { mark, name: format!("machine-{number}"), provider_id: None, body: Body::Machine(fields) }
}

/// What this process has in memory; the log of requests, which is bounded, is part of it.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap() * 4096
}

/// Each way to fail, as its caller sees it and as the log tells it.
#[tokio::test(start_paused = true)]
async fn every_fate_is_told_to_the_caller_and_to_the_witness() {
    let rows = [
        (Fate::Fine, None, Some(Effect::Full), 1),
        (Fate::Unreachable, Some(Fault::Unreachable), None, 0),
        (Fate::LostRequest, Some(Fault::Unanswered), None, 0),
        (Fate::FailedBefore, Some(Fault::Broken), Some(Effect::None), 0),
        (Fate::HalfDone, Some(Fault::Broken), Some(Effect::Half), 1),
        (Fate::FailedAfter, Some(Fault::Broken), Some(Effect::Full), 1),
        (Fate::LostResponse, Some(Fault::Unanswered), Some(Effect::Full), 1),
        (Fate::Garbled, Some(Fault::Garbled), Some(Effect::Full), 1),
        // Its caller waits for longer than it is late.
        (Fate::Late, Some(Fault::Unanswered), Some(Effect::Full), 1),
    ];
    for (fate, expected, effect, count) in rows {
        let program = Program { late_request_ms: 500, timeout_ms: 1_000, ..Program::default() };
        let place = Place::new(program, Timestamp::UNIX_EPOCH);
        place.arrange(fate, true);
        let answer = Simulated::new(&place, CLUSTER).create(&machine(1)).await;
        let fault = answer.err().map(|error| match error {
            Error::Provider(error) => error.fault,
            Error::Spec(error) => panic!("{fate:?}: {error}"),
        });
        let logged = place.log(|log| log.since(0).next().map(|entry| entry.effect));
        assert_eq!((fault, logged, place.len()), (expected, effect, count), "{fate:?}");
    }
}

/// What a place refuses, and what it only shows later.
#[tokio::test(start_paused = true)]
async fn a_place_can_be_full_out_of_stock_throttled_and_late() {
    let place = Place::new(Program { settle_seconds: 10, ..Program::default() }, Timestamp::UNIX_EPOCH);
    let client = Simulated::new(&place, CLUSTER);
    let base = place.program();
    let rows = [
        ("full", Program { capacity: Some(0), ..base.clone() }, Fault::OutOfStock),
        ("nothing in stock", Program { stock_out: ["*".to_owned()].into(), ..base.clone() }, Fault::OutOfStock),
        ("dead", Program { down: Some(Outage::Refuses), ..base.clone() }, Fault::Unreachable),
        ("silent", Program { down: Some(Outage::Silent), ..base.clone() }, Fault::Unanswered),
    ];
    for (row, program, expected) in rows {
        place.reprogram(program).unwrap();
        let Err(Error::Provider(error)) = client.create(&machine(1)).await else { panic!("{row} was no trouble") };
        assert_eq!(error.fault, expected, "{row}");
    }
    place.reprogram(Program { requests_per_second: Some(1), ..base.clone() }).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.create(&machine(1)).await.unwrap();
    let Err(error) = client.create(&machine(2)).await else { panic!("nothing was throttled") };
    assert_eq!(error.retry(), Retry::After(Duration::from_secs(1)));
    place.reprogram(Program { listed_after_ms: 3_000, delisted_after_ms: 2_000, ..base }).unwrap();
    let id = client.create(&machine(3)).await.unwrap();
    let shows = async || {
        let all = Provider::observe(&client, &Scope::Everything).await.unwrap();
        all.instance(&id).is_some()
    };
    assert!(!shows().await, "a new instance shows at once");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(shows().await, "a new instance never shows");
    client.delete("remove", &id).await.unwrap();
    assert!(shows().await, "what is gone ceases to show at once");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!shows().await, "what is gone shows for ever");
}

/// Things happen behind our back as often as the program says, and the same ones for the same seed.
#[tokio::test(start_paused = true)]
async fn a_place_drifts_by_itself() {
    let drifted = async |seed: u64| {
        let drift = [DriftKind::Stopped, DriftKind::Vanished, DriftKind::Unmarked, DriftKind::Changed].into();
        let program = Program { seed, drift_every_ms: Some(1_000), drift, ..Program::default() };
        let place = Place::new(program, Timestamp::UNIX_EPOCH);
        let client = Simulated::new(&place, CLUSTER);
        for number in 0..20 {
            client.create(&machine(number)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(12)).await;
        place.truth()
    };
    let truth = drifted(1).await;
    let untouched = truth.iter().filter(|instance| {
        let is_running = instance.guest.run.known().is_some_and(|word| **word == *"running");
        let has_cores = instance.guest.config.field("cores") == Reading::Known(&Value::Integer(4));
        instance.guest.mark.is_some() && is_running && has_cores
    });
    assert!((5..20).contains(&untouched.count()), "twelve things happen to twenty instances: {truth:?}");
    assert_eq!(drifted(1).await.len(), truth.len());
}

/// A new client over the same environment finds the same place, with another program.
#[tokio::test(start_paused = true)]
async fn an_environment_has_one_place() {
    let driver = SimulatedDriver::default();
    let context = Context {
        cluster: CLUSTER.into(),
        environment: "lab".to_owned(),
        folder: "lab".into(),
        credentials: Default::default(),
        read_only: false,
    };
    let settings = |text: &str| -> Settings { serde_json::from_str(text).unwrap() };
    let first = driver.open(&settings(r#"{"hourlyPrice": "0.25"}"#), &context).await.unwrap();
    first.provider.create(&machine(1)).await.unwrap();
    let second = driver.open(&settings(r#"{"hourlyPrice": "0.50"}"#), &context).await.unwrap();
    let observed = second.provider.observe(&Scope::Everything).await.unwrap();
    assert_eq!(observed.instances[0].guest.hourly_price, Some("0.50".parse().unwrap()));
    let refused = driver.open(&settings(r#"{"settleSeconds": 3}"#), &context).await.map(drop);
    assert!(refused.is_err_and(|error| error.to_string().contains("settleSeconds")));
}

/// Whoever looks only at what they are told to look at has seen everything, at the instant at which it happened.
#[tokio::test(start_paused = true)]
async fn every_turn_of_an_instance_is_told_when_it_comes() {
    let program = Program { start_ms: 300, ready_ms: 400, stop_ms: 500, ..Program::default() };
    let place = Place::new(program.clone(), Timestamp::now());
    let (provider, born) = (Simulated::new(&place, CLUSTER), tokio::time::Instant::now());
    let mut events = provider.events().expect("it tells");
    let id = provider.create(&machine(1)).await.unwrap();
    let mut told = async |until_ms: u64| {
        let mut times = Vec::new();
        let deadline = born + Duration::from_millis(until_ms);
        while let Ok(Some(_)) = tokio::time::timeout_at(deadline, events.recv()).await {
            times.push(u64::try_from(born.elapsed().as_millis()).unwrap());
        }
        times
    };
    assert_eq!(told(1000).await, [0, 300], "it is made, and it runs");
    provider.stop("stop", &id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(told(2000).await, [1000, 1500], "it is asked to stop, and has stopped");
    assert!(place.drift(&id, DriftKind::Vanished));
    assert_eq!(told(3000).await, [2000], "somebody took it away");
    place.reprogram(Program { down: Some(Outage::Silent), ..program.clone() }).unwrap();
    place.plant("foreign", None, &Fields::default());
    assert_eq!(told(4000).await, [0; 0], "nothing comes from a place that is down");
    place.reprogram(program).unwrap();
    assert_eq!(told(5000).await, [4000], "and everything may be another once it is back");
}
