//! `setpoint env`: what the keeper of an Environment does with it.

mod grant;
mod unlock;

use anyhow::Result;
use clap::Subcommand;

use crate::outcome::Outcome;

#[derive(Debug, Subcommand)]
pub(crate) enum Env {
    /// Let somebody use an Environment, adopt what is there, or approve steps there, from one namespace
    Grant(grant::Grant),
    /// Put an Environment's rules in force as they are written, without the approvals that this needs
    Unlock(unlock::Unlock),
}

impl Env {
    pub(crate) fn run(self) -> Result<Outcome> {
        match self {
            Env::Grant(grant) => grant.run(),
            Env::Unlock(unlock) => unlock.run().map(Outcome::from),
        }
    }
}
