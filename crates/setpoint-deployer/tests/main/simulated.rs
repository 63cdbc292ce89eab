//! The simulated place on its own: the conformance suite on places of several tempers, and what it costs.

use setpoint_deployer::conformance::{self, GUARANTEES, Line, Subject, Unproven};
use setpoint_deployer::provider::{Abilities, Answer};
use setpoint_deployer::registry::{Context, Driver, Parts, Settings};
use setpoint_deployer::simulated::{Program, SimulatedDriver, SimulatedSubject};

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
const DO_NOT_APPLY: [&str; 2] = ["a_command_tells_what_it_said_and_how_it_ended", "what_happens_is_told"];

async fn passes(driver: &dyn Driver, temper: &str) {
    let report = conformance::run(driver, GUARANTEES, |line| println!("{line}")).await;
    assert!(report.passed(), "{temper}: {}", report.summary());
    let skipped = |line: &&Line| matches!(line.verdict, Err(Unproven::NotApplicable(_)));
    let skipped: Vec<&str> = report.lines.iter().filter(skipped).map(|line| line.guarantee).collect();
    assert_eq!(skipped, DO_NOT_APPLY, "{temper}");
}

/// Places of all sound tempers, each with its seed.
fn tempers() -> Vec<(&'static str, Program)> {
    let at_once = Program { latency_ms: 1, latency_max_ms: Some(4), ..Program::default() };
    let slow = Program { latency_ms: 40, latency_max_ms: Some(90), start_ms: 900, ready_ms: 700, ..at_once.clone() };
    vec![
        ("at once", at_once.clone()),
        ("slow", slow.clone()),
        ("slow, another seed", Program { seed: 1, ..slow.clone() }),
        ("slow, a third seed", Program { seed: 2, stop_ms: 300, ..slow }),
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
