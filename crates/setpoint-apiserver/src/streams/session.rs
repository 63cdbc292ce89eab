//! Carrying bytes between a client's WebSocket and a command.
//!
//! Nothing is kept for a client that does not read: what the command writes goes through a channel of a few pieces, each
//! of which is sent before the next is taken. Nor for a command that does not read, since its client's next message is
//! awaited only when it has taken the last.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use super::channels::{self, Channel, Nonsense, Protocol, Said, Streams};
use super::{Exit, Session, TerminalSize};
use crate::failure::{Failure, Result};
use crate::listener::{Lease, Taken};

/// The largest message that a client may send. Most send what they read at once, some tens of kilobytes.
const LONGEST: usize = 4 * 1024 * 1024;
/// The largest message that is sent, and about the most that is kept in a buffer.
const PIECE: usize = 32 * 1024;
/// How many pieces wait on their way.
const PIECES: usize = 4;
/// How often a client is asked whether it is there.
const PING: Duration = Duration::from_secs(30);
/// How many times in a row it may leave that unanswered.
const UNANSWERED: u32 = 4;
/// How long a client has to begin, and to hear the end.
const BEGINNING: Duration = Duration::from_secs(10);
const PARTING: Duration = Duration::from_secs(2);

/// A connection that is about to be something else than HTTP.
#[derive(Debug)]
pub(crate) struct Upgrade {
    on: OnUpgrade,
    /// It still counts as a connection, and as one that is used.
    taken: Option<Taken>,
}

impl Upgrade {
    /// The connection of a request, if it can be upgraded: not one of HTTP/2, nor of this process.
    pub(crate) fn of(extensions: &http::Extensions) -> Option<Upgrade> {
        let on = extensions.get::<OnUpgrade>()?.clone();
        Some(Upgrade { on, taken: extensions.get::<Lease>().map(Lease::take) })
    }

    /// Waits until the answer was sent that makes it a WebSocket.
    pub(crate) async fn finish(self) -> Option<(WebSocketStream<TokioIo<Upgraded>>, Option<Taken>)> {
        let upgraded = timeout(BEGINNING, self.on).await.ok()?.ok()?;
        let config = WebSocketConfig::default()
            .read_buffer_size(PIECE)
            .write_buffer_size(0)
            .max_write_buffer_size(LONGEST)
            .max_frame_size(Some(LONGEST))
            .max_message_size(Some(LONGEST));
        Some((WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await, self.taken))
    }
}

/// Runs a command for the client of a WebSocket, until the command ends, the client goes, or `over` says why it may not
/// go on.
pub(crate) async fn converse<S, C>(
    socket: WebSocketStream<S>,
    protocol: Protocol,
    streams: Streams,
    command: impl FnOnce(Session) -> C,
    over: impl Future<Output = Failure>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    C: Future<Output = Result<Exit>>,
{
    let (mut sink, mut source) = socket.split();
    let (session, client) = ends(streams);
    let (tell_end, end) = oneshot::channel();
    let pulse = Pulse::default();
    let refusal = 'talk: {
        let command = pin!(command(session));
        let mut over = pin!(over);
        let mut heard = pin!(hear(&mut source, client.input, protocol, streams, &pulse));
        let mut told = pin!(tell(&mut sink, client.outputs, channels::greeting(streams), end, &pulse));
        let exit = tokio::select! {
            biased;
            failure = &mut over => break 'talk Some(failure),
            exit = command => exit,
            heard = &mut heard => break 'talk heard.err().map(|nonsense| Failure::bad_request(nonsense.to_string())),
            _ = &mut told => return,
        };
        // All that the command wrote comes before its end.
        let _ = tell_end.send(channels::farewell(protocol, &exit));
        tokio::select! {
            biased;
            failure = &mut over => Some(failure),
            told = told => match told {
                Ok(()) => None,
                Err(_) => return,
            },
            _ = heard => None,
        }
    };
    let farewell = refusal.and_then(|failure| channels::farewell(protocol, &Err(failure)));
    let _ = timeout(PARTING, part(&mut sink, &mut source, farewell)).await;
}

/// The ends of a session's streams that are the client's.
struct Client {
    input: Input,
    outputs: [(Channel, Option<mpsc::Receiver<Bytes>>); 2],
}

struct Input {
    stdin: Option<mpsc::Sender<Bytes>>,
    sizes: watch::Sender<Option<TerminalSize>>,
}

fn ends(streams: Streams) -> (Session, Client) {
    let pipe = |wanted: bool| wanted.then(|| mpsc::channel(PIECES)).unzip();
    let (to_stdin, stdin) = pipe(streams.stdin);
    let (stdout, from_stdout) = pipe(streams.stdout);
    let (stderr, from_stderr) = pipe(streams.stderr);
    let (to_sizes, sizes) = watch::channel(None);
    let input = Input { stdin: to_stdin, sizes: to_sizes };
    let outputs = [(Channel::Stdout, from_stdout), (Channel::Stderr, from_stderr)];
    (Session { stdin, stdout, stderr, sizes }, Client { input, outputs })
}

