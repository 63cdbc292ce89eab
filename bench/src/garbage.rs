//! Deleting an owner of many: how long until the last of its dependents is gone.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::Client;

use crate::arguments::Arguments;
use crate::latency::Latencies;
use crate::load::{self, Operation, Until};
use crate::process;
use crate::report::{Report, Row, Target};
use crate::subject::{Api, Subject};

const DEPENDENTS: u64 = 10_000;
/// Connections that make the dependents.
const CLIENTS: usize = 64;
const POLL: Duration = Duration::from_millis(5);

/// Measures it in an empty server, and among many objects that it does not concern.
pub(crate) async fn measure(subject: &Subject, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let api = subject.start().await?;
    let mut round = 0;
    for around in [0, arguments.population()] {
        load::run(api.creators(CLIENTS).await?, 0, Until::Count(around)).await?;
        process::settle().await;
        let mut times = Vec::new();
        for _ in 0..arguments.rounds() {
            times.push(collect(&api, round).await?);
            round += 1;
        }
        let median = Latencies::from_iter(times).quantile_ms(0.5);
        let label = format!("owner and {DEPENDENTS} dependents deleted, {around} objects around");
        report.add(Row::new(label, "ms", median).target(Target::AtMost(3000.0)));
    }
    api.finish().await
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
