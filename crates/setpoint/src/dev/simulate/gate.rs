//! The transport between controllers and the server: each request waits at the gate until the driver lets it go, and meets
//! the fate that the driver chose.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;
use setpoint_apiserver::InProcess;
use tokio::sync::oneshot;
use tower::{BoxError, Service};

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Fine,
    /// It never arrives.
    Lost,
    /// It is done, and its answer is lost.
    Unanswered,
    /// It is refused before anything is done.
    Refused(StatusCode),
}

/// Where the requests of one crew wait. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    requests: BTreeMap<u64, (String, oneshot::Sender<Fate>)>,
    closed: bool,
}

impl Gate {
    /// What waits, in the order in which it came.
    pub(super) fn waiting(&self) -> Vec<(u64, String)> {
        let mut state = self.0.lock();
        // Who asked may have given up.
        state.requests.retain(|_, (_, permit)| !permit.is_closed());
        state.requests.iter().map(|(number, (what, _))| (*number, what.clone())).collect()
    }

    /// Lets a request go.
    pub(super) fn release(&self, number: u64, fate: Fate) {
        if let Some((_, permit)) = self.0.lock().requests.remove(&number) {
            let _ = permit.send(fate);
        }
    }

    /// Nothing gets through any more: whoever waits here waits for ever.
    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        state.requests.clear();
    }

    fn arrive(&self, what: String) -> Option<oneshot::Receiver<Fate>> {
        let mut state = self.0.lock();
        if state.closed {
            return None;
        }
        let (permit, fate) = oneshot::channel();
        let number = state.next;
        state.next += 1;
        state.requests.insert(number, (what, permit));
        Some(fate)
    }
}

/// A way to the server through a gate.
#[derive(Debug, Clone)]
pub(super) struct Gated {
    pub(super) server: InProcess,
    pub(super) gate: Gate,
}

type Content = UnsyncBoxBody<Bytes, BoxError>;
type Answer = Pin<Box<dyn Future<Output = Result<Response<Content>, BoxError>> + Send>>;

impl Service<Request<Body>> for Gated {
    type Response = Response<Content>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        let (mut server, gate) = (self.server.clone(), self.gate.clone());
        Box::pin(async move {
            let Some(fate) = gate.arrive(describe(&request)) else { return pending().await };
            let Ok(fate) = fate.await else { return pending().await };
            match fate {
                Fate::Fine => Ok(answer(&mut server, request).await),
                Fate::Lost => Err(broken("the connection was reset before the request was sent")),
                Fate::Unanswered => {
                    drop(answer(&mut server, request).await);
                    Err(broken("the connection was reset before the answer came"))
                }
                Fate::Refused(code) => Ok(refusal(code)),
            }
        })
    }
}

/// A way to the server whose open watches can be cut, and whose requests can be made to fail.
#[derive(Debug, Clone)]
pub(super) struct Cuttable {
    pub(super) server: InProcess,
    pub(super) cut: Cut,
}

/// Whether what is open is to end, and what is asked next is to fail.
#[derive(Debug, Clone, Default)]
pub(super) struct Cut {
    open: Arc<Mutex<Vec<Arc<AtomicBool>>>>,
    fails: Arc<AtomicBool>,
}

impl Cut {
    /// Ends every answer that is still coming.
    pub(super) fn cut(&self) {
        for open in self.open.lock().drain(..) {
            open.store(true, Ordering::Relaxed);
        }
    }

    /// Has the next request fail.
    pub(super) fn fail_once(&self) {
        self.fails.store(true, Ordering::Relaxed);
    }

    fn opened(&self) -> Arc<AtomicBool> {
        let open = Arc::new(AtomicBool::new(false));
        self.open.lock().push(open.clone());
        open
    }
}

impl Service<Request<Body>> for Cuttable {
    type Response = Response<Content>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        let (mut server, cut) = (self.server.clone(), self.cut.clone());
        Box::pin(async move {
            if cut.fails.swap(false, Ordering::Relaxed) {
                return Err(broken("the connection was refused"));
            }
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let answer = answer(&mut server, request).await;
            if !is_watch {
                return Ok(answer);
            }
            let (parts, body) = answer.into_parts();
            Ok(Response::from_parts(parts, Severed { body, is_cut: cut.opened() }.boxed_unsync()))
        })
    }
}

/// A body that ends when it is cut.
struct Severed {
    body: Content,
    is_cut: Arc<AtomicBool>,
}

impl http_body::Body for Severed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
        if self.is_cut.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}

async fn answer(server: &mut InProcess, request: Request<Body>) -> Response<Content> {
    match server.call(request).await {
        Ok(answer) => answer.map(|body| body.map_err(Into::into).boxed_unsync()),
        Err(never) => match never {},
    }
}

/// `PATCH /apis/apps/v1/namespaces/default/replicasets/web-1/status`.
fn describe(request: &Request<Body>) -> String {
    format!("{} {}", request.method(), request.uri().path())
}

fn broken(why: &str) -> BoxError {
    Box::new(io::Error::new(io::ErrorKind::ConnectionReset, why))
}

fn refusal(code: StatusCode) -> Response<Content> {
    let reason = match code {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::GATEWAY_TIMEOUT => "Timeout",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the simulation", "reason": reason, "code": code.as_u16(),
    });
    let mut response = Response::new(Full::from(status.to_string()).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = code;
    response
}
