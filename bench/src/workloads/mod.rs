//! Workloads on a simulated Environment: how fast many Pods come to run, what they cost while nothing happens, and how
//! soon a change is answered.
//!
//! Nothing runs in a simulated Environment, so this measures the control plane alone: API server, store, controllers,
//! scheduler and node agent, in one process and on the machine that the benchmark itself runs on.

mod leader;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use serde_json::{Value, json};
use setpoint_testkit::process_table::Process;
use setpoint_testkit::{Client, Server};

use crate::arguments::Arguments;
use crate::latency::Latencies;
use crate::process;
use crate::reconciles::Reconciles;
use crate::report::{Peer, Report, Row, Target};
use crate::subject::Subject;

/// The sizes of one Deployment, to see how the cost of a Pod grows.
const SIZES: [usize; 3] = [1_000, 3_000, 10_000];
/// Sets of three Pods each.
const SETS: usize = 1_000;
/// How many Pods are deleted, one after another.
const DELETED: usize = 100;
const MANY: usize = 30_000;
const IDLE: Duration = Duration::from_secs(20);
/// How long Events are still written after many Pods were made.
const EVENTS: Duration = Duration::from_secs(25);
const PATIENCE: Duration = Duration::from_secs(300);
pub(super) const ENVIRONMENT: &str = "lab";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS_PATH: &str = "/apis/apps/v1/namespaces/default/replicasets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub(crate) async fn measure(subject: &Subject, arguments: &Arguments, report: &mut Report) -> Result<()> {
    // Somebody else's server has no simulated Environments.
    let Subject::Program(program) = subject else { return Ok(()) };
    let shrink = if arguments.quick { 10 } else { 1 };
    let mut rates = Vec::new();
    for size in SIZES.map(|size| size / shrink) {
        let server = start(program).await?;
        rates.push(one_deployment(&server, size, report).await?);
    }
    let [small, .., large] = rates[..] else { bail!("there are several sizes") };
    let peer = Peer { name: "the smallest", figure: small };
    let growth = Row::new("Pods a second, the largest Deployment against the smallest", "/s", large).peer(Some(peer));
    report.add(growth.target(Target::RatioAtLeast(0.8)));
    many_sets(&start(program).await?, SETS / shrink, report).await?;
    many_pods(&start(program).await?, MANY / shrink, report).await?;
    leader::measure(program, report).await
}

/// A server with one simulated Environment and its Node.
async fn start(program: &std::path::Path) -> Result<Server> {
    let server = Server::start(program).await?;
    declare_environment(&server).await?;
    Ok(server)
}

pub(super) async fn declare_environment(server: &Server) -> Result<()> {
    let environment = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": ENVIRONMENT},
        "spec": {"deployer": {"name": "simulated"}},
    });
    server.client()?.post("/apis/setpoint.dev/v1alpha1/environments", &environment).await?.success()?;
    Ok(())
}

/// One Deployment, from its create until its status says that all are available. Returns the rate.
async fn one_deployment(server: &Server, size: usize, report: &mut Report) -> Result<f64> {
    let mut client = server.client()?;
    let start = Instant::now();
    client.post(DEPLOYMENTS, &deployment("web", size)).await?.success()?;
    available(server, "web", size).await?;
    let per_second = size as f64 / start.elapsed().as_secs_f64();
    process::settle().await;
    let rate = Row::new(format!("one Deployment to {size} Pods available"), "/s", per_second);
    report.add(rate.target(Target::AtLeast(1000.0)));
    report.add(Row::new(format!("memory (RSS) with {size} Pods of one Deployment"), "MB", resident(server)?));
    Ok(per_second)
}

