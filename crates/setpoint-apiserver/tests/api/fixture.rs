//! A server over a store in memory, and requests to it that read as sentences.

use std::collections::BTreeSet;
use std::future::{Future, IntoFuture};
use std::ops::Index;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WARNING};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use setpoint_apiserver::fairness::Limits;
use setpoint_apiserver::response::{Body, Response};
use setpoint_apiserver::{Identity, Issuer, Server, Setup, Surroundings, Users, audit};
use setpoint_store::{MemoryStore, Options, Store};
use tower::ServiceExt;

pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
pub(crate) const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const TOKEN: &str = "open-sesame";

/// What the servers of tests are called in tokens.
pub(crate) const URL: &str = "https://setpoint.test";

/// One key for all, so that a server knows the tokens of the one before it.
static ISSUER: LazyLock<Issuer> = LazyLock::new(|| Issuer::new(URL, [Issuer::new_key()]).expect("a new key is a key"));

/// A server of a test's own.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) server: Server,
    pub(crate) store: Arc<dyn Store>,
    /// Who its requests come from.
    who: Identity,
}

impl Api {
    pub(crate) async fn new() -> Api {
        Api::with(Options::default()).await
    }

    /// A server that remembers no more than this many changes.
    pub(crate) async fn forgetting_after(history_commits: usize) -> Api {
        Api::with(Options { history_commits, ..Options::default() }).await
    }

    async fn with(options: Options) -> Api {
        Api::over(Arc::new(MemoryStore::new(options))).await
    }

    /// Another server over what this one has stored, as after a restart.
    pub(crate) async fn reopened(&self) -> Api {
        Api::over(self.store.clone()).await
    }

    pub(crate) async fn over(store: Arc<dyn Store>) -> Api {
        Api::set_up(store, Limits::default(), None).await
    }

    /// A server with limits and an audit log of a test's own.
    pub(crate) async fn set_up(store: Arc<dyn Store>, limits: Limits, audit: Option<audit::Log>) -> Api {
        let users = Users::new([(TOKEN.to_owned(), identity())]);
        let setup = Setup { users, issuer: ISSUER.clone(), limits, audit, surroundings: Surroundings::default() };
        let server = Server::open(store.clone(), setup).await.expect("a server opens over a store in memory");
        Api { server, store, who: identity() }
    }

    /// The same server, asked by somebody else.
    pub(crate) fn as_user<const N: usize>(&self, user: &str, groups: [&str; N]) -> Api {
        Api { who: Identity::new(user, groups), ..self.clone() }
    }

    pub(crate) fn get(&self, path: impl AsRef<str>) -> Sending {
        self.send(Method::GET, path)
    }

    pub(crate) fn delete(&self, path: impl AsRef<str>) -> Sending {
        self.send(Method::DELETE, path)
    }

    /// A deletion that says more, in a `DeleteOptions` without its type.
    pub(crate) fn delete_with(&self, path: impl AsRef<str>, options: Value) -> Sending {
        self.send(Method::DELETE, path).json(options)
    }

    pub(crate) fn post(&self, path: impl AsRef<str>, object: Value) -> Sending {
        self.send(Method::POST, path).json(object)
    }

    pub(crate) fn put(&self, path: impl AsRef<str>, object: Value) -> Sending {
        self.send(Method::PUT, path).json(object)
    }

    pub(crate) fn merge_patch(&self, path: impl AsRef<str>, patch: Value) -> Sending {
        self.send(Method::PATCH, path).body("application/merge-patch+json", patch.to_string())
    }

    pub(crate) fn json_patch(&self, path: impl AsRef<str>, patch: Value) -> Sending {
        self.send(Method::PATCH, path).body("application/json-patch+json", patch.to_string())
    }

    pub(crate) fn strategic_patch(&self, path: impl AsRef<str>, patch: Value) -> Sending {
        self.send(Method::PATCH, path).body("application/strategic-merge-patch+json", patch.to_string())
    }

