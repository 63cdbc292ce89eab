//! `setpoint init`: writes a first Environment to start from, with rules for one person or for a team.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};

use crate::terminal::{print, remark};

const FILE: &str = "environment.yaml";
const SOLO: &str = include_str!("init/solo.yaml");
const TEAM: &str = include_str!("init/team.yaml");

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The folder to write environment.yaml into; it is made if it is missing
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// For whom the rules are
    #[arg(long, value_enum, default_value_t = Policy::Solo)]
    policy: Policy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// One person, who approves what they ask for
    Solo,
    /// Several people: nobody approves what they ask for alone
    Team,
}

impl Init {
    pub(crate) fn run(&self) -> Result<()> {
        let path = self.folder.join(FILE);
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make the folder {}", self.folder.display()))?;
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{} is there already, and stays as it is; name another folder", path.display())
            }
            Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
        };
        file.write_all(self.policy.manifest().as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        remark(&format!("wrote {}", path.display()));
        remark("next:");
        print(&self.policy.next(&path.display().to_string()))
    }
}

impl Policy {
    fn manifest(self) -> &'static str {
        match self {
            Policy::Solo => SOLO,
            Policy::Team => TEAM,
        }
    }

    /// The commands that come next, a line each.
    fn next(self, path: &str) -> String {
        let people = match self {
            Policy::Solo => "",
            Policy::Team => {
                "setpoint user create alice > alice.yaml\nsetpoint env grant lab --user alice --verbs use,approve\n"
            }
        };
        format!("setpoint up\nsetpoint plan -f {path}\nsetpoint apply -f {path}\n{people}")
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::environment::Environment;
    use setpoint_api::step::Class;

    use super::*;

    #[test]
    fn what_is_written_is_sound_and_as_strict_as_it_says() {
        for (policy, destroys, spends, alone) in [(Policy::Solo, 1, 0, true), (Policy::Team, 2, 1, false)] {
            let environment: Environment = serde_saphyr::from_str(policy.manifest()).expect("an Environment");
            assert!(environment.validate().is_empty(), "{policy:?}: {:?}", environment.validate());
            let approval = environment.spec.approval.unwrap_or_default();
            let (destructive, spend) = (approval.requirement(Class::Destructive), approval.requirement(Class::Spend));
            assert_eq!((destructive.approvals, spend.approvals), (destroys, spends), "{policy:?}");
            assert_eq!(destructive.requester_may_approve, alone, "{policy:?}");
        }
    }
}
