//! The suite finds out who pretends, and lets an honest one pass.

use std::sync::Arc;

use super::reference::Reference;
use super::{GUARANTEES, Liar, Noop, Report, Unproven, run};
use crate::registry::{Driver, Registry};

async fn tried(driver: &dyn Driver) -> Report {
    run(driver, GUARANTEES, |_| {}).await
}

fn reason<'r>(report: &'r Report, guarantee: &str) -> &'r str {
    let line = report.lines.iter().find(|line| line.guarantee == guarantee).expect("the guarantee is in the suite");
    match &line.verdict {
        Err(Unproven::Broken(reason)) => reason,
        other => panic!("{guarantee}: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_honest_deployer_passes() {
    let report = tried(&Reference).await;
    assert!(report.passed(), "{report}");
    let silent: Vec<_> = report.lines.iter().filter(|line| line.verdict.is_err()).map(|line| line.guarantee).collect();
    let offered_by_others =
        ["what_was_written_is_read", "a_command_tells_what_it_said_and_how_it_ended", "what_happens_is_told"];
    assert_eq!(silent, offered_by_others);
}

#[tokio::test(start_paused = true)]
async fn one_that_does_nothing_fails() {
    let report = tried(&Noop).await;
    assert_eq!(reason(&report, "what_is_made_runs_and_carries_its_mark"), "one-make-one runs: not within 100ms");
    assert_eq!(reason(&report, "a_warm_revision_runs_as_many_as_are_asked_for"), "web-1 is ready: not within 100ms");
    let held: Vec<_> = report.lines.iter().filter(|line| line.verdict.is_ok()).map(|line| line.guarantee).collect();
    assert!(held.is_empty(), "one that does nothing keeps no promise, but was believed in {held:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_lies_fails() {
    let report = tried(&Liar).await;
    assert_eq!(
        reason(&report, "what_is_made_runs_and_carries_its_mark"),
        "one-make-one is observed running, and the witness does not see it"
    );
    assert_eq!(
        reason(&report, "a_warm_revision_runs_as_many_as_are_asked_for"),
        "2 instances of web-1 were asked for, and the witness sees []"
    );
    let held: Vec<_> = report.lines.iter().filter(|line| line.verdict.is_ok()).map(|line| line.guarantee).collect();
    assert!(held.is_empty(), "one that lies keeps no promise, but was believed in {held:?}");
}

#[test]
fn anybody_can_be_registered_and_found() {
    let mut registry = Registry::default();
    for driver in [Arc::new(Noop) as Arc<dyn Driver>, Arc::new(Liar), Arc::new(Reference)] {
        registry.register(driver).unwrap();
    }
    assert_eq!(registry.find_by_reference("liar@1").unwrap().name(), "liar");
}