/// Many small sets: what they cost while nothing happens, and what happens when one Pod goes.
async fn many_sets(server: &Server, sets: usize, report: &mut Report) -> Result<()> {
    let start = Instant::now();
    make_sets(server, sets, 3).await?;
    let label = |what: &str| format!("{sets} ReplicaSets of 3 Pods: {what}");
    let rate = (sets * 3) as f64 / start.elapsed().as_secs_f64();
    report.add(Row::new(label("Pods a second until all are ready"), "/s", rate));
    tokio::time::sleep(EVENTS).await;
    let (before, busy) = (Reconciles::read(server).await?, Process::read(server.pid()?)?.processor_time);
    tokio::time::sleep(IDLE).await;
    let busy = Process::read(server.pid()?)?.processor_time.saturating_sub(busy);
    let idle = Reconciles::read(server).await?.since(&before);
    let what = format!("reconciles within {} s in which nothing happens", IDLE.as_secs());
    report.add(Row::new(label(&what), "", idle.of_workloads() as f64).target(Target::AtMost(0.0)));
    let share = busy.as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    report.add(Row::new(label("use of a core, idle"), "%", share).target(Target::AtMost(1.0)));
    report.add(Row::new(label("memory (RSS)"), "MB", resident(server)?));

    let before = Reconciles::read(server).await?;
    let healed = delete_pods(server, DELETED.min(sets)).await?;
    process::settle().await;
    let after = Reconciles::read(server).await?.since(&before);
    let deleted = healed.len() as f64;
    let healed = Latencies::from_iter(healed);
    let p50 = Row::new(label("one Pod deleted until another is ready, p50"), "ms", healed.quantile_ms(0.5));
    report.add(p50.target(Target::AtMost(50.0)));
    report.add(Row::new(label("one Pod deleted until another is ready, p99"), "ms", healed.quantile_ms(0.99)));
    let each = after.of("replicaset") as f64 / deleted;
    report.add(Row::new(label("reconciles of ReplicaSets for one deleted Pod"), "", each));

    let before = Reconciles::read(server).await?;
    touch_sets(server, sets).await?;
    process::settle().await;
    let after = Reconciles::read(server).await?.since(&before);
    let each = after.of("replicaset") as f64 / sets as f64;
    report.add(Row::new(label("reconciles for one event"), "", each));
    let within = after.share_within("0.005") * 100.0;
    report.add(Row::new(label("events reconciled within 5 ms"), "%", within).target(Target::AtLeast(99.0)));
    Ok(())
}

/// Changes one set after another, each once: events that nothing coalesces with.
async fn touch_sets(server: &Server, sets: usize) -> Result<()> {
    let mut client = server.client()?;
    let mut pace = tokio::time::interval(Duration::from_millis(5));
    for number in 0..sets {
        pace.tick().await;
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {"touched": "yes"}}}}});
        let path = format!("{SETS_PATH}/set-{number}");
        client.patch(&path, "merge-patch", &patch).await?.success()?;
    }
    Ok(())
}

/// A large population, in which one Pod loses the label by which its set knows it.
async fn many_pods(server: &Server, pods: usize, report: &mut Report) -> Result<()> {
    let sets = 30;
    let start = Instant::now();
    make_sets(server, sets, pods / sets).await?;
    let label = |what: &str| format!("{pods} Pods of {sets} ReplicaSets: {what}");
    report.add(Row::new(label("Pods a second until all are ready"), "/s", pods as f64 / start.elapsed().as_secs_f64()));
    process::settle().await;
    report.add(Row::new(label("memory (RSS)"), "MB", resident(server)?));
    let before = Reconciles::read(server).await?;
    let busy = Process::read(server.pid()?)?.processor_time;
    let mut events = watch(server, PODS).await?;
    let mut client = server.client()?;
    let pod = first_pod(&mut client, "set-7").await?;
    let patch = json!({"metadata": {"labels": {"set": "another"}}});
    let start = Instant::now();
    client.patch(&format!("{PODS}/{pod}"), "merge-patch", &patch).await?.success()?;
    ready_after(&mut events, "set-7", &BTreeSet::from([pod])).await?;
    report.add(Row::new(label("one label changed until its set is whole again"), "ms", milliseconds(start.elapsed())));
    process::settle().await;
    let after = Reconciles::read(server).await?.since(&before);
    report.add(Row::new(label("reconciles of ReplicaSets for it"), "", after.of("replicaset") as f64));
    let busy = Process::read(server.pid()?)?.processor_time.saturating_sub(busy);
    report.add(Row::new(label("processor time for it, with two seconds of idling"), "ms", milliseconds(busy)));
    Ok(())
}

