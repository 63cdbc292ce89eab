//! The least that a binary has to do so that the process deployer can run instances with it.

use std::path::Path;
use std::process::ExitCode;

use setpoint_deployer::process::{launch, shim};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let subcommand = arguments.next().unwrap_or_default();
    match (subcommand.to_str(), arguments.next()) {
        (Some(shim::SUBCOMMAND), Some(folder)) => shim::run(Path::new(&folder)),
        (Some(launch::SUBCOMMAND), Some(settings)) => launch::run([settings].into_iter().chain(arguments)),
        _ => ExitCode::from(2),
    }
}
