//! UDP by flow: what comes from one client address goes to one endpoint, and its answers go back from the address that was asked.
//!
//! A flow has a socket of its own, and ends when nothing was said for a while or when its endpoint gets no more requests. A
//! socket on a wildcard address would answer from whatever address the kernel chooses: a table names each address by itself.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::live::{EndpointState, GroupShared};
use super::shared::unix_s;
use super::tcp::choose;
use super::worker::Worker;
use crate::measure::Outcome;
use crate::table::CompiledListener;

/// The largest datagram.
const DATAGRAM: usize = 65_535;

type Flows = Rc<RefCell<HashMap<SocketAddr, Rc<Flow>>>>;

struct Flow {
    socket: UdpSocket,
    endpoint: Arc<EndpointState>,
    group: Arc<GroupShared>,
    last: Cell<Instant>,
    sent_bytes: Cell<u64>,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.endpoint.in_flight.fetch_sub(1, Relaxed);
    }
}

pub(crate) async fn serve(worker: Rc<Worker>, listener: Rc<str>, socket: UdpSocket) {
    let socket = Rc::new(socket);
    let flows = Flows::default();
    // They end with the listener, and then its address is free.
    let mut answering = JoinSet::new();
    let mut datagram = vec![0; DATAGRAM];
    loop {
        let (count, client) = match socket.recv_from(&mut datagram).await {
            Ok(received) => received,
            // An earlier answer did not reach its client; that is no reason to stop.
            Err(error) => {
                tracing::debug!(%error, "a datagram could not be received");
                tokio::task::yield_now().await;
                continue;
            }
        };
        let known = flows.borrow().get(&client).filter(|flow| flow.endpoint.is_serving.load(Relaxed)).cloned();
        let flow = match known {
            Some(flow) => flow,
            None => match open(&worker, &listener, client, &flows).await {
                Some(flow) => {
                    while answering.try_join_next().is_some() {}
                    let (socket, flows) = (Rc::clone(&socket), Rc::clone(&flows));
                    answering.spawn_local(answer(Rc::clone(&worker), socket, Rc::clone(&flow), client, flows));
                    flow
                }
                None => continue,
            },
        };
        flow.last.set(Instant::now());
        flow.sent_bytes.set(flow.sent_bytes.get() + count as u64);
        if let Err(error) = flow.socket.send(&datagram[..count]).await {
            tracing::debug!(%error, endpoint = %flow.endpoint.address, "a datagram was not taken");
        }
    }
}

async fn open(worker: &Rc<Worker>, listener: &str, client: SocketAddr, flows: &Flows) -> Option<Rc<Flow>> {
    if flows.borrow().len() >= worker.shared.limits.udp_flows {
        return None;
    }
    let live = worker.live();
    let Some(CompiledListener::Udp { group }) = live.table.listener(listener) else { return None };
    let place = choose(worker, &live, *group, client, &[])?;
    let endpoint = Arc::clone(&live.group(*group).endpoints[place]);
    let any: SocketAddr = match endpoint.address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await.ok()?;
    socket.connect(endpoint.address).await.ok()?;
    endpoint.in_flight.fetch_add(1, Relaxed);
    let group = Arc::clone(&live.group(*group).shared);
    let flow = Rc::new(Flow { socket, endpoint, group, last: Cell::new(Instant::now()), sent_bytes: Cell::new(0) });
    flows.borrow_mut().insert(client, Rc::clone(&flow));
    Some(flow)
}

/// Carries answers back until the flow has been silent for long enough.
async fn answer(worker: Rc<Worker>, socket: Rc<UdpSocket>, flow: Rc<Flow>, client: SocketAddr, flows: Flows) {
    let started = Instant::now();
    let idle = worker.shared.limits.udp_idle;
    let mut answered_bytes = 0;
    loop {
        match timeout_at(flow.last.get() + idle, flow.socket.readable()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => break,
            Err(_) if flow.last.get() + idle > Instant::now() => continue,
            Err(_) => break,
        }
        match pass(&flow.socket, &socket, client) {
            Ok(count) => {
                flow.last.set(Instant::now());
                answered_bytes += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // The endpoint has no such port: the flow ends, and the next datagram finds another endpoint.
            Err(_) => break,
        }
    }
    let mut all = flows.borrow_mut();
    if all.get(&client).is_some_and(|current| Rc::ptr_eq(current, &flow)) {
        all.remove(&client);
    }
    let outcome = Outcome {
        status: (answered_bytes > 0).then_some(200),
        latency_us: started.elapsed().as_micros() as u64,
        request_bytes: flow.sent_bytes.get(),
        response_bytes: answered_bytes,
    };
    flow.group.measures.record(worker.thread, &outcome, unix_s());
}

thread_local! {
    /// All flows of a thread read through one buffer.
    static DATAGRAM_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; DATAGRAM].into());
}

/// Passes one datagram on. One that the client's socket does not take at once is lost, as datagrams are.
fn pass(from: &UdpSocket, to: &UdpSocket, client: SocketAddr) -> std::io::Result<usize> {
    DATAGRAM_BUFFER.with_borrow_mut(|datagram| {
        let count = from.try_recv(datagram)?;
        if let Err(error) = to.try_send_to(&datagram[..count], client) {
            tracing::debug!(%error, %client, "a datagram was lost");
        }
        Ok(count)
    })
}
