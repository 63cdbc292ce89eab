//! `setpoint user`: who may come in besides the administrator.
//!
//! The commands work on the data folder, beside a server that runs or without one; a running server notices.

mod create;
mod list;
mod register;
mod revoke;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::data_dir::Location;

pub(crate) use register::{USERS, make_roster};

#[derive(Debug, Subcommand)]
pub(crate) enum User {
    /// Give somebody a credential, and print a kubeconfig with it
    Create(create::Create),
    /// List who was given a credential
    List(list::List),
    /// Take somebody's credentials away
    Revoke(revoke::Revoke),
}

impl User {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            User::Create(create) => create.run(),
            User::List(list) => list.run(),
            User::Revoke(revoke) => revoke.run(),
        }
    }
}

#[derive(Debug, Args)]
struct Folder {
    /// The data folder, which may be in use [default: setpoint under the user's data home]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Folder {
    fn path(&self) -> Result<PathBuf> {
        let location = Location::of(self.data_dir.as_deref())?;
        location.check()?;
        Ok(location.path)
    }
}
