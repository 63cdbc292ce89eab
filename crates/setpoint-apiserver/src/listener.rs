//! Accepting connections: TLS, HTTP/1.1 and HTTP/2, and a stop that lets answers finish.
//!
//! A client that nobody knows yet can cost a connection, a buffer for the head of a request and some time; each of them is
//! bounded here. What a known one can cost is bounded by [`fairness`](crate::fairness).

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::authentication::ClientCertificate;
use crate::head::LongHeads;
use crate::idle::{Answering, Usage};
use crate::server::{Server, Source};

/// A client that has not finished its handshake by then is not going to.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection may wait for its next request, and a request for the end of its head.
const IDLE: Duration = Duration::from_secs(90);
/// The same when connections are scarce.
const IDLE_WHEN_SCARCE: Duration = Duration::from_secs(10);
/// The largest head of a request. Its address alone may have 64 KiB: a selector may name thousands of objects. How many
/// may be long at once is bounded too ([`LongHeads`]).
const HEAD: u32 = 128 * 1024;
/// Connections open at once; more wait in the kernel's queue.
pub const CONNECTIONS: usize = 20_000;
/// What a client may have open on one connection, as in Kubernetes.
const STREAMS: u32 = 1000;
/// How much of an answer waits for its client to read it.
const UNREAD: usize = 128 * 1024;
/// Streams that a client may open and give up before it is sent away.
const RESETS: usize = 100;

/// Serves on up to this many connections until `stop` resolves, then waits up to `drain` for answers under way.
pub async fn serve(
    server: Server,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    connections: usize,
    stop: impl Future<Output = ()>,
    drain: Duration,
) {
    let acceptor = TlsAcceptor::from(tls);
    let graceful = GracefulShutdown::new();
    let slots = Slots { free: Arc::new(Semaphore::new(connections)), scarce: connections / 4 };
    let long_heads = LongHeads::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accept = async {
            let slot = slots.free.clone().acquire_owned().await.expect("the semaphore is never closed");
            (slot, listener.accept().await)
        };
        let (slot, stream, source) = tokio::select! {
            (slot, accepted) = accept => match accepted {
                Ok((stream, address)) => (slot, stream, address.ip()),
                Err(error) => {
                    // Out of file descriptors, most likely: give those in use a moment to end.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        let (server, acceptor, watcher, slots) = (server.clone(), acceptor.clone(), graceful.watcher(), slots.clone());
        let open = Arc::new(Open { _slot: slot, _watcher: graceful.watcher() });
        let long_heads = long_heads.clone();
        tokio::spawn(async move {
            let Some(stream) = greet(acceptor, stream).await else { return };
            let usage = Usage::new();
            let lease = Lease { open, usage: usage.clone() };
            tokio::select! {
                () = converse(server, stream, source, lease, long_heads, watcher) => {}
                () = usage.idle(|| slots.idle(), IDLE_WHEN_SCARCE) => {}
            }
        });
    }
    server.stop();
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(seconds = drain.as_secs(), "some requests did not finish in time and are cut off");
    }
}

/// A connection that is open: it has a slot, and a stop waits for its end.
#[derive(Debug)]
struct Open {
    _slot: OwnedSemaphorePermit,
    _watcher: Watcher,
}

/// The right to take a connection over from HTTP, which each of its requests has.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    open: Arc<Open>,
    usage: Usage,
}

/// A connection that was taken over: it stays open, and in use, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Taken {
    _open: Arc<Open>,
    _answering: Answering,
}

impl Lease {
    pub(crate) fn take(&self) -> Taken {
        Taken { _open: self.open.clone(), _answering: self.usage.begin() }
    }
}

/// The connections that can still be opened.
#[derive(Debug, Clone)]
struct Slots {
    free: Arc<Semaphore>,
    /// With fewer than these, nobody keeps for long what they do not use.
    scarce: usize,
}

impl Slots {
    fn idle(&self) -> Duration {
        if self.free.available_permits() < self.scarce { IDLE_WHEN_SCARCE } else { IDLE }
    }
}

async fn greet(acceptor: TlsAcceptor, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    // Small answers and watch events should not wait for more to send.
    let _ = stream.set_nodelay(true);
    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
    None
}

/// Answers the requests of a connection until it ends.
async fn converse(
    server: Server,
    stream: TlsStream<TcpStream>,
    source: IpAddr,
    lease: Lease,
    long_heads: LongHeads,
    watcher: Watcher,
) {
    let speaks_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    // TLS has verified it; whether it is revoked, or has expired meanwhile, is asked at each request.
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificate = certificates.first().and_then(|first| ClientCertificate::read(first)).map(Arc::new);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        let (server, answering) = (server.clone(), lease.usage.begin());
        request.extensions_mut().insert(Source(source));
        request.extensions_mut().insert(lease.clone());
        if let Some(certificate) = &certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        async move { Ok::<_, Infallible>(server.handle(request).await.map(|body| answering.with(body))) }
    });
    let stream = TokioIo::new(long_heads.bound(stream, lease.usage.clone()));
    let ended = match speaks_http2 {
        true => watcher.watch(http2().serve_connection(stream, service)).await,
        false => {
            let mut connection = pin!(http1().serve_connection(stream, service).with_upgrades());
            tokio::select! {
                ended = &mut connection => ended,
                // A watcher does not know connections that can be upgraded.
                () = server.stopped() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn http1() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // The library's own limit of 100 headers stands.
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(UNREAD).max_header_size(HEAD as usize);
    builder
}

fn http2() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD)
        .max_send_buf_size(UNREAD)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(RESETS)
        .adaptive_window(true);
    builder
}
