//! A real etcd, and a client that puts.
//!
//! The client speaks just enough gRPC for one call: a request is one length-prefixed protobuf message with two byte
//! fields, and of the response only the status matters.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::{BufMut, Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use setpoint_testkit::wait_for;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::load::Operation;
use crate::object;

/// An etcd process with its own folder and ports. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Etcd {
    process: Child,
    port: u16,
    /// Removed after the process has ended.
    _folder: TempDir,
}

impl Etcd {
    pub(crate) async fn start(program: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("etcd-").tempdir()?;
        let (port, peer_port) = free_ports()?;
        let (client_url, peer_url) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
        let process = Command::new(program)
            .args(["--name", "bench", "--log-level", "error", "--data-dir"])
            .arg(folder.path().join("data"))
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("bench={peer_url}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}; Debian has it in etcd-server", program.display()))?;
        let etcd = Self { process, port, _folder: folder };
        wait_for("etcd to accept a put", Duration::from_secs(30), || async {
            let Ok(mut putter) = etcd.putter().await else { return Ok(None) };
            Ok(putter.put("/warm-up", b"1").await.ok())
        })
        .await?;
        Ok(etcd)
    }

    /// One connection for each of so many clients.
    pub(crate) async fn putters(&self, count: usize) -> Result<Vec<Putter>> {
        let mut putters = Vec::with_capacity(count);
        for _ in 0..count {
            putters.push(self.putter().await?);
        }
        Ok(putters)
    }

    async fn putter(&self) -> Result<Putter> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let (connection, driver) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        let uri = format!("http://127.0.0.1:{}/etcdserverpb.KV/Put", self.port).parse()?;
        Ok(Putter { connection, uri })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // Nothing can be done about a process that cannot be killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two ports that were free a moment ago.
fn free_ports() -> Result<(u16, u16)> {
    let (first, second) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    Ok((first.local_addr()?.port(), second.local_addr()?.port()))
}

/// One connection to etcd.
#[derive(Debug)]
pub(crate) struct Putter {
    connection: SendRequest<Full<Bytes>>,
    uri: http::Uri,
}

impl Putter {
    async fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        let request = Request::post(self.uri.clone())
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(put_message(key.as_bytes(), value)))?;
        let response = self.connection.send_request(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?;
        // An error without a message has its status among the headers.
        let status = body.trailers().and_then(|trailers| trailers.get("grpc-status"));
        let status = status.or_else(|| head.headers.get("grpc-status"));
        ensure!(status.is_some_and(|status| status == "0"), "etcd refused a put: {status:?}");
        Ok(())
    }
}

impl Operation for Putter {
    async fn run(&mut self, sequence: u64) -> Result<()> {
        let name = object::name(sequence);
        self.put(&format!("/registry/configmaps/bench/{name}"), &object::config_map(&name)).await
    }
}

/// A gRPC frame with a `PutRequest`: field 1 is the key, field 2 the value.
fn put_message(key: &[u8], value: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(key.len() + value.len() + 16);
    for (tag, bytes) in [(0x0a, key), (0x12, value)] {
        message.put_u8(tag);
        put_varint(&mut message, bytes.len());
        message.put_slice(bytes);
    }
    let mut frame = BytesMut::with_capacity(message.len() + 5);
    frame.put_u8(0);
    frame.put_u32(message.len() as u32);
    frame.put_slice(&message);
    frame.freeze()
}

fn put_varint(buffer: &mut BytesMut, mut value: usize) {
    while value >= 0x80 {
        buffer.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.put_u8(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_is_framed_as_grpc_wants_it() {
        assert_eq!(put_message(b"k", b"vv").as_ref(), b"\0\0\0\0\x07\x0a\x01k\x12\x02vv");
        let long = put_message(b"k", &[b'v'; 300]);
        assert_eq!(long[5..12], [0x0a, 1, b'k', 0x12, 0xac, 0x02, b'v']);
    }
}
