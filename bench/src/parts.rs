//! The parts of the benchmark: each brings a server into a state, loads it, and adds rows to the report.

use std::time::{Duration, Instant};

use anyhow::Result;
use setpoint_testkit::{Client, Server};

use crate::arguments::{Arguments, Part};
use crate::etcd::Etcd;
use crate::latency::Latencies;
use crate::load::{self, Load, Until};
use crate::process;
use crate::report::{Peer, Report, Row, Target};
use crate::subject::{Api, Subject};
use crate::watch::{self, Pace};

const CLIENTS: [usize; 3] = [1, 16, 64];

/// The objects of a list, and of the smaller population.
const LISTED: u64 = 10_000;

/// Connections that fill a server.
const FILLERS: usize = 64;

/// From the start of the process to the first `ok` from `/readyz`.
pub(crate) async fn start_empty(subject: &Subject, report: &mut Report) -> Result<()> {
    let Subject::Program(program) = subject else { return Ok(()) };
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        let mut server = Server::new(program, &["--store", "embedded"])?;
        first.push(start_time(&mut server).await?);
        again.push(start_time(&mut server).await?);
    }
    for (what, times) in [("start to ready, new folder", first), ("start to ready, empty", again)] {
        let median = Latencies::from_iter(times).quantile_ms(0.5);
        report.add(Row::new(what, "ms", median).target(Target::AtMost(150.0)));
    }
    Ok(())
}

async fn start_time(server: &mut Server) -> Result<Duration> {
    server.kill9()?;
    let start = Instant::now();
    server.restart().await?;
    Ok(start.elapsed())
}

/// Durable creates, and in turn with them, so that all meet the same machine, etcd's puts and the creates of an earlier
/// binary.
pub(crate) async fn creates(subject: &Subject, arguments: &Arguments, report: &mut Report) -> Result<()> {
    for clients in CLIENTS {
        let api = if arguments.wants(Part::Creates) { Some(subject.start().await?) } else { None };
        let etcd = if arguments.wants(Part::Etcd) { Some(Etcd::start(&arguments.etcd).await?) } else { None };
        let before = match &arguments.before {
            Some(program) if api.is_some() => Some(Subject::Program(program.clone()).start().await?),
            _ => None,
        };
        let (mut creates, mut puts, mut earlier) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=arguments.rounds() {
            // The first round warms up, and does not count. Names are never used twice.
            let until = Until::Elapsed(if round == 0 { arguments.duration() / 8 } else { arguments.duration() });
            let first = 1_000_000 * round as u64;
            if let Some(etcd) = &etcd {
                puts.push(load::run(etcd.putters(clients).await?, first, until).await?);
            }
            if let Some(before) = &before {
                earlier.push(load::run(before.creators(clients).await?, first, until).await?);
            }
            if let Some(api) = &api {
                creates.push(load::run(api.creators(clients).await?, first, until).await?);
            }
        }
        for api in [api, before].into_iter().flatten() {
            api.finish().await?;
        }
        let (creates, puts, earlier) = (median(creates), median(puts), median(earlier));
        add_load(report, "create", clients, creates.as_ref(), puts.as_ref().map(|puts| ("etcd", puts)));
        if let (Some(creates), Some(earlier)) = (creates, earlier) {
            let peer = Peer { name: "before", figure: earlier.per_second };
            let row = Row::new(format!("create rate, {}", plural(clients)), "/s", creates.per_second).peer(Some(peer));
            report.add(row.target(Target::RatioAtLeast(0.9)));
        }
    }
    Ok(())
}

/// The round with the median throughput, of all but the first.
pub(crate) fn median(mut rounds: Vec<Load>) -> Option<Load> {
    let mut counted = rounds.drain(1.min(rounds.len())..).collect::<Vec<_>>();
    counted.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    (!counted.is_empty()).then(|| counted.swap_remove(counted.len() / 2))
}

