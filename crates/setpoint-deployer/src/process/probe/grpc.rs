//! Asks by gRPC's health protocol, `grpc.health.v1.Health/Check`.
//!
//! Its two messages have one field each, so they are written and read by hand: a library for that would be larger than the
//! rest of the shim.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::{LOCALHOST, connect};

/// The status of a service that can be used.
const SERVING: u64 = 1;

/// The longest answer that is read.
const MAX_BYTES: usize = 4096;

pub(super) async fn check(port: u16, service: &str) -> Result<(), String> {
    let stream = connect(LOCALHOST, port).await?;
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .map_err(|error| format!("error: health rpc failed: {error}"))?;
    let connection = tokio::spawn(connection);
    let answer = exchange(&mut sender, port, service).await;
    connection.abort();
    match answer? {
        SERVING => Ok(()),
        status => Err(format!("service unhealthy (responded with {:?})", name(status))),
    }
}

async fn exchange(sender: &mut http2::SendRequest<Full<Bytes>>, port: u16, service: &str) -> Result<u64, String> {
    let failed = |message: String| format!("error: health rpc failed: {message}");
    let request = Request::post(format!("http://{LOCALHOST}:{port}/grpc.health.v1.Health/Check"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(Full::new(question(service)))
        .map_err(|error| failed(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(|error| failed(error.to_string()))?;
    let mut status = response.headers().get("grpc-status").cloned();
    let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
    let body = body.map_err(|error| failed(error.to_string()))?;
    status = status.or_else(|| body.trailers().and_then(|trailers| trailers.get("grpc-status").cloned()));
    match status.as_ref().and_then(|status| status.to_str().ok()) {
        Some("0") => answer(&body.to_bytes()).ok_or_else(|| failed("the answer cannot be read".to_owned())),
        Some("12") => Err("error: this server does not implement the grpc health protocol".to_owned()),
        Some(code) => Err(failed(format!("status {code}"))),
        None => Err(failed("no status was given".to_owned())),
    }
}

/// A message with the service's name as field 1, behind its length.
fn question(service: &str) -> Bytes {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        push_varint(&mut message, service.len() as u64);
        message.extend_from_slice(service.as_bytes());
    }
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = vec![0];
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    framed.into()
}

/// The status: field 1, a number; absent means 0.
fn answer(framed: &[u8]) -> Option<u64> {
    let (flag, rest) = framed.split_first()?;
    let (length, message) = rest.split_first_chunk()?;
    if *flag != 0 || u32::from_be_bytes(*length) as usize != message.len() {
        return None;
    }
    match message.split_first() {
        None => Some(0),
        Some((0x08, number)) => varint(number),
        Some(_) => None,
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn varint(bytes: &[u8]) -> Option<u64> {
    let mut number = 0;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn name(status: u64) -> &'static str {
    match status {
        0 => "UNKNOWN",
        1 => "SERVING",
        2 => "NOT_SERVING",
        3 => "SERVICE_UNKNOWN",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_framed() {
        assert_eq!(question("")[..], [0, 0, 0, 0, 0]);
        assert_eq!(question("ab")[..], [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(question(&"x".repeat(300))[4..8], [47, 0x0a, 0xac, 2]);
    }

    #[test]
    fn answers_are_read() {
        let rows: [(&str, &[u8], Option<u64>); 6] = [
            ("serving", &[0, 0, 0, 0, 2, 8, 1], Some(1)),
            ("not serving", &[0, 0, 0, 0, 2, 8, 2], Some(2)),
            ("nothing said", &[0, 0, 0, 0, 0], Some(0)),
            ("cut", &[0, 0, 0, 0, 2, 8], None),
            ("another field", &[0, 0, 0, 0, 2, 16, 1], None),
            ("empty", &[], None),
        ];
        for (what, bytes, status) in rows {
            assert_eq!(answer(bytes), status, "{what}");
        }
    }
}
