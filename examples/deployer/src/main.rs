//! A deployer of one's own, outside of Setpoint's workspace: registered, and proven by the suite.

mod folder;
mod provider;
mod subject;

use std::process::ExitCode;
use std::sync::Arc;

use setpoint_deployer::conformance::{self, GUARANTEES, Subject};
use setpoint_deployer::provider::{Abilities, Answer};
use setpoint_deployer::registry::{Context, Driver, Parts, Registry, Settings};

use folder::Folder;
use provider::{ABILITIES, Client};
use subject::Place;

/// Instances are files in the environment's folder.
#[derive(Debug)]
struct FolderDriver;

impl Driver for FolderDriver {
    fn name(&self) -> &str {
        "folder"
    }

    fn version(&self) -> &str {
        "1.0.0"
    }

    fn abilities(&self) -> &Abilities {
        &ABILITIES
    }

    fn open<'a>(&'a self, _: &'a Settings, context: &'a Context) -> Answer<'a, Parts> {
        Box::pin(async move {
            let folder = Folder::at(&context.folder);
            Ok(Parts { provider: Arc::new(Client::new(&context.cluster, folder)), deployer: None })
        })
    }

    fn subject(&self) -> Answer<'_, Box<dyn Subject>> {
        Box::pin(async { Ok(Box::new(Place::new()?) as Box<dyn Subject>) })
    }
}

fn main() -> ExitCode {
    let mut registry = Registry::default();
    registry.register(Arc::new(FolderDriver)).expect("nobody else is called folder");
    let driver = registry.find("folder", Some("1")).expect("it was just registered");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be had");
    let report = runtime.block_on(conformance::run(&**driver, GUARANTEES, |line| println!("{line}")));
    println!("{}", report.summary());
    if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
