//! `setpoint dev`: what those who build on Setpoint need.

mod conformance;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Dev {
    /// Show which guarantees of the contract a deployer keeps
    Conformance(conformance::Conformance),
}

impl Dev {
    pub(crate) fn run(&self) -> Result<()> {
        match self {
            Dev::Conformance(conformance) => conformance.run(),
        }
    }
}
