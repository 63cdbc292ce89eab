//! Bytes of two TCP connections, carried both ways until both have ended.
//!
//! What is read goes through one buffer of the thread; a connection has a buffer of its own only while its other side does not
//! take what was read. So an idle connection costs its sockets and little else.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

/// As much is read at once.
const READ: usize = 64 * 1024;

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into());
}

/// Carries bytes until both sides have ended, or one breaks off; returns how many went to `b` and how many came from it.
pub(crate) async fn relay(a: &mut TcpStream, b: &mut TcpStream) -> (u64, u64) {
    let (up, down) = (Cell::new(0), Cell::new(0));
    let (from_a, to_a) = a.split();
    let (from_b, to_b) = b.split();
    // Where one side breaks off, the other cannot be told but by being closed.
    if let Err(error) = tokio::try_join!(half(from_a, to_b, &up), half(from_b, to_a, &down)) {
        tracing::debug!(%error, "a connection broke off");
    }
    (up.get(), down.get())
}

async fn half(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, count: &Cell<u64>) -> io::Result<()> {
    let mut rest = Vec::new();
    loop {
        let passed = poll_fn(|cx| pass(&mut from, &mut to, &mut rest, cx)).await?;
        count.set(count.get() + passed as u64);
        if !rest.is_empty() {
            to.write_all(&rest).await?;
            rest = Vec::new();
        }
        if passed == 0 {
            // One that is gone already need not be told.
            let _gone = to.shutdown().await;
            return Ok(());
        }
    }
}

/// Reads once and writes what can be written at once; what is left is put aside.
fn pass(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    rest: &mut Vec<u8>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut read = ReadBuf::new(buffer);
        ready!(Pin::new(from).poll_read(cx, &mut read))?;
        let bytes = read.filled();
        let written = match bytes.is_empty() {
            true => 0,
            false => match Pin::new(to).poll_write(cx, bytes) {
                Poll::Ready(written) => written?,
                Poll::Pending => 0,
            },
        };
        rest.extend_from_slice(&bytes[written..]);
        Poll::Ready(Ok(bytes.len()))
    })
}
