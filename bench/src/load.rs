//! A closed loop: a number of clients, each of which sends its next request when the last was answered.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::latency::Latencies;

/// One client's request; every call gets a number that no other call gets.
pub(crate) trait Operation: Send + 'static {
    fn run(&mut self, sequence: u64) -> impl Future<Output = Result<()>> + Send;
}

#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) per_second: f64,
    pub(crate) latencies: Latencies,
}

/// When a load is over.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    Elapsed(Duration),
    /// This many requests have been answered.
    Count(u64),
}

/// Runs the clients side by side; numbers start at `first`.
pub(crate) async fn run<O: Operation>(clients: Vec<O>, first: u64, until: Until) -> Result<Load> {
    let start = Instant::now();
    let (deadline, end) = match until {
        Until::Elapsed(duration) => (Some(start + duration), u64::MAX),
        Until::Count(count) => (None, first + count),
    };
    let next = Arc::new(AtomicU64::new(first));
    let mut running = JoinSet::new();
    for mut client in clients {
        let next = next.clone();
        running.spawn(async move {
            let mut nanoseconds = Vec::new();
            while deadline.is_none_or(|deadline| Instant::now() < deadline) {
                let sequence = next.fetch_add(1, Ordering::Relaxed);
                if sequence >= end {
                    break;
                }
                let sent = Instant::now();
                client.run(sequence).await?;
                nanoseconds.push(sent.elapsed().as_nanos() as u64);
            }
            anyhow::Ok(nanoseconds)
        });
    }
    let mut all = Vec::new();
    while let Some(nanoseconds) = running.join_next().await {
        all.extend(nanoseconds??);
    }
    let elapsed = start.elapsed();
    Ok(Load { per_second: all.len() as f64 / elapsed.as_secs_f64(), latencies: Latencies::new(all) })
}
