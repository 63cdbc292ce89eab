//! `setpoint secrets`: the keys that Secrets are sealed with on disk.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use setpoint_store::KeyFile;

use crate::data_dir::Location;

/// The file of the keys in the data folder.
pub(crate) const KEYS: &str = "secrets.key";

#[derive(Debug, Subcommand)]
pub(crate) enum Secrets {
    /// Add a new key; the next start seals every Secret with it and removes the old keys
    Rotate(Rotate),
}

#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// The data folder, which may be in use [default: setpoint under the user's data home]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Secrets {
    #[expect(clippy::print_stdout, reason = "what to do next is this command's output")]
    pub(crate) fn run(self) -> Result<()> {
        let Secrets::Rotate(Rotate { data_dir }) = self;
        let location = Location::of(data_dir.as_deref())?;
        location.check()?;
        let file = KeyFile::at(location.path.join(KEYS));
        let id = file.rotate()?;
        println!("added key {id} to {}", file.path().display());
        println!("the next start of `setpoint up` seals every Secret with it and removes the old keys");
        Ok(())
    }
}
