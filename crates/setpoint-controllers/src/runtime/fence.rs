//! What keeps one that leads no longer from writing.
//!
//! A process may stand still for a while, and go on with a write that it had decided on while it led. So writes are
//! refused here once the leadership's time is over, and say in a header which leadership they belong to: a server that
//! knows the header refuses those of an earlier one, whatever clock the writer has.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderName, HeaderValue, Method, Request};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

/// Under what leadership a request is made: `namespace/name/epoch/holder` of its Lease.
pub const FENCE: HeaderName = HeaderName::from_static("setpoint-fence");

/// One leadership. Cheap to clone; all clones end together.
#[derive(Debug, Clone)]
pub struct Fence {
    header: HeaderValue,
    until: Arc<Mutex<Instant>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the leadership under which this was to be written is over")]
pub struct Over;

impl Fence {
    pub(super) fn new(header: HeaderValue, until: Instant) -> Fence {
        Fence { header, until: Arc::new(Mutex::new(until)) }
    }

    pub fn holds(&self) -> bool {
        Instant::now() < *self.until.lock()
    }

    pub(super) fn extend(&self, until: Instant) {
        *self.until.lock() = until;
    }

    pub(super) fn end(&self) {
        *self.until.lock() = Instant::now();
    }

    /// A client that writes under this leadership alone.
    pub fn guard(&self, client: &Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let client = client.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move { client.send(request).await }
        });
        Client::new(self.layer(service), namespace)
    }
}

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced { inner, fence: self.clone() }
    }
}

/// A service whose writes are fenced.
#[derive(Debug, Clone)]
pub struct Fenced<S> {
    inner: S,
    fence: Fence,
}

impl<S, B> Service<Request<B>> for Fenced<S>
where
    S: Service<Request<B>, Error: Into<BoxError>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            if !self.fence.holds() {
                return Box::pin(async { Err(Over.into()) });
            }
            request.headers_mut().insert(FENCE, self.fence.header.clone());
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}
