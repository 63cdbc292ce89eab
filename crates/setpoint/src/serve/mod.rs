//! `setpoint serve`: parts of the control plane in a process of their own.

mod controllers;
mod metrics;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Serve {
    /// Run the controllers against a server elsewhere; of several such processes one acts at a time
    Controllers(controllers::Controllers),
}

impl Serve {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Serve::Controllers(controllers) => controllers.run(),
        }
    }
}
