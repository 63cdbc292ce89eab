//! `setpoint data`: which control plane a data directory holds, and where it lives.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::data_dir::identity::{Identity, Residence};
use crate::data_dir::{DataDir, Location};
use crate::decision_log;
use crate::output::Output;
use crate::terminal::inert;

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
        let from = before.as_ref().map(|before| format!(", before in {}", before.home.path.display()));
        let subject = format!("{}{}", identity.home.path.display(), from.unwrap_or_default());
        decision_log::record(&location.path, "adopt data directory", &subject)?;
        let (id, path) = (inert(&identity.id), identity.home.path.display().to_string());
        println!("control plane {id} lives in {} now", inert(&path));
        if let Some(before) = before.filter(|before| before.home.path != identity.home.path) {
            println!("start nothing on {} any more", inert(&before.home.path.display().to_string()));
        }
        Ok(())
    }
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
        None => lines.push("control plane:  it has no id yet; `setpoint up` gives it one, or, where Environments are stored, `data adopt`".to_owned()),
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
