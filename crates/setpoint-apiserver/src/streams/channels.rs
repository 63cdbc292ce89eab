//! What the messages of a session's WebSocket mean: the first byte of each is the channel that the others are for.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Exit, TerminalSize};
use crate::failure::Failure;

const STDIN: u8 = 0;
const RESIZE: u8 = 4;
/// Says that the channel in the next byte is at its end.
const CLOSE: u8 = 255;

/// What is sent to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    Stdout = 1,
    Stderr = 2,
    /// How the command ended.
    Error = 3,
}

/// The forms of the protocol, as the client offers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The end is told in words, and success in none. Also what is spoken with a client that names no protocol.
    V1,
    /// The end is told as a `Status`.
    V4,
    /// And the client can say that its input is at its end.
    V5,
}

/// Which of a session's streams there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

/// What a client's message means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Input(Bytes),
    EndOfInput,
    Resized(TerminalSize),
    /// It is for a channel that is not there, or does not say anything.
    Nothing,
}

/// A message that breaks the protocol; the session ends with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    #[error("a close signal names one channel, not {0}")]
    Close(usize),
    #[error("there is no channel {0} to close")]
    NoChannel(u8),
}

#[derive(Deserialize)]
struct Size {
    #[serde(rename = "Width")]
    width: u16,
    #[serde(rename = "Height")]
    height: u16,
}

/// Reads a client's message.
pub fn read(protocol: Protocol, streams: Streams, message: Bytes) -> Result<Said, Nonsense> {
    let Some((&channel, data)) = message.split_first() else { return Ok(Said::Nothing) };
    Ok(match channel {
        CLOSE if protocol == Protocol::V5 => match data {
            [STDIN] if streams.stdin => Said::EndOfInput,
            [0..=RESIZE] => Said::Nothing,
            [other] => return Err(Nonsense::NoChannel(*other)),
            _ => return Err(Nonsense::Close(data.len())),
        },
        STDIN if streams.stdin && !data.is_empty() => Said::Input(message.slice(1..)),
        // A size that cannot be read is none; the next one may be.
        RESIZE => match serde_json::from_slice(data) {
            Ok(Size { width, height }) => Said::Resized(TerminalSize { width, height }),
            Err(_) => Said::Nothing,
        },
        _ => Said::Nothing,
    })
}

/// A message on a channel.
pub fn message(channel: Channel, data: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(data.len() + 1);
    message.put_u8(channel as u8);
    message.put_slice(data);
    message.freeze()
}

/// The message that tells a client that its session has begun: nothing, on the first channel that is there.
pub fn greeting(streams: Streams) -> Bytes {
    let first = match streams {
        Streams { stdout: true, .. } => Channel::Stdout,
        Streams { stderr: true, .. } => Channel::Stderr,
        _ => Channel::Error,
    };
    message(first, &[])
}

