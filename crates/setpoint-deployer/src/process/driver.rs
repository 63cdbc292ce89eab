//! The process deployer as it is registered.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use super::provider::{ProcessProvider, Settings, abilities, fault};
use super::subject::ProcessSubject;
use crate::conformance::Subject;
use crate::error::{Error, Operation, Result};
use crate::provider::{Abilities, Answer};
use crate::read_only::Unopened;
use crate::registry::{self, Context, Driver, Parts};

static ABILITIES: LazyLock<Abilities> = LazyLock::new(abilities);

/// Opens the process deployer.
#[derive(Debug, Clone)]
pub struct ProcessDriver {
    /// The binary that shims run as: one that answers to the hidden subcommands.
    pub executable: PathBuf,
}

impl ProcessDriver {
    /// Shims run as this binary.
    pub fn new() -> std::io::Result<ProcessDriver> {
        Ok(ProcessDriver { executable: std::env::current_exe()? })
    }
}

impl Driver for ProcessDriver {
    fn name(&self) -> &str {
        ABILITIES.guests.deployer
    }

    fn version(&self) -> &str {
        "1.0.0"
    }

    fn abilities(&self) -> &Abilities {
        &ABILITIES
    }

    fn open<'a>(&'a self, settings: &'a registry::Settings, context: &'a Context) -> Answer<'a, Parts> {
        Box::pin(async move { self.open_in(settings, context) })
    }

    fn subject(&self) -> Answer<'_, Box<dyn Subject>> {
        Box::pin(async {
            let subject = ProcessSubject::new(&self.executable);
            let subject = subject.map_err(|error| fault(Operation::Observe, "a temporary folder", &error))?;
            Ok(Box::new(subject) as Box<dyn Subject>)
        })
    }
}

impl ProcessDriver {
    fn open_in(&self, settings: &registry::Settings, context: &Context) -> Result<Parts> {
        if let Some(name) = settings.keys().next() {
            return Err(Error::field(&context.environment, name, "the process deployer has no such setting"));
        }
        if context.read_only {
            return Ok(Parts { provider: Arc::new(Unopened(&ABILITIES)), deployer: None });
        }
        let settings = Settings {
            folder: context.folder.clone(),
            executable: self.executable.clone(),
            cluster: context.cluster.clone(),
            log_limits: Default::default(),
        };
        let opened = ProcessProvider::open(settings);
        let provider = opened.map_err(|error| fault(Operation::Observe, &context.environment, &error))?;
        Ok(Parts { provider: Arc::new(provider), deployer: None })
    }
}
