//! A client that creates, updates and deletes its own keys, and knows what each must hold.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use setpoint_testkit::Client;

use super::PATH;
use super::address::Address;
use super::content::{Content, revision};
use super::counter::{self, Increments};

const KEYS: usize = 12;

/// One change to a key, as its writer or a watcher knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// `None` if the writer was not told: the request got no answer, or was a delete.
    pub(super) revision: Option<u64>,
    /// `None` if the key was deleted.
    pub(super) content: Option<Content>,
}

impl Change {
    /// Whether an event tells of this change.
    pub(super) fn is_told_by(&self, event: &Self) -> bool {
        self.content == event.content && self.revision.is_none_or(|revision| event.revision == Some(revision))
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    number: usize,
    random: SmallRng,
    address: Address,
    /// What happened to each key.
    pub(super) stories: BTreeMap<String, Vec<Change>>,
    /// A change that was asked for and not answered.
    doubtful: Option<(String, Change)>,
    pub(super) increments: Increments,
}

impl Writer {
    pub(super) fn new(number: usize, seed: u64, address: Address) -> Self {
        let stories = (0..KEYS).map(|key| (format!("writer-{number}-{key}"), Vec::new())).collect();
        let random = SmallRng::seed_from_u64(seed);
        Self { number, random, address, stories, doubtful: None, increments: Increments::default() }
    }

    /// Writes to one server after another until the test is over.
    pub(super) async fn run(mut self) -> Result<Self> {
        let mut generation = 0;
        loop {
            let (mut client, connected) = self.address.connect(generation).await?;
            generation = connected;
            // A server that is killed breaks the connection; everything else that goes wrong is a fault.
            match self.verify(&mut client).await {
                Err(_) => continue,
                Ok(verified) => verified.with_context(|| format!("writer {}", self.number))?,
            }
            loop {
                if self.address.finished() {
                    return Ok(self);
                }
                match self.write(&mut client).await {
                    Err(_) => break,
                    Ok(written) => written.with_context(|| format!("writer {}", self.number))?,
                }
            }
        }
    }

    /// Compares every key with what is known. Here and below, an outer error is a broken connection.
    async fn verify(&mut self, client: &mut Client) -> Result<Result<()>> {
        let names: Vec<String> = self.stories.keys().cloned().collect();
        for name in names {
            let answer = client.get(&format!("{PATH}/{name}")).await?;
            let found = match answer.status.as_u16() {
                404 => Ok(None),
                _ => answer.success().map(Some),
            };
            if let Err(fault) = found.and_then(|found| self.compare(&name, found)) {
                return Ok(Err(fault));
            }
        }
        // What was not found to have happened will never happen: the server it was sent to is dead.
        self.doubtful = None;
        Ok(Ok(()))
    }

    fn compare(&mut self, name: &str, found: Option<Value>) -> Result<()> {
        let revision = found.as_ref().map(revision).transpose()?;
        let found = Change { revision, content: found.as_ref().map(Content::read).transpose()? };
        let story = self.stories.get_mut(name).context("a key of ours")?;
        let known = story.last().cloned().unwrap_or(Change { revision: None, content: None });
        if known.is_told_by(&found) {
            return Ok(());
        }
        let doubtful = self.doubtful.take_if(|(of, change)| of == name && change.is_told_by(&found));
        ensure!(doubtful.is_some(), "{name} is {found:?}, acknowledged was {known:?}, in doubt {:?}", self.doubtful);
        story.push(found);
        Ok(())
    }

    async fn write(&mut self, client: &mut Client) -> Result<Result<()>> {
        if self.random.random_ratio(1, 8) {
            return counter::increment(client, &self.address, &mut self.increments).await;
        }
        let key = self.random.random_range(0..KEYS);
        let name = format!("writer-{}-{key}", self.number);
        let path = format!("{PATH}/{name}");
        let known = self.stories[&name].last().cloned().and_then(|change| Some((change.revision?, change.content?)));
        let content = Content(self.random.random());
        let mut object = content.object(&name);
        let asked = match &known {
            Some(_) if self.random.random_ratio(1, 4) => None,
            _ => Some(content),
        };
        self.doubtful = Some((name.clone(), Change { revision: None, content: asked.clone() }));
        let answer = match (&known, &asked) {
            (None, _) => client.post(PATH, &object).await?,
            (Some(_), None) => client.delete(&path).await?,
            (Some((known, _)), Some(_)) => {
                object["metadata"]["resourceVersion"] = known.to_string().into();
                client.put(&path, &object).await?
            }
        };
        self.doubtful = None;
        Ok(answer.success().and_then(|object| self.acknowledge(name, asked, &object)))
    }

    fn acknowledge(&mut self, name: String, content: Option<Content>, object: &Value) -> Result<()> {
        let revision = match &content {
            None => None,
            Some(content) => {
                ensure!(Content::read(object)? == *content, "{name} was acknowledged with other content");
                Some(revision(object)?)
            }
        };
        revision.inspect(|revision| self.address.saw(*revision));
        self.stories.entry(name).or_default().push(Change { revision, content });
        Ok(())
    }
}
