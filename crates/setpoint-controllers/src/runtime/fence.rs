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

/// Lets writes pass while one leads. Cheap to clone; all clones are one fence.
#[derive(Debug, Clone, Default)]
pub struct Fence(Arc<Mutex<Option<Leadership>>>);

#[derive(Debug)]
struct Leadership {
    header: HeaderValue,
    until: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("nothing is written by one who does not lead")]
pub struct NotLeading;

impl Fence {
    /// Whether one leads now.
    pub fn is_open(&self) -> bool {
        self.header().is_some()
    }

    /// The term of the leadership, while one leads.
    pub fn epoch(&self) -> Option<i64> {
        let header = self.header()?;
        header.to_str().ok()?.split('/').nth(2)?.parse().ok()
    }

    pub(super) fn open(&self, header: HeaderValue, until: Instant) {
        *self.0.lock() = Some(Leadership { header, until });
    }

    pub(super) fn close(&self) {
        *self.0.lock() = None;
    }

    fn header(&self) -> Option<HeaderValue> {
        let leadership = self.0.lock();
        leadership
            .as_ref()
            .filter(|leadership| Instant::now() < leadership.until)
            .map(|leadership| leadership.header.clone())
    }

    /// A client that writes only while one leads.
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
            let Some(header) = self.fence.header() else { return Box::pin(async { Err(NotLeading.into()) }) };
            request.headers_mut().insert(FENCE, header);
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}
