//! A proxy in front of backends that do what their path says.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use setpoint_proxy::assignment::{Assignment, assign};
use setpoint_proxy::table::{
    Action, Endpoint, Group, Listener, PathMatch, Route, RouteMatch, Serves, Split, Table, TableSpec,
};
use setpoint_proxy::{AccessLog, Limits, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Everything a test waits for comes within this time.
pub(crate) const SOON: Duration = Duration::from_secs(30);

type Body = BoxBody<Bytes, Infallible>;

/// A server of HTTP/1 and h2c on a thread of its own, until it is dropped.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<AtomicU64>,
    pub(crate) connections: Arc<AtomicU64>,
    /// Requests are read and not answered, as long as this is set.
    pub(crate) is_broken: Arc<AtomicBool>,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Backend {
    pub(crate) fn start(name: &str) -> Result<Self> {
        Self::start_with(name, None)
    }

    pub(crate) fn start_with(name: &str, tls: Option<TlsAcceptor>) -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (requests, connections) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let is_broken = Arc::<AtomicBool>::default();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let backend = Self {
            address,
            requests: Arc::clone(&requests),
            connections: Arc::clone(&connections),
            is_broken: Arc::clone(&is_broken),
            _stop: stop,
        };
        let name: Arc<str> = name.into();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a listener");
                let serving = async {
                    while let Ok((stream, _)) = listener.accept().await {
                        connections.fetch_add(1, Ordering::SeqCst);
                        let (requests, name, tls) = (Arc::clone(&requests), Arc::clone(&name), tls.clone());
                        let is_broken = Arc::clone(&is_broken);
                        tokio::spawn(async move {
                            let service = service_fn(move |request| {
                                requests.fetch_add(1, Ordering::SeqCst);
                                let (name, is_broken) = (Arc::clone(&name), is_broken.load(Ordering::SeqCst));
                                async move {
                                    match is_broken {
                                        true => Err(anyhow::anyhow!("broken")),
                                        false => Ok(answer(&name, request).await),
                                    }
                                }
                            });
                            let builder = auto::Builder::new(TokioExecutor::new());
                            let _ended = match tls {
                                None => builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await,
                                Some(tls) => {
                                    let Ok(stream) = tls.accept(stream).await else { return };
                                    builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await
                                }
                            };
                        });
                    }
                };
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(backend)
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint { address: self.address, ready: true, terminating: false }
    }

    pub(crate) fn served(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed()
}

/// What a backend does is in its path.
async fn answer(name: &str, mut request: Request<Incoming>) -> Response<Body> {
    let query = request.uri().query().unwrap_or("").to_owned();
    match request.uri().path().trim_start_matches("/app") {
        "/head" => Response::new(full(head_of(&request))),
        "/echo" => Response::new(request.into_body().map_err(|_| unreachable_body()).boxed()),
        "/count" => {
            let mut body = request.into_body();
            let (mut bytes, mut sum) = (0_u64, 0_u64);
            while let Some(Ok(frame)) = body.frame().await {
                let Some(data) = frame.data_ref() else { continue };
                bytes += data.len() as u64;
                sum = data.iter().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
            }
            Response::new(full(format!("{bytes} {sum}")))
        }
        "/download" => {
            let bytes: u64 = query.parse().unwrap_or(0);
            let blocks = Blocks { left: bytes, block: Bytes::from(vec![b'x'; 64 * 1024]) };
            let mut response = Response::new(blocks.boxed());
            response.headers_mut().insert("content-length", HeaderValue::from(bytes));
            response
        }
        "/trailers" => {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            let body = request.into_body().map_err(|_| unreachable_body());
            let mut response = Response::new(body.with_trailers(async move { Some(Ok(trailers)) }).boxed());
            response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
            response.headers_mut().insert("trailer", HeaderValue::from_static("grpc-status"));
            response
        }
        "/hang" => std::future::pending().await,
        "/slow" => {
            tokio::time::sleep(Duration::from_millis(query.parse().unwrap_or(200))).await;
            Response::new(full(name.to_owned()))
        }
        "/status" => {
            let mut response = Response::new(full(name.to_owned()));
            *response.status_mut() = query.parse().unwrap_or(StatusCode::OK);
            response
        }
        "/upgrade" => {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let Ok(upgraded) = upgrade.await else { return };
                let mut stream = TokioIo::new(upgraded);
                let mut bytes = [0; 1024];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    if stream.write_all(&bytes[..count]).await.is_err() {
                        return;
                    }
                }
            });
            let mut response = Response::new(full(""));
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert("connection", HeaderValue::from_static("upgrade"));
            response.headers_mut().insert("upgrade", HeaderValue::from_static("echo"));
            response
        }
        _ => Response::new(full(name.to_owned())),
    }
}

