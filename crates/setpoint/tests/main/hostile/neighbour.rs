//! One user in a tight loop, and another who wants to work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use setpoint_testkit::{Client, Kubeconfig};

use super::{CONFIG_MAPS, Victim};

/// What each of its lists holds.
const OBJECTS: usize = 500;
const SAMPLES: usize = 1_000;
/// The one in the middle counts: neither luck nor a hiccup of the machine decides.
const ROUNDS: usize = 5;
/// How much slower the other one may become.
const BOUND: f64 = 5.0;

#[test]
fn somebody_in_a_loop_does_not_starve_another() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (victim, admin, neighbour) = runtime.block_on(async {
        let victim = Victim::start().await?;
        let mut client = victim.server.client()?;
        for number in 0..OBJECTS {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("c{number}")},
                "data": {"text": "x".repeat(1024)},
            });
            client.post(CONFIG_MAPS, &object).await?.success()?;
        }
        let (admin, neighbour) = (victim.server.kubeconfig()?, victim.neighbour().await?);
        anyhow::Ok((victim, admin, neighbour))
    })?;
    for (row, work) in [("lists", Work::List), ("writes", Work::Write)] {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let quiet = measure(&neighbour, work)?;
            let hog = Loops::start(&admin, work)?;
            let beside = measure(&neighbour, work);
            let served = hog.stop()?;
            let ratio = beside?.as_secs_f64() / quiet.max(work.measurable()).as_secs_f64();
            println!("{row}: p99 {quiet:?} alone, ratio {ratio:.1} beside {served} requests");
            ensure!(served > 0, "nobody was in a loop");
            ratios.push(ratio);
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ROUNDS / 2];
        ensure!(median <= BOUND, "{row}: {median:.1} times slower, of {ratios:.1?}");
    }
    runtime.block_on(victim.survives())
}

/// What the one in the loop does; the other one reads an object, or writes one.
#[derive(Debug, Clone, Copy)]
enum Work {
    List,
    Write,
}

impl Work {
    /// What is faster than this tells nothing when clients and server share two cores: the kernel lets a thread wait as long
    /// before it takes another's core away. A write also waits for the commit under way, which is shared with others.
    fn measurable(self) -> Duration {
        match self {
            Work::List => Duration::from_millis(1),
            Work::Write => Duration::from_millis(2),
        }
    }

    /// How many connections the one in a loop has: more than there are seats.
    fn loops(self) -> usize {
        match self {
            Work::List => 64,
            Work::Write => 256,
        }
    }
}

/// The 99th percentile of what somebody waits for an answer.
fn measure(kubeconfig: &Kubeconfig, work: Work) -> Result<Duration> {
    let kubeconfig = kubeconfig.clone();
    // On a thread of its own, which nothing else of this test can hold up.
    let thread = std::thread::spawn(move || -> Result<Duration> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut client = Client::new(&kubeconfig)?;
            client.warm().await?;
            let mut took = Vec::with_capacity(SAMPLES);
            for number in 0..SAMPLES {
                let started = Instant::now();
                let answer = match work {
                    Work::List => client.get(&format!("{CONFIG_MAPS}/c{}", number % OBJECTS)).await?,
                    Work::Write => {
                        let patch = json!({"data": {"number": number.to_string()}});
                        client.patch(&format!("{CONFIG_MAPS}/c0"), "merge-patch", &patch).await?
                    }
                };
                took.push(started.elapsed());
                answer.success()?;
            }
            took.sort();
            Ok(took[SAMPLES * 99 / 100])
        })
    });
    thread.join().map_err(|_| anyhow::anyhow!("the measuring thread panicked"))?
}

/// A user who asks again as soon as there is an answer, on many connections.
struct Loops {
    stop: Arc<AtomicBool>,
    served: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<Result<()>>,
}

impl Loops {
    fn start(kubeconfig: &Kubeconfig, work: Work) -> Result<Loops> {
        let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (kubeconfig, stopped, counter) = (kubeconfig.clone(), stop.clone(), served.clone());
        let thread = std::thread::spawn(move || -> Result<()> {
            // As if on another machine: what it costs to be this client is not to be paid by those who are measured.
            rustix::process::nice(19)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(futures::future::try_join_all(
                (0..work.loops()).map(|number| ask(&kubeconfig, work, number, &stopped, &counter)),
            ))?;
            Ok(())
        });
        let deadline = Instant::now() + Duration::from_secs(20);
        while served.load(Ordering::SeqCst) < work.loops() as u64 {
            ensure!(Instant::now() < deadline, "the loops do not get going");
            std::thread::yield_now();
        }
        Ok(Loops { stop, served, thread })
    }

    /// Ends the loops; how many requests they had answered.
    fn stop(self) -> Result<u64> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().map_err(|_| anyhow::anyhow!("the loops panicked"))?.context("in a loop")?;
        Ok(self.served.load(Ordering::SeqCst))
    }
}

async fn ask(
    kubeconfig: &Kubeconfig,
    work: Work,
    number: usize,
    stopped: &AtomicBool,
    served: &AtomicU64,
) -> Result<()> {
    let mut client = Client::new(kubeconfig)?;
    while !stopped.load(Ordering::SeqCst) {
        let answer = match work {
            Work::List => client.get(CONFIG_MAPS).await?,
            Work::Write => {
                let count = served.load(Ordering::Relaxed).to_string();
                let patch = json!({"data": {"count": count}});
                client.patch(&format!("{CONFIG_MAPS}/c{}", number + 1), "merge-patch", &patch).await?
            }
        };
        ensure!(answer.status == 200 || answer.status == 429, "{}: {}", answer.status, answer.text());
        served.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}
