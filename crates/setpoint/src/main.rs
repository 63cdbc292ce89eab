//! `setpoint`: a control plane for deployments in one small binary.

mod apply;
mod approve;
mod audit;
mod change;
mod client;
mod control_plane;
mod controllers;
mod crds;
mod data;
mod data_dir;
mod decision_log;
mod deployers;
mod destroy;
mod dev;
mod document;
mod drift;
mod get;
mod history;
mod import;
mod issuer;
mod kubeconfig;
mod local;
mod logging;
mod look;
mod manifest;
mod outcome;
mod output;
mod pki;
mod plan;
mod pods;
mod proposal;
mod reconcile;
mod resolve;
mod resource;
mod secrets;
mod serve;
mod session;
mod status;
mod stop;
mod style;
mod table;
mod terminal;
mod token;
mod up;
mod user;
mod validate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::fs::Mode;
use setpoint_deployer::process::{descriptors, launch, shim};

use crate::outcome::Outcome;
use crate::terminal::inert_lines;

/// What others than the owner of a file could do with it.
const OTHERS: Mode = Mode::from_raw_mode(0o077);

#[derive(Debug, Parser)]
#[command(name = "setpoint", version, about = "A control plane for deployments in one small binary")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the control plane in this process
    Up(up::Up),
    /// Run a part of the control plane in this process
    #[command(subcommand)]
    Serve(serve::Serve),
    /// Show what `apply` would change
    Plan(plan::Plan),
    /// Change what files say should be, after asking
    Apply(apply::Apply),
    /// Remove what files or an apply set hold, after asking
    Destroy(destroy::Destroy),
    /// Let steps of a change set be taken
    Approve(approve::Approve),
    /// Keep steps of a change set from being taken
    Reject(approve::Reject),
    /// Show environments, Machines, and what waits for people
    Status(status::Status),
    /// Show where reality is not as desired
    Drift(drift::Drift),
    /// Have a Machine or an Environment looked at now
    Reconcile(reconcile::Reconcile),
    /// Take an existing guest under care
    Import(import::Import),
    /// Show objects, as they are or as they were
    Get(get::Get),
    /// Show who changed which fields of an object, and when
    History(history::History),
    /// Show who approved and who did what, and when, also of what is deleted
    Audit(audit::Audit),
    /// Show which Plan serves a Goal, and why no other does
    Resolve(resolve::Resolve),
    /// Check documents before a server sees them
    Validate(validate::Validate),
    /// Print the CustomResourceDefinitions of Setpoint's kinds
    Crds(crds::Crds),
    /// Show which control plane a data directory holds, or say where it lives
    #[command(subcommand)]
    Data(data::Data),
    /// Care for the keys that Secrets are sealed with on disk
    #[command(subcommand)]
    Secrets(secrets::Secrets),
    /// Give people access, and take it away
    #[command(subcommand)]
    User(user::User),
    /// What those who build on Setpoint need
    #[command(subcommand)]
    Dev(dev::Dev),
}

fn main() -> ExitCode {
    descriptors::close_on_exec();
    hidden().unwrap_or_else(visible)
}

/// What the process deployer runs this binary as. These are many and have to be small, so they come before all else.
fn hidden() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        shim::SUBCOMMAND => Some(shim::run()),
        launch::SUBCOMMAND => Some(launch::run(arguments)),
        _ => None,
    }
}

fn visible() -> ExitCode {
    // Whatever is made from here on is for its owner alone, unless it says otherwise.
    rustix::process::umask(OTHERS);
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error),
    };
    let done = |result: anyhow::Result<()>| result.map(Outcome::from);
    let result = match arguments.command {
        Command::Up(up) => done(up.run()),
        Command::Serve(serve) => done(serve.run()),
        Command::Plan(plan) => plan.run(),
        Command::Apply(apply) => apply.run(),
        Command::Destroy(destroy) => destroy.run(),
        Command::Approve(approve) => approve.run(),
        Command::Reject(reject) => reject.run(),
        Command::Status(status) => status.run(),
        Command::Drift(drift) => drift.run(),
        Command::Reconcile(reconcile) => reconcile.run(),
        Command::Import(import) => import.run(),
        Command::Get(get) => done(get.run()),
        Command::History(history) => done(history.run()),
        Command::Audit(audit) => done(audit.run()),
        Command::Resolve(resolve) => resolve.run(),
        Command::Validate(validate) => done(validate.run()),
        Command::Crds(crds) => done(crds.run()),
        Command::Data(data) => done(data.run()),
        Command::Secrets(secrets) => done(secrets.run()),
        Command::User(user) => done(user.run()),
        Command::Dev(dev) => done(dev.run()),
    };
    match result {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

/// Help is what was asked for; anything else is an error like others, since 2 says that something is pending.
fn misused(error: &clap::Error) -> ExitCode {
    // Whoever reads may have seen enough.
    let _ = error.print();
    if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[expect(clippy::print_stderr, reason = "the one place where a command's error is shown")]
fn report(error: &anyhow::Error) {
    // What failed may quote what servers and files say.
    eprintln!("{}", inert_lines(&format!("error: {error:#}")));
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn every_command_is_declared_soundly() {
        super::Arguments::command().debug_assert();
    }
}