fn unreachable_body() -> Infallible {
    // A body that breaks off ends the task that serves it: there is nobody left to answer.
    std::panic::resume_unwind(Box::new("the body broke off"))
}

/// A body of so many bytes, made as it is read.
struct Blocks {
    left: u64,
    block: Bytes,
}

impl hyper::body::Body for Blocks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let count = self.left.min(self.block.len() as u64);
        self.left -= count;
        let block = self.block.slice(..count as usize);
        std::task::Poll::Ready((count > 0).then_some(Ok(Frame::data(block))))
    }
}

/// The head of a request as the backend got it.
fn head_of(request: &Request<Incoming>) -> String {
    let mut lines = vec![format!("{} {} {:?}", request.method(), request.uri(), request.version())];
    lines.extend(
        request.headers().iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))),
    );
    lines.join("\n")
}

/// A group of these backends.
pub(crate) fn group(backends: &[&Backend]) -> Group {
    Group {
        title: "Service default/web".to_owned(),
        endpoints: backends.iter().map(|backend| backend.endpoint()).collect(),
        ..Group::default()
    }
}

/// A route for everything below a path, to one group.
pub(crate) fn route(name: &str, prefix: &str, group: &str) -> Route {
    Route {
        name: name.to_owned(),
        matches: vec![RouteMatch {
            path: PathMatch::Prefix(prefix.to_owned()),
            method: None,
            headers: vec![],
            query: vec![],
        }],
        action: Action::Forward(Split { name: name.to_owned(), assignment: Assignment::whole(group), sticky: None }),
        ..Route::default()
    }
}

/// A split by weights.
pub(crate) fn split(weights: &[(&str, u16)]) -> Split {
    let weights: Vec<_> = weights.iter().map(|(group, weight)| ((*group).to_owned(), *weight)).collect();
    Split { name: "split".to_owned(), assignment: assign(None, &weights).expect("they add up"), sticky: None }
}

pub(crate) fn listener(name: &str, serves: Serves) -> Listener {
    Listener { name: name.to_owned(), address: ([127, 0, 0, 1], 0).into(), serves }
}

/// One listener `web` for everything to one group of these backends.
pub(crate) fn simple(backends: &[&Backend]) -> TableSpec {
    TableSpec {
        version: 1,
        listeners: vec![listener("web", Serves::Http { routes: "main".to_owned(), redirect_to_https_port: None })],
        route_sets: [("main".to_owned(), vec![route("all", "/", "web")])].into(),
        groups: [("web".to_owned(), group(backends))].into(),
        ..TableSpec::default()
    }
}

pub(crate) fn limits() -> Limits {
    Limits { threads: 2, ..Limits::default() }
}

pub(crate) fn start(spec: TableSpec) -> Result<Proxy> {
    start_with(spec, limits(), None)
}

pub(crate) fn start_with(spec: TableSpec, limits: Limits, log: Option<AccessLog>) -> Result<Proxy> {
    let (proxy, applied) = Proxy::start(Table::compile(spec)?, limits, log, vec![])?;
    ensure!(applied.faults.is_empty(), "{:?}", applied.faults);
    Ok(proxy)
}

pub(crate) fn address(proxy: &Proxy) -> Result<SocketAddr> {
    proxy.address("web").context("the listener is open")
}

/// What curl says; its exit code has to be 0.
pub(crate) fn curl(arguments: &[&str]) -> Result<String> {
    let output =
        Command::new("curl").args(["--silent", "--show-error", "--max-time", "60"]).args(arguments).output()?;
    ensure!(output.status.success(), "curl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Sends bytes and reads until the other side closes.
pub(crate) fn raw(address: SocketAddr, bytes: &[u8]) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(SOON))?;
    stream.write_all(bytes)?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => bail!("after {answer:?}: {error}"),
        _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}

/// Waits for something that is going to be so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + SOON;
    while !is_so()? {
        ensure!(Instant::now() < deadline, "it is still not so: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    Ok(())
}
