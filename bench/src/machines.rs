//! Machines of a simulated Environment: how fast many are made, what they cost while nothing happens, and what a drift of
//! one in a hundred costs.
//!
//! The Environment has limits, all of them far away: what they cost is measured too. Nothing runs there, so this measures the control plane alone, on the machine that the benchmark itself runs on.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};
use setpoint_testkit::Server;
use setpoint_testkit::process_table::Process;

use crate::arguments::Arguments;
use crate::process;
use crate::reconciles::Reconciles;
use crate::report::{Report, Row, Target};
use crate::subject::Subject;

const MANY: usize = 10_000;
/// How often the place is looked at, in seconds, and for how many of these periods each state is measured.
const PERIOD: u64 = 10;
const PERIODS: u64 = 3;
/// How long Events are still written after many Machines were made.
const EVENTS: Duration = Duration::from_secs(25);
const CLIENTS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(300);
pub(crate) const MACHINES: &str = "/apis/setpoint.dev/v1alpha1/namespaces/default/machines";
pub(crate) const ENVIRONMENTS: &str = "/apis/setpoint.dev/v1alpha1/environments";

pub(crate) async fn measure(subject: &Subject, arguments: &Arguments, report: &mut Report) -> Result<()> {
    // Somebody else's server has no simulated Environments.
    let Subject::Program(program) = subject else { return Ok(()) };
    let count = if arguments.quick { MANY / 10 } else { MANY };
    let server = start(program).await?;
    let label = |what: &str| format!("{count} Machines: {what}");
    let start = Instant::now();
    make(&server, count).await?;
    synced(&server, count).await?;
    let looks = Reconciles::read(&server).await?.looks("everything") as f64;
    let rate = count as f64 / start.elapsed().as_secs_f64();
    report.add(Row::new(label("made a second until all are carried out"), "/s", rate));
    let periods = start.elapsed().as_secs_f64() / PERIOD as f64;
    report.add(
        Row::new(label("looks at the place in a period, while they are made"), "", looks / periods.max(1.0))
            .target(Target::AtMost(3.0)),
    );
    tokio::time::sleep(EVENTS).await;

    let calm = Span::measure(&server).await?;
    report.add(Row::new(label("looks at the place in a period"), "", calm.sweeps).target(Target::AtMost(1.34)));
    report.add(Row::new(label("reconciles in a period, nothing drifts"), "", calm.rounds).target(Target::AtMost(0.0)));
    report.add(Row::new(label("use of a core, nothing drifts"), "%", calm.share).target(Target::AtMost(1.0)));
    report.add(Row::new(label("memory (RSS)"), "MB", resident(&server)?));

    let drifting = (count / 100).max(1);
    let every_ms = PERIOD * 1_000 / drifting as u64;
    configure(&server, json!({"driftEveryMs": every_ms, "drift": ["changed"]})).await?;
    let drift = Span::measure(&server).await?;
    report.add(
        Row::new(label("looks at the place in a period, 1 % drifts"), "", drift.sweeps).target(Target::AtMost(1.34)),
    );
    let each = drift.rounds / drifting as f64;
    report.add(Row::new(label("reconciles for one Machine that drifts"), "", each).target(Target::AtMost(5.0)));
    report.add(Row::new(label("closer looks for one Machine that drifts"), "", drift.glances / drifting as f64));
    report.add(Row::new(label("use of a core, 1 % drifts in a period"), "%", drift.share));
    configure(&server, json!({"driftEveryMs": null})).await?;
    synced(&server, count).await?;
    report.add(Row::new(label("memory (RSS) after the drift"), "MB", resident(&server)?));
    Ok(())
}

/// What was done in some periods, on average for one of them.
struct Span {
    sweeps: f64,
    glances: f64,
    rounds: f64,
    /// Of a core, in percent.
    share: f64,
}

impl Span {
    async fn measure(server: &Server) -> Result<Span> {
        let (before, busy) = (Reconciles::read(server).await?, Process::read(server.pid()?)?.processor_time);
        let time = Duration::from_secs(PERIOD * PERIODS);
        tokio::time::sleep(time).await;
        let busy = Process::read(server.pid()?)?.processor_time.saturating_sub(busy);
        let done = Reconciles::read(server).await?.since(&before);
        let each = |count: u64| count as f64 / PERIODS as f64;
        Ok(Span {
            sweeps: each(done.looks("everything")),
            glances: each(done.looks("machines")),
            rounds: each(done.of("machine")),
            share: busy.as_secs_f64() / time.as_secs_f64() * 100.0,
        })
    }
}

async fn start(program: &Path) -> Result<Server> {
    let server = Server::start(program).await?;
    let environment = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
        "spec": {
            "deployer": {"name": "simulated"}, "observeIntervalSeconds": PERIOD, "config": {"hourlyPrice": "0.01"},
            "guardrails": {"maxInstances": 10 * MANY, "maxHourlyCost": "100000", "maxDestroysPerHour": 1_000},
        },
    });
    server.client()?.post(ENVIRONMENTS, &environment).await?.success()?;
    Ok(server)
}

async fn configure(server: &Server, config: Value) -> Result<()> {
    let patch = json!({"spec": {"config": config}});
    server.client()?.patch(&format!("{ENVIRONMENTS}/lab"), "merge-patch", &patch).await?.success()?;
    Ok(())
}

async fn make(server: &Server, count: usize) -> Result<()> {
    let names: Vec<String> = (0..count).map(|number| format!("m{number}")).collect();
    let makers = names.chunks(count.div_ceil(CLIENTS)).map(|names| async move {
        let mut client = server.client()?;
        for name in names {
            let machine = json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "metadata": {"name": name},
                "spec": {
                    "environment": "lab", "cores": 2, "memory": "1Gi", "description": "one of many", "run": "Running",
                },
            });
            client.post(MACHINES, &machine).await?.success()?;
        }
        anyhow::Ok(())
    });
    try_join_all(makers).await.map(drop)
}

/// Waits until all that was asked for is carried out.
async fn synced(server: &Server, count: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let list = server.client()?.get(MACHINES).await?.success()?;
        let items = list["items"].as_array().context("a list without items")?;
        let left = count - items.iter().filter(|machine| is_synced(machine)).count();
        if left == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{left} Machines are not as desired after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn resident(server: &Server) -> Result<f64> {
    Ok(process::memory(&[server.pid()?])?.resident_mb)
}

pub(crate) fn is_synced(machine: &Value) -> bool {
    let mut conditions = machine["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Synced" && condition["status"] == "True")
}
