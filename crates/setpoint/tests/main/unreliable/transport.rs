//! A way to a server in this process that loses requests and answers, and cuts what takes long.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use rand::Rng as _;
use setpoint_apiserver::InProcess;
use tokio::time::Sleep;
use tower::{BoxError, Service};

/// How many requests in a hundred never arrive, and how many answers.
const LOST: u32 = 10;
const UNANSWERED: u32 = 10;

#[derive(Clone)]
pub(super) struct Unreliable(pub(super) InProcess);

type Content = UnsyncBoxBody<Bytes, BoxError>;

impl Service<Request<Body>> for Unreliable {
    type Response = Response<Content>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Content>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut server = self.0.clone();
        let fate = rand::rng().random_range(0..100);
        let patience = Duration::from_millis(rand::rng().random_range(100..2000));
        Box::pin(async move {
            if fate < LOST {
                return Err(broken("the request was lost"));
            }
            let Ok(answer) = server.call(request).await;
            if fate < LOST + UNANSWERED {
                return Err(broken("the answer was lost"));
            }
            let cut = Box::pin(tokio::time::sleep(patience));
            Ok(answer.map(|body| Severed { body: body.map_err(Into::into).boxed_unsync(), cut }.boxed_unsync()))
        })
    }
}

/// A body that ends after a while, whatever is still to come.
struct Severed {
    body: Content,
    cut: Pin<Box<Sleep>>,
}

impl http_body::Body for Severed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}

fn broken(why: &str) -> BoxError {
    Box::new(io::Error::new(io::ErrorKind::ConnectionReset, why))
}
