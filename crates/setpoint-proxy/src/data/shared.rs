//! What all threads of a proxy share: the present table, the clock's origin, limits, and the access log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustls::server::ProducesTickets;

use super::access_log::AccessLog;
use super::live::{EndpointState, Live};
use super::watch::Patience;
use crate::head::{HeadLimits, Refusal};
use crate::measure::Snapshot;

/// What a proxy allows, whatever its table says.
#[derive(Clone, Debug)]
pub struct Limits {
    pub threads: usize,
    /// Connections of clients at the same time, in all threads together.
    pub connections: usize,
    pub head: HeadLimits,
    pub patience: Patience,
    /// Streams of one HTTP/2 connection at the same time.
    pub http2_streams: u32,
    /// Idle connections to one endpoint that one thread keeps.
    pub idle_per_endpoint: usize,
    pub idle_upstream: Duration,
    /// Flows of one UDP listener at the same time.
    pub udp_flows: usize,
    pub udp_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1_024);
        Self {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            // Each connection may need another one behind it.
            connections: (usize::try_from(files).unwrap_or(usize::MAX) / 2).saturating_sub(64).max(64),
            head: HeadLimits::default(),
            patience: Patience::default(),
            http2_streams: 128,
            idle_per_endpoint: 256,
            idle_upstream: Duration::from_secs(30),
            udp_flows: 4_096,
            udp_idle: Duration::from_secs(60),
        }
    }
}

pub(crate) struct Shared {
    current: Mutex<Arc<Live>>,
    /// Grows with every table; threads compare it with what they have before each request.
    generation: AtomicU64,
    started: Instant,
    pub(crate) limits: Limits,
    pub(crate) ticketer: Arc<dyn ProducesTickets>,
    pub(crate) connections: AtomicUsize,
    pub(crate) access_log: Option<AccessLog>,
    refused: Mutex<BTreeMap<Refusal, u64>>,
    /// Endpoints that no table names any more and that still work on something.
    draining: Mutex<Vec<Arc<EndpointState>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(
        live: Live,
        limits: Limits,
        ticketer: Arc<dyn ProducesTickets>,
        access_log: Option<AccessLog>,
    ) -> Self {
        Self {
            current: Mutex::new(Arc::new(live)),
            generation: AtomicU64::new(1),
            started: Instant::now(),
            limits,
            ticketer,
            connections: AtomicUsize::new(0),
            access_log,
            refused: Mutex::default(),
            draining: Mutex::default(),
        }
    }

    pub(crate) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.current.lock())
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// From the next request on, every thread serves by this table.
    pub(crate) fn replace(&self, live: Arc<Live>) {
        let before = std::mem::replace(&mut *self.current.lock(), Arc::clone(&live));
        self.generation.fetch_add(1, Ordering::Release);
        let kept: std::collections::HashSet<u64> = live.endpoints().map(|endpoint| endpoint.id).collect();
        let mut draining = self.draining.lock();
        draining.retain(|endpoint| endpoint.in_flight.load(Ordering::Relaxed) > 0);
        for endpoint in before.endpoints().filter(|endpoint| !kept.contains(&endpoint.id)) {
            endpoint.is_serving.store(false, Ordering::Relaxed);
            draining.push(Arc::clone(endpoint));
        }
    }

    /// Requests and connections that are on their way to an address, by this table or an earlier one.
    pub(crate) fn in_flight_to(&self, address: std::net::SocketAddr) -> u64 {
        let live = self.live();
        let draining = self.draining.lock();
        let endpoints = live.endpoints().chain(draining.iter()).filter(|endpoint| endpoint.address == address);
        endpoints.map(|endpoint| u64::from(endpoint.in_flight.load(Ordering::Relaxed))).sum()
    }

    /// Milliseconds since the proxy was started.
    pub(crate) fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    pub(crate) fn refused(&self, refusal: Refusal) {
        *self.refused.lock().entry(refusal).or_default() += 1;
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let live = self.live();
        let now_s = unix_s();
        Snapshot {
            table_version: live.table.version(),
            now_s,
            routes: live.route_measures().map(|(name, it)| (name.to_owned(), it.sum(now_s))).collect(),
            groups: live.group_measures().map(|(name, it)| (name.to_owned(), it.sum(now_s))).collect(),
            connections: self.connections.load(Ordering::Relaxed) as u64,
            refused: self.refused.lock().iter().map(|(refusal, count)| (refusal.to_string(), *count)).collect(),
        }
    }
}

pub(crate) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
