//! Connections to endpoints, kept by each thread for itself: found, opened, given back, closed.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::body::{AttemptBody, RequestBody};
use super::live::EndpointState;
use super::wire::Wire;

/// As much of an answer waits in memory for a client that reads slowly; a head has to fit in.
const BUFFER: usize = 128 * 1024;
/// Streams that one HTTP/2 connection carries before another is opened.
const STREAMS: u32 = 100;

/// An endpoint may close an idle connection while a request is on its way, and nobody could tell whether the request was
/// done. One that may not be repeated takes only a connection that was in use a moment ago.
const SURELY_OPEN: Duration = Duration::from_secs(1);

/// The connections of one thread.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    http1: RefCell<HashMap<u64, Vec<Idle>>>,
    http2: RefCell<HashMap<u64, Rc<Http2Endpoint>>>,
}

#[derive(Debug)]
struct Idle {
    sender: http1::SendRequest<AttemptBody>,
    endpoint: Arc<EndpointState>,
    since: Instant,
}

#[derive(Debug)]
struct Http2Endpoint {
    endpoint: Arc<EndpointState>,
    connections: RefCell<Vec<Http2Connection>>,
    /// One at a time opens a connection; the others wait and then share it.
    opening: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
struct Http2Connection {
    sender: http2::SendRequest<AttemptBody>,
    streams: Rc<Cell<u32>>,
}

/// How to reach an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) endpoint: Arc<EndpointState>,
    pub(crate) is_http2: bool,
    pub(crate) tls: Option<(Arc<ClientConfig>, String)>,
    pub(crate) connect_timeout: Duration,
}

/// Why an endpoint gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The endpoint has not seen anything of the request.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// It may have seen and done it.
    #[error("the connection ended before the answer")]
    Broken(#[source] hyper::Error),
}

/// The use of a connection for one request: counted at the endpoint, and given back when the request is over.
#[derive(Debug)]
pub(crate) struct Lease {
    sender: Option<http1::SendRequest<AttemptBody>>,
    streams: Option<Rc<Cell<u32>>>,
    endpoint: Arc<EndpointState>,
    body: Rc<RequestBody>,
    pool: Rc<Pool>,
    kept: usize,
    on_failure: Option<OnFailure>,
}

/// Takes down that the endpoint failed in the middle of an answer.
pub(crate) struct OnFailure(pub(crate) Box<dyn FnOnce()>);

impl std::fmt::Debug for OnFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnFailure")
    }
}

/// Runs hyper's tasks on the thread that they come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalExecutor;

impl<F: Future<Output: 'static> + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

impl Lease {
    pub(crate) fn new(way: &Way, body: &Rc<RequestBody>, pool: &Rc<Pool>, kept: usize) -> Self {
        way.endpoint.in_flight.fetch_add(1, Relaxed);
        Self {
            sender: None,
            streams: None,
            endpoint: Arc::clone(&way.endpoint),
            body: Rc::clone(body),
            pool: Rc::clone(pool),
            kept,
            on_failure: None,
        }
    }

    pub(crate) fn on_failure(&mut self, note: impl FnOnce() + 'static) {
        self.on_failure = Some(OnFailure(Box::new(note)));
    }

    pub(crate) fn failed(&mut self) {
        if let Some(OnFailure(note)) = self.on_failure.take() {
            note();
        }
    }

    /// The request is over; a connection that has carried all of it can carry the next.
    pub(crate) fn end(mut self, is_whole: bool) {
        let Some(sender) = self.sender.take() else { return };
        if is_whole && self.body.is_finished() && self.endpoint.is_serving.load(Relaxed) && !sender.is_closed() {
            let idle = Idle { sender, endpoint: Arc::clone(&self.endpoint), since: Instant::now() };
            let mut pool = self.pool.http1.borrow_mut();
            let connections = pool.entry(self.endpoint.id).or_default();
            if connections.len() < self.kept {
                connections.push(idle);
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.endpoint.in_flight.fetch_sub(1, Relaxed);
        if let Some(streams) = &self.streams {
            streams.set(streams.get().saturating_sub(1));
        }
    }
}

impl Pool {
    /// Closes what is too old, or leads to endpoints that get no more requests.
    pub(crate) fn sweep(&self, max_idle: Duration) {
        self.http1.borrow_mut().retain(|_, connections| {
            connections.retain(|idle| {
                idle.endpoint.is_serving.load(Relaxed) && !idle.sender.is_closed() && idle.since.elapsed() < max_idle
            });
            !connections.is_empty()
        });
        self.http2.borrow_mut().retain(|_, entry| {
            entry.connections.borrow_mut().retain(|connection| !connection.sender.is_closed());
            entry.endpoint.is_serving.load(Relaxed)
        });
    }

    fn take(&self, endpoint: u64, max_idle: Duration) -> Option<http1::SendRequest<AttemptBody>> {
        let mut pool = self.http1.borrow_mut();
        let connections = pool.get_mut(&endpoint)?;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        while let Some(mut idle) = connections.pop() {
            // One that is not ready at once is not waited for.
            if !idle.sender.is_closed()
                && idle.since.elapsed() < max_idle
                && matches!(idle.sender.poll_ready(&mut cx), Poll::Ready(Ok(())))
            {
                return Some(idle.sender);
            }
        }
        None
    }

    /// Sends one request to one endpoint. A connection that turns out to be closed costs nothing but another look.
    pub(crate) async fn send(
        &self,
        way: &Way,
        mut request: Request<AttemptBody>,
        lease: &mut Lease,
    ) -> Result<Response<Incoming>, SendError> {
        let max_idle = if request.method().is_idempotent() { Duration::MAX } else { SURELY_OPEN };
        loop {
            let (mut sender, is_new) = match way.is_http2 {
                // What is rare has its state on the heap, so that every request is smaller.
                true => return Box::pin(self.send_http2(way, request, lease)).await,
                false => match self.take(way.endpoint.id, max_idle) {
                    Some(sender) => (sender, false),
                    None => (Box::pin(open_http1(way)).await.map_err(SendError::Connect)?, true),
                },
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    lease.sender = Some(sender);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) if !is_new => request = unsent,
                    Some(_) => return Err(SendError::Connect(io::Error::other(error.into_error()))),
                    None => return Err(SendError::Broken(error.into_error())),
                },
            }
        }
    }

