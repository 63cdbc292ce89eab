//! Goals and Plans: what many of them cost, and what one change of one of them causes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};
use setpoint_testkit::process_table::Process;
use setpoint_testkit::{Client, Lines, Server};

use crate::arguments::Arguments;
use crate::latency::Latencies;
use crate::process;
use crate::reconciles::Reconciles;
use crate::report::{Report, Row, Target};
use crate::subject::Subject;

const GOALS: usize = 1_000;
const PLANS_EACH: usize = 10;
/// The nodes of a plan.
const NODES: usize = 20;
/// How many plans are changed, one after another.
const CHANGED: usize = 100;
const WRITERS: usize = 16;
const IDLE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(300);
const GOALS_PATH: &str = "/apis/planspec.io/v1alpha1/namespaces/default/goals";
const PLANS_PATH: &str = "/apis/planspec.io/v1alpha1/namespaces/default/plans";

pub(crate) async fn measure(subject: &Subject, arguments: &Arguments, report: &mut Report) -> Result<()> {
    // Somebody else's server has no controller for them.
    let Subject::Program(program) = subject else { return Ok(()) };
    let server = Server::start(program).await?;
    let goals = if arguments.quick { GOALS / 10 } else { GOALS };
    let label = |what: &str| format!("{goals} Goals of {PLANS_EACH} Plans: {what}");

    process::settle().await;
    let empty = process::memory(&[server.pid()?])?.resident_mb;
    let start = Instant::now();
    fill(&server, goals).await?;
    resolved(&server, goals).await?;
    report.add(Row::new(label("from the first create until all are resolved"), "s", start.elapsed().as_secs_f64()));
    process::settle().await;
    let memory = process::memory(&[server.pid()?])?.resident_mb;
    report.add(Row::new(label("memory (RSS)"), "MB", memory));
    report.add(Row::new(label("memory (RSS) beyond that of an empty server"), "MB", memory - empty));

    let (before, busy) = (Reconciles::read(&server).await?, Process::read(server.pid()?)?.processor_time);
    tokio::time::sleep(IDLE).await;
    let idle = Reconciles::read(&server).await?.since(&before);
    let busy = Process::read(server.pid()?)?.processor_time.saturating_sub(busy);
    let rounds = (idle.of("goal") + idle.of("plan")) as f64;
    let what = format!("reconciles within {} s in which nothing happens", IDLE.as_secs());
    report.add(Row::new(label(&what), "", rounds).target(Target::AtMost(0.0)));
    let share = busy.as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    report.add(Row::new(label("use of a core, idle"), "%", share).target(Target::AtMost(1.0)));

    let before = Reconciles::read(&server).await?;
    let times = change_plans(&server, CHANGED.min(goals)).await?;
    process::settle().await;
    let after = Reconciles::read(&server).await?.since(&before);
    let changes = times.len() as f64;
    let times = Latencies::from_iter(times);
    let each = after.of("goal") as f64 / changes;
    report.add(Row::new(label("resolutions for one changed Plan"), "", each).target(Target::AtMost(1.0)));
    let p50 = Row::new(label("one Plan changed until its Goal says so, p50"), "ms", times.quantile_ms(0.5));
    report.add(p50.target(Target::AtMost(50.0)));
    report.add(Row::new(label("one Plan changed until its Goal says so, p99"), "ms", times.quantile_ms(0.99)));
    Ok(())
}

async fn fill(server: &Server, goals: usize) -> Result<()> {
    let numbers: Vec<usize> = (0..goals).collect();
    let writers = numbers.chunks(goals.div_ceil(WRITERS)).map(|numbers| async move {
        let mut client = server.client()?;
        for number in numbers {
            client.post(GOALS_PATH, &goal(*number)).await?.success()?;
            for version in 1..=PLANS_EACH {
                client.post(PLANS_PATH, &plan(*number, version)).await?.success()?;
            }
        }
        anyhow::Ok(())
    });
    try_join_all(writers).await.map(drop)
}

/// Waits until each goal is served by its highest version.
async fn resolved(server: &Server, goals: usize) -> Result<()> {
    let mut client = server.client()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let list = client.get(GOALS_PATH).await?.success()?;
        let items = list["items"].as_array().context("a list without items")?;
        let is_served = |goal: &&Value| {
            let name = goal["metadata"]["name"].as_str().unwrap_or_default();
            goal["status"]["activePlanRef"]["name"] == format!("{name}-{PLANS_EACH}")
        };
        let left = goals - items.iter().filter(is_served).count();
        if left == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{left} Goals are not resolved after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Gives the lowest version of one goal after another a version above all, each when the one before is said; how long
/// each took.
async fn change_plans(server: &Server, count: usize) -> Result<Vec<Duration>> {
    let mut client = server.client()?;
    let list = client.get(&format!("{GOALS_PATH}?limit=1")).await?.success()?;
    let version = list["metadata"]["resourceVersion"].as_str().context("a list without resourceVersion")?;
    let path = format!("{GOALS_PATH}?watch=true&resourceVersion={version}");
    let mut events = Client::new(&server.kubeconfig()?)?.watch(&path).await?;
    let mut times = Vec::new();
    for number in 0..count {
        let raised = json!({"spec": {"version": "100"}});
        let start = Instant::now();
        client.patch(&format!("{PLANS_PATH}/g{number}-1"), "merge-patch", &raised).await?.success()?;
        served_by(&mut events, &format!("g{number}-1")).await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

async fn served_by(events: &mut Lines, plan: &str) -> Result<()> {
    loop {
        let event = events.event().await?.context("the watch ended")?;
        if event["object"]["status"]["activePlanRef"]["name"] == *plan {
            return Ok(());
        }
    }
}

fn goal(number: usize) -> Value {
    json!({
        "apiVersion": "planspec.io/v1alpha1", "kind": "Goal", "metadata": {"name": format!("g{number}")},
        "spec": {"description": "something that takes a sentence to say"},
    })
}

fn plan(goal: usize, version: usize) -> Value {
    let node = |number: usize| {
        let after: Vec<String> = (0..number.min(1)).map(|_| format!("n{}", number - 1)).collect();
        json!({"id": format!("n{number}"), "kind": "Task", "name": "a piece of the work", "dependsOn": after})
    };
    json!({
        "apiVersion": "planspec.io/v1alpha1", "kind": "Plan", "metadata": {"name": format!("g{goal}-{version}")},
        "spec": {
            "description": "a way to it", "goalRef": {"name": format!("g{goal}")}, "series": "s",
            "version": version.to_string(), "graph": {"nodes": (0..NODES).map(node).collect::<Vec<_>>()},
        },
    })
}
