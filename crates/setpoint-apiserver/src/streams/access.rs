//! How the server reaches the Pods that run.

use std::fmt::Debug;
use std::io;
use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

/// What is answered in time, or why it is not.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, AccessError>>;

/// What a container logged, in pieces of any size. It ends where the log does, or with its container if it is followed;
/// dropping it stops reading.
pub type LogStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The way to the Pods that run. The server has looked up the Pod and settled the container before it asks; whether the
/// container runs, and what it does, is known here alone.
///
/// Every answer may be dropped before it is there, and with it all that was begun for it.
pub trait PodAccess: Debug + Send + Sync + 'static {
    /// Opens a container's log.
    fn logs<'a>(&'a self, pod: &'a PodRef, options: LogOptions) -> Answer<'a, LogStream>;

    /// Runs a command in a container, and resolves when it has ended and all that it wrote was sent. If the answer is
    /// dropped, the command's terminal is gone, and the command is ended.
    fn exec<'a>(&'a self, pod: &'a PodRef, options: ExecOptions, session: Session) -> Answer<'a, Exit>;

    /// Joins a container's own input and output, and resolves when the container has ended. If the answer is dropped,
    /// the container goes on alone.
    fn attach<'a>(&'a self, pod: &'a PodRef, options: AttachOptions, session: Session) -> Answer<'a, Exit>;
}

/// A container of a Pod that is on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub node: String,
    /// A regular, init or ephemeral container.
    pub container: String,
}

/// Which part of a log is wanted, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Go on as more is logged, until the container ends.
    pub follow: bool,
    /// The log of the run before this one.
    pub previous: bool,
    /// Only what was logged since then.
    pub since: Option<Timestamp>,
    /// Only this many lines from the end, and what follows.
    pub tail_lines: Option<u64>,
    /// Only this many bytes. The server cuts there; more need not be read.
    pub limit_bytes: Option<u64>,
    /// Begin each line with its time in RFC 3339, and a space.
    pub timestamps: bool,
    pub streams: LogStreams,
}

/// What was logged from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStreams {
    All,
    Stdout,
    Stderr,
}

/// A command to run. What is false here is `None` in its [`Session`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOptions {
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    pub stdin: bool,
    pub stdout: bool,
    /// Never with a terminal, which has but one output.
    pub stderr: bool,
    pub tty: bool,
}

/// What of a container to join. What is false here is `None` in its [`Session`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachOptions {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// The other ends of a client's streams. All hold little: who writes waits until the client has read.
#[derive(Debug)]
pub struct Session {
    /// Closed at the end of the input.
    pub stdin: Option<mpsc::Receiver<Bytes>>,
    /// Closed when nobody reads any more.
    pub stdout: Option<mpsc::Sender<Bytes>>,
    pub stderr: Option<mpsc::Sender<Bytes>>,
    /// The size of the client's terminal, once it was told; only the newest counts.
    pub sizes: watch::Receiver<Option<TerminalSize>>,
}

/// In characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Success,
    /// It said that it failed; 128 and the signal's number if it was killed by one.
    Code(i32),
    /// Nobody knows how it ended, and why not.
    Failed(String),
}

/// Why a Pod cannot be reached. The words are for the one who asks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// There is no such container or log, and none is to come.
    #[error("{0}")]
    NotFound(String),
    /// Not now: the container is yet to start, or has ended.
    #[error("{0}")]
    NotRunning(String),
    /// What runs the Pod has no way to do this.
    #[error("{0}")]
    Unsupported(String),
    /// What runs the Pod does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// It was tried, and failed.
    #[error("{0}")]
    Failed(String),
}
