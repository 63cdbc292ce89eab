//! Serving the documents: an index with a hash in each address, so that clients fetch a document once and keep it.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LOCATION, VARY,
};
use http::{HeaderMap, StatusCode};
use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::documents::Document;
use super::messages::v3;
use super::swagger::Encoding;
use super::{address, hash, index};
use crate::failure::{Failure, Result};
use crate::negotiate;
use crate::query::Query;
use crate::response::{self, Response};
use crate::server::Shared;

const JSON: &str = "application/json";

/// The media types of a version of OpenAPI. Clients ask for protobuf with an `@` in its name, which no media type may
/// have, and are answered without it.
struct MediaTypes {
    protobuf: &'static str,
    asked_as: &'static str,
}

const V2: MediaTypes = MediaTypes {
    protobuf: "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    asked_as: "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
};
const V3: MediaTypes = MediaTypes {
    protobuf: "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    asked_as: "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
};

impl MediaTypes {
    /// What the client wants most.
    fn wanted(&self, headers: &HeaderMap) -> Option<Encoding> {
        let offered =
            [(JSON, Encoding::Json), (self.asked_as, Encoding::Protobuf), (self.protobuf, Encoding::Protobuf)];
        negotiate::choose(headers, &offered)
    }

    fn of(&self, encoding: Encoding) -> &'static str {
        match encoding {
            Encoding::Json => JSON,
            Encoding::Protobuf => self.protobuf,
        }
    }
}

/// `/openapi/v2`
pub async fn answer_v2(server: &Arc<Shared>, headers: &HeaderMap) -> Result<Response> {
    let Some(encoding) = V2.wanted(headers) else { return Ok(not_acceptable()) };
    let document = server.documents.whole(server, encoding).await?;
    Ok(answer(headers, V2.of(encoding), &document.hash, || compressed(headers, &document)))
}

/// `/openapi/v3`
pub async fn answer_index(server: &Arc<Shared>, headers: &HeaderMap) -> Result<Response> {
    let hashes = server.documents.hashes(server).await?;
    let index = index(hashes.iter().map(|(path, hash)| (path.as_str(), hash.as_str()))).to_string();
    let hash = hash(Sha256::new_with_prefix(&index));
    Ok(answer(headers, JSON, &hash, || plain(index)))
}

/// `/openapi/v3/api/v1` or `/openapi/v3/apis/<group>/<version>`
pub async fn answer_document(server: &Arc<Shared>, path: &str, headers: &HeaderMap, query: &Query) -> Result<Response> {
    let Some(encoding) = V3.wanted(headers) else { return Ok(not_acceptable()) };
    let document = server.documents.version(server, path).await?.ok_or_else(Failure::page_not_found)?;
    let asked = query.get("hash").filter(|hash| !hash.is_empty());
    if asked.is_some_and(|hash| hash != document.hash) {
        return Ok(moved(&address(path, &document.hash)));
    }
    let mut response = answer(headers, V3.of(encoding), &document.hash, || match encoding {
        Encoding::Json => compressed(headers, &document),
        Encoding::Protobuf => plain(protobuf(&document)),
    });
    if asked.is_some() {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        if let Some(expires) = a_year_from(Timestamp::now()) {
            response.headers_mut().insert(EXPIRES, expires);
        }
    }
    Ok(response)
}

/// Answers with a body, unless the client has it.
fn answer(headers: &HeaderMap, media_type: &'static str, hash: &str, body: impl FnOnce() -> Response) -> Response {
    let tag = format!("\"{hash}\"");
    let mut response = if knows(headers, &tag) {
        let mut response = response::bytes(StatusCode::NOT_MODIFIED, media_type, Bytes::new());
        response.headers_mut().remove(CONTENT_TYPE);
        response
    } else {
        let mut response = body();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        response
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    response.headers_mut().insert(ETAG, HeaderValue::from_str(&tag).expect("a hash is letters and digits"));
    response
}

/// Whether the client has what bears this tag.
fn knows(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

fn plain(body: impl Into<Bytes>) -> Response {
    response::bytes(StatusCode::OK, JSON, body)
}

/// A document as it is kept, for those who can read it so.
fn compressed(headers: &HeaderMap, document: &Document) -> Response {
    if !negotiate::accepts_gzip(headers) {
        return response::chunked(document.length, document.text());
    }
    let mut response = plain(document.compressed.clone());
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response
}

fn protobuf(document: &Document) -> Vec<u8> {
    let text: Vec<Bytes> = document.text().collect();
    let value: Value = serde_json::from_slice(&text.concat()).expect("this server wrote the text as JSON");
    let mut out = Vec::new();
    value.as_object().into_iter().for_each(|object| v3::DOCUMENT.write(&mut out, object));
    out
}

fn not_acceptable() -> Response {
    let mut response = response::text(StatusCode::NOT_ACCEPTABLE, Bytes::new());
    response.headers_mut().remove(CONTENT_TYPE);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// The address names a document as it was; this is where it is as it is now.
fn moved(address: &str) -> Response {
    let mut response = response::text(StatusCode::MOVED_PERMANENTLY, Bytes::new());
    response.headers_mut().remove(CONTENT_TYPE);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(address) = HeaderValue::from_str(address) {
        response.headers_mut().insert(LOCATION, address);
    }
    response
}

fn a_year_from(now: Timestamp) -> Option<HeaderValue> {
    let then = now.checked_add(SignedDuration::from_hours(365 * 24)).ok()?;
    HeaderValue::from_str(&DateTimePrinter::new().timestamp_to_rfc9110_string(&then).ok()?).ok()
}
