//! How long a write takes until its watchers have it: from the moment the request is sent to the event's arrival.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use setpoint_testkit::Client;
use tokio::task::JoinSet;

use crate::latency::Latencies;
use crate::load::Operation;
use crate::object;
use crate::subject::{Api, Creator};

/// Enough connections that a slow answer does not delay the writes that are due after it.
const WRITERS: usize = 16;

/// How long watchers may need for the last events.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) watchers: usize,
    pub(crate) writes_per_s: u64,
    pub(crate) duration: Duration,
}

#[derive(Debug)]
pub(crate) struct Delivery {
    /// One for each event of each watcher.
    pub(crate) latencies: Latencies,
    /// What was reached; less than asked for if the server could not keep up.
    pub(crate) writes_per_s: f64,
}

/// Writes at a pace and returns when every watcher has got every event.
pub(crate) async fn measure(api: &Api, pace: Pace) -> Result<Delivery> {
    let writes = (pace.duration.as_secs_f64() * pace.writes_per_s as f64) as u64;
    let clock = Arc::new(Clock::new(writes));
    let path = api.watch_path().await?;
    let mut watchers = JoinSet::new();
    for _ in 0..pace.watchers {
        let mut client = Client::new(&api.kubeconfig)?;
        let response = client.open(Request::get(&path).body(Bytes::new())?).await?;
        anyhow::ensure!(response.status().is_success(), "watch failed: {}", response.status());
        watchers.spawn(receive(client, response.into_body(), clock.clone(), writes));
    }

    let start = Instant::now();
    let mut writers = JoinSet::new();
    for (number, creator) in api.creators(WRITERS).await?.into_iter().enumerate() {
        writers.spawn(write(creator, number as u64, writes, pace.writes_per_s, clock.clone()));
    }
    while let Some(result) = writers.join_next().await {
        result??;
    }
    let writes_per_s = writes as f64 / start.elapsed().as_secs_f64();

    let mut latencies = Vec::new();
    let received = async {
        while let Some(result) = watchers.join_next().await {
            latencies.extend(result??);
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, received).await.context("some watchers did not get all events")??;
    Ok(Delivery { latencies: Latencies::new(latencies), writes_per_s })
}

/// When each write was sent.
#[derive(Debug)]
struct Clock {
    start: Instant,
    sent: Vec<AtomicU64>,
}

impl Clock {
    fn new(writes: u64) -> Self {
        Self { start: Instant::now(), sent: (0..writes).map(|_| AtomicU64::new(0)).collect() }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// Every writer takes each `WRITERS`th write, at the moment it is due.
async fn write(mut creator: Creator, first: u64, writes: u64, per_second: u64, clock: Arc<Clock>) -> Result<()> {
    let start = tokio::time::Instant::now();
    for sequence in (first..writes).step_by(WRITERS) {
        tokio::time::sleep_until(start + Duration::from_nanos(sequence * 1_000_000_000 / per_second)).await;
        clock.sent[sequence as usize].store(clock.now(), Ordering::Release);
        creator.run(sequence).await?;
    }
    Ok(())
}

/// Reads events until there have been as many as writes; does as little as it can for each.
async fn receive(client: Client, mut body: Incoming, clock: Arc<Clock>, writes: u64) -> Result<Vec<u64>> {
    let mut latencies = Vec::with_capacity(writes as usize);
    let mut partial: Vec<u8> = Vec::new();
    while latencies.len() < writes as usize {
        let frame = body.frame().await.context("the server ended a watch")??;
        let Ok(data) = frame.into_data() else { continue };
        let now = clock.now();
        let mut rest = data.as_ref();
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (head, tail) = rest.split_at(end + 1);
            let sequence = if partial.is_empty() {
                object::sequence(head)
            } else {
                partial.extend_from_slice(head);
                let sequence = object::sequence(&partial);
                partial.clear();
                sequence
            };
            if let Some(sent) = sequence.and_then(|sequence| clock.sent.get(sequence)) {
                latencies.push(now.saturating_sub(sent.load(Ordering::Acquire)));
            }
            rest = tail;
        }
        partial.extend_from_slice(rest);
    }
    drop(client);
    Ok(latencies)
}
