//! Kills a server again and again while clients write and watch, and proves that nothing is lost.
//!
//! Writers own their keys, so each knows exactly what its keys must hold: what was acknowledged, or, for the one
//! request that a kill left without an answer, either that or what the request asked for. Watchers start together and
//! resume by resourceVersion after every kill. In the end the watchers' logs must be one and the same, tell for every
//! key the story its writer knows, and lead to what a list shows.

mod address;
mod content;
mod counter;
mod watcher;
mod writer;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use setpoint_testkit::{Client, Server, proof};
use tokio::task::JoinSet;

use self::address::Address;
use self::content::Content;
use self::counter::Increments;
use self::watcher::Watcher;
use self::writer::{Change, Writer};
use crate::SETPOINT;

const PATH: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 6;
const WATCHERS: usize = 4;
const KILLS: u32 = 60;

/// How long one of the clients may take to finish once the server stays up.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing() -> Result<()> {
    let mut random = SmallRng::seed_from_u64(proof::seed());
    for _ in 0..proof::extent(1, 10) {
        kill_one_server(&mut random).await?;
    }
    Ok(())
}

async fn kill_one_server(random: &mut SmallRng) -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    let address = Address::new(server.kubeconfig()?);
    counter::create(&mut server.client()?).await?;
    let (start, before) = list(&mut server.client()?).await?;

    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        writers.spawn(Writer::new(number, random.random(), address.clone()).run());
    }
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        watchers.spawn(Watcher::new(start, address.clone()).run());
    }
    kill_again_and_again(&mut server, &address, random).await?;

    address.finish();
    let (stories, increments) = finish_writers(writers).await?;
    let end = content::create(&mut server.client()?, content::END, 0).await?;
    // One more reads everything again, from before the first kill.
    watchers.spawn(Watcher::new(start, address.clone()).run());
    let log = finish_watchers(watchers, end).await?;
    let (_, after) = list(&mut server.client()?).await?;
    prove_stories(&stories, &log)?;
    prove_outcome(before, &after, &log)?;
    counter::prove(&after, increments)
}

/// Returns with a server that runs.
async fn kill_again_and_again(server: &mut Server, address: &Address, random: &mut SmallRng) -> Result<()> {
    let mut kills = KILLS;
    while kills > 0 {
        // The moment is the point here: anything from the first requests after a start to a server in full swing.
        tokio::time::sleep(Duration::from_millis(random.random_range(1..250))).await;
        address.lose();
        server.kill9()?;
        kills -= 1;
        while kills > 0 && random.random_bool(0.3) {
            server.spawn()?;
            tokio::time::sleep(Duration::from_millis(random.random_range(0..60))).await;
            server.kill9()?;
            kills -= 1;
        }
        server.restart().await?;
        let (revision, _) = list(&mut server.client()?).await?;
        let highest = address.highest();
        ensure!(revision >= highest, "the revision went back to {revision}, after {highest} was seen");
        address.found(server.kubeconfig()?);
    }
    Ok(())
}

/// The revision of a list, and what each object holds.
async fn list(client: &mut Client) -> Result<(u64, BTreeMap<String, Value>)> {
    let list = client.get(PATH).await?.success()?;
    let revision = content::revision(&list)?;
    let items = list["items"].as_array().context("a list without items")?;
    let objects =
        items.iter().map(|object| (object["metadata"]["name"].as_str().unwrap_or("").to_owned(), object.clone()));
    Ok((revision, objects.collect()))
}

async fn finish_writers(mut writers: JoinSet<Result<Writer>>) -> Result<(BTreeMap<String, Vec<Change>>, Increments)> {
    let (mut stories, mut increments) = (BTreeMap::new(), Increments::default());
    let finished = async {
        while let Some(writer) = writers.join_next().await {
            let writer = writer??;
            increments += writer.increments;
            stories.extend(writer.stories);
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, finished).await.context("a writer does not finish")??;
    let changes: usize = stories.values().map(Vec::len).sum();
    println!("{changes} changes to {} keys, {increments:?} of the counter", stories.len());
    ensure!(changes > 100, "only {changes} changes: this proves nothing");
    Ok((stories, increments))
}

/// The log that all watchers agree on, up to the revision `end`.
async fn finish_watchers(mut watchers: JoinSet<Result<Watcher>>, end: u64) -> Result<Vec<(u64, String, Change)>> {
    let mut logs = Vec::new();
    let finished = async {
        while let Some(watcher) = watchers.join_next().await {
            logs.push(watcher??.log);
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, finished).await.context("a watcher does not get the last event")??;
    let log = logs.pop().context("no watcher")?;
    ensure!(log.last().is_some_and(|(revision, ..)| *revision == end), "the last event is not the last write");
    for other in logs {
        let difference = log.iter().zip(&other).find(|(a, b)| a != b);
        ensure!(log.len() == other.len() && difference.is_none(), "two watchers saw different events: {difference:?}");
    }
    Ok(log)
}

/// Every key's events are its writer's changes, in order, each once, at the revision that was acknowledged.
fn prove_stories(stories: &BTreeMap<String, Vec<Change>>, log: &[(u64, String, Change)]) -> Result<()> {
    for (name, story) in stories {
        let events: Vec<&Change> = log.iter().filter(|(_, of, _)| of == name).map(|(_, _, change)| change).collect();
        ensure!(
            events.len() == story.len() && events.iter().zip(story).all(|(event, change)| change.is_told_by(event)),
            "{name}: watchers saw {events:?}, but what happened is {story:?}"
        );
    }
    Ok(())
}

/// Replaying the log on what was there before leads to what is there after.
fn prove_outcome(
    before: BTreeMap<String, Value>,
    after: &BTreeMap<String, Value>,
    log: &[(u64, String, Change)],
) -> Result<()> {
    let mut replayed: BTreeMap<&str, Option<(u64, &Content)>> =
        before.keys().map(|name| (name.as_str(), None)).collect();
    for (revision, name, change) in log {
        match &change.content {
            Some(content) => replayed.insert(name, Some((*revision, content))),
            None => replayed.remove(name.as_str()),
        };
    }
    ensure!(replayed.keys().eq(after.keys()), "replayed {:?}, listed {:?}", replayed.keys(), after.keys());
    for (name, expected) in replayed {
        let Some((revision, content)) = expected else { continue };
        let object = &after[name];
        ensure!(content::revision(object)? == revision, "{name} is listed at another revision than its last event's");
        ensure!(Content::read(object)? == *content, "{name} is listed with other content than its last event's");
    }
    Ok(())
}
