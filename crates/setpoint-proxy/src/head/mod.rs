//! HTTP/1 as bytes on the wire: what a request may look like before anybody parses it.
//!
//! A parser that is lenient where the next one is strict lets a client smuggle a request past the first. So every head and
//! every chunk is checked here first, by the strictest reading; what two readers could take differently is refused, and the
//! connection is closed. [`Scanner`] follows the messages of one connection through any division into reads.

mod chunked;
mod rules;
mod scanner;

pub(crate) use self::rules::has_dot_segment;
pub use self::rules::{BodyLength, Head, check};
pub use self::scanner::{Scan, Scanner};

/// How large heads may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    pub bytes: usize,
    pub fields: usize,
    pub target_bytes: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { bytes: 32 * 1024, fields: 100, target_bytes: 16 * 1024 }
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    #[error("a line ends without CR")]
    BareLf,
    #[error("a CR stands alone")]
    BareCr,
    #[error("the request line is not METHOD SP TARGET SP VERSION")]
    RequestLine,
    #[error("the method is not a token")]
    Method,
    #[error("CONNECT is not served")]
    Connect,
    #[error("the request target is malformed")]
    Target,
    #[error("the path has a dot segment")]
    DotSegment,
    #[error("the version is not HTTP/1.0 or HTTP/1.1")]
    Version,
    #[error("a header line begins with a space")]
    FoldedLine,
    #[error("a header line has no colon")]
    NoColon,
    #[error("a header name is not a token")]
    FieldName,
    #[error("a header value has a control character")]
    FieldValue,
    #[error("there is no Host")]
    NoHost,
    #[error("there is more than one Host")]
    ManyHosts,
    #[error("the Host is malformed")]
    Host,
    #[error("the target and Host disagree")]
    HostDisagrees,
    #[error("the Content-Length is malformed")]
    ContentLength,
    #[error("there is more than one Content-Length")]
    ManyContentLengths,
    #[error("the Transfer-Encoding is not chunked")]
    TransferEncoding,
    #[error("there is more than one Transfer-Encoding")]
    ManyTransferEncodings,
    #[error("there is a Transfer-Encoding in HTTP/1.0")]
    TransferEncodingInHttp10,
    #[error("there are both Content-Length and Transfer-Encoding")]
    BothLengths,
    #[error("a header could be taken for Content-Length or Transfer-Encoding")]
    DisguisedLength,
    #[error("Connection names a header that says where the message ends or to whom it goes")]
    ConnectionNamesLength,
    #[error("a chunk's size is malformed")]
    ChunkSize,
    #[error("a chunk does not end with CRLF")]
    ChunkEnd,
    #[error("a chunk extension is malformed or too long")]
    ChunkExtension,
    #[error("a trailer field is malformed or not allowed")]
    Trailer,
    #[error("the target is too long")]
    TargetTooLong,
    #[error("the head is too large")]
    TooLarge,
}

impl Refusal {
    pub fn status(self) -> u16 {
        match self {
            Self::TargetTooLong => 414,
            Self::TooLarge => 431,
            _ => 400,
        }
    }
}
