//! `setpoint user revoke`: takes somebody's credentials away.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use clap::Args;
use jiff::Timestamp;

use super::Folder;
use super::register::Register;
use crate::decision_log;
use crate::terminal::remark;

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// The user's name
    name: String,
    #[command(flatten)]
    folder: Folder,
}

impl Revoke {
    pub(crate) fn run(self) -> Result<()> {
        let now = Timestamp::from_second(Timestamp::now().as_second())?;
        let mut register = Register::open(&self.folder.path()?)?;
        let users = &mut register.roster.users;
        if !users.iter().any(|user| user.name == self.name) {
            let names: BTreeSet<String> = users.iter().map(|user| format!("{:?}", user.name)).collect();
            let names: Vec<String> = names.into_iter().take(20).collect();
            let known =
                if names.is_empty() { "there are none".to_owned() } else { format!("there are {}", names.join(", ")) };
            bail!("there is no user {:?}; {known} (`setpoint user list`)", self.name);
        }
        let held: Vec<_> = users.iter_mut().filter(|user| user.name == self.name && user.revoked.is_none()).collect();
        if held.is_empty() {
            remark(&format!("user {:?} was revoked before", self.name));
            return Ok(());
        }
        for user in held {
            user.revoked = Some(now);
        }
        register.save(now)?;
        // What cannot be recorded is revoked all the same.
        if let Err(error) = decision_log::record(register.data.path(), "revoke user", &self.name) {
            remark(&format!("warning: {error:#}"));
        }
        remark(&format!(
            "revoked user {:?}: the next request is refused, and open watches end within a second",
            self.name
        ));
        remark("roles and bindings that name the user stay");
        Ok(())
    }
}
