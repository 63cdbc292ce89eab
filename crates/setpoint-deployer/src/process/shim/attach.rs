//! The socket where others join a container's input and output.
//!
//! Whoever comes says first, in one line of JSON, which container is meant and whether input follows. After that comes raw
//! input, and from us frames: the stream (1 or 2; 3 for the end), a length, and as many bytes, which at the end are the exit
//! code. Who reads too slowly is sent away; the workload never waits.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::termios::Winsize;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::capture::waitable;
use super::log_file::Stream;
use crate::process::record;

/// How many frames may wait for one who is attached.
const WAITING_FRAMES: usize = 64;

/// How many may be attached to one container.
const MAX_ATTACHED: usize = 32;

/// The longest first line.
const MAX_HELLO_BYTES: u64 = 4096;

/// How long a shim that ends waits for those who are attached.
const FAREWELL: Duration = Duration::from_secs(1);

const INPUT_BYTES: usize = 4096;

/// What one who comes wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    pub container: String,
    /// Whether input follows.
    #[serde(default)]
    pub stdin: bool,
    /// The size that the container's terminal is to have from now on, as columns and rows. With this alone, nothing else is
    /// wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<(u16, u16)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_size: bool,
}

/// Those that are attached to one container.
#[derive(Debug, Clone, Default)]
pub(super) struct Attachers(Arc<Mutex<Vec<mpsc::Sender<Bytes>>>>);

/// What can be joined of one container.
#[derive(Debug, Default)]
pub(super) struct Joint {
    pub(super) attachers: Attachers,
    /// How its present run takes input, if it does.
    pub(super) input: Mutex<Option<mpsc::Sender<Bytes>>>,
    pub(super) terminal: Mutex<Option<OwnedFd>>,
    /// Whether the first input's end is the end of all input.
    pub(super) takes_input_once: bool,
}

pub(super) type Joints = Arc<BTreeMap<String, Joint>>;

impl Attachers {
    /// Shows everybody what was written.
    pub(super) fn send(&self, stream: Stream, bytes: &[u8]) {
        let mut attached = self.0.lock();
        if attached.is_empty() || bytes.is_empty() {
            return;
        }
        let number = match stream {
            Stream::Output => 1,
            Stream::Errors => 2,
        };
        let frame = frame(number, bytes);
        attached.retain(|attacher| attacher.try_send(frame.clone()).is_ok());
    }

    /// Tells everybody that the run has ended, and sends them away.
    pub(super) fn finish(&self, code: i32) {
        let frame = frame(3, &code.to_be_bytes());
        for attacher in self.0.lock().drain(..) {
            // Who has not read the rest is not told the end either.
            let _ = attacher.try_send(frame.clone());
        }
    }

    fn join(&self) -> Option<mpsc::Receiver<Bytes>> {
        let mut attached = self.0.lock();
        attached.retain(|attacher| !attacher.is_closed());
        if attached.len() >= MAX_ATTACHED {
            return None;
        }
        let (sender, receiver) = mpsc::channel(WAITING_FRAMES);
        attached.push(sender);
        Some(receiver)
    }
}

impl Joint {
    /// Forgets a run that has ended.
    pub(super) fn finish(&self, code: i32) {
        self.attachers.finish(code);
        *self.input.lock() = None;
        *self.terminal.lock() = None;
    }
}

/// Opens the socket. Its path may be longer than an address can be, so it is reached through the open folder.
pub(super) fn listen(folder: &Path) -> io::Result<UnixListener> {
    let path = folder.join(record::ATTACH);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let opened = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    UnixListener::bind(format!("/proc/self/fd/{}/{}", opened.as_raw_fd(), record::ATTACH))
}

pub(super) async fn serve(listener: UnixListener, joints: Joints) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(attend(stream, joints.clone()));
    }
}

/// Waits until everybody who was attached has been told the end: each has the joints in hand until then, as have the shim
/// and its server. Who does not read it is not waited for.
pub(super) async fn farewell(joints: &Joints) {
    let until = tokio::time::Instant::now() + FAREWELL;
    while Arc::strong_count(joints) > 2 && tokio::time::Instant::now() < until {
        tokio::time::sleep(FAREWELL / 100).await;
    }
}

async fn attend(stream: UnixStream, joints: Joints) {
    let Ok(other) = stream.as_fd().try_clone_to_owned() else { return };
    let (input, mut output) = stream.into_split();
    let mut input = BufReader::with_capacity(INPUT_BYTES, input);
    let Some(hello) = greet(&mut input).await else { return };
    let Some(joint) = joints.get(&hello.container) else { return };
    if let (Some((columns, rows)), Some(terminal)) = (hello.size, &*joint.terminal.lock()) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // A terminal that has just gone needs no size.
        let _ = rustix::termios::tcsetwinsize(terminal, size);
    }
    if hello.only_size {
        return;
    }
    let Some(mut frames) = joint.attachers.join() else { return };
    let write = async {
        while let Some(frame) = frames.recv().await {
            if output.write_all(&frame).await.is_err() {
                return;
            }
        }
    };
    let read = async {
        if hello.stdin {
            listen_to(input, joint).await;
        }
        gone(other).await;
    };
    tokio::select! {
        () = write => {}
        () = read => {}
    }
}

async fn greet(input: &mut BufReader<OwnedReadHalf>) -> Option<Hello> {
    let mut line = Vec::new();
    input.take(MAX_HELLO_BYTES).read_until(b'\n', &mut line).await.ok()?;
    serde_json::from_slice(&line).ok()
}

/// Waits until the other side has left for good: who has only ended the input still listens. Asked of a descriptor of its
/// own, since to wait for the next change is to forget that it can be written to.
async fn gone(other: OwnedFd) {
    let Ok(other) = waitable(other, Interest::WRITABLE) else { return };
    while let Ok(mut change) = other.writable().await {
        if change.ready().is_write_closed() {
            return;
        }
        change.clear_ready();
    }
}

/// Passes on what is said, until it ends.
async fn listen_to(mut input: BufReader<OwnedReadHalf>, joint: &Joint) {
    let Some(sender) = joint.input.lock().clone() else { return };
    loop {
        let mut bytes = BytesMut::with_capacity(INPUT_BYTES);
        match input.read_buf(&mut bytes).await {
            Ok(count) if count > 0 => {
                if sender.send(bytes.freeze()).await.is_err() {
                    return;
                }
            }
            _ => break,
        }
    }
    if joint.takes_input_once {
        *joint.input.lock() = None;
    }
}

fn frame(stream: u8, bytes: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(5 + bytes.len());
    frame.put_u8(stream);
    frame.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    frame.put_slice(bytes);
    frame.freeze()
}
