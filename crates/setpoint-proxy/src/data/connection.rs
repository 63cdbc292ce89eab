//! One connection of a client, from its acceptance to its end: TLS, the choice of HTTP version, and hyper.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::BytesMut;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::service::serve;
use super::stream::{Stream, Transport};
use super::upstream::LocalExecutor;
use super::watch::{Phase, Watch};
use super::worker::Worker;
use crate::forwarded::{Arrival, Told, is_trusted};
use crate::head::Scanner;
use crate::table::port_of;

/// How an HTTP/2 connection with prior knowledge begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection on which nothing is said for so long is probed by the kernel.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// What the requests of a connection share.
pub(crate) struct Connection {
    pub(crate) worker: Rc<Worker>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) listener: Rc<str>,
    pub(crate) peer: SocketAddr,
    pub(crate) is_https: bool,
    pub(crate) is_trusted: bool,
    /// What backends are told of the client, as it was for the last authority it asked for.
    told: RefCell<Option<(Rc<str>, Rc<Told>)>>,
}

impl Connection {
    /// What backends are told of the client of a request for this authority.
    pub(crate) fn told(&self, authority: &Rc<str>) -> Rc<Told> {
        let mut last = self.told.borrow_mut();
        if let Some((known, told)) = &*last
            && known == authority
        {
            return Rc::clone(told);
        }
        let port = port_of(authority).unwrap_or(if self.is_https { 443 } else { 80 });
        let arrival = Arrival { peer: self.peer.ip(), is_https: self.is_https, authority, port };
        let told = Rc::new(Told::new(&arrival));
        *last = Some((Rc::clone(authority), Rc::clone(&told)));
        told
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve_connection(
    worker: Rc<Worker>,
    listener: Rc<str>,
    tls: Option<TlsAcceptor>,
    stream: TcpStream,
    peer: SocketAddr,
) {
    let watch = Arc::<Watch>::default();
    watch.enter(Phase::Idle, worker.clock_ms());
    let _registered = worker.register(&watch);
    if configure(&stream).is_err() {
        return;
    }
    let is_https = tls.is_some();
    let Some((transport, first, is_http2)) = begin(&worker, &watch, tls, stream).await else { return };
    let is_trusted = is_trusted(&worker.live().table.spec().trusted_proxies, peer.ip().to_canonical());
    let scanner = (!is_http2).then(|| Scanner::new(worker.shared.limits.head));
    let stream = Stream::new(transport, scanner, first, Arc::clone(&watch), Arc::clone(&worker.clock));
    let connection =
        Rc::new(Connection { worker, watch, listener, peer, is_https, is_trusted, told: RefCell::default() });
    if connection.watch.is_draining() {
        connection.watch.changed.notify_one();
    }
    match is_http2 {
        true => serve_http2(connection, stream).await,
        false => serve_http1(connection, stream).await,
    }
}

/// Small answers do not wait for acknowledgements, and a client that is gone without a word is noticed.
pub(crate) fn configure(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
    Ok(())
}

/// Speaks TLS, if it is to be spoken, and finds out the version of HTTP.
async fn begin(
    worker: &Worker,
    watch: &Watch,
    tls: Option<TlsAcceptor>,
    stream: TcpStream,
) -> Option<(Transport, BytesMut, bool)> {
    if let Some(acceptor) = tls {
        let patience = worker.shared.limits.patience.head;
        let stream = timeout(patience, acceptor.accept(stream)).await.ok()?.ok()?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        return Some((Transport::Tls(Box::new(stream)), BytesMut::new(), is_http2));
    }
    // Until the client says something, nothing is kept for it but its socket.
    let mut first = BytesMut::new();
    loop {
        tokio::select! {
            ready = stream.readable() => ready.ok()?,
            () = watch.changed.notified() => match watch.is_expired() {
                true => return None,
                // It was accepted, so its request is served.
                false => continue,
            },
        }
        let mut bytes = [0; 512];
        match stream.try_read(&mut bytes) {
            Ok(0) => return None,
            Ok(count) => first.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => return None,
        }
        let length = first.len().min(PREFACE.len());
        let could_be_http2 = first[..length] == PREFACE[..length];
        if !could_be_http2 || length == PREFACE.len() {
            return Some((Transport::Plain(stream), first, could_be_http2));
        }
        watch.enter(Phase::Head, worker.clock_ms());
    }
}

async fn serve_http1(connection: Rc<Connection>, stream: Stream) {
    let watch = Arc::clone(&connection.watch);
    // The future is kept only while there is a request.
    let service = service_fn(move |request| {
        let connection = Rc::clone(&connection);
        Box::pin(async move { Ok::<_, Infallible>(serve(connection, request).await) })
    });
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None).max_buf_size(64 * 1024);
    let mut serving = pin!(builder.serve_connection(stream, service).with_upgrades());
    loop {
        tokio::select! {
            biased;
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection of a client ended");
                }
                return;
            }
            () = watch.changed.notified() => {
                if watch.is_expired() {
                    return;
                }
                // One without a request ends with its next one, or by the sweep.
                if watch.is_draining() && watch.is_busy() {
                    serving.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

async fn serve_http2(connection: Rc<Connection>, stream: Stream) {
    let watch = Arc::clone(&connection.watch);
    let limits = connection.worker.shared.limits.clone();
    let service = service_fn(move |request| {
        let connection = Rc::clone(&connection);
        Box::pin(async move { Ok::<_, Infallible>(serve(connection, request).await) })
    });
    let mut builder = http2::Builder::new(LocalExecutor);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.http2_streams)
        .max_header_list_size(limits.head.bytes as u32)
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .max_send_buf_size(64 * 1024)
        // Streams that are reset as soon as they are opened end the connection (CVE-2023-44487).
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(64)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    let mut serving = pin!(builder.serve_connection(stream, service));
    loop {
        tokio::select! {
            biased;
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection of a client ended");
                }
                return;
            }
            () = watch.changed.notified() => {
                serving.as_mut().graceful_shutdown();
                if watch.is_expired() {
                    // The client is told, if it listens at all.
                    let _ended = timeout(Duration::from_secs(1), serving.as_mut()).await;
                    return;
                }
            }
        }
    }
}

/// A connection that is counted, and known to its thread, as long as this lives.
pub(crate) struct Registered {
    pub(crate) worker: Rc<Worker>,
    pub(crate) id: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.worker.shared.connections.fetch_sub(1, Relaxed);
        self.worker.connections.borrow_mut().remove(&self.id);
    }
}
