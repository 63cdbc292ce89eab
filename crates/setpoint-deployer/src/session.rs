//! What a person or a tool can do with a running instance: read what it writes, and run commands in it.

use std::fmt;
use std::io;
use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::provider::Answer;

/// What an instance wrote, piece by piece. A piece holds whole lines where it can.
pub type LogStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// How to read what an instance writes.
pub trait Logs: fmt::Debug + Send + Sync {
    /// What a container of an instance wrote. The stream ends where the log does; one that follows ends once the container
    /// has and all it wrote was read.
    fn read<'a>(&'a self, id: &'a str, container: &'a str, options: LogOptions) -> Answer<'a, LogStream>;
}

/// How to run commands in an instance.
pub trait Exec: fmt::Debug + Send + Sync {
    /// Runs a command beside a container's, with its variables and limits, until it ends. Dropping the answer ends it.
    fn exec<'a>(
        &'a self,
        id: &'a str,
        container: &'a str,
        command: Command,
        terminal: Terminal,
    ) -> Answer<'a, CommandExit>;

    /// Joins the container's own input and output until it ends. Dropping the answer leaves it running.
    fn attach<'a>(&'a self, id: &'a str, container: &'a str, terminal: Terminal) -> Answer<'a, CommandExit>;
}

/// Which part of a log is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogOptions {
    /// Go on as more is written.
    pub follow: bool,
    /// The run before the present one.
    pub previous: bool,
    /// Only what was written at or after this time.
    pub since: Option<Timestamp>,
    /// Only so many of the last lines.
    pub tail_lines: Option<u64>,
    /// No more than so many bytes.
    pub limit_bytes: Option<u64>,
    /// Each line begins with the time it was written at.
    pub timestamps: bool,
    pub source: LogSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogSource {
    #[default]
    All,
    Output,
    Errors,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub arguments: Vec<String>,
    /// Whether it gets a terminal; what it says then all comes as output.
    pub has_terminal: bool,
}

/// The other end of a command's input and output. The channels are bounded: who does not read slows the command down.
#[derive(Debug)]
pub struct Terminal {
    /// Closing it is the end of the input.
    pub input: Option<mpsc::Receiver<Bytes>>,
    pub output: Option<mpsc::Sender<Bytes>>,
    pub errors: Option<mpsc::Sender<Bytes>>,
    pub sizes: mpsc::Receiver<TerminalSize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandExit {
    /// As a shell tells it: 128 and the signal's number, if a signal ended it.
    pub code: i32,
}
