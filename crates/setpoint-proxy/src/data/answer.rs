//! Answers of the proxy itself: refusals and redirects, each saying what is wrong and what it concerns.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::body::ResponseBody;

/// Why the proxy answers itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// One sentence for people.
    pub(crate) what: String,
    /// One word for the access log.
    pub(crate) reason: &'static str,
    pub(crate) retry_after_s: Option<u32>,
    /// The connection is not used again.
    pub(crate) closes: bool,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, reason: &'static str, what: impl Into<String>) -> Self {
        Self { status, what: what.into(), reason, retry_after_s: None, closes: false }
    }

    pub(crate) fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after_s: Some(seconds), ..self }
    }

    pub(crate) fn closing(self) -> Self {
        Self { closes: true, ..self }
    }
}

/// What the client understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Browser,
    Grpc,
    Program,
}

impl Reader {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let has = |name: HeaderName, text: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(text))
        };
        if has(CONTENT_TYPE, "application/grpc") {
            Self::Grpc
        } else if has(http::header::ACCEPT, "text/html") {
            Self::Browser
        } else {
            Self::Program
        }
    }
}

pub(crate) fn response(problem: &Problem, reader: Reader, request_id: Option<&HeaderValue>) -> Response<ResponseBody> {
    if reader == Reader::Grpc {
        return grpc(problem);
    }
    let status = problem.status;
    let reason = status.canonical_reason().unwrap_or("Error");
    let id = request_id.and_then(|id| id.to_str().ok()).unwrap_or("");
    let (kind, text) = match reader {
        Reader::Browser => {
            let what = escaped(&problem.what);
            let page = format!(
                "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{code} {reason}</title></head>\n\
                 <body><h1>{code} {reason}</h1><p>{what}</p><p><small>Request {id}</small></p></body></html>\n",
                code = status.as_u16(),
                id = escaped(id),
            );
            ("text/html; charset=utf-8", page)
        }
        _ => ("text/plain; charset=utf-8", format!("{} {reason}: {}\n", status.as_u16(), problem.what)),
    };
    let mut response = Response::new(ResponseBody::own(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = problem.retry_after_s {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if problem.closes {
        headers.insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// gRPC clients look at `grpc-status` alone.
fn grpc(problem: &Problem) -> Response<ResponseBody> {
    let code = match problem.status.as_u16() {
        400 => "13",
        404 => "12",
        408 | 504 => "4",
        413 | 429 => "8",
        _ => "14",
    };
    let mut response = Response::new(ResponseBody::own(""));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from_static(code));
    let message: String = problem.what.chars().filter(|letter| matches!(letter, ' '..='~') && *letter != '%').collect();
    if let Ok(message) = HeaderValue::from_str(&message) {
        headers.insert(HeaderName::from_static("grpc-message"), message);
    }
    response
}

/// A redirect that says nothing else.
pub(crate) fn redirect(status: StatusCode, location: &str) -> Option<Response<ResponseBody>> {
    let mut response = Response::new(ResponseBody::own(""));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::LOCATION, HeaderValue::from_str(location).ok()?);
    Some(response)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_told_apart() {
        let rows = [
            ("a browser", "accept", "text/html,application/xhtml+xml", Reader::Browser),
            ("curl", "accept", "*/*", Reader::Program),
            ("gRPC", "content-type", "application/grpc+proto", Reader::Grpc),
        ];
        for (what, name, value, expected) in rows {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            assert_eq!(Reader::of(&headers), expected, "{what}");
        }
    }

    #[test]
    fn what_a_client_sends_does_not_become_markup() {
        assert_eq!(escaped("<script>\"&"), "&lt;script&gt;&quot;&amp;");
    }
}
