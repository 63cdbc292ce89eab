//! A client that watches everything and resumes where it was after every break.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use setpoint_testkit::Lines;

use super::address::Address;
use super::content::{Content, END, revision};
use super::writer::Change;
use super::{PATH, counter};

#[derive(Debug)]
pub(super) struct Watcher {
    address: Address,
    /// Everything up to here has been seen.
    revision: u64,
    pub(super) log: Vec<(u64, String, Change)>,
}

impl Watcher {
    pub(super) fn new(start: u64, address: Address) -> Self {
        Self { address, revision: start, log: Vec::new() }
    }

    /// Follows one server after another until the last object was written.
    pub(super) async fn run(mut self) -> Result<Self> {
        let mut generation = 0;
        loop {
            let (client, connected) = self.address.connect(generation).await?;
            let path = format!("{PATH}?watch=true&allowWatchBookmarks=true&resourceVersion={}", self.revision);
            match client.watch(&path).await {
                Ok(lines) => {
                    if self.follow(lines).await? {
                        return Ok(self);
                    }
                }
                Err(error) => ensure!(!self.address.finished(), "cannot resume: {error:#}"),
            }
            generation = connected;
        }
    }

    /// Reads events until the last one (true) or until the connection breaks (false).
    async fn follow(&mut self, mut lines: Lines) -> Result<bool> {
        while let Ok(Some(line)) = lines.next().await {
            let event: Value = serde_json::from_slice(&line).context("an event that is not whole")?;
            if self.see(&event)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn see(&mut self, event: &Value) -> Result<bool> {
        let object = &event["object"];
        let kind = event["type"].as_str().context("an event without a type")?;
        if kind == "ERROR" {
            bail!("a watch from revision {} failed: {object}", self.revision);
        }
        let revision = revision(object)?;
        if kind == "BOOKMARK" {
            ensure!(revision >= self.revision, "a bookmark went back from {} to {revision}", self.revision);
            self.revision = revision;
            return Ok(false);
        }
        ensure!(revision > self.revision, "an event at {revision} came after {}", self.revision);
        self.revision = revision;
        self.address.saw(revision);
        let name = object["metadata"]["name"].as_str().context("an object without a name")?.to_owned();
        let last = name == END;
        if name != counter::NAME {
            let content = if kind == "DELETED" { None } else { Some(Content::read(object)?) };
            self.log.push((revision, name, Change { revision: Some(revision), content }));
        }
        Ok(last)
    }
}