async fn make_sets(server: &Server, sets: usize, replicas: usize) -> Result<()> {
    let names: Vec<String> = (0..sets).map(|number| format!("set-{number}")).collect();
    let makers = names.chunks(sets.div_ceil(16)).map(|names| async move {
        let mut client = server.client()?;
        for name in names {
            client.post(SETS_PATH, &replica_set(name, replicas)).await?.success()?;
        }
        anyhow::Ok(())
    });
    try_join_all(makers).await?;
    let mut client = server.client()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let list = client.get(SETS_PATH).await?.success()?;
        let items = list["items"].as_array().context("a list without items")?;
        let ready = |set: &&Value| set["status"]["readyReplicas"] == json!(replicas);
        let left = sets - items.iter().filter(ready).count();
        if left == 0 {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "{left} ReplicaSets are not ready after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Deletes a Pod of one set after another, each when the one before is replaced; how long each took.
async fn delete_pods(server: &Server, count: usize) -> Result<Vec<Duration>> {
    let mut client = server.client()?;
    let mut times = Vec::new();
    for number in 0..count {
        let set = format!("set-{number}");
        let list = client.get(&format!("{PODS}?labelSelector=set%3D{set}")).await?.success()?;
        let names: BTreeSet<String> = list["items"].as_array().into_iter().flatten().map(name).collect();
        let version = list["metadata"]["resourceVersion"].as_str().context("a list without resourceVersion")?;
        let path = format!("{PODS}?watch=true&labelSelector=set%3D{set}&resourceVersion={version}");
        let mut events = Client::new(&server.kubeconfig()?)?.watch(&path).await?;
        let victim = names.first().with_context(|| format!("{set} has no Pods"))?;
        let start = Instant::now();
        client.delete(&format!("{PODS}/{victim}")).await?.success()?;
        ready_after(&mut events, &set, &names).await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// Waits for a Pod of a set that is ready and was not there before.
async fn ready_after(events: &mut setpoint_testkit::Lines, set: &str, before: &BTreeSet<String>) -> Result<()> {
    loop {
        let event = events.event().await?.context("the watch ended")?;
        let pod = &event["object"];
        if pod["metadata"]["labels"]["set"] == *set && is_ready(pod) && !before.contains(&name(pod)) {
            let is_old = event["type"] == "DELETED" || !pod["metadata"]["deletionTimestamp"].is_null();
            if !is_old && pod["metadata"]["creationTimestamp"].is_string() {
                return Ok(());
            }
        }
    }
}

/// Waits until a Deployment's status says that so many are available.
async fn available(server: &Server, name: &str, count: usize) -> Result<()> {
    let waiting = async {
        let mut events = watch(server, DEPLOYMENTS).await?;
        let mut client = server.client()?;
        let mut object = client.get(&format!("{DEPLOYMENTS}/{name}")).await?.success()?;
        while object["status"]["availableReplicas"] != json!(count) {
            object = events.event().await?.context("the watch ended")?["object"].take();
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, waiting).await.with_context(|| format!("not {count} Pods within {PATIENCE:?}"))?
}

async fn watch(server: &Server, path: &str) -> Result<setpoint_testkit::Lines> {
    let list = server.client()?.get(&format!("{path}?limit=1")).await?.success()?;
    let version = list["metadata"]["resourceVersion"].as_str().context("a list without resourceVersion")?;
    Client::new(&server.kubeconfig()?)?.watch(&format!("{path}?watch=true&resourceVersion={version}")).await
}

async fn first_pod(client: &mut Client, set: &str) -> Result<String> {
    let list = client.get(&format!("{PODS}?limit=1&labelSelector=set%3D{set}")).await?.success()?;
    Ok(name(list["items"].get(0).with_context(|| format!("{set} has no Pods"))?))
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

pub(super) fn deployment(name: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template("app", name)},
    })
}

fn replica_set(name: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"set": name}}, "template": template("set", name)},
    })
}

fn template(label: &str, value: &str) -> Value {
    let container = json!({"name": "main", "image": "x"});
    json!({"metadata": {"labels": {label: value}}, "spec": {"containers": [container]}})
}

fn resident(server: &Server) -> Result<f64> {
    Ok(process::memory(&[server.pid()?])?.resident_mb)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
