//! A server whose Pods are fakes, and clients that speak with them over real connections.

mod audited;
mod fake;
mod listening;
mod logs;
mod refusals;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use setpoint_store::{MemoryStore, Options};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::fairness::Limits;
use crate::{Identity, Issuer, Server, Setup, Surroundings, Users, audit};
use fake::Fake;

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(20);
const TOKEN: &str = "open-sesame";
const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";
const POD: &str = "/api/v1/namespaces/default/pods/web";

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} takes too long"))
}

/// Waits until something is so.
async fn until(what: &str, holds: impl Fn() -> bool) {
    within(what, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// A server with Pods: `web` with the container `c` on a node, `pair` with two, and `waiting` on none.
struct Cluster {
    server: Server,
    pods: Arc<Fake>,
}

impl Cluster {
    async fn new() -> Cluster {
        Cluster::limited(Limits::default()).await
    }

    async fn limited(limits: Limits) -> Cluster {
        let cluster = Cluster::unconnected(limits).await;
        cluster.server.connect_pods(cluster.pods.clone());
        cluster
    }

    async fn unconnected(limits: Limits) -> Cluster {
        Cluster::set_up(limits, None).await
    }

    async fn set_up(limits: Limits, audit: Option<audit::Log>) -> Cluster {
        let users = Users::new([(TOKEN.to_owned(), admin())]);
        let issuer = Issuer::new("https://setpoint.test", [Issuer::new_key()]).expect("a new key is a key");
        let setup = Setup { users, issuer, limits, audit, surroundings: Surroundings::default() };
        let store = Arc::new(MemoryStore::new(Options::default()));
        let server = Server::open(store, setup).await.expect("a server opens over a store in memory");
        let cluster = Cluster { server, pods: Arc::default() };
        let container = |name: &str| json!({"name": name, "command": ["sleep", "1"]});
        for (name, spec) in [
            ("web", json!({"nodeName": "local", "containers": [container("c")]})),
            ("pair", json!({"nodeName": "local", "containers": [container("a"), container("b")]})),
            ("waiting", json!({"containers": [container("c")]})),
        ] {
            let pod = json!({"metadata": {"name": name}, "spec": spec});
            cluster.write("/api/v1/namespaces/default/pods", pod).await;
        }
        cluster
    }

    /// Creates an object.
    async fn write(&self, path: &str, object: Value) {
        let (code, body) = self.ask(Method::POST, path, object).await;
        assert_eq!(code, StatusCode::CREATED, "{path}: {body}");
    }

    /// Asks as the administrator, in this process.
    async fn ask(&self, method: Method, path: &str, object: Value) -> (StatusCode, String) {
        let body = if object.is_null() { String::new() } else { object.to_string() };
        let mut request = Request::new(Full::new(Bytes::from(body)));
        (*request.method_mut(), *request.uri_mut()) = (method, path.parse().expect("a path"));
        request.extensions_mut().insert(admin());
        let answer = within(path, self.server.handle(request)).await;
        let (code, body) = (answer.status(), within(path, answer.into_body().collect()).await);
        (code, String::from_utf8_lossy(&body.expect("a body cannot fail").to_bytes()).into_owned())
    }

    /// Asks for a session as the administrator.
    async fn session(&self, path: &str, protocol: &str) -> Client {
        let opened = self.open(&admin(), Method::GET, path, &websocket(protocol)).await;
        opened.unwrap_or_else(|(code, body)| panic!("{path}: {code} {body}"))
    }

    /// Asks for a session over a connection that holds little; or says why there is none.
    async fn open(
        &self,
        who: &Identity,
        method: Method,
        path: &str,
        headers: &http::HeaderMap,
    ) -> Result<Client, (u16, String)> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (server, who) = (self.server.clone(), who.clone());
        let service = hyper::service::service_fn(move |mut request: Request<hyper::body::Incoming>| {
            let server = server.clone();
            request.extensions_mut().insert(who.clone());
            async move { Ok::<_, std::convert::Infallible>(server.handle(request).await) }
        });
        let http = hyper::server::conn::http1::Builder::new();
        tokio::spawn(http.serve_connection(TokioIo::new(far), service).with_upgrades());
        Client::connect(near, method, path, headers).await
    }
}

fn admin() -> Identity {
    Identity::new("admin", ["system:masters"])
}

/// What a client sends that wants a WebSocket.
fn websocket(protocol: &str) -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    for (name, value) in [
        (CONNECTION, "Upgrade"),
        (UPGRADE, "websocket"),
        (SEC_WEBSOCKET_VERSION, "13"),
        (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
        (SEC_WEBSOCKET_PROTOCOL, protocol),
    ] {
        if !value.is_empty() {
            headers.insert(name, value.parse().expect("a header"));
        }
    }
    headers
}

/// A client's end of a session.
struct Client(WebSocketStream<TokioIo<Upgraded>>);

impl Client {
    async fn connect(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        method: Method,
        path: &str,
        headers: &http::HeaderMap,
    ) -> Result<Client, (u16, String)> {
        let http = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = within("a handshake", http).await.expect("a connection");
        tokio::spawn(connection.with_upgrades());
        let mut request = Request::new(Empty::<Bytes>::new());
        (*request.method_mut(), *request.uri_mut()) = (method, path.parse().expect("a path"));
        *request.headers_mut() = headers.clone();
        let answer = within(path, sender.send_request(request)).await.expect("an answer");
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let code = answer.status().as_u16();
            let body = within(path, answer.into_body().collect()).await.expect("a body").to_bytes();
            let status: Value = serde_json::from_slice(&body).unwrap_or_default();
            return Err((code, status["message"].as_str().unwrap_or_default().to_owned()));
        }
        assert_eq!(answer.headers().get(SEC_WEBSOCKET_PROTOCOL), headers.get(SEC_WEBSOCKET_PROTOCOL));
        let upgraded = within("an upgrade", hyper::upgrade::on(answer)).await.expect("an upgrade");
        Ok(Client(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await))
    }

    /// Says something on a channel.
    async fn say(&mut self, channel: u8, data: &[u8]) {
        let message = [&[channel], data].concat();
        within("saying something", self.0.send(Message::Binary(message.into()))).await.expect("it is sent");
    }

    /// The next message; `None` when the server closed in good order.
    async fn hear(&mut self) -> Option<(u8, String)> {
        loop {
            match within("hearing something", self.0.next()).await.expect("a close comes first").expect("no error") {
                Message::Binary(message) => {
                    let (channel, data) = message.split_first().expect("a channel");
                    return Some((*channel, String::from_utf8_lossy(data).into_owned()));
                }
                Message::Close(close) => {
                    assert_eq!(close.map(|close| u16::from(close.code)), Some(1000), "in good order");
                    return None;
                }
                _ => {}
            }
        }
    }

    /// All that comes until the end, by channel.
    async fn rest(mut self) -> [String; 3] {
        let mut all = <[String; 3]>::default();
        while let Some((channel, data)) = self.hear().await {
            all[usize::from(channel) - 1].push_str(&data);
        }
        all
    }
}

/// The message of the status that ended a session.
fn message(status: &str) -> String {
    let status: Value = serde_json::from_str(status).unwrap_or_else(|error| panic!("{status:?} is a Status: {error}"));
    status["message"].as_str().unwrap_or_default().to_owned()
}
