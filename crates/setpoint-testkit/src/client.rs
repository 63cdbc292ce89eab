//! One HTTPS connection to an API server, for raw requests and watches.
//!
//! A [`Client`] speaks HTTP/1.1 on one keep-alive connection, opens it when first needed and again after it broke. It
//! never repeats a request: when a call fails, the request may or may not have been carried out.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::kubeconfig::Kubeconfig;

/// One connection to an API server.
#[derive(Debug)]
pub struct Client {
    kubeconfig: Kubeconfig,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// A response that has been read to its end.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("{} with a body that is not JSON: {:?}", self.status, self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The object, or an error that shows the answer if it is not a success.
    pub fn success(self) -> Result<Value> {
        if !self.status.is_success() {
            bail!("{}: {}", self.status, self.text());
        }
        self.json()
    }
}

impl Client {
    pub fn new(kubeconfig: &Kubeconfig) -> Result<Self> {
        let authorization = match &kubeconfig.token {
            None => None,
            Some(token) => Some(HeaderValue::from_str(&format!("Bearer {token}"))?),
        };
        let host = HeaderValue::from_str(&format!("{}:{}", kubeconfig.host, kubeconfig.port))?;
        Ok(Self { kubeconfig: kubeconfig.clone(), host, authorization, connection: None })
    }

    pub async fn get(&mut self, path: &str) -> Result<Answer> {
        self.call(Method::GET, path, None).await
    }

    pub async fn post(&mut self, path: &str, object: &Value) -> Result<Answer> {
        self.call(Method::POST, path, Some(("application/json", object))).await
    }

    pub async fn put(&mut self, path: &str, object: &Value) -> Result<Answer> {
        self.call(Method::PUT, path, Some(("application/json", object))).await
    }

    /// `kind` is the patch's content type without its `application/` and `+json`: `merge-patch`, `json-patch`, ….
    pub async fn patch(&mut self, path: &str, kind: &str, patch: &Value) -> Result<Answer> {
        self.call(Method::PATCH, path, Some((&format!("application/{kind}+json"), patch))).await
    }

    /// A server-side apply. The path's query names the manager.
    pub async fn apply(&mut self, path: &str, config: &Value) -> Result<Answer> {
        self.call(Method::PATCH, path, Some(("application/apply-patch+yaml", config))).await
    }

    pub async fn delete(&mut self, path: &str) -> Result<Answer> {
        self.call(Method::DELETE, path, None).await
    }

    async fn call(&mut self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Answer> {
        let mut request = Request::builder().method(method).uri(path);
        let mut bytes = Bytes::new();
        if let Some((content_type, value)) = body {
            request = request.header(CONTENT_TYPE, content_type);
            bytes = serde_json::to_vec(value)?.into();
        }
        self.send(request.body(bytes)?).await
    }

    /// Sends a request, with the identity added, and reads the whole response.
    pub async fn send(&mut self, request: Request<Bytes>) -> Result<Answer> {
        let response = self.open(request).await?;
        let (head, body) = response.into_parts();
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => {
                self.connection = None;
                return Err(error.into());
            }
        };
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// Opens a watch and uses up this client: the connection is the watch's until it ends.
    pub async fn watch(mut self, path: &str) -> Result<Lines> {
        let response = self.open(Request::get(path).body(Bytes::new())?).await?;
        let status = response.status();
        if !status.is_success() {
            let body = response.into_body().collect().await?.to_bytes();
            bail!("{status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(Lines { body: response.into_body(), buffer: BytesMut::new(), scanned: 0 })
    }

    /// Sends a request and returns the response before its body has been read.
    pub async fn open(&mut self, request: Request<Bytes>) -> Result<Response<Incoming>> {
        let mut request = request.map(Full::new);
        request.headers_mut().insert(HOST, self.host.clone());
        if let Some(authorization) = &self.authorization {
            request.headers_mut().entry(AUTHORIZATION).or_insert_with(|| authorization.clone());
        }
        let mut connection = match self.connection.take() {
            Some(connection) if !connection.is_closed() => connection,
            _ => self.connect().await?,
        };
        connection.ready().await?;
        let response = connection.send_request(request).await?;
        self.connection = Some(connection);
        Ok(response)
    }

    /// Opens the connection now, so that the first request does not pay for it.
    pub async fn warm(&mut self) -> Result<()> {
        if self.connection.is_none() {
            self.connection = Some(self.connect().await?);
        }
        Ok(())
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let stream = connect_tls(&self.kubeconfig).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // An error of the connection reaches the request it breaks.
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// A bare TLS stream to the server, for requests that no HTTP library would send.
pub async fn connect_tls(kubeconfig: &Kubeconfig) -> Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect((kubeconfig.host.as_str(), kubeconfig.port)).await?;
    stream.set_nodelay(true)?;
    Ok(TlsConnector::from(kubeconfig.tls.clone()).connect(kubeconfig.name.clone(), stream).await?)
}

/// The same for HTTP/2, of which nothing has been sent yet.
pub async fn connect_http2(kubeconfig: &Kubeconfig) -> Result<TlsStream<TcpStream>> {
    let mut kubeconfig = kubeconfig.clone();
    Arc::make_mut(&mut kubeconfig.tls).alpn_protocols = vec![b"h2".to_vec()];
    connect_tls(&kubeconfig).await
}

/// The lines of a watch, as they arrive.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    scanned: usize,
}

impl Lines {
    /// The next line without its end; `None` when the server ended the watch. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(end) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(self.scanned + end + 1);
                line.truncate(line.len() - 1);
                self.scanned = 0;
                return Ok(Some(line.freeze()));
            }
            self.scanned = self.buffer.len();
            match self.body.frame().await {
                None if self.buffer.is_empty() => return Ok(None),
                None => bail!("the watch ended in the middle of a line"),
                Some(frame) => self.buffer.extend(frame?.into_data().ok()),
            }
        }
    }

    /// The next event, parsed.
    pub async fn event(&mut self) -> Result<Option<Value>> {
        match self.next().await? {
            None => Ok(None),
            Some(line) => Ok(Some(serde_json::from_slice(&line)?)),
        }
    }
}
