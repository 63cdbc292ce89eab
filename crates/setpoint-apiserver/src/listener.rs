//! Accepting connections: TLS, HTTP/1.1 and HTTP/2, and a stop that lets answers finish.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::authentication::ClientCertificate;
use crate::server::Server;

/// A client that has not finished its handshake by then is not going to.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection may wait for its next request.
const IDLE: Duration = Duration::from_secs(90);
/// The largest head of a request: a selector in its address may name thousands of objects.
const HEADERS: u32 = 1 << 20;
/// Connections open at once; more wait in the kernel's queue.
const CONNECTIONS: usize = 20_000;

/// Serves until `stop` resolves, then waits up to `drain` for answers under way.
pub async fn serve(
    server: Server,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    stop: impl Future<Output = ()>,
    drain: Duration,
) {
    let acceptor = TlsAcceptor::from(tls);
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accept = async {
            let slot = slots.clone().acquire_owned().await.expect("the semaphore is never closed");
            (slot, listener.accept().await)
        };
        let (slot, stream) = tokio::select! {
            (slot, accepted) = accept => match accepted {
                Ok((stream, _)) => (slot, stream),
                Err(error) => {
                    // Out of file descriptors, most likely: give those in use a moment to end.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        let (server, acceptor, watcher) = (server.clone(), acceptor.clone(), graceful.watcher());
        tokio::spawn(async move {
            let _slot = slot;
            connection(server, acceptor, watcher, stream).await;
        });
    }
    server.stop();
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(seconds = drain.as_secs(), "some requests did not finish in time and are cut off");
    }
}

async fn connection(
    server: Server,
    acceptor: TlsAcceptor,
    watcher: hyper_util::server::graceful::Watcher,
    stream: TcpStream,
) {
    // Small answers and watch events should not wait for more to send.
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(HEADERS as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .max_concurrent_streams(1000)
        .max_header_list_size(HEADERS)
        .adaptive_window(true);
    // TLS has verified it; whether it is revoked, or has expired meanwhile, is asked at each request.
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificate = certificates.first().and_then(|first| ClientCertificate::read(first)).map(Arc::new);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        let server = server.clone();
        if let Some(certificate) = &certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        async move { Ok::<_, Infallible>(server.handle(request).await) }
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}
