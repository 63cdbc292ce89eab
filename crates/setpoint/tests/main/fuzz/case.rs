//! One request, well-formed or not.

use std::fmt;

use anyhow::Result;
use bytes::Bytes;
use http::{Request, StatusCode};
use setpoint_testkit::client::connect_tls;
use setpoint_testkit::{Answer, Kubeconfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[derive(Clone)]
pub(super) struct Case {
    pub(super) method: String,
    pub(super) path: String,
    /// Names and values as they stand in the address.
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
}

impl Case {
    fn target(&self) -> String {
        let query: Vec<String> = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, query.join("&")) }
    }

    /// The request, if it is one that an HTTP library would send.
    pub(super) fn request(&self) -> Option<Request<Bytes>> {
        if !self.path.starts_with('/') {
            return None;
        }
        let mut request = Request::builder().method(self.method.as_bytes()).uri(self.target());
        for (name, value) in &self.headers {
            request = request.header(name, value.as_slice());
        }
        request.body(self.body.clone().into()).ok()
    }

    /// Sends the bytes of a request that no HTTP library would send, and reads the status if there is an answer.
    pub(super) async fn send_raw(&self, kubeconfig: &Kubeconfig) -> Result<Option<Answer>> {
        let mut stream = connect_tls(kubeconfig).await?;
        let token = kubeconfig.token.as_deref().unwrap_or("");
        let mut bytes = format!("{} {} HTTP/1.1\r\nhost: fuzz\r\n", self.method, self.target()).into_bytes();
        bytes.extend(format!("authorization: Bearer {token}\r\nconnection: close\r\n").bytes());
        for (name, value) in &self.headers {
            bytes.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        bytes.extend(format!("content-length: {}\r\n\r\n", self.body.len()).bytes());
        bytes.extend(&self.body);
        let mut head = vec![0; 4096];
        // The server may close the connection before it has read everything, or instead of an answer.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.flush().await;
        let Ok(length) = stream.read(&mut head).await else { return Ok(None) };
        let status =
            head[..length].strip_prefix(b"HTTP/1.1 ").and_then(|rest| StatusCode::from_bytes(rest.get(..3)?).ok());
        Ok(status.map(|status| Answer { status, headers: Default::default(), body: Bytes::new() }))
    }

    pub(super) fn is_watch(&self) -> bool {
        self.path.contains("watch") || self.query.iter().any(|(name, _)| name.contains("watch"))
    }

    /// More than a server has to read before it answers: it reads little where no body belongs, or from strangers.
    pub(super) fn is_oversized(&self) -> bool {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.body.len() > 8 << 10 || self.target().len() + headers > 8 << 10
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shorten = |bytes: &[u8]| {
            let text: String = String::from_utf8_lossy(bytes).chars().take(500).collect();
            if text.len() < bytes.len() { format!("{text}… ({} bytes)", bytes.len()) } else { text }
        };
        writeln!(f, "{} {}", self.method, shorten(self.target().as_bytes()))?;
        for (name, value) in &self.headers {
            writeln!(f, "{name}: {}", shorten(value))?;
        }
        writeln!(f, "\n{}", shorten(&self.body))
    }
}
