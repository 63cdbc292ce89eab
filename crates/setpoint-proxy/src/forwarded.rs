//! What a backend is told of the client: `X-Forwarded-*` and `Forwarded`, believed only from trusted proxies.
//!
//! From anybody else these headers are removed, also in the spelling with underscores that some backends take for the same.

use std::fmt::Write;
use std::net::IpAddr;
use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A range of addresses: `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpRange {
    address: IpAddr,
    bits: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address or a range of addresses such as 10.0.0.0/8")]
pub struct NoIpRange(String);

impl IpRange {
    pub fn contains(&self, address: IpAddr) -> bool {
        let same = |a: u128, b: u128, width: u8| {
            let shift = u32::from(width - self.bits);
            a.checked_shr(shift).unwrap_or(0) == b.checked_shr(shift).unwrap_or(0)
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(range), IpAddr::V4(it)) => same(range.to_bits().into(), it.to_bits().into(), 32),
            (IpAddr::V6(range), IpAddr::V6(it)) => same(range.to_bits(), it.to_bits(), 128),
            _ => false,
        }
    }
}

impl FromStr for IpRange {
    type Err = NoIpRange;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || NoIpRange(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        if bits > width { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

impl Serialize for IpRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}/{}", self.address, self.bits))
    }
}

impl<'de> Deserialize<'de> for IpRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

pub fn is_trusted(ranges: &[IpRange], peer: IpAddr) -> bool {
    ranges.iter().any(|range| range.contains(peer))
}

/// How a request reached the proxy.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    pub peer: IpAddr,
    pub is_https: bool,
    /// The authority that the client asked for.
    pub authority: &'a str,
    pub port: u16,
}

/// What is told of a client, ready to be put into the headers of each of its requests.
#[derive(Clone, Debug)]
pub struct Told {
    peer: HeaderValue,
    forwarded: HeaderValue,
    proto: HeaderValue,
    host: Option<HeaderValue>,
    port: HeaderValue,
}

pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
pub const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

impl Told {
    pub fn new(arrival: &Arrival<'_>) -> Self {
        let peer = arrival.peer.to_canonical();
        let proto = if arrival.is_https { "https" } else { "http" };
        let value = |text: &str| HeaderValue::from_str(text).ok();
        Self {
            peer: value(&peer.to_string()).unwrap_or_else(|| HeaderValue::from_static("unknown")),
            forwarded: value(&element(peer, arrival.authority, proto))
                .unwrap_or_else(|| HeaderValue::from_static("for=unknown")),
            proto: HeaderValue::from_static(proto),
            host: value(arrival.authority),
            port: HeaderValue::from(arrival.port),
        }
    }

    /// Writes the headers that tell of the client. A trusted peer's are kept and continued; anybody else's are replaced.
    pub fn write(&self, headers: &mut HeaderMap, is_trusted: bool) {
        if !is_trusted {
            remove_untrusted(headers);
        }
        append_to(headers, X_FORWARDED_FOR, &self.peer);
        append_to(headers, http::header::FORWARDED, &self.forwarded);
        keep_or_set(headers, X_FORWARDED_PROTO, &self.proto);
        if let Some(host) = &self.host {
            keep_or_set(headers, X_FORWARDED_HOST, host);
        }
        keep_or_set(headers, X_FORWARDED_PORT, &self.port);
    }
}

fn element(peer: IpAddr, authority: &str, proto: &str) -> String {
    let mut text = String::with_capacity(authority.len() + 64);
    let _infallible = match peer {
        IpAddr::V4(peer) => write!(text, "for={peer}"),
        IpAddr::V6(peer) => write!(text, "for=\"[{peer}]\""),
    };
    if !authority.is_empty() && !authority.contains(['"', '\\']) {
        let quote = if authority.contains([':', '[', ']']) { "\"" } else { "" };
        let _infallible = write!(text, ";host={quote}{authority}{quote}");
    }
    let _infallible = write!(text, ";proto={proto}");
    text
}

fn append_to(headers: &mut HeaderMap, name: HeaderName, element: &HeaderValue) {
    if !headers.contains_key(&name) {
        headers.insert(name, element.clone());
        return;
    }
    let before: Vec<&[u8]> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(value) = HeaderValue::from_bytes(&[&before.join(&b", "[..])[..], b", ", element.as_bytes()].concat()) {
        headers.insert(name, value);
    }
}

fn keep_or_set(headers: &mut HeaderMap, name: HeaderName, value: &HeaderValue) {
    headers.entry(name).or_insert_with(|| value.clone());
}

fn remove_untrusted(headers: &mut HeaderMap) {
    // Hardly any request has one, and looking once costs less than trying to remove each.
    let claims: Vec<HeaderName> = headers.keys().filter(|name| is_claim(name.as_str())).cloned().collect();
    for name in claims {
        headers.remove(name);
    }
}

/// Whether a header says who the client is, under whatever name a backend could take for it.
fn is_claim(name: &str) -> bool {
    match name.as_bytes().first() {
        // A `Proxy` header becomes the variable HTTP_PROXY in CGI programs, and underscores become what dashes become.
        Some(b'x') => {
            name.starts_with("x-forwarded") || name == "x-real-ip" || (name.contains('_') && is_disguised(name))
        }
        Some(b'f') => name == "forwarded",
        Some(b'p') => name == "proxy",
        _ => false,
    }
}

fn is_disguised(name: &str) -> bool {
    let plain = name.replace('_', "-");
    plain.starts_with("x-forwarded") || plain == "x-real-ip" || plain == "x-request-id"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(pairs: &[(&'static str, &'static str)], arrival: &Arrival<'_>, is_trusted: bool) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        Told::new(arrival).write(&mut headers, is_trusted);
        headers
    }

    const ARRIVAL: Arrival<'_> = Arrival {
        peer: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)),
        is_https: true,
        authority: "shop.test:8443",
        port: 8443,
    };

    #[test]
    fn a_stranger_cannot_say_who_it_is() {
        let claims = [
            ("x-forwarded-for", "10.0.0.1"),
            ("x_forwarded_for", "10.0.0.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-prefix", "/admin"),
            ("forwarded", "for=10.0.0.1"),
            ("x-real-ip", "10.0.0.1"),
            ("proxy", "http://evil.test"),
            ("x-other", "stays"),
        ];
        let headers = forwarded(&claims, &ARRIVAL, false);
        let mut shown: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("text"))).collect();
        shown.sort();
        assert_eq!(
            shown,
            [
                "forwarded: for=192.0.2.7;host=\"shop.test:8443\";proto=https",
                "x-forwarded-for: 192.0.2.7",
                "x-forwarded-host: shop.test:8443",
                "x-forwarded-port: 8443",
                "x-forwarded-proto: https",
                "x-other: stays",
            ]
        );
    }

    #[test]
    fn a_trusted_proxy_is_continued() {
        let claims = [
            ("x-forwarded-for", "198.51.100.1"),
            ("x-forwarded-for", "203.0.113.9"),
            ("forwarded", "for=198.51.100.1"),
            ("x-forwarded-proto", "http"),
        ];
        let headers = forwarded(&claims, &Arrival { authority: "shop.test", ..ARRIVAL }, true);
        assert_eq!(headers["x-forwarded-for"], "198.51.100.1, 203.0.113.9, 192.0.2.7");
        assert_eq!(headers["forwarded"], "for=198.51.100.1, for=192.0.2.7;host=shop.test;proto=https");
        assert_eq!(headers["x-forwarded-proto"], "http");
    }

    #[test]
    fn ranges_hold_their_addresses() {
        let rows = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::/0", "10.0.0.1", false),
        ];
        for (range, address, expected) in rows {
            let range: IpRange = range.parse().expect("a range");
            assert_eq!(range.contains(address.parse().expect("an address")), expected, "{range:?} {address}");
        }
        for wrong in ["10.0.0.0/33", "10.0.0", "x", "::/129", "10.0.0.0/"] {
            assert!(wrong.parse::<IpRange>().is_err(), "{wrong}");
        }
    }
}
