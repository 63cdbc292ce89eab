//! Deleting an owner of many: how long until the last of its dependents is gone.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::Client;

use crate::arguments::Arguments;
use crate::latency::Latencies;
use crate::load::{self, Operation, Until};
use crate::process;
use crate::report::{Peer, Report, Row, Target};
use crate::subject::{Api, Subject};

const DEPENDENTS: u64 = 10_000;
/// Connections that make the dependents.
const CLIENTS: usize = 64;
const POLL: Duration = Duration::from_millis(5);

/// Measures it in an empty server and in one with many objects that it does not concern, in turn, so that both meet the
/// same machine.
pub(crate) async fn measure(subject: &Subject, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let (empty, filled) = (subject.start().await?, subject.start().await?);
    let around = arguments.population();
    load::run(filled.creators(CLIENTS).await?, 0, Until::Count(around)).await?;
    process::settle().await;
    let (mut alone, mut among) = (Vec::new(), Vec::new());
    for round in 0..arguments.rounds() as u64 {
        alone.push(collect(&empty, round).await?);
        among.push(collect(&filled, round).await?);
    }
    let [alone, among] = [alone, among].map(|times| Latencies::from_iter(times).quantile_ms(0.5));
    let label = |around: u64| format!("owner and {DEPENDENTS} dependents deleted, {around} objects around");
    report.add(Row::new(label(around), "ms", among).target(Target::AtMost(3000.0)));
    // A server that is not ours has one population for both.
    if empty.server.is_some() {
        report.add(Row::new(label(0), "ms", alone).target(Target::AtMost(3000.0)));
        let peer = Peer { name: "among none", figure: alone };
        let label = format!("the same among {around} objects");
        report.add(Row::new(label, "ms", among).peer(Some(peer)).target(Target::RatioAtMost(1.5)));
    }
    empty.finish().await?;
    filled.finish().await
}

async fn collect(api: &Api, round: u64) -> Result<Duration> {
    let (owners, dependents) = (api.path(), api.path_of("secrets"));
    let mut client = Client::new(&api.kubeconfig)?;
    let name = format!("owner-{round}");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let owner = client.post(&owners, &owner).await?.success()?;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"]});
    let creators = api.clients(CLIENTS).await?.into_iter().map(|client| Dependents {
        client,
        path: dependents.clone(),
        owner: reference.clone(),
    });
    load::run(creators.collect(), round * DEPENDENTS, Until::Count(DEPENDENTS)).await?;

    let start = Instant::now();
    client.delete(&format!("{owners}/{name}")).await?.success()?;
    loop {
        let left = client.get(&format!("{dependents}?limit=1")).await?.success()?;
        if left["items"].as_array().context("a list without items")?.is_empty() {
            return Ok(start.elapsed());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Creates Secrets that an object owns.
#[derive(Debug)]
struct Dependents {
    client: Client,
    path: String,
    owner: Value,
}

impl Operation for Dependents {
    async fn run(&mut self, sequence: u64) -> Result<()> {
        let metadata = json!({"name": format!("dependent-{sequence:08}"), "ownerReferences": [self.owner]});
        let answer =
            self.client.post(&self.path, &json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).await?;
        ensure!(answer.status == 201, "create failed: {} {}", answer.status, answer.text());
        Ok(())
    }
}
