//! Shows what is counted to whoever connects from this machine: plain HTTP, one path.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// How many may ask at the same time.
const CONNECTIONS: usize = 16;
/// How long one may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}; choose another with --metrics"))?;
    tracing::info!(address = %listener.local_addr()?, "shows what is counted under /metrics");
    Ok(listener)
}

/// Answers for ever.
pub(super) async fn serve(listener: TcpListener, registry: Arc<Registry>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files, for example: that passes.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let registry = registry.clone();
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(|request| {
                let answer = answer(&request, &registry);
                async { Ok::<_, Infallible>(answer) }
            });
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
            // Whoever asked has gone away.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn answer(request: &Request<Incoming>, registry: &Registry) -> Response<String> {
    let mut text = String::new();
    let code = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") if encode(&mut text, registry).is_ok() => StatusCode::OK,
        (&Method::GET, "/metrics") => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::NOT_FOUND,
    };
    let mut response = Response::new(text);
    *response.status_mut() = code;
    let form = http::HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, form);
    response
}