    /// An apply; the path may have a query.
    pub(crate) fn apply(&self, path: impl AsRef<str>, manager: &str, config: Value) -> Sending {
        let path = path.as_ref();
        let mark = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{mark}fieldManager={manager}");
        self.send(Method::PATCH, path).body("application/apply-patch+yaml", config.to_string())
    }

    pub(crate) fn send(&self, method: Method, path: impl AsRef<str>) -> Sending {
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = method;
        *request.uri_mut() = path.as_ref().parse().expect("a test's path is a path");
        request.extensions_mut().insert(self.who.clone());
        Sending { server: self.server.clone(), request }
    }

    /// The names of a collection's objects, in the order of the list.
    pub(crate) async fn names(&self, path: impl AsRef<str>) -> Vec<String> {
        names(&self.get(path).await.expect(200)["items"])
    }

    /// Asks until the answer is as wanted.
    pub(crate) async fn eventually(&self, path: impl AsRef<str>, wanted: impl Fn(&Answer) -> bool) -> Answer {
        let path = path.as_ref();
        within(path, async {
            loop {
                let answer = self.get(path).await;
                if wanted(&answer) {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
    }
}

pub(crate) fn identity() -> Identity {
    Identity::new("tester", ["system:masters"])
}

/// The result of something that must not take for ever.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} took too long"))
}

pub(crate) fn names(items: &Value) -> Vec<String> {
    let items = items.as_array().into_iter().flatten();
    items.map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A request that is sent by awaiting it.
pub(crate) struct Sending {
    server: Server,
    request: Request<Bytes>,
}

impl Sending {
    pub(crate) fn header(mut self, name: impl http::header::IntoHeaderName, value: &str) -> Sending {
        self.request.headers_mut().insert(name, value.parse().expect("a test's header is a header"));
        self
    }

    /// The same header once more.
    pub(crate) fn also(mut self, name: &'static str, value: &str) -> Sending {
        self.request.headers_mut().append(name, value.parse().expect("a test's header is a header"));
        self
    }

    pub(crate) fn accept(self, media_type: &str) -> Sending {
        self.header(ACCEPT, media_type)
    }

    pub(crate) fn body(mut self, media_type: &str, body: impl Into<Bytes>) -> Sending {
        *self.request.body_mut() = body.into();
        self.header(CONTENT_TYPE, media_type)
    }

    fn json(self, object: Value) -> Sending {
        self.body("application/json", object.to_string())
    }

    /// From somebody else.
    pub(crate) fn by(mut self, user: &str) -> Sending {
        self.request.extensions_mut().insert(Identity::new(user, ["system:masters"]));
        self
    }

    /// From somebody the transport does not know.
    pub(crate) fn anonymous(mut self) -> Sending {
        self.request.extensions_mut().clear();
        self
    }

    pub(crate) fn version(mut self, version: http::Version) -> Sending {
        *self.request.version_mut() = version;
        self
    }

    /// As another user, in these groups.
    pub(crate) fn acting_as(self, user: &str, groups: &[&str]) -> Sending {
        let sending = self.header("impersonate-user", user);
        groups.iter().fold(sending, |sending, group| sending.also("impersonate-group", group))
    }

    /// From somebody whom the transport knows.
    pub(crate) fn known_as(mut self, identity: Identity) -> Sending {
        self.request.extensions_mut().insert(identity);
        self
    }

    pub(crate) fn token(self, token: &str) -> Sending {
        self.anonymous().header(AUTHORIZATION, &format!("Bearer {token}"))
    }

    async fn response(self) -> Response {
        let request = self.request.map(Full::new);
        within("a response", self.server.oneshot(request)).await.unwrap_or_else(|never| match never {})
    }

    /// Sends a watch, which must be let in.
    pub(crate) async fn watch(self) -> Watch {
        let response = self.response().await;
        assert_eq!(response.status(), StatusCode::OK, "the watch is let in");
        Watch { body: response.into_body(), pending: Vec::new() }
    }
}

impl IntoFuture for Sending {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (parts, body) = self.response().await.into_parts();
            let body = within("a body", body.collect()).await.unwrap_or_else(|never| match never {}).to_bytes();
            let object = serde_json::from_slice(&body).unwrap_or_default();
            Answer { status: parts.status.as_u16(), headers: parts.headers, body, object }
        })
    }
}

/// What came back. Its JSON is reached by indexing.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// `null` if the body is not JSON.
    pub(crate) object: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// Expects a `Status` with this code and reason whose message contains every one of these words.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, reason: &str, words: &[&str]) -> Answer {
        let answer = self.expect(status);
        assert_eq!((&answer["kind"], &answer["code"]), (&"Status".into(), &status.into()), "{}", answer.text());
        assert_eq!(answer["reason"], reason, "{}", answer.text());
        for word in words {
            assert!(answer.message().contains(word), "{word:?} is not in {:?}", answer.message());
        }
        answer
    }

    pub(crate) fn message(&self) -> &str {
        self["message"].as_str().unwrap_or_default()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or("(not text)")
    }

    /// What each manager owns, by its name, with `/subresource` where it is through one.
    pub(crate) fn owned(&self) -> Value {
        let entries = self["metadata"]["managedFields"].as_array().into_iter().flatten();
        let owned = entries.map(|entry| {
            let word = |field: &str| entry[field].as_str().unwrap_or_default();
            let through = if word("subresource").is_empty() { "" } else { "/" };
            let name = format!("{}{through}{}", word("manager"), word("subresource"));
            (name, entry["fieldsV1"].clone())
        });
        Value::Object(owned.collect())
    }

    /// The answer's `metadata.resourceVersion`.
    pub(crate) fn revision(&self) -> u64 {
        revision(&self.object)
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn warnings(&self) -> Vec<&str> {
        self.headers.get_all(WARNING).iter().filter_map(|value| value.to_str().ok()).collect()
    }

    /// The fields that a refusal names.
    pub(crate) fn fields(&self) -> BTreeSet<&str> {
        let causes = self["details"]["causes"].as_array().into_iter().flatten();
        causes.filter_map(|cause| cause["field"].as_str()).collect()
    }
}

