//! Headers that concern one connection are not passed on to the next.

use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HTTP2_SETTINGS,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// What is switched to, when a request asks for another protocol on its connection. `h2c` is no such wish: that change of
/// protocol may be ignored, and is.
pub fn wanted_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let upgrade = headers.get(UPGRADE)?;
    let is_named = names(headers).any(|name| name.eq_ignore_ascii_case("upgrade"));
    (is_named && !upgrade.as_bytes().eq_ignore_ascii_case(b"h2c")).then(|| upgrade.clone())
}

/// Removes what concerns this connection alone, and what `Connection` names. `TE: trailers` stays: it is a promise of the
/// client that holds all the way.
pub fn remove(headers: &mut HeaderMap) {
    // Most messages have none of them, and looking once costs less than trying to remove each.
    if !headers.keys().any(is_hop_by_hop) {
        return;
    }
    let takes_trailers = headers.contains_key(TE) && te_has_trailers(headers);
    let named: Vec<HeaderName> = names(headers).filter_map(|name| name.parse().ok()).collect();
    for name in named {
        // These say where a message ends and to whom it goes; nobody can have them removed on the way.
        if name != CONTENT_LENGTH && name != HOST {
            headers.remove(name);
        }
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(name)
}

fn names(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|name| !name.is_empty())
}

fn te_has_trailers(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(TE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn what_concerns_one_connection_is_removed() {
        let rows = [
            ("end-to-end headers stay", vec![("accept", "*/*")], vec!["accept"]),
            ("keep-alive", vec![("connection", "keep-alive"), ("keep-alive", "5")], vec![]),
            ("what is named", vec![("connection", "close, X-Hop"), ("x-hop", "1"), ("x-end", "1")], vec!["x-end"]),
            ("two lines", vec![("connection", "x-a"), ("connection", "x-b"), ("x-a", "1"), ("x-b", "1")], vec![]),
            (
                "the length cannot be named away",
                vec![("connection", "content-length"), ("content-length", "3")],
                vec!["content-length"],
            ),
            ("nor the host", vec![("connection", "host"), ("host", "a")], vec!["host"]),
            ("trailers are still taken", vec![("te", "gzip, trailers")], vec!["te"]),
            ("other codings are not", vec![("te", "gzip")], vec![]),
            ("an upgrade", vec![("connection", "upgrade"), ("upgrade", "websocket")], vec![]),
            ("a proxy's own", vec![("proxy-connection", "keep-alive"), ("proxy-authorization", "Basic eA==")], vec![]),
        ];
        for (what, pairs, expected) in rows {
            let mut headers = headers(&pairs);
            remove(&mut headers);
            assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), expected, "{what}");
        }
    }

    #[test]
    fn an_upgrade_must_be_named() {
        let rows = [
            ("a WebSocket", vec![("connection", "Upgrade"), ("upgrade", "websocket")], true),
            ("among others", vec![("connection", "keep-alive, upgrade"), ("upgrade", "SPDY/3.1")], true),
            ("not named", vec![("upgrade", "websocket")], false),
            ("named only", vec![("connection", "upgrade")], false),
            ("h2c may be ignored", vec![("connection", "upgrade, http2-settings"), ("upgrade", "h2c")], false),
        ];
        for (what, pairs, expected) in rows {
            assert_eq!(wanted_upgrade(&headers(&pairs)).is_some(), expected, "{what}");
        }
    }
}
