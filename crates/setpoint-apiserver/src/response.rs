//! Answers: whole, in chunks that are made as they are sent, or as an endless stream.

use std::convert::Infallible;
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{Stream, StreamExt, stream};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY, WARNING};
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::Value;

use crate::failure::Failure;
use crate::fairness::{Held, Pace};
use crate::negotiate::{self, Encoding};

pub type Body = UnsyncBoxBody<Bytes, Infallible>;
pub type Response = http::Response<Body>;

/// Below this size compressing costs more than it saves.
const WORTH_COMPRESSING: usize = 128 * 1024;

pub fn bytes(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = http::Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub fn text(code: StatusCode, body: impl Into<Bytes>) -> Response {
    bytes(code, "text/plain; charset=utf-8", body)
}

pub fn json(code: StatusCode, body: &Value) -> Response {
    bytes(code, "application/json", body.to_string())
}

/// A JSON text, turned into YAML if that was asked for.
pub fn encoded(code: StatusCode, encoding: Encoding, json_text: Vec<u8>) -> Response {
    match encoding {
        Encoding::Json => bytes(code, "application/json", json_text),
        Encoding::Yaml => bytes(code, "application/yaml", to_yaml(&json_text)),
    }
}

fn to_yaml(json_text: &[u8]) -> String {
    let value: Value = serde_json::from_slice(json_text).expect("this server wrote the text as JSON");
    serde_saphyr::to_string(&value).expect("every JSON value can be written as YAML")
}

pub fn failure(failure: &Failure) -> Response {
    let Some(status) = failure.status() else { return text(failure.code, "404 page not found\n") };
    let mut response = json(failure.code, &status);
    if let Some(seconds) = status["details"]["retryAfterSeconds"].as_u64() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A body of known length that is made piece by piece while it is sent.
pub fn chunked(length: usize, chunks: impl Iterator<Item = Bytes> + Send + 'static) -> Response {
    let mut response = streamed(stream::iter(chunks));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}

/// A body of unknown length that is made piece by piece while it is sent, and has an end.
pub fn pieces(pieces: impl Iterator<Item = Vec<u8>> + Send + 'static) -> Response {
    let mut response = streamed(stream::iter(pieces.map(Bytes::from)));
    response.extensions_mut().insert(Pieces);
    response
}

/// Marks an answer that is worth compressing though its length is not known.
#[derive(Debug, Clone, Copy)]
struct Pieces;

/// A body that goes on until its stream ends.
pub fn streamed(stream: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let body = StreamBody::new(stream.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk))));
    let mut response = http::Response::new(body.boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Adds remarks for the client, one header each.
pub fn warn(response: &mut Response, warnings: impl IntoIterator<Item = impl AsRef<str>>) {
    for warning in warnings {
        let quoted = Value::from(warning.as_ref()).to_string();
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {quoted}")) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// Makes an answer that is made while it is sent wait for its turn before each piece, and counts it until it is sent.
pub fn paced(response: Response, pace: Pace, held: Option<Held>) -> Response {
    response.map(|body| {
        let pieces = stream::unfold((body, pace, held), |(mut body, pace, held)| async move {
            let _turn = pace.turn().await;
            let frame = body.frame().await?;
            Some((frame, (body, pace, held)))
        });
        StreamBody::new(pieces).boxed_unsync()
    })
}

/// Whether an answer is all there.
pub fn is_whole(response: &Response) -> bool {
    http_body::Body::size_hint(response.body()).exact().is_some()
}

/// Compresses a large answer for a client that can read it compressed.
pub fn compress(response: Response, request: &HeaderMap) -> Response {
    let length = response.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
    let length = length.or(http_body::Body::size_hint(response.body()).exact().and_then(|n| usize::try_from(n).ok()));
    let worth_it = match response.extensions().get::<Pieces>() {
        Some(Pieces) => true,
        None => length.is_some_and(|length| length >= WORTH_COMPRESSING),
    };
    if !worth_it || response.headers().contains_key(CONTENT_ENCODING) || !negotiate::accepts_gzip(request) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let compressed = stream::unfold((body, Some(encoder)), |(mut body, encoder)| async move {
        let mut encoder = encoder?;
        loop {
            match body.frame().await {
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    encoder.write_all(&data).expect("writing to memory cannot fail");
                    if !encoder.get_ref().is_empty() {
                        let chunk = Bytes::from(std::mem::take(encoder.get_mut()));
                        return Some((chunk, (body, Some(encoder))));
                    }
                }
                None => {
                    let rest = encoder.finish().expect("writing to memory cannot fail");
                    return Some((Bytes::from(rest), (body, None)));
                }
            }
        }
    });
    let body = StreamBody::new(compressed.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk))));
    http::Response::from_parts(parts, body.boxed_unsync())
}
