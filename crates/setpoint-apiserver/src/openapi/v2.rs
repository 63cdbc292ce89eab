//! `/openapi/v2`, which describes nothing: kubectl asks for it when `/openapi/v3` does not have a kind, and takes an answer
//! without that kind as a kind that is not served. Without an answer it reports a failure to validate instead.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;

use crate::response::{self, Response};

/// Asked for with an `@` before the version, which no media type may have.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const TITLE: &str = "Kubernetes";
const VERSION: &str = "v1.36";

pub fn answer_v2(headers: &HeaderMap) -> Response {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepted.any(|accept| accept.contains("proto-openapi.spec.v2")) {
        let mut response = response::bytes(StatusCode::OK, "application/octet-stream", protobuf());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
        return response;
    }
    let document = json!({
        "swagger": "2.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": {},
        "definitions": {},
    });
    response::json(StatusCode::OK, &document)
}

/// The same document as a protobuf message: swagger is field 1, info (title 1, version 2) is 2, paths is 8.
fn protobuf() -> Vec<u8> {
    let info = [field(1, TITLE.as_bytes()), field(2, VERSION.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info), field(8, b"")].concat()
}

/// A field of bytes, shorter than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("these are short");
    [&[number << 3 | 2, length], bytes].concat()
}
