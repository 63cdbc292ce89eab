//! Bodies on their way: a request's, which can be sent again as long as nobody has read of it, and a response's, whose end is
//! the end of the exchange.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep};

use super::exchange::Exchange;
use super::upstream::Lease;

/// Why a body ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is larger than the route allows")]
    TooLarge,
    #[error("the client did not send its body in time")]
    ClientTimeout,
    #[error("the request took longer than the route allows")]
    Timeout,
    #[error("another attempt has taken over")]
    Superseded,
    #[error(transparent)]
    Hyper(#[from] hyper::Error),
}

/// The body of a client's request, shared by the attempts to send it.
#[derive(Debug)]
pub(crate) struct RequestBody {
    incoming: RefCell<Incoming>,
    is_empty: bool,
    attempt: Cell<u32>,
    is_touched: Cell<bool>,
    is_finished: Cell<bool>,
    pub(crate) bytes: Cell<u64>,
    limit: Option<u64>,
    patience: Duration,
    pub(crate) is_too_large: Cell<bool>,
    pub(crate) is_too_slow: Cell<bool>,
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, limit: Option<u64>, patience: Duration) -> Rc<Self> {
        let is_empty = incoming.is_end_stream();
        Rc::new(Self {
            incoming: RefCell::new(incoming),
            is_empty,
            attempt: Cell::new(0),
            is_touched: Cell::new(false),
            is_finished: Cell::new(is_empty),
            bytes: Cell::new(0),
            limit,
            patience,
            is_too_large: Cell::new(false),
            is_too_slow: Cell::new(false),
        })
    }

    /// The body for another attempt; earlier attempts get no more of it.
    pub(crate) fn attempt(self: &Rc<Self>) -> AttemptBody {
        self.attempt.set(self.attempt.get() + 1);
        AttemptBody { body: Rc::clone(self), attempt: self.attempt.get(), patience: None }
    }

    pub(crate) fn can_be_sent_again(&self) -> bool {
        self.is_empty || !self.is_touched.get()
    }

    /// Whether all of it was sent: only then can the connection carry another request.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished.get()
    }
}

/// A request's body as one attempt sends it.
#[derive(Debug)]
pub(crate) struct AttemptBody {
    body: Rc<RequestBody>,
    attempt: u32,
    patience: Option<Pin<Box<Sleep>>>,
}

impl Body for AttemptBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let body = &this.body;
        if body.attempt.get() != this.attempt {
            return Poll::Ready(Some(Err(BodyError::Superseded)));
        }
        body.is_touched.set(true);
        let polled = Pin::new(&mut *body.incoming.borrow_mut()).poll_frame(cx);
        let Poll::Ready(frame) = polled else {
            let patience = this.patience.get_or_insert_with(|| Box::pin(sleep(body.patience)));
            if patience.as_mut().poll(cx).is_ready() {
                body.is_too_slow.set(true);
                return Poll::Ready(Some(Err(BodyError::ClientTimeout)));
            }
            return Poll::Pending;
        };
        if let Some(patience) = &mut this.patience {
            patience.as_mut().reset(Instant::now() + body.patience);
        }
        match frame {
            None => {
                body.is_finished.set(true);
                Poll::Ready(None)
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            Some(Ok(frame)) => {
                let bytes = body.bytes.get() + frame.data_ref().map_or(0, Bytes::len) as u64;
                body.bytes.set(bytes);
                if body.limit.is_some_and(|limit| bytes > limit) {
                    body.is_too_large.set(true);
                    return Poll::Ready(Some(Err(BodyError::TooLarge)));
                }
                if body.incoming.borrow().is_end_stream() {
                    body.is_finished.set(true);
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_empty || self.body.incoming.borrow().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.incoming.borrow().size_hint()
    }
}

/// The body of a response: a backend's, or one of our own.
pub(crate) struct ResponseBody {
    content: Content,
    /// Given back when the body has ended.
    lease: Option<Lease>,
    exchange: Option<Box<Exchange>>,
    deadline: Option<Pin<Box<Sleep>>>,
}

enum Content {
    Backend(Incoming),
    Own(Option<Bytes>),
}

impl ResponseBody {
    pub(crate) fn own(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let content = Content::Own((!bytes.is_empty()).then_some(bytes));
        Self { content, lease: None, exchange: None, deadline: None }
    }

    pub(crate) fn backend(incoming: Incoming, lease: Lease, deadline: Option<Instant>) -> Self {
        let deadline = deadline.map(|at| Box::pin(tokio::time::sleep_until(at)));
        Self { content: Content::Backend(incoming), lease: Some(lease), exchange: None, deadline }
    }

    /// The exchange ends with this body.
    pub(crate) fn with_exchange(mut self, exchange: Box<Exchange>) -> Self {
        self.exchange = Some(exchange);
        self
    }

    fn end(&mut self, is_whole: bool) {
        if let Some(lease) = self.lease.take() {
            lease.end(is_whole);
        }
        if let Some(mut exchange) = self.exchange.take() {
            exchange.is_whole = is_whole;
        }
    }

    fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.content {
            Content::Own(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Backend(incoming) => {
                let frame = ready!(Pin::new(incoming).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)))
            }
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = this.poll_content(cx) else {
            if let Some(deadline) = &mut this.deadline
                && deadline.as_mut().poll(cx).is_ready()
            {
                this.end(false);
                return Poll::Ready(Some(Err(BodyError::Timeout)));
            }
            return Poll::Pending;
        };
        match &frame {
            None => this.end(true),
            Some(Err(_)) => {
                if let Some(lease) = &mut this.lease {
                    lease.failed();
                }
                if let Some(exchange) = &mut this.exchange {
                    exchange.is_cut_off = true;
                }
                this.end(false);
            }
            Some(Ok(frame)) => {
                if let (Some(exchange), Some(data)) = (&mut this.exchange, frame.data_ref()) {
                    exchange.response_bytes += data.len() as u64;
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Own(bytes) => bytes.is_none(),
            Content::Backend(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Own(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Content::Backend(incoming) => incoming.size_hint(),
        }
    }
}

impl Drop for ResponseBody {
    /// A body of known length is dropped after its last byte without being asked for its end.
    fn drop(&mut self) {
        let is_whole = self.is_end_stream();
        self.end(is_whole);
    }
}
