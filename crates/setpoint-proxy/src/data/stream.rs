//! A client's connection as hyper reads it: heads and chunks are checked before a byte of them is passed on.
//!
//! A head that is refused is replaced by a request that says nothing; the service knows its place on the connection and
//! answers with the refusal. So the answers to the requests before it go out first, and in order.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::watch::{Phase, Watch};
use crate::head::{Refusal, Scan, Scanner};

/// What a refused head is replaced by.
const NOTHING: &[u8] = b"GET / HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";
/// As much is read at once.
const READ: usize = 64 * 1024;
/// While an upgrade is not decided, no more is taken in.
const HELD: usize = 16 * 1024;
/// From a refused client, no more is thrown away.
const LINGER: u64 = 256 * 1024;

thread_local! {
    /// Every read goes through one buffer of the thread, so that idle connections need none.
    static SCRATCH: std::cell::RefCell<Box<[u8]>> = std::cell::RefCell::new(vec![0; READ].into());
}

/// The transport below HTTP.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection with its guard.
#[derive(Debug)]
pub(crate) struct Stream {
    transport: Transport,
    /// None for HTTP/2, whose frames leave no doubt.
    scanner: Option<Scanner>,
    /// Bytes that were read; the first `released` of them may be passed on.
    buffer: BytesMut,
    released: usize,
    heads: u64,
    is_refused: bool,
    /// Told to hyper once what came before it has been passed on.
    broken: Option<Refusal>,
    lingered: u64,
    is_shut: bool,
    watch: Arc<Watch>,
    clock: Arc<AtomicU64>,
}

impl Stream {
    pub(crate) fn new(
        transport: Transport,
        scanner: Option<Scanner>,
        first: BytesMut,
        watch: Arc<Watch>,
        clock: Arc<AtomicU64>,
    ) -> Self {
        let phase = if scanner.is_some() { Phase::Idle } else { Phase::Passing };
        watch.enter(phase, clock.load(Relaxed));
        let released = if scanner.is_some() { 0 } else { first.len() };
        Self {
            transport,
            scanner,
            buffer: first,
            released,
            heads: 0,
            is_refused: false,
            broken: None,
            lingered: 0,
            is_shut: false,
            watch,
            clock,
        }
    }

    fn enter(&self, phase: Phase) {
        self.watch.enter(phase, self.clock.load(Relaxed));
    }

    /// Looks at what was read; false if nothing more can be said about it.
    fn scan(&mut self, cx: &Context<'_>) -> bool {
        let Some(scanner) = &mut self.scanner else {
            self.released = self.buffer.len();
            return false;
        };
        match scanner.scan(&self.buffer[self.released..]) {
            Scan::Skip(bytes) => self.buffer.advance(bytes),
            Scan::Head(bytes) => {
                if scanner.awaits_upgrade() {
                    self.watch.await_upgrade(self.heads);
                }
                self.heads += 1;
                self.released += bytes;
            }
            Scan::Pass(bytes) => self.released += bytes,
            Scan::More => return false,
            Scan::Hold => match (self.is_refused, self.watch.take_upgrade_decision(cx.waker())) {
                (false, Some(is_accepted)) => scanner.decide_upgrade(is_accepted),
                _ => return false,
            },
            Scan::RefusedHead(refusal) => {
                self.watch.refuse(self.heads, refusal);
                self.is_refused = true;
                self.buffer.truncate(self.released);
                self.buffer.extend_from_slice(NOTHING);
                self.released = self.buffer.len();
                self.enter(Phase::Idle);
                return false;
            }
            Scan::RefusedBody(refusal) => {
                self.watch.refuse_body(refusal);
                self.is_refused = true;
                self.broken = Some(refusal);
                self.buffer.truncate(self.released);
                return false;
            }
        }
        true
    }

    /// Takes down what the client may now take its time for.
    fn note_phase(&self, is_waiting: bool) {
        let phase = match &self.scanner {
            None => Phase::Passing,
            Some(scanner) if scanner.is_between_messages() => Phase::Idle,
            Some(scanner) if scanner.is_within_head() => Phase::Head,
            // A body counts only while it is waited for: it may be the backend that does not read.
            Some(scanner) if scanner.is_within_body() && is_waiting => Phase::Body,
            Some(_) => Phase::Passing,
        };
        // The time for a head is counted from its first byte, and that for a body from when it is waited for.
        let goes_on = is_waiting || phase == Phase::Head;
        if !goes_on || !self.watch.is_in(phase) {
            self.enter(phase);
        }
    }

    fn poll_transport(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }

    /// Reads once; true if there was something.
    fn fill(&mut self, cx: &mut Context<'_>, limit: usize) -> Poll<io::Result<bool>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let limit = limit.min(READ);
            let mut read = ReadBuf::new(&mut scratch[..limit]);
            ready!(self.poll_transport(cx, &mut read))?;
            self.buffer.extend_from_slice(read.filled());
            Poll::Ready(Ok(!read.filled().is_empty()))
        })
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.released > 0 {
                let bytes = this.released.min(cursor.remaining());
                cursor.put_slice(&this.buffer[..bytes]);
                this.buffer.advance(bytes);
                this.released -= bytes;
                if this.buffer.is_empty() {
                    this.buffer = BytesMut::new();
                }
                this.note_phase(false);
                return Poll::Ready(Ok(()));
            }
            if let Some(refusal) = this.broken.take() {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, refusal)));
            }
            if this.is_refused {
                return Poll::Pending;
            }
            if !this.buffer.is_empty() || this.scanner.is_none() {
                while this.scan(cx) {}
                if this.released > 0 {
                    continue;
                }
            }
            if this.buffer.len() >= HELD + READ {
                return Poll::Pending;
            }
            let limit = if this.buffer.is_empty() { cursor.remaining().max(1) } else { HELD };
            match this.fill(cx, limit)? {
                Poll::Ready(true) => {
                    while this.scan(cx) {}
                    this.note_phase(false);
                }
                // The end; a message that it cuts off is noticed by hyper.
                Poll::Ready(false) => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    this.note_phase(true);
                    return Poll::Pending;
                }
            }
        }
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let poll = match &mut this.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        this.note_write(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let poll = match &mut this.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        };
        this.note_write(poll)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let poll = match &mut this.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        this.note_write(poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.is_shut {
            ready!(match &mut this.transport {
                Transport::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
                Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            })?;
            this.is_shut = true;
            if this.is_refused {
                this.enter(Phase::Lingering);
            }
        }
        // A socket that is closed with bytes unread resets the connection, and the client may lose the answer.
        while this.is_refused && this.lingered < LINGER {
            let before = this.buffer.len();
            match this.fill(cx, HELD) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(true)) => {
                    this.lingered += (this.buffer.len() - before) as u64;
                    this.buffer.clear();
                }
                Poll::Ready(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Stream {
    fn note_write<T>(&self, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &poll {
            Poll::Pending => self.watch.write_waits(self.clock.load(Relaxed).max(1)),
            Poll::Ready(_) => self.watch.wrote(),
        }
        poll
    }
}