/// The message that tells how a session ended; `None` if the protocol has none for it.
pub fn farewell(protocol: Protocol, end: &Result<Exit, Failure>) -> Option<Bytes> {
    let status = match end {
        Ok(Exit::Success) => json!({"metadata": {}, "status": "Success"}),
        Ok(Exit::Code(code)) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: command terminated with exit code {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Ok(Exit::Failed(why)) => Failure::internal(why).status()?,
        Err(failure) => failure.status()?,
    };
    match protocol {
        Protocol::V4 | Protocol::V5 => Some(message(Channel::Error, status.to_string().as_bytes())),
        Protocol::V1 => {
            status.get("message").and_then(Value::as_str).map(|words| message(Channel::Error, words.as_bytes()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Streams = Streams { stdin: true, stdout: true, stderr: true };
    const NO_INPUT: Streams = Streams { stdin: false, ..ALL };

    #[test]
    fn a_message_says_something_on_a_channel() {
        use Protocol::{V1, V4, V5};
        let input = |text: &'static str| Ok(Said::Input(Bytes::from_static(text.as_bytes())));
        let size = |width, height| Ok(Said::Resized(TerminalSize { width, height }));
        let rows: [(&str, Protocol, Streams, &[u8], Result<Said, Nonsense>); 20] = [
            ("input", V5, ALL, b"\0ls\n", input("ls\n")),
            ("input that looks like a signal", V5, ALL, b"\0\xff\0", Ok(Said::Input(Bytes::from_static(b"\xff\0")))),
            ("no input", V5, ALL, b"\0", Ok(Said::Nothing)),
            ("input nobody wants", V5, NO_INPUT, b"\0ls", Ok(Said::Nothing)),
            ("nothing", V5, ALL, b"", Ok(Said::Nothing)),
            ("the end of the input", V5, ALL, b"\xff\0", Ok(Said::EndOfInput)),
            ("the end of no input", V5, NO_INPUT, b"\xff\0", Ok(Said::Nothing)),
            ("the end of an output", V5, ALL, b"\xff\x01", Ok(Said::Nothing)),
            ("the end of what is not there", V5, ALL, b"\xff\x07", Err(Nonsense::NoChannel(7))),
            ("the end of nothing", V5, ALL, b"\xff", Err(Nonsense::Close(0))),
            ("the end of too much", V5, ALL, b"\xff\0\x01", Err(Nonsense::Close(2))),
            ("no such signal yet", V4, ALL, b"\xff\0", Ok(Said::Nothing)),
            ("nor before", V1, ALL, b"\xff\0", Ok(Said::Nothing)),
            ("a size", V5, ALL, br#"{"Width":80,"Height":24}"#, Ok(Said::Nothing)),
            ("a size on its channel", V4, ALL, b"\x04{\"Width\":80,\"Height\":24}", size(80, 24)),
            ("a size with more", V5, NO_INPUT, b"\x04{\"Width\":1,\"Height\":2,\"Depth\":3}\n", size(1, 2)),
            ("a size too large", V5, ALL, b"\x04{\"Width\":70000,\"Height\":24}", Ok(Said::Nothing)),
            ("no size", V5, ALL, b"\x04large", Ok(Said::Nothing)),
            ("an output", V5, ALL, b"\x01x", Ok(Said::Nothing)),
            ("no channel", V5, ALL, b"\x09x", Ok(Said::Nothing)),
        ];
        for (row, protocol, streams, message, expected) in rows {
            assert_eq!(read(protocol, streams, Bytes::from_static(message)), expected, "{row}");
        }
    }

    #[test]
    fn a_session_begins_with_an_empty_message() {
        let rows = [
            ("all", ALL, &b"\x01"[..]),
            ("no stdout", Streams { stdout: false, ..ALL }, b"\x02"),
            ("no output", Streams { stdin: true, stdout: false, stderr: false }, b"\x03"),
        ];
        for (row, streams, expected) in rows {
            assert_eq!(greeting(streams), expected, "{row}");
        }
    }

    #[test]
    fn a_session_ends_with_a_status_or_in_words() {
        let nonzero = "command terminated with non-zero exit code: command terminated with exit code 7";
        let code = json!({"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": nonzero,
            "details": {"causes": [{"reason": "ExitCode", "message": "7"}]}});
        let failed = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Internal error occurred: lost", "reason": "InternalError", "code": 500});
        let refused = Failure::bad_request("not now");
        let rows = [
            ("success", Ok(Exit::Success), Some(json!({"metadata": {}, "status": "Success"})), None),
            ("a code", Ok(Exit::Code(7)), Some(code), Some(nonzero)),
            ("nobody knows", Ok(Exit::Failed("lost".into())), Some(failed), Some("Internal error occurred: lost")),
            ("refused", Err(refused.clone()), refused.status(), Some("not now")),
        ];
        for (row, end, status, words) in rows {
            for protocol in [Protocol::V4, Protocol::V5] {
                let sent = farewell(protocol, &end).expect("a status is always sent");
                assert_eq!(sent.first(), Some(&3), "{row}");
                assert_eq!(serde_json::from_slice::<Value>(&sent[1..]).ok(), status, "{row}");
            }
            let sent = farewell(Protocol::V1, &end).map(|sent| String::from_utf8_lossy(&sent[1..]).into_owned());
            assert_eq!(sent.as_deref(), words, "{row}");
        }
    }
}
