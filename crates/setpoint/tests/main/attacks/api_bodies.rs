//! Bodies that are larger than the server takes, from clients that send all of one before they read.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use setpoint_testkit::client::{connect_http2, connect_tls};
use setpoint_testkit::{Kubeconfig, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::SETPOINT;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PATIENCE: Duration = Duration::from_secs(30);
const CHUNK: usize = 64 * 1024;
/// Ten times what is taken, and more than any buffer between the two holds.
const CHUNKS: usize = 512;

fn ensure_told(row: &str, status: u16, body: &[u8], code: u16, reason: &str) -> Result<()> {
    let said: Value =
        serde_json::from_slice(body).with_context(|| format!("{row}: {}", String::from_utf8_lossy(body)))?;
    ensure!(status == code && said["reason"] == reason && said["code"] == code, "{row}: {status} {said}");
    Ok(())
}

/// Sends a head and a body on a connection of its own and only then reads, as simple clients do. Gives the status and body.
async fn send_then_read(kubeconfig: &Kubeconfig, head: &str, chunk: &[u8], end: &[u8]) -> Result<(u16, Vec<u8>)> {
    let mut stream = connect_tls(kubeconfig).await?;
    let send = async {
        stream.write_all(head.as_bytes()).await?;
        for _ in 0..CHUNKS {
            stream.write_all(chunk).await?;
        }
        stream.write_all(end).await?;
        stream.flush().await
    };
    timeout(PATIENCE, send).await?.context("the body could not be sent")?;
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await?.context("the answer could not be read")?;
    let end = memchr::memmem::find(&answer, b"\r\n\r\n").context("no head")?;
    let (head, body) = (String::from_utf8_lossy(&answer[..end]).into_owned(), answer[end + 4..].to_vec());
    ensure!(head.to_lowercase().contains("connection: close"), "{head}");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).with_context(|| head.clone())?;
    Ok((status, body))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_over_the_limit_is_told_to_who_reads_last() -> Result<()> {
    let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    let kubeconfig = server.kubeconfig()?;
    let token = kubeconfig.token.clone().context("the administrator has a token")?;
    let head = |path: &str, token: &str, framing: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n{framing}\r\n\r\n"
        )
    };
    let data = vec![b' '; CHUNK];
    let length = format!("Content-Length: {}", CHUNKS * CHUNK);
    let framed = [format!("{CHUNK:x}\r\n").as_bytes(), &data, b"\r\n"].concat();
    let before = server.peak_memory()?;

    let (status, body) = send_then_read(&kubeconfig, &head(CONFIG_MAPS, &token, &length), &data, b"").await?;
    ensure_told("its length is announced", status, &body, 413, "RequestEntityTooLarge")?;
    let chunked = head(CONFIG_MAPS, &token, "Transfer-Encoding: chunked");
    let (status, body) = send_then_read(&kubeconfig, &chunked, &framed, b"0\r\n\r\n").await?;
    ensure_told("in chunks", status, &body, 413, "RequestEntityTooLarge")?;
    let (status, body) = send_then_read(&kubeconfig, &head("/version", &token, &length), &data, b"").await?;
    ensure_told("where none is taken", status, &body, 413, "RequestEntityTooLarge")?;

    let growth = server.peak_memory()?.saturating_sub(before);
    ensure!(growth < 64 << 20, "bodies that are not wanted cost {} MiB", growth >> 20);
    server.client()?.get(CONFIG_MAPS).await?.success()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_told_so_too() -> Result<()> {
    let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    let kubeconfig = server.kubeconfig()?;
    let data = vec![b' '; 4 * 1024];
    let length = CHUNKS * data.len();
    let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    let (status, body) = send_then_read(&kubeconfig, &head, &data, b"").await?;
    ensure_told("who is it?", status, &body, 401, "Unauthorized")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http2_it_is_told_as_well() -> Result<()> {
    let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    let kubeconfig = server.kubeconfig()?;
    let token = kubeconfig.token.clone().context("the administrator has a token")?;
    let stream = TokioIo::new(connect_http2(&kubeconfig).await?);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
    tokio::spawn(connection);
    for (row, length) in [("of unknown length", None), ("its length is announced", Some(CHUNKS * CHUNK))] {
        let (all_sent, sent) = oneshot::channel();
        let mut all_sent = Some(all_sent);
        let frames = stream::iter(0..CHUNKS).map(move |number| {
            if number + 1 == CHUNKS
                && let Some(all_sent) = all_sent.take()
            {
                let _ = all_sent.send(());
            }
            Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(vec![b' '; CHUNK])))
        });
        let mut request = Request::post(format!("https://a{CONFIG_MAPS}"))
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        let response = sender.send_request(request.body(StreamBody::new(frames).boxed_unsync())?);
        let response = timeout(PATIENCE, response).await?.with_context(|| row.to_owned())?;
        let status = response.status().as_u16();
        // A client that sends first would not have looked at the answer yet: it is let send.
        timeout(PATIENCE, sent).await.with_context(|| format!("{row}: the rest is not taken"))??;
        let body = timeout(PATIENCE, response.into_body().collect()).await??.to_bytes();
        ensure_told(row, status, &body, 413, "RequestEntityTooLarge")?;
    }
    Ok(())
}