impl Index<&str> for Answer {
    type Output = Value;

    fn index(&self, field: &str) -> &Value {
        &self.object[field]
    }
}

pub(crate) fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("{text:?} is a resourceVersion"))
}

/// The lines of a watch, as they come.
pub(crate) struct Watch {
    body: Body,
    pending: Vec<u8>,
}

impl Watch {
    /// The next event; `None` when the watch is over.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        within("the next event", async {
            loop {
                if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.pending.drain(..=end).collect();
                    return Some(serde_json::from_slice(&line).expect("every line of a watch is JSON"));
                }
                let frame = self.body.frame().await?.unwrap_or_else(|never| match never {});
                self.pending.extend_from_slice(&frame.into_data().unwrap_or_default());
            }
        })
        .await
    }

    pub(crate) async fn event(&mut self) -> Value {
        self.next().await.expect("the watch goes on")
    }

    /// The next events, as `TYPE name`.
    pub(crate) async fn told(&mut self, count: usize) -> Vec<String> {
        let mut told = Vec::new();
        for _ in 0..count {
            told.push(tell(&self.event().await));
        }
        told
    }

    /// Everything until the watch ends.
    pub(crate) async fn rest(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

/// An event as `TYPE name`.
pub(crate) fn tell(event: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    format!("{} {}", word(&event["type"]), word(&event["object"]["metadata"]["name"]))
}

/// A path's query value, with what must be escaped escaped.
pub(crate) fn escaped(value: &str) -> String {
    percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC).to_string()
}
