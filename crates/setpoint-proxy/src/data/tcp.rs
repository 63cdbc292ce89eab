//! TCP without HTTP: each connection goes to one endpoint, and either side may end its half of it.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::connection::configure;
use super::live::{EndpointState, Live};
use super::relay::relay;
use super::shared::unix_s;
use super::upstream::{Way, connect};
use super::watch::Watch;
use super::worker::Worker;
use crate::measure::Outcome;
use crate::table::{CompiledListener, GroupId};

const CONNECT: Duration = Duration::from_secs(3);
const ATTEMPTS: usize = 3;

/// Counts a connection at its endpoint as long as it lives.
struct InFlight(Arc<EndpointState>);

impl InFlight {
    fn at(endpoint: &Arc<EndpointState>) -> Self {
        endpoint.in_flight.fetch_add(1, Relaxed);
        Self(Arc::clone(endpoint))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

pub(crate) async fn serve(worker: Rc<Worker>, listener: Rc<str>, mut client: TcpStream, peer: SocketAddr) {
    // A draining proxy waits for it as for any other connection.
    let watch = Arc::<Watch>::default();
    watch.begin_request();
    let _registered = worker.register(&watch);
    let live = worker.live();
    let Some(CompiledListener::Tcp { group }) = live.table.listener(&listener) else { return };
    let group = *group;
    let started = Instant::now();
    let measures = &live.group(group).shared.measures;
    measures.in_flight.fetch_add(1, Relaxed);
    let carried = match reach(&worker, &live, group, peer).await {
        None => None,
        Some((mut backend, _in_flight)) => {
            let _configured = configure(&client);
            Some(relay(&mut client, &mut backend).await)
        }
    };
    let (up, down) = carried.unwrap_or_default();
    let outcome = Outcome {
        status: carried.map(|_| 200),
        latency_us: started.elapsed().as_micros() as u64,
        request_bytes: up,
        response_bytes: down,
    };
    measures.in_flight.fetch_sub(1, Relaxed);
    measures.record(worker.thread, &outcome, unix_s());
}

/// Connects to the first endpoint that takes the connection.
async fn reach(
    worker: &Rc<Worker>,
    live: &Arc<Live>,
    group: GroupId,
    peer: SocketAddr,
) -> Option<(TcpStream, InFlight)> {
    let state = live.group(group);
    let mut tried = Vec::new();
    while tried.len() < ATTEMPTS {
        let place = choose(worker, live, group, peer, &tried)?;
        let endpoint = &state.endpoints[place];
        let in_flight = InFlight::at(endpoint);
        let way = Way { endpoint: Arc::clone(endpoint), is_http2: false, tls: None, connect_timeout: CONNECT };
        let connected = connect(&way).await;
        state.note(place, connected.is_ok(), worker.shared.now_ms());
        match connected {
            Ok(stream) => return Some((stream, in_flight)),
            Err(error) => tracing::debug!(address = %endpoint.address, %error, "an endpoint takes no connection"),
        }
        tried.push(place);
    }
    None
}

/// The endpoint for a client, by its place.
pub(crate) fn choose(
    worker: &Worker,
    live: &Live,
    group: GroupId,
    client: SocketAddr,
    tried: &[usize],
) -> Option<usize> {
    let (compiled, state) = (live.table.group(group), live.group(group));
    let now_ms = worker.shared.now_ms();
    let Some(affinity) = &compiled.affinity else { return state.pick(worker.random(), now_ms, tried) };
    let is_usable = |place: usize| !tried.contains(&place) && !state.is_ejected(place, now_ms);
    let timeout_ms = u64::from(affinity.timeout_s) * 1_000;
    let client = client.ip().to_canonical();
    state.shared.clients.lock().choose(client, timeout_ms, now_ms, &compiled.usable, is_usable)
}
