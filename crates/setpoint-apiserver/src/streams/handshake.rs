//! Whether and how a connection becomes a session's WebSocket.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};

use super::channels::Protocol;
use crate::failure::{Failure, Result};
use crate::request::Verb;

/// What the answer to every WebSocket's key is made with, by RFC 6455.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const NO_SPDY: &str = "this server speaks WebSockets and not SPDY: use a client that does too, such as kubectl 1.31 or newer, with the protocol v5.channel.k8s.io or v4.channel.k8s.io";

/// The protocols by their names, the best first.
const PROTOCOLS: [(&str, Protocol); 3] =
    [("v5.channel.k8s.io", Protocol::V5), ("v4.channel.k8s.io", Protocol::V4), ("channel.k8s.io", Protocol::V1)];

/// What was agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    pub protocol: Protocol,
    /// The name under which the client offered it, if it did.
    name: Option<&'static str>,
    accept: String,
}

impl Handshake {
    /// Agrees to what a client asks for. A GET becomes a WebSocket; a POST is of an older client.
    pub fn read(verb: Verb, headers: &HeaderMap) -> Result<Handshake> {
        if !has_word(headers, CONNECTION, "upgrade") || !headers.contains_key(UPGRADE) {
            return Err(Failure::bad_request("Upgrade request required"));
        }
        if !has_word(headers, UPGRADE, "websocket") {
            return Err(Failure::bad_request(NO_SPDY));
        }
        if verb != Verb::Get {
            return Err(Failure::method_not_allowed());
        }
        if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err(Failure::bad_request("a WebSocket must be of the version 13 (Sec-WebSocket-Version)"));
        }
        let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| Failure::bad_request("a WebSocket must have a key (Sec-WebSocket-Key)"))?;
        let (name, protocol) = negotiate(headers)?;
        Ok(Handshake { protocol, name, accept: accept(key.as_bytes()) })
    }

    /// The headers of the answer with which the connection becomes a WebSocket.
    pub fn headers(&self) -> HeaderMap {
        let accept = HeaderValue::from_str(&self.accept).expect("base64 is fit for a header");
        let mut headers = HeaderMap::from_iter([
            (CONNECTION, HeaderValue::from_static("Upgrade")),
            (UPGRADE, HeaderValue::from_static("websocket")),
            (SEC_WEBSOCKET_ACCEPT, accept),
        ]);
        headers.extend(self.name.map(|name| (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name))));
        headers
    }
}

/// The first of the client's protocols that is spoken here; a client that names none gets the oldest.
fn negotiate(headers: &HeaderMap) -> Result<(Option<&'static str>, Protocol)> {
    let offered: Vec<&str> = words(headers, SEC_WEBSOCKET_PROTOCOL).collect();
    if offered.is_empty() {
        return Ok((None, Protocol::V1));
    }
    let spoken = offered.iter().find_map(|offer| PROTOCOLS.iter().find(|(name, _)| name == offer));
    let refused = || {
        let supported = PROTOCOLS.map(|(name, _)| name).join(" ");
        let why = format!("requested protocol(s) are not supported: [{}]; supports [{supported}]", offered.join(" "));
        Failure::not_allowed(&why)
    };
    spoken.map(|(name, protocol)| (Some(*name), *protocol)).ok_or_else(refused)
}

fn has_word(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    words(headers, name).any(|found| found.eq_ignore_ascii_case(word))
}

/// The words of a header that is a list.
fn words(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// What proves to a client that its key was read.
fn accept(key: &[u8]) -> String {
    let mut digest = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key);
    digest.update(GUID);
    STANDARD.encode(digest.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn websocket(protocols: &'static str) -> HeaderMap {
        let mut headers = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ]);
        if !protocols.is_empty() {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocols));
        }
        headers
    }

    #[test]
    fn a_protocol_is_agreed_on() {
        let rows = [
            ("the newest", "v5.channel.k8s.io", Ok((Protocol::V5, Some("v5.channel.k8s.io")))),
            (
                "as the client prefers",
                "v4.channel.k8s.io, v5.channel.k8s.io",
                Ok((Protocol::V4, Some("v4.channel.k8s.io"))),
            ),
            (
                "past what is unknown",
                "base64.channel.k8s.io,channel.k8s.io",
                Ok((Protocol::V1, Some("channel.k8s.io"))),
            ),
            ("none", "", Ok((Protocol::V1, None))),
            (
                "only what is unknown",
                "v9.channel.k8s.io, x",
                Err("forbidden: requested protocol(s) are not supported: [v9.channel.k8s.io x]; \
                     supports [v5.channel.k8s.io v4.channel.k8s.io channel.k8s.io]"),
            ),
        ];
        for (row, offered, expected) in rows {
            let handshake = Handshake::read(Verb::Get, &websocket(offered));
            let agreed = handshake.as_ref().map(|handshake| (handshake.protocol, handshake.name));
            assert_eq!(agreed.map_err(|failure| failure.message()), expected, "{row}");
            let Ok(handshake) = handshake else { continue };
            let answer = handshake.headers();
            assert_eq!(answer[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "{row}");
            let name = answer.get(SEC_WEBSOCKET_PROTOCOL).and_then(|name| name.to_str().ok());
            assert_eq!(name, handshake.name, "{row}");
        }
    }

    #[test]
    fn what_is_no_websocket_is_told_what_to_do() {
        let without = |name: &str| {
            let mut headers = websocket("");
            headers.remove(name);
            headers
        };
        let spdy = headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]);
        let rows = [
            ("a plain request", Verb::Get, HeaderMap::new(), 400, "Upgrade request required"),
            ("an upgrade of nothing", Verb::Get, without("connection"), 400, "Upgrade request required"),
            ("SPDY", Verb::Create, spdy.clone(), 400, NO_SPDY),
            ("SPDY by GET", Verb::Get, spdy, 400, NO_SPDY),
            (
                "a WebSocket by POST",
                Verb::Create,
                websocket(""),
                405,
                "the server does not allow this method on the requested resource",
            ),
            (
                "no version",
                Verb::Get,
                without("sec-websocket-version"),
                400,
                "a WebSocket must be of the version 13 (Sec-WebSocket-Version)",
            ),
            ("no key", Verb::Get, without("sec-websocket-key"), 400, "a WebSocket must have a key (Sec-WebSocket-Key)"),
        ];
        for (row, verb, headers, code, message) in rows {
            let failure = Handshake::read(verb, &headers).expect_err(row);
            assert_eq!((failure.code.as_u16(), failure.message()), (code, message), "{row}");
        }
    }
}
