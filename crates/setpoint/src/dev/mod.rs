//! `setpoint dev`: what those who build on Setpoint need.

mod conformance;
mod simulate;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Dev {
    /// Show which guarantees of the contract a deployer keeps
    Conformance(conformance::Conformance),
    /// Run the whole control plane under every kind of fault, by a seed that replays it
    Simulate(simulate::Simulate),
}

impl Dev {
    pub(crate) fn run(&self) -> Result<()> {
        match self {
            Dev::Conformance(conformance) => conformance.run(),
            Dev::Simulate(simulate) => simulate.run(),
        }
    }
}