pub(crate) fn add_load(
    report: &mut Report,
    verb: &str,
    clients: usize,
    server: Option<&Load>,
    peer: Option<(&'static str, &Load)>,
) {
    let row = |figure: &str, unit, value: &dyn Fn(&Load) -> f64| {
        let peer = peer.map(|(name, load)| Peer { name, figure: value(load) });
        Row::new(format!("{verb} {figure}, {}", plural(clients)), unit, server.map(value)).peer(peer)
    };
    let mut rate = row("rate", "/s", &|load| load.per_second);
    let mut p50 = row("p50", "ms", &|load| load.latencies.quantile_ms(0.5));
    let p99 = row("p99", "ms", &|load| load.latencies.quantile_ms(0.99));
    match (verb, clients) {
        ("create", 1) => p50 = p50.target(Target::RatioAtMost(1.3)),
        ("create", 64) => rate = rate.target(Target::RatioAtLeast(1.0)),
        ("apply that changes nothing", _) => p50 = p50.target(Target::RatioAtMost(2.0)),
        _ => {}
    }
    [rate, p50, p99].into_iter().for_each(|row| report.add(row));
}

fn plural(clients: usize) -> String {
    if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") }
}

pub(crate) async fn watch(subject: &Subject, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let duration = arguments.duration() * 2;
    for (watchers, writes_per_s) in [(1, 20), (100, 20), (1000, 20), (1, 1000), (100, 1000)] {
        let api = subject.start().await?;
        let delivery = watch::measure(&api, Pace { watchers, writes_per_s, duration }).await?;
        api.finish().await?;
        let plural = if watchers == 1 { "" } else { "s" };
        let label = format!("write → watch, {watchers} watcher{plural}, {writes_per_s} writes/s");
        let mut p99 = Row::new(format!("{label}: p99"), "ms", delivery.latencies.quantile_ms(0.99));
        if (watchers, writes_per_s) == (100, 1000) {
            p99 = p99.target(Target::AtMost(5.0));
        }
        report.add(Row::new(format!("{label}: reached"), "/s", delivery.writes_per_s));
        report.add(Row::new(format!("{label}: p50"), "ms", delivery.latencies.quantile_ms(0.5)));
        report.add(p99);
    }
    Ok(())
}

/// Everything that needs a server with many objects in it.
pub(crate) async fn population(subject: &Subject, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let mut api = subject.start().await?;
    process::settle().await;
    match api.server {
        Some(_) => add_memory(report, "idle", &api, Some(30.0))?,
        None => add_memory(report, "as found", &api, None)?,
    }

    let early = fill(&api, 0, LISTED).await?;
    process::settle().await;
    add_memory(report, &format!("with {LISTED} ConfigMaps"), &api, None)?;
    if arguments.wants(Part::Get) {
        for clients in CLIENTS {
            let until = Until::Elapsed(arguments.duration());
            let load = load::run(api.getters(clients, LISTED).await?, 0, until).await?;
            add_load(report, "get", clients, Some(&load), None);
        }
    }
    if arguments.wants(Part::List) {
        list(&api, arguments, report).await?;
    }
    if arguments.wants(Part::Memory) || arguments.wants(Part::Start) {
        let population = arguments.population();
        fill(&api, LISTED, population - 2 * LISTED).await?;
        let late = fill(&api, population - LISTED, LISTED).await?;
        report.add(Row::new(format!("create rate, up to {LISTED} objects"), "/s", early.per_second));
        report.add(Row::new(format!("create rate, up to {population} objects"), "/s", late.per_second));
        process::settle().await;
        add_memory(report, &format!("with {population} ConfigMaps"), &api, Some(400.0))?;
        restart(&mut api, population, report).await?;
    }
    api.finish().await
}

async fn fill(api: &Api, first: u64, count: u64) -> Result<Load> {
    load::run(api.creators(FILLERS).await?, first, Until::Count(count)).await
}

fn add_memory(report: &mut Report, state: &str, api: &Api, limit_mb: Option<f64>) -> Result<()> {
    if api.pids.is_empty() {
        return Ok(());
    }
    let memory = process::memory(&api.pids)?;
    let mut resident = Row::new(format!("memory (RSS), {state}"), "MB", memory.resident_mb);
    if let Some(limit) = limit_mb {
        resident = resident.target(Target::AtMost(limit));
    }
    report.add(resident);
    report.add(Row::new(format!("memory (PSS), {state}"), "MB", memory.proportional_mb));
    Ok(())
}

/// To the last byte; nothing is parsed.
async fn list(api: &Api, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let mut client = Client::new(&api.kubeconfig)?;
    client.warm().await?;
    let (first, body) = api.list(&mut client).await?;
    let mut times = Vec::new();
    for _ in 0..arguments.rounds() * 10 {
        times.push(api.list(&mut client).await?.0);
    }
    let times = Latencies::from_iter(times);
    let label = format!("list of {LISTED}, {:.1} MB", body.len() as f64 / 1e6);
    report.add(Row::new(format!("{label}: first"), "ms", first.as_secs_f64() * 1e3));
    report.add(Row::new(format!("{label}: p50"), "ms", times.quantile_ms(0.5)).target(Target::AtMost(40.0)));
    report.add(Row::new(format!("{label}: p99"), "ms", times.quantile_ms(0.99)));
    Ok(())
}

async fn restart(api: &mut Api, population: u64, report: &mut Report) -> Result<()> {
    let Some(server) = &mut api.server else { return Ok(()) };
    let mut times = Vec::new();
    for _ in 0..3 {
        times.push(start_time(server).await?);
    }
    let median = Latencies::from_iter(times).quantile_ms(0.5);
    let label = format!("start to ready, {population} ConfigMaps");
    report.add(Row::new(label, "ms", median).target(Target::AtMost(2000.0)));
    api.pids = vec![server.pid()?];
    api.kubeconfig = server.kubeconfig()?;
    process::settle().await;
    add_memory(report, &format!("with {population} ConfigMaps, after a restart"), api, Some(400.0))
}
