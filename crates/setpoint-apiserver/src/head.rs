//! A connection that may say little before it asks for something, as long as many want to say much.
//!
//! What is read before a request has begun is its head, and is kept in memory for somebody whom nobody knows yet. A short
//! head is free; for more there is a budget that all connections share, and one that finds it spent is ended. Frames of
//! HTTP/2 between requests count too: they are small.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::idle::Usage;

/// What everybody may send before a request begins.
const SHORT_BYTES: usize = 16 * 1024;
/// How many connections may send more at once.
const LONG_HEADS: usize = 256;

/// The long heads that may still be begun. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct LongHeads(Arc<Semaphore>);

impl LongHeads {
    pub(crate) fn new() -> LongHeads {
        LongHeads(Arc::new(Semaphore::new(LONG_HEADS)))
    }

    pub(crate) fn bound<S>(&self, stream: S, usage: Usage) -> BoundedHeads<S> {
        BoundedHeads { stream, usage, budget: self.clone() }
    }
}

/// What was read since the last request began.
#[derive(Debug, Default)]
pub(crate) struct Head {
    bytes: usize,
    /// The right to more than is short.
    long: Option<OwnedSemaphorePermit>,
}

impl Head {
    /// Whether it may go on.
    fn admit(&mut self, budget: &LongHeads) -> io::Result<()> {
        if self.bytes >= SHORT_BYTES && self.long.is_none() {
            let permit = budget.0.clone().try_acquire_owned();
            self.long = Some(permit.map_err(|_| io::Error::other("too many long heads are being read"))?);
        }
        Ok(())
    }
}

/// A stream whose heads are bounded.
#[derive(Debug)]
pub(crate) struct BoundedHeads<S> {
    stream: S,
    usage: Usage,
    budget: LongHeads,
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedHeads<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.usage.head(|head| head.admit(&self.budget)).transpose()?;
        let before = into.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, into);
        self.usage.head(|head| head.bytes += into.filled().len() - before);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedHeads<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    fn endless(budget: &LongHeads) -> (BoundedHeads<tokio::io::Repeat>, Usage) {
        let usage = Usage::new();
        (budget.bound(tokio::io::repeat(b'a'), usage.clone()), usage)
    }

    async fn read(from: &mut (impl AsyncRead + Unpin), bytes: usize) -> bool {
        from.read_exact(&mut vec![0; bytes]).await.is_ok()
    }

    #[tokio::test]
    async fn long_heads_share_a_budget_and_short_ones_are_free() {
        let budget = LongHeads(Arc::new(Semaphore::new(1)));
        let ((mut first, asks), (mut second, _)) = (endless(&budget), endless(&budget));
        assert!(read(&mut first, SHORT_BYTES).await && read(&mut second, SHORT_BYTES).await, "both are short");
        assert!(read(&mut first, SHORT_BYTES).await, "one may be long");
        assert!(!read(&mut second, 1).await, "and no more");
        let asking = asks.begin();
        assert_eq!(budget.0.available_permits(), 1, "until its request begins");
        assert!(read(&mut first, 4 * SHORT_BYTES).await, "a body is no head");
        assert_eq!(budget.0.available_permits(), 1);
        drop(asking);
        assert!(read(&mut first, SHORT_BYTES).await && read(&mut first, 1).await, "the next head may be long");
        assert_eq!(budget.0.available_permits(), 0);
        drop((first, asks));
        assert_eq!(budget.0.available_permits(), 1, "who goes away gives it back");
    }
}
