//! A connection to an endpoint as hyper reads it.
//!
//! An endpoint may answer before it has read the request's body, and close: writing fails then while the answer waits to be
//! read. So what can no longer be written is thrown away, and reading says what has come of the request.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

#[derive(Debug)]
pub(crate) struct Wire {
    transport: Transport,
    /// The other side takes no more.
    is_deaf: bool,
}

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    pub(crate) fn plain(stream: TcpStream) -> Self {
        Self { transport: Transport::Plain(stream), is_deaf: false }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>) -> Self {
        Self { transport: Transport::Tls(Box::new(stream)), is_deaf: false }
    }

    fn written(&mut self, poll: Poll<io::Result<usize>>, all: usize) -> Poll<io::Result<usize>> {
        match poll {
            Poll::Ready(Err(error)) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                self.is_deaf = true;
                Poll::Ready(Ok(all))
            }
            other => other,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_deaf {
            return Poll::Ready(Ok(bytes.len()));
        }
        let poll = match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        self.written(poll, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = slices.iter().map(|slice| slice.len()).sum();
        if self.is_deaf {
            return Poll::Ready(Ok(all));
        }
        let poll = match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        };
        self.written(poll, all)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_deaf {
            return Poll::Ready(Ok(()));
        }
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
