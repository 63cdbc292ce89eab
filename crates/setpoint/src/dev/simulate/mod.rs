//! `setpoint dev simulate`: the whole control plane in one thread, with everything that can go wrong, by a seed.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `world` | what survives: the server over its store, places, time |
//! | `crew` | what does not: controllers with their caches and queues |
//! | `driver` | decides what happens next: the only place where chance is |
//! | `dice`, `trace`, `panics` | the chance, and what came of it |
//! | `gate`, `faulty_store` | where requests and commits meet their fate |
//! | `feed` | watches whose events come when the driver says so |
//! | `users`, `places` | what people do, and what becomes of it where Pods run |
//! | `ledger`, `rules`, `approvals`, `convergence` | the truth, what must hold always, and what must hold in the end |

mod approvals;
mod convergence;
mod crew;
mod dice;
mod driver;
mod faulty_store;
mod feed;
mod gate;
mod ledger;
mod panics;
mod places;
mod rules;
mod trace;
mod users;
mod world;

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use parking_lot::Mutex;
use setpoint_apiserver::Issuer;

use self::driver::Driver;
use self::trace::Trace;
use self::world::World;

/// After each bout of trouble everything has to come right before the next one.
const BOUTS: usize = 3;
/// Of how many seeds it is tried whether a second run is the same.
const REPLAYED: u64 = 5;

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// How many seeds to run, from 0 on
    #[arg(long, value_name = "N", default_value_t = 300)]
    seeds: u64,
    /// Run this seed alone
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// How many things happen in a run while something may go wrong
    #[arg(long, value_name = "N", default_value_t = 450)]
    steps: usize,
    /// Show everything that happens
    #[arg(long, requires = "seed")]
    verbose: bool,
    /// Run every seed twice, to see that both runs are the same
    #[arg(long)]
    check: bool,
}

/// What came of a run.
struct Run {
    hash: u64,
    failure: Option<Failure>,
}

struct Failure {
    error: anyhow::Error,
    last: Vec<String>,
}

impl Simulate {
    pub(crate) fn run(&self) -> Result<()> {
        panics::watch();
        let begin = Instant::now();
        let issuer = Issuer::new("https://kubernetes.default.svc", [Issuer::new_key()])?;
        let seeds = match self.seed {
            Some(seed) => seed..=seed,
            None => 0..=self.seeds.saturating_sub(1),
        };
        let (next, failures) = (AtomicU64::new(*seeds.start()), Mutex::new(Vec::new()));
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if !seeds.contains(&seed) {
                    return Ok(());
                }
                if let Some(failure) = self.try_seed(seed, &issuer)? {
                    failures.lock().push((seed, failure));
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("a run panicked")))
        })?;
        let mut failures = failures.into_inner();
        failures.sort_by_key(|(seed, _)| *seed);
        self.report(seeds.count(), &failures, begin).context("cannot write to standard output")?;
        match failures.len() {
            0 => Ok(()),
            1 => bail!("one seed failed"),
            count => bail!("{count} seeds failed"),
        }
    }

    fn try_seed(&self, seed: u64, issuer: &Issuer) -> Result<Option<Failure>> {
        let first = self.simulate(seed, issuer, self.verbose)?;
        if first.failure.is_some() || !(self.check || self.seed.is_none() && seed < REPLAYED) {
            return Ok(first.failure);
        }
        let second = self.simulate(seed, issuer, false)?;
        Ok((first.hash != second.hash).then(|| {
            let error = anyhow::anyhow!("two runs differ: {:016x} and {:016x}", first.hash, second.hash);
            Failure { error, last: Vec::new() }
        }))
    }

    fn simulate(&self, seed: u64, issuer: &Issuer, is_shown: bool) -> Result<Run> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        let run = async {
            let trace = Trace::new(is_shown);
            let world = World::new(seed, issuer.clone(), trace.clone()).await?;
            let result = bouts(Driver::new(world, seed).await, self.steps).await;
            let failure = result.err().map(|error| Failure { error, last: trace.last() });
            Ok(Run { hash: trace.hash(), failure })
        };
        runtime.block_on(run)
    }

    fn report(&self, count: usize, failures: &[(u64, Failure)], begin: Instant) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for (seed, Failure { error, last }) in failures {
            writeln!(out, "seed {seed} failed: {error:#}")?;
            if !self.verbose {
                last.iter().try_for_each(|line| writeln!(out, "{line}"))?;
            }
            writeln!(out, "to see all of it: setpoint dev simulate --seed {seed} --steps {} --verbose\n", self.steps)?;
        }
        let seconds = begin.elapsed().as_secs_f64();
        writeln!(out, "{count} seeds, {} failed, {:.1} seeds/s", failures.len(), count as f64 / seconds)
    }
}

async fn bouts(mut driver: Driver, steps: usize) -> Result<()> {
    for _ in 0..BOUTS {
        driver.bout(steps / BOUTS).await?;
        driver.lull().await?;
    }
    Ok(())
}
