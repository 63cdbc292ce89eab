//! Joins a container's own input and output, through the socket of its shim.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use rustix::fs::FileType;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::beneath;
use super::record::ATTACH;
use super::shim::Hello;
use crate::session::{CommandExit, Terminal, TerminalSize};

/// The streams of a shim's frames.
const OUTPUT: u8 = 1;
const ERRORS: u8 = 2;
const END: u8 = 3;

/// No frame is longer.
const MAX_FRAME_BYTES: u32 = 1 << 20;

/// Joins until the container's run ends. Who stops waiting leaves it running.
pub(super) async fn join(folder: &Path, container: &str, terminal: Terminal) -> io::Result<CommandExit> {
    let Terminal { input, output, errors, mut sizes } = terminal;
    let hello = Hello { container: container.to_owned(), stdin: input.is_some(), size: None, only_size: false };
    let (read, write) = greet(folder, &hello).await?.into_split();
    let fed = feed(write, input);
    let heard = hear(read, output, errors);
    tokio::pin!(fed, heard);
    let (mut is_fed, mut has_sizes) = (false, true);
    loop {
        tokio::select! {
            end = &mut heard => return end,
            () = &mut fed, if !is_fed => is_fed = true,
            size = sizes.recv(), if has_sizes => match size {
                Some(TerminalSize { columns, rows }) => {
                    let size = Hello { stdin: false, size: Some((columns, rows)), only_size: true, ..hello.clone() };
                    greet(folder, &size).await?;
                }
                None => has_sizes = false,
            },
        }
    }
}

/// Says what is wanted. The path may be longer than an address can be, so it is reached through a handle; and that is no
/// link to the socket of another program.
async fn greet(folder: &Path, hello: &Hello) -> io::Result<UnixStream> {
    let socket = beneath::handle(&folder.join(ATTACH), 1, FileType::Socket)?;
    let mut stream = UnixStream::connect(format!("/proc/self/fd/{}", socket.as_raw_fd())).await?;
    let mut line = serde_json::to_vec(hello)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    Ok(stream)
}

/// Passes on the input; closing our half is its end.
async fn feed(mut write: OwnedWriteHalf, input: Option<mpsc::Receiver<Bytes>>) {
    let Some(mut input) = input else {
        // Kept open: to close it would say that we have left.
        return std::future::pending().await;
    };
    while let Some(bytes) = input.recv().await {
        if write.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn hear(
    mut read: OwnedReadHalf,
    mut output: Option<mpsc::Sender<Bytes>>,
    mut errors: Option<mpsc::Sender<Bytes>>,
) -> io::Result<CommandExit> {
    loop {
        let stream = read.read_u8().await?;
        let length = read.read_u32().await?;
        if length > MAX_FRAME_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the shim says more than it may"));
        }
        let mut bytes = BytesMut::zeroed(usize::try_from(length).unwrap_or_default());
        read.read_exact(&mut bytes).await?;
        let to = match stream {
            OUTPUT => &mut output,
            ERRORS => &mut errors,
            END => {
                let code = bytes.as_ref().try_into().map(i32::from_be_bytes);
                return code.map(|code| CommandExit { code }).map_err(io::Error::other);
            }
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "the shim says what nobody understands")),
        };
        if let Some(sender) = to
            && sender.send(bytes.freeze()).await.is_err()
        {
            *to = None;
        }
    }
}