/// Passes on what a client says, until it goes away.
async fn hear<S: AsyncRead + AsyncWrite + Unpin>(
    source: &mut SplitStream<WebSocketStream<S>>,
    mut input: Input,
    protocol: Protocol,
    streams: Streams,
    pulse: &Pulse,
) -> std::result::Result<(), Nonsense> {
    while let Some(Ok(message)) = source.next().await {
        pulse.beats();
        let data = match message {
            Message::Binary(_) | Message::Text(_) => message.into_data(),
            Message::Close(_) => break,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        match channels::read(protocol, streams, data)? {
            Said::Input(bytes) => {
                if let Some(stdin) = &input.stdin {
                    let _deaf = pulse.deaf();
                    // A command that reads no more does not care for what else is written to it.
                    if stdin.send(bytes).await.is_err() {
                        input.stdin = None;
                    }
                }
            }
            Said::EndOfInput => input.stdin = None,
            Said::Resized(size) => drop(input.sizes.send_replace(Some(size))),
            Said::Nothing => {}
        }
    }
    Ok(())
}

/// Sends what a command writes, and how it ended once that is known.
async fn tell<S: AsyncRead + AsyncWrite + Unpin>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    [(out, mut stdout), (err, mut stderr)]: [(Channel, Option<mpsc::Receiver<Bytes>>); 2],
    greeting: Bytes,
    mut end: oneshot::Receiver<Option<Bytes>>,
    pulse: &Pulse,
) -> std::result::Result<(), tungstenite::Error> {
    sink.send(Message::Binary(greeting)).await?;
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let farewell = loop {
        tokio::select! {
            Some(data) = next(&mut stdout) => send(sink, out, &data).await?,
            Some(data) = next(&mut stderr) => send(sink, err, &data).await?,
            farewell = &mut end => break farewell.unwrap_or_default(),
            _ = pings.tick() => {
                pulse.ask()?;
                sink.send(Message::Ping(Bytes::new())).await?;
            }
        }
    };
    for (channel, output) in [(out, stdout), (err, stderr)] {
        let Some(mut output) = output else { continue };
        output.close();
        while let Some(data) = output.recv().await {
            send(sink, channel, &data).await?;
        }
    }
    match farewell {
        Some(farewell) => sink.send(Message::Binary(farewell)).await,
        None => Ok(()),
    }
}

/// The next output; nothing ever comes from one that is not there.
async fn next(output: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    match output {
        Some(output) => output.recv().await,
        None => std::future::pending().await,
    }
}

async fn send<S: AsyncRead + AsyncWrite + Unpin>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    channel: Channel,
    data: &[u8],
) -> std::result::Result<(), tungstenite::Error> {
    for piece in data.chunks(PIECE) {
        sink.send(Message::Binary(channels::message(channel, piece))).await?;
    }
    Ok(())
}

/// Closes a WebSocket in good order. A connection that is closed while something is unread is reset, and what was sent
/// last may be lost with it: so the client's own end is awaited.
async fn part<S: AsyncRead + AsyncWrite + Unpin>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    source: &mut SplitStream<WebSocketStream<S>>,
    farewell: Option<Bytes>,
) -> std::result::Result<(), tungstenite::Error> {
    if let Some(farewell) = farewell {
        sink.send(Message::Binary(farewell)).await?;
    }
    let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    sink.send(Message::Close(Some(close))).await?;
    while let Some(Ok(_)) = source.next().await {}
    Ok(())
}

/// Whether a client is still there.
#[derive(Debug, Default)]
struct Pulse {
    /// Pings since anything was heard of it.
    unanswered: AtomicU32,
    /// Nobody listens just now, since the command does not read.
    deaf: AtomicBool,
}

impl Pulse {
    fn beats(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }

    /// Counts a ping that is about to be sent.
    fn ask(&self) -> std::result::Result<(), tungstenite::Error> {
        let asked = self.unanswered.fetch_add(1, Ordering::Relaxed);
        match asked >= UNANSWERED && !self.deaf.load(Ordering::Relaxed) {
            true => Err(tungstenite::Error::ConnectionClosed),
            false => Ok(()),
        }
    }

    fn deaf(&self) -> Deaf<'_> {
        self.deaf.store(true, Ordering::Relaxed);
        Deaf(self)
    }
}

struct Deaf<'p>(&'p Pulse);

impl Drop for Deaf<'_> {
    fn drop(&mut self) {
        self.0.deaf.store(false, Ordering::Relaxed);
        self.0.beats();
    }
}
