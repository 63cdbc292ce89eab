//! `setpoint`: a control plane for deployments in one small binary.

mod client;
mod controllers;
mod crds;
mod data_dir;
mod deployers;
mod dev;
mod get;
mod history;
mod issuer;
mod kubeconfig;
mod local;
mod logging;
mod manifest;
mod pki;
mod pods;
mod resolve;
mod resource;
mod secrets;
mod serve;
mod stop;
mod table;
mod terminal;
mod token;
mod up;
mod user;
mod validate;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use setpoint_deployer::process::{launch, shim};

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
    /// Show objects, as they are or as they were
    Get(get::Get),
    /// Show who changed which fields of an object, and when
    History(history::History),
    /// Show which Plan serves a Goal, and why no other does
    Resolve(resolve::Resolve),
    /// Check documents before a server sees them
    Validate(validate::Validate),
    /// Print the CustomResourceDefinitions of Setpoint's kinds
    Crds(crds::Crds),
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
    hidden().unwrap_or_else(visible)
}

/// What the process deployer runs this binary as. These are many and have to be small, so they come before all else.
fn hidden() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        shim::SUBCOMMAND => Some(shim::run(Path::new(&arguments.next()?))),
        launch::SUBCOMMAND => Some(launch::run(arguments)),
        _ => None,
    }
}

fn visible() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Up(up) => up.run(),
        Command::Serve(serve) => serve.run(),
        Command::Get(get) => get.run(),
        Command::History(history) => history.run(),
        Command::Resolve(resolve) => resolve.run(),
        Command::Validate(validate) => validate.run(),
        Command::Crds(crds) => crds.run(),
        Command::Secrets(secrets) => secrets.run(),
        Command::User(user) => user.run(),
        Command::Dev(dev) => dev.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the one place where a command's error is shown")]
fn report(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}