    async fn send_http2(
        &self,
        way: &Way,
        mut request: Request<AttemptBody>,
        lease: &mut Lease,
    ) -> Result<Response<Incoming>, SendError> {
        let entry = Rc::clone(self.http2.borrow_mut().entry(way.endpoint.id).or_insert_with(|| {
            Rc::new(Http2Endpoint {
                endpoint: Arc::clone(&way.endpoint),
                connections: RefCell::default(),
                opening: tokio::sync::Mutex::new(()),
            })
        }));
        for _ in 0..3 {
            let mut connection = entry.connection(way).await.map_err(SendError::Connect)?;
            connection.streams.set(connection.streams.get() + 1);
            // Dropped with the request if its client goes while it waits.
            let taken = lease.streams.replace(Rc::clone(&connection.streams));
            if let Some(streams) = taken {
                streams.set(streams.get().saturating_sub(1));
            }
            match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok(response),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(SendError::Broken(error.into_error())),
                },
            }
        }
        Err(SendError::Connect(io::Error::other("its connections end before they take a request")))
    }
}

impl Http2Endpoint {
    fn find(&self) -> Option<Http2Connection> {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|connection| !connection.sender.is_closed());
        connections.iter().find(|connection| connection.streams.get() < STREAMS).cloned()
    }

    async fn connection(&self, way: &Way) -> io::Result<Http2Connection> {
        if let Some(connection) = self.find() {
            return Ok(connection);
        }
        let _turn = self.opening.lock().await;
        if let Some(connection) = self.find() {
            return Ok(connection);
        }
        let sender = open_http2(way).await?;
        let connection = Http2Connection { sender, streams: Rc::default() };
        self.connections.borrow_mut().push(connection.clone());
        Ok(connection)
    }
}

pub(crate) async fn connect(way: &Way) -> io::Result<TcpStream> {
    let connecting = TcpStream::connect(way.endpoint.address);
    let stream = tokio::time::timeout(way.connect_timeout, connecting).await.map_err(|_| late())??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn open(way: &Way) -> io::Result<Wire> {
    let stream = connect(way).await?;
    let Some((config, name)) = &way.tls else { return Ok(Wire::plain(stream)) };
    let name = ServerName::try_from(name.clone()).map_err(io::Error::other)?;
    let handshake = TlsConnector::from(Arc::clone(config)).connect(name, stream);
    let stream = tokio::time::timeout(way.connect_timeout, handshake).await.map_err(|_| late())??;
    if way.is_http2 && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err(io::Error::other("the endpoint does not speak HTTP/2"));
    }
    Ok(Wire::tls(stream))
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the endpoint does not take the connection in time")
}

async fn open_http1(way: &Way) -> io::Result<http1::SendRequest<AttemptBody>> {
    let io = TokioIo::new(open(way).await?);
    let mut builder = http1::Builder::new();
    builder.max_buf_size(BUFFER);
    let (sender, connection) = builder.handshake::<_, AttemptBody>(io).await.map_err(io::Error::other)?;
    tokio::task::spawn_local(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to an endpoint ended");
        }
    });
    Ok(sender)
}

async fn open_http2(way: &Way) -> io::Result<http2::SendRequest<AttemptBody>> {
    let mut builder = http2::Builder::new(LocalExecutor);
    builder
        .timer(TokioTimer::new())
        .adaptive_window(false)
        .initial_stream_window_size(1024 * 1024)
        .initial_connection_window_size(4 * 1024 * 1024)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10));
    let io = TokioIo::new(open(way).await?);
    let (sender, connection) = builder.handshake::<_, AttemptBody>(io).await.map_err(io::Error::other)?;
    tokio::task::spawn_local(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to an endpoint ended");
        }
    });
    Ok(sender)
}
