//! Reads on, for a while, what the client of a refused request still sends.
//!
//! Many clients send all of a body before they look at the answer. If the server closes the connection while they send,
//! the kernel answers them with a reset, which takes away the answer too: they learn that the connection broke and not
//! why. So what is still sent is read and dropped while the answer is on its way, up to a bound of bytes and time.

use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;

use crate::listener::Lease;

/// How many bodies of known callers are read on at once, and as many of strangers; of more than these the connection is
/// closed at once.
const AT_ONCE: usize = 512;

/// Whose body it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    Known,
    Stranger,
}

/// How much is read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bound {
    bytes: u64,
    time: Duration,
}

impl Sender {
    const fn bound(self) -> Bound {
        match self {
            Sender::Known => Bound { bytes: 256 << 20, time: Duration::from_secs(30) },
            // As much as a request may have that is in order, and a little more.
            Sender::Stranger => Bound { bytes: 4 << 20, time: Duration::from_secs(5) },
        }
    }
}

/// Those bodies that are being read on. Strangers, however many, take no place from known callers.
#[derive(Debug)]
pub(crate) struct Lingering {
    known: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
}

impl Default for Lingering {
    fn default() -> Lingering {
        let places = || Arc::new(Semaphore::new(AT_ONCE));
        Lingering { known: places(), strangers: places() }
    }
}

impl Lingering {
    /// Reads on beside the answer until the body ends, a bound is reached or the server stops. The connection counts as in
    /// use meanwhile.
    pub(crate) fn read_on<B>(
        &self,
        body: B,
        sender: Sender,
        connection: Option<&Lease>,
        stopping: tokio::sync::watch::Receiver<bool>,
    ) where
        B: Body<Data: Send, Error: Send> + Send + Unpin + 'static,
    {
        let places = match sender {
            Sender::Known => &self.known,
            Sender::Stranger => &self.strangers,
        };
        let Ok(permit) = places.clone().try_acquire_owned() else { return };
        let bound = sender.bound();
        let connection = connection.map(Lease::take);
        tokio::spawn(async move {
            let _held = (permit, connection);
            let mut stopping = stopping;
            tokio::select! {
                () = drain(body, bound.bytes) => {}
                () = tokio::time::sleep(bound.time) => {}
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        });
    }
}

/// Reads a body to its end, but no more than so many bytes.
async fn drain<B: Body + Unpin>(mut body: B, bytes: u64) {
    let mut left = bytes;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, |data| bytes::Buf::remaining(data) as u64);
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU64, Ordering};

    use bytes::Bytes;
    use futures::{StreamExt, stream};
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    #[tokio::test]
    async fn a_body_is_read_to_its_end_or_its_bound() {
        const CHUNK: u64 = 1000;
        for (row, chunks, bound, expected) in
            [("it ends", 10, 1 << 20, 10), ("it goes on", 1_000, 5 * CHUNK, 6), ("it is empty", 0, 1 << 20, 0)]
        {
            let read = Arc::new(AtomicU64::new(0));
            let counted = read.clone();
            let frames = stream::iter(0..chunks).map(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; CHUNK as usize])))
            });
            drain(StreamBody::new(frames), bound).await;
            assert_eq!(read.load(Ordering::Relaxed), expected, "{row}");
        }
    }

    #[tokio::test]
    async fn only_so_many_are_read_on_at_once_and_strangers_take_no_place_of_others() {
        let lingering = Lingering::default();
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let endless = || StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        for _ in 0..2 * AT_ONCE {
            lingering.read_on(endless(), Sender::Stranger, None, stopping.clone());
        }
        let free = || (lingering.strangers.available_permits(), lingering.known.available_permits());
        assert_eq!(free(), (0, AT_ONCE));
        lingering.read_on(endless(), Sender::Known, None, stopping.clone());
        assert_eq!(free(), (0, AT_ONCE - 1), "a known caller has a place");
        stop.send_replace(true);
        for places in [&lingering.strangers, &lingering.known] {
            let all = tokio::time::timeout(Duration::from_secs(20), places.acquire_many(AT_ONCE as u32)).await;
            all.expect("a stop ends them").expect("it is never closed").forget();
        }
    }
}
