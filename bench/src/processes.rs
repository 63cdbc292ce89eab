//! Local processes: how long many take to start, and what the control plane costs beside them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::process_table::{self, Process};
use setpoint_testkit::{Client, Server};

use crate::process;
use crate::report::{Report, Row, Target};
use crate::subject::Subject;

const STARTED: usize = 100;
const RUNNING: usize = 500;
/// How long the control plane is watched while nothing happens.
const IDLE: Duration = Duration::from_secs(20);
const PODS: &str = "/api/v1/namespaces/default/pods";

pub(crate) async fn measure(subject: &Subject, report: &mut Report) -> Result<()> {
    // Somebody else's server has nodes of its own.
    let Subject::Program(program) = subject else { return Ok(()) };
    let server = Server::start_with_local_node(program).await?;
    let started = start(&server, 0..STARTED).await?;
    let label = format!("{STARTED} processes applied until all are ready");
    report.add(Row::new(label, "s", started.as_secs_f64()).target(Target::AtMost(3.0)));
    start(&server, STARTED..RUNNING).await?;
    process::settle().await;

    let before = Process::read(server.pid()?)?.processor_time;
    let shims = shims(&server)?;
    ensure!(shims.len() == RUNNING, "{} shims for {RUNNING} pods", shims.len());
    let shims_before: Duration = shims.iter().map(|shim| shim.processor_time).sum();
    tokio::time::sleep(IDLE).await;
    let after = Process::read(server.pid()?)?.processor_time;
    let shims_after: Duration = self::shims(&server)?.iter().map(|shim| shim.processor_time).sum();
    let percent = |busy: Duration| busy.as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    let resident = process::memory(&[server.pid()?])?.resident_mb;
    let label = |what: &str| format!("{RUNNING} processes: {what}");
    report.add(Row::new(label("control plane's memory"), "MB", resident).target(Target::AtMost(60.0)));
    let idle = percent(after.saturating_sub(before));
    report.add(Row::new(label("control plane's use of a core, idle"), "%", idle).target(Target::AtMost(2.0)));
    report.add(Row::new(
        label("all shims' use of a core, idle"),
        "%",
        percent(shims_after.saturating_sub(shims_before)),
    ));
    let mut sizes: Vec<u64> = shims.iter().map(Process::proportional_memory).collect::<Result<_>>()?;
    sizes.sort_unstable();
    let (middle, largest) = (sizes[sizes.len() / 2], sizes[sizes.len() - 1]);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    report.add(Row::new(label("memory of a shim (Pss), median"), "MB", megabytes(middle)).target(Target::AtMost(3.0)));
    report.add(Row::new(label("memory of a shim (Pss), largest"), "MB", megabytes(largest)));
    Ok(())
}

/// Applies Pods and waits until all of them are ready.
async fn start(server: &Server, numbers: std::ops::Range<usize>) -> Result<Duration> {
    let mut client = server.client()?;
    let revision = client.get(&format!("{PODS}?limit=1")).await?.success()?["metadata"]["resourceVersion"].clone();
    let revision = revision.as_str().context("a list without resourceVersion")?;
    let path = format!("{PODS}?watch=true&resourceVersion={revision}");
    let mut events = Client::new(&server.kubeconfig()?)?.watch(&path).await?;
    let count = numbers.len();
    let start = Instant::now();
    let applied = async {
        for number in numbers {
            client.post(PODS, &pod(number)).await?.success()?;
        }
        anyhow::Ok(())
    };
    let all_ready = async {
        let mut ready = std::collections::BTreeSet::new();
        while ready.len() < count {
            let event = events.event().await?.context("the watch ended")?;
            let pod = &event["object"];
            if is_ready(pod) {
                ready.insert(pod["metadata"]["name"].as_str().context("a pod without a name")?.to_owned());
            }
        }
        anyhow::Ok(())
    };
    tokio::try_join!(applied, all_ready)?;
    Ok(start.elapsed())
}

fn pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("process-{number}")},
        "spec": {"containers": [{"name": "sleep", "command": ["sleep", "infinity"]}]},
    })
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn shims(server: &Server) -> Result<Vec<Process>> {
    process_table::shims_in(&server.data_dir())
}
