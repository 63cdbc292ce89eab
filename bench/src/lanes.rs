//! A fast Environment beside one that is stuck: how long a Machine takes from when it is made until it is as desired.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::Server;

use crate::arguments::Arguments;
use crate::latency::Latencies;
use crate::machines::{ENVIRONMENTS, MACHINES, is_synced};
use crate::report::{Peer, Report, Row, Target};
use crate::subject::Subject;

/// How many Machines the stuck place has, and how long each request to it takes.
const STUCK: usize = 40;
const LATENCY_MS: u64 = 15_000;
/// How many Machines are made one after the other, for each figure.
const SAMPLES: usize = 200;
/// What is made before anything is measured.
const WARMING: usize = 20;
/// How long the stuck place is given to get stuck.
const SETTLING: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn measure(subject: &Subject, arguments: &Arguments, report: &mut Report) -> Result<()> {
    // Somebody else's server has no simulated Environments.
    let Subject::Program(program) = subject else { return Ok(()) };
    let samples = if arguments.quick { SAMPLES / 4 } else { SAMPLES };
    let limits = json!({"maxInstances": 100_000, "maxHourlyCost": "100000", "maxDestroysPerHour": 1_000});
    for (label, guardrails) in [("", json!({})), (", with guardrails", limits)] {
        let (alone, beside) = compare(program, &guardrails, samples).await?;
        for (quantile, name) in [(0.5, "p50"), (0.99, "p99")] {
            let alone = Some(Peer { name: "alone", figure: alone.quantile_ms(quantile) });
            let row = Row::new(
                format!("Machine made until Synced, beside {STUCK} of a place that takes 15 s{label}: {name}"),
                "ms",
                beside.quantile_ms(quantile),
            );
            report.add(row.peer(alone).target(Target::RatioAtMost(1.5)));
        }
    }
    Ok(())
}

/// How long Machines take while nothing else is to be done, and beside a place that is stuck.
async fn compare(program: &Path, guardrails: &Value, samples: usize) -> Result<(Latencies, Latencies)> {
    let server = Server::start(program).await?;
    declare(&server, "fast", json!({"hourlyPrice": "0.01"}), guardrails).await?;
    sample(&server, "warm", WARMING).await?;
    let alone = sample(&server, "alone", samples).await?;
    declare(&server, "stuck", json!({"latencyMs": LATENCY_MS, "hourlyPrice": "0.01"}), guardrails).await?;
    let mut client = server.client()?;
    for number in 0..STUCK {
        client.post(MACHINES, &machine(&format!("stuck{number}"), "stuck")).await?.success()?;
    }
    tokio::time::sleep(SETTLING).await;
    let beside = sample(&server, "beside", samples).await?;
    Ok((alone, beside))
}

async fn declare(server: &Server, name: &str, config: Value, guardrails: &Value) -> Result<()> {
    let environment = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": name},
        "spec": {"deployer": {"name": "simulated"}, "config": config, "guardrails": guardrails},
    });
    server.client()?.post(ENVIRONMENTS, &environment).await?.success().map(drop)
}

fn machine(name: &str, environment: &str) -> Value {
    json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "metadata": {"name": name},
        "spec": {"environment": environment, "cores": 2, "memory": "1Gi", "run": "Running"},
    })
}

/// Makes Machines one after the other, each when the last is as desired.
async fn sample(server: &Server, prefix: &str, count: usize) -> Result<Latencies> {
    let version = server.client()?.get(MACHINES).await?.success()?["metadata"]["resourceVersion"].clone();
    let version = version.as_str().context("a list without a version")?.to_owned();
    let mut events = server.client()?.watch(&format!("{MACHINES}?watch=true&resourceVersion={version}")).await?;
    let mut client = server.client()?;
    let mut taken = Vec::with_capacity(count);
    for number in 0..count {
        let name = format!("{prefix}{number}");
        let start = Instant::now();
        client.post(MACHINES, &machine(&name, "fast")).await?.success()?;
        let synced = async {
            loop {
                let event = events.event().await?.context("the watch ended")?;
                ensure!(event["type"] != "ERROR", "the watch failed: {event}");
                let machine = &event["object"];
                if machine["metadata"]["name"] == *name && is_synced(machine) {
                    return Ok(());
                }
            }
        };
        tokio::time::timeout(PATIENCE, synced).await.with_context(|| format!("{name} is not as desired"))??;
        taken.push(start.elapsed());
    }
    Ok(taken.into_iter().collect())
}
