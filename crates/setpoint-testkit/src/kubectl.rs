//! The kubectls on this machine.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result};
use serde_json::Value;

const NONE: &str = "no kubectl on PATH; ./test installs one";

/// A kubectl binary and its version.
#[derive(Debug, Clone)]
pub struct Kubectl {
    pub program: PathBuf,
    pub version: Version,
}

/// A release of kubectl, ordered by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Kubectl {
    /// The newest of all.
    pub fn newest() -> Result<Self> {
        Self::all()?.into_iter().max_by_key(|kubectl| kubectl.version).context(NONE)
    }

    /// The oldest of all, which asks a server for what newer ones no longer do.
    pub fn oldest() -> Result<Self> {
        Self::all()?.into_iter().min_by_key(|kubectl| kubectl.version).context(NONE)
    }

    /// The one that `SETPOINT_KUBECTL` names, or else all `kubectl` and `kubectl.*` in the folders of PATH and beside what
    /// a link there points to.
    fn all() -> Result<Vec<Self>> {
        if let Some(program) = env::var_os("SETPOINT_KUBECTL").map(PathBuf::from) {
            return Ok(vec![Self { version: version(&program)?, program }]);
        }
        let usable = |program: PathBuf| Some(Self { version: version(&program).ok()?, program });
        Ok(candidates().into_iter().filter_map(usable).collect())
    }

    /// A command that speaks to the server of this kubeconfig and keeps its caches in `home`.
    pub fn command(&self, kubeconfig: &Path, home: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.env("KUBECONFIG", kubeconfig).env("HOME", home);
        command
    }

    /// Runs kubectl to its end.
    pub fn run<S: AsRef<OsStr>>(&self, kubeconfig: &Path, home: &Path, arguments: &[S]) -> Result<Output> {
        self.command(kubeconfig, home).args(arguments).output().context("cannot run kubectl")
    }
}

fn candidates() -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    for folder in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
        if let Ok(target) = folder.join("kubectl").canonicalize() {
            folders.extend(target.parent().map(Path::to_owned));
        }
        folders.insert(folder);
    }
    folders
        .iter()
        .filter_map(|folder| folder.read_dir().ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().and_then(OsStr::to_str).is_some_and(is_kubectl))
        .collect()
}

fn is_kubectl(name: &str) -> bool {
    name.strip_prefix("kubectl").is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn version(program: &Path) -> Result<Version> {
    let output = Command::new(program).args(["version", "--client", "--output=json"]).output()?;
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let part = |name: &str| -> Result<u32> {
        let text = answer["clientVersion"][name].as_str().context("kubectl does not say its version")?;
        Ok(text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse()?)
    };
    Ok(Version { major: part("major")?, minor: part("minor")? })
}
