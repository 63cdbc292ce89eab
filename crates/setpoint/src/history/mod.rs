//! `setpoint history`: who changed which fields of an object, and when.
//!
//! Each version of an object names the revision that wrote it, so the one before is what could be read one revision
//! earlier. That walk is here; what two versions say of each other is pure: [`crate::change`], [`author`], [`report`].

mod author;
mod report;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::Value;

use self::report::{End, Entry, Report};
use crate::client::{Answer, Connection, Server};
use crate::get::{JSON, read_at, revision};
use crate::terminal::{json, print};

#[derive(Debug, Args)]
pub(crate) struct History {
    /// What it is: a plural, a singular, a short name or a kind, with its group if need be (deployments.apps)
    kind: String,
    /// Its name
    name: String,
    #[command(flatten)]
    connection: Connection,
    /// The form to print it in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Begin at this revision, for what is no longer there
    #[arg(long, value_name = "REVISION", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
    /// Show no more than so many changes
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
}

impl History {
    pub(crate) fn run(&self) -> Result<()> {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(self.show())
    }

    async fn show(&self) -> Result<()> {
        let server = self.connection.connect().await?;
        let resource = server.resource(&self.kind).await?;
        let namespace = resource.namespaced.then_some(server.namespace.as_str());
        let path = resource.path(namespace, Some(&self.name));
        let Some(newest) = read_at(&server, &path, self.at, JSON).await? else { return Err(self.absence()) };
        let (entries, end) = self.walk(&server, &path, newest).await?;
        let object = resource.object(&self.name);
        let report = Report { object, namespace: namespace.map(str::to_owned), entries, end };
        print(&match self.output {
            Output::Text => report.text(),
            Output::Json => json(&report.json()),
        })
    }

    /// The changes that led to a version, back to the creation of its object or to where history begins.
    async fn walk(&self, server: &Server, path: &str, newest: Value) -> Result<(Vec<Entry>, End)> {
        let (mut entries, mut newer) = (Vec::new(), newest);
        loop {
            let own = revision(&newer).unwrap_or_default();
            if self.limit.is_some_and(|limit| entries.len() as u64 >= limit) {
                return Ok((entries, End::Enough(own)));
            }
            match before(server, path, own).await? {
                Answer::Found(older) => {
                    ensure!(
                        revision(&older).is_some_and(|older| older < own),
                        "this server shows single objects only as they are now; history needs Setpoint's"
                    );
                    entries.push(Entry::between(Some(&older), &newer));
                    newer = older;
                }
                Answer::Absent => {
                    entries.push(Entry::between(None, &newer));
                    return Ok((entries, End::Created));
                }
                Answer::Forgotten(since) => return Ok((entries, End::Forgotten(own, since))),
            }
        }
    }

    fn absence(&self) -> anyhow::Error {
        let (kind, name) = (&self.kind, &self.name);
        match self.at {
            Some(at) => anyhow::anyhow!("there was no {kind} {name:?} at revision {at}; try an earlier one"),
            None => anyhow::anyhow!(
                "there is no {kind} {name:?}; if it was deleted, begin at a revision when it was there: \
                 `setpoint history {kind} {name} --at REVISION`"
            ),
        }
    }
}

/// What stood at a path one revision before.
async fn before(server: &Server, path: &str, revision: u64) -> Result<Answer> {
    match revision {
        0 => bail!("the server showed an object without a resourceVersion"),
        // There was nothing before the first revision, and asking for revision 0 would mean now.
        1 => Ok(Answer::Absent),
        _ => server.read(&format!("{path}?resourceVersion={}&resourceVersionMatch=Exact", revision - 1), JSON).await,
    }
}
