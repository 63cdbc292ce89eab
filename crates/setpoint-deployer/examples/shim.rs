//! The least that a binary has to do so that the process deployer can run instances with it.

use std::process::ExitCode;

use setpoint_deployer::process::{launch, shim};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let subcommand = arguments.next().unwrap_or_default();
    match subcommand.to_str() {
        Some(shim::SUBCOMMAND) => shim::run(),
        Some(launch::SUBCOMMAND) => launch::run(arguments),
        _ => ExitCode::from(2),
    }
}
