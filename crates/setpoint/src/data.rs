//! `setpoint data`: which control plane a data directory holds, and where it lives.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_apiserver::audit;

use crate::data_dir::identity::{Identity, Residence};
use crate::data_dir::{DataDir, Location};
use crate::output::Output;
use crate::session::ROTATION;
use crate::terminal::inert;
use crate::up::AUDIT_LOG;

#[derive(Debug, Subcommand)]
pub(crate) enum Data {
    /// Show which control plane a data directory holds, and whether it lives there
    Show(Show),
    /// Make a copy, or a restored backup, the directory in which its control plane lives
    Adopt(Adopt),
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The data directory [default: setpoint under the user's data home]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The form to print it in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Adopt {
    /// The data directory, which no server uses [default: setpoint under the user's data home]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Data {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Data::Show(show) => show.run(),
            Data::Adopt(adopt) => adopt.run(),
        }
    }
}

impl Show {
    fn run(&self) -> Result<()> {
        let location = Location::of(self.data_dir.as_deref())?;
        location.check()?;
        let identity = Identity::read(&location.path)?;
        let residence = DataDir::residence_of(&location.path)?;
        let store = std::fs::read_to_string(location.path.join("store/format")).ok();
        let format = store.as_deref().map(str::trim);
        let text = || text(&location.path, identity.as_ref(), residence.as_ref(), format);
        self.output.print(text, || Ok(data(&location.path, identity.as_ref(), residence.as_ref(), format)))
    }
}

impl Adopt {
    #[expect(clippy::print_stdout, reason = "what was done is this command's output")]
    fn run(&self) -> Result<()> {
        let location = Location::of(self.data_dir.as_deref())?;
        location.check()?;
        let (before, identity) = DataDir::adopt(&location.path)?;
        note(&location.path, before.as_ref(), &identity)?;
        let (id, path) = (inert(&identity.id), identity.home.path.display().to_string());
        println!("control plane {id} lives in {} now", inert(&path));
        if let Some(before) = before.filter(|before| before.home.path != identity.home.path) {
            println!("start nothing on {} any more", inert(&before.home.path.display().to_string()));
        }
        Ok(())
    }
}

/// Puts a line into the audit log: it is a person's decision about who acts.
fn note(folder: &Path, before: Option<&Identity>, now: &Identity) -> Result<()> {
    let mut file = audit::File::open(folder.join(AUDIT_LOG), ROTATION).context("cannot open the audit log")?;
    let at = Timestamp::now();
    let user = format!("uid:{}", rustix::process::geteuid().as_raw());
    let line = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "stage": "ResponseComplete",
        "verb": "adopt", "user": {"username": user}, "requestURI": "setpoint data adopt",
        "objectRef": {"resource": "data-directory", "name": now.home.path, "uid": now.id},
        "annotations": {"setpoint.dev/from": before.map(|before| &before.home.path)},
        "requestReceivedTimestamp": at, "stageTimestamp": at,
    });
    writeln!(file, "{line}").and_then(|()| file.flush()).context("cannot write the audit log")
}

fn word(residence: Option<&Residence>) -> &'static str {
    match residence {
        None => "no",
        Some(Residence::Here | Residence::Renamed) => "yes",
        Some(Residence::Copy(_)) => "no: this is a copy",
        Some(Residence::GivenUp(_)) => "no: it was told to live elsewhere",
    }
}

fn text(path: &Path, identity: Option<&Identity>, residence: Option<&Residence>, format: Option<&str>) -> String {
    let mut lines = vec![format!("data directory: {}", path.display())];
    match identity {
        None => lines.push("control plane:  it has no id yet; the next start of `setpoint up` gives it one".to_owned()),
        Some(identity) => {
            lines.push(format!("control plane:  {}", identity.id));
            lines.push(format!("marks guests:   {}", identity.cluster.as_deref().unwrap_or("not yet")));
            lines.push(format!("lives here:     {}", word(residence)));
            lines.push(format!("lives in:       {} since {}", lives_in(identity).display(), identity.home.since));
        }
    }
    lines.push(format!("store format:   {}", format.unwrap_or("none")));
    lines.iter().map(|line| inert(line) + "\n").collect()
}

fn lives_in(identity: &Identity) -> &Path {
    identity.moved_to.as_deref().unwrap_or(&identity.home.path)
}

fn data(path: &Path, identity: Option<&Identity>, residence: Option<&Residence>, format: Option<&str>) -> Value {
    let lives_here = matches!(residence, Some(Residence::Here | Residence::Renamed));
    json!({
        "dataDirectory": path, "id": identity.map(|identity| &identity.id),
        "cluster": identity.and_then(|identity| identity.cluster.as_ref()), "livesHere": lives_here,
        "livesIn": identity.map(lives_in), "since": identity.map(|identity| identity.home.since),
        "storeFormat": format,
    })
}
