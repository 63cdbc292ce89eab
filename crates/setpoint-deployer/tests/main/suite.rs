//! The conformance suite on real processes.

use setpoint_deployer::conformance::{self, GUARANTEES};
use setpoint_deployer::process::ProcessDriver;

use crate::instance::executable;

#[tokio::test(flavor = "multi_thread")]
async fn processes_keep_the_contract() {
    let driver = ProcessDriver { executable: executable() };
    let report = conformance::run(&driver, GUARANTEES, |line| println!("{line}")).await;
    let broken: Vec<String> = report.broken().map(|line| line.to_string()).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}
