//! Whether anybody uses a connection, so that one that nobody uses can be closed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

use crate::head::Head;
use crate::response::Body;

/// What is going on on a connection.
#[derive(Debug, Clone)]
pub(crate) struct Usage(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    answers: usize,
    /// When the last answer ended.
    since: Instant,
    /// What has come of the next request, while no answer is under way.
    head: Head,
}

impl Usage {
    pub(crate) fn new() -> Usage {
        Usage(Arc::new(Mutex::new(State { answers: 0, since: Instant::now(), head: Head::default() })))
    }

    /// Counts a request as under way until what this returns, or the body it is put into, is dropped.
    pub(crate) fn begin(&self) -> Answering {
        let mut state = self.0.lock();
        state.answers += 1;
        state.head = Head::default();
        drop(state);
        Answering(self.clone())
    }

    /// Does something with the head that is being read; what comes while answers are under way is not looked at.
    pub(crate) fn head<T>(&self, with: impl FnOnce(&mut Head) -> T) -> Option<T> {
        let mut state = self.0.lock();
        (state.answers == 0).then(|| with(&mut state.head))
    }

    /// How long nothing has been under way.
    fn idle_for(&self) -> Duration {
        let state = self.0.lock();
        if state.answers == 0 { state.since.elapsed() } else { Duration::ZERO }
    }

    /// Resolves when nothing has been under way for as long as is allowed, which may change meanwhile.
    pub(crate) async fn idle(&self, allowed: impl Fn() -> Duration, look: Duration) {
        loop {
            let idle = self.idle_for();
            if idle >= allowed() {
                return;
            }
            tokio::time::sleep(allowed().saturating_sub(idle).min(look)).await;
        }
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct Answering(Usage);

impl Answering {
    pub(crate) fn with(self, body: Body) -> Counted {
        Counted { body, _answering: self }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.answers -= 1;
        state.since = Instant::now();
    }
}

/// A body that is under way as long as it is not dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    body: Body,
    _answering: Answering,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = <Body as http_body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_is_idle_when_no_answer_is_under_way() {
        const SHORT: Duration = Duration::from_millis(20);
        let usage = Usage::new();
        let idle = || tokio::time::timeout(Duration::from_secs(20), usage.idle(|| SHORT, SHORT));
        idle().await.expect("nobody asked for anything");
        let answering = usage.begin();
        assert!(tokio::time::timeout(3 * SHORT, usage.idle(|| SHORT, SHORT)).await.is_err(), "an answer is under way");
        let body = answering.with(crate::response::text(http::StatusCode::OK, "ok").into_body());
        assert_eq!(usage.idle_for(), Duration::ZERO, "it is being sent");
        drop(body);
        idle().await.expect("it was sent");
    }
}
