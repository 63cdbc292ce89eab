//! HTTP/2 through the proxy: curl, and a client that streams as gRPC does.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Request;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::Frame;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use setpoint_proxy::table::Protocol;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::fixture::{Backend, SOON, address, curl, simple, start};

fn in_runtime<T>(test: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { tokio::time::timeout(SOON, test).await.context("it took too long")? })
}

async fn client<B>(proxy: &setpoint_proxy::Proxy) -> Result<http2::SendRequest<B>>
where
    B: hyper::body::Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = TcpStream::connect(address(proxy)?).await?;
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

#[test]
fn curl_speaks_http2_to_http1_backends() -> Result<()> {
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    let url = format!("http://{}", address(&proxy)?);
    let head = curl(&["--http2-prior-knowledge", "-H", "Cookie: a=1; b=2", &format!("{url}/head")])?;
    ensure!(head.starts_with("GET /head HTTP/1.1\n"), "{head}");
    ensure!(head.contains(&format!("host: {}", address(&proxy)?)) && head.contains("cookie: a=1; b=2"), "{head}");
    ensure!(curl(&["--http2-prior-knowledge", "-d", "hello", &format!("{url}/echo")])? == "hello");
    let large = curl(&[
        "--http2-prior-knowledge",
        "-o",
        "/dev/null",
        "-w",
        "%{size_download}",
        &format!("{url}/download?5000000"),
    ])?;
    ensure!(large == "5000000");
    ensure!(curl(&["--http2", "-i", &url])?.starts_with("HTTP/1.1 200"), "an upgrade to h2c is ignored");
    let climbing = curl(&["--http2-prior-knowledge", "--path-as-is", "-i", &format!("{url}/a/../b")])?;
    ensure!(climbing.starts_with("HTTP/2 400"), "{climbing}");
    Ok(())
}

#[test]
fn grpc_streams_both_ways_with_trailers() -> Result<()> {
    let backend = Backend::start("web")?;
    let mut spec = simple(&[&backend]);
    spec.groups.get_mut("web").expect("the group").protocol = Protocol::Http2;
    let proxy = start(spec)?;
    in_runtime(async {
        let mut sender = client::<BoxBody<Bytes, Infallible>>(&proxy).await?;
        let (messages, receiver) = mpsc::unbounded_channel::<Bytes>();
        let request = Request::post(format!("http://{}/trailers", address(&proxy)?))
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .body(BoxBody::new(ChannelBody(receiver)))?;
        let mut response = sender.send_request(request).await?.into_body();
        for number in 0..100 {
            let message = Bytes::from(format!("message {number}"));
            messages.send(message.clone())?;
            let frame = response.frame().await.context("an answer to each message")??;
            ensure!(frame.data_ref() == Some(&message), "{frame:?}");
        }
        drop(messages);
        let trailers = loop {
            let frame = response.frame().await.context("trailers")??;
            if let Ok(trailers) = frame.into_trailers() {
                break trailers;
            }
        };
        ensure!(trailers["grpc-status"] == "0");
        Ok(())
    })?;
    ensure!(backend.connections.load(std::sync::atomic::Ordering::SeqCst) == 1);
    Ok(())
}

#[test]
fn many_streams_share_few_connections() -> Result<()> {
    let backend = Backend::start("web")?;
    let mut spec = simple(&[&backend]);
    spec.groups.get_mut("web").expect("the group").protocol = Protocol::Http2;
    let proxy = start(spec)?;
    in_runtime(async {
        let sender = client::<Empty<Bytes>>(&proxy).await?;
        let mut streams = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let mut sender = sender.clone();
            let request = Request::get(format!("http://{}/slow?100", address(&proxy)?)).body(Empty::new())?;
            streams.spawn(async move { anyhow::Ok(sender.send_request(request).await?.collect().await?.to_bytes()) });
        }
        while let Some(body) = streams.join_next().await {
            ensure!(body?? == "web");
        }
        Ok(())
    })?;
    ensure!(backend.connections.load(std::sync::atomic::Ordering::SeqCst) <= 2);
    Ok(())
}

#[test]
fn a_grpc_client_is_told_in_its_own_way() -> Result<()> {
    let proxy = start(simple(&[]))?;
    in_runtime(async {
        let mut sender = client::<Empty<Bytes>>(&proxy).await?;
        let request = Request::post(format!("http://{}/svc/Method", address(&proxy)?))
            .header("content-type", "application/grpc")
            .body(Empty::new())?;
        let response = sender.send_request(request).await?;
        ensure!(response.status() == 200 && response.headers()["grpc-status"] == "14", "{response:?}");
        Ok(())
    })
}

#[test]
fn rapid_resets_end_the_connection_and_nobody_else_is_hurt() -> Result<()> {
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    in_runtime(async {
        let mut sender = client::<Empty<Bytes>>(&proxy).await?;
        let mut opened = 0;
        // Each request is given up as soon as it is sent.
        while !sender.is_closed() && opened < 20_000 {
            let request = Request::get(format!("http://{}/hang", address(&proxy)?)).body(Empty::new())?;
            let sending = tokio::time::timeout(Duration::ZERO, sender.send_request(request));
            let _given_up = sending.await;
            opened += 1;
            tokio::task::yield_now().await;
        }
        let mut other = client::<Empty<Bytes>>(&proxy).await?;
        let request = Request::get(format!("http://{}/", address(&proxy)?)).body(Empty::new())?;
        ensure!(other.send_request(request).await?.status() == 200);
        Ok(())
    })?;
    crate::fixture::eventually("nothing is left of them", || Ok(proxy.in_flight_to(backend.address) == 0))
}

/// A body of what is sent through a channel.
struct ChannelBody(mpsc::UnboundedReceiver<Bytes>);

impl hyper::body::Body for ChannelBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|message| message.map(|bytes| Ok(Frame::data(bytes))))
    }
}
