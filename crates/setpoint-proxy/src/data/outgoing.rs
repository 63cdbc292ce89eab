//! What a backend gets to see of a request: its target, its headers, and what is told of the client.

use std::rc::Rc;

use http::header::{COOKIE, EXPECT, HOST};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Uri, Version};
use hyper::body::Incoming;

use super::connection::Connection;
use crate::hop_by_hop;
use crate::table::{CompiledRoute, Found, PathRewrite, Redirect, host_of, port_of};

/// Changes the head of a request into what its route sends on, in the form that an HTTP/1 backend gets.
pub(crate) fn prepare(
    parts: &mut Parts,
    connection: &Connection,
    authority: &Rc<str>,
    found: Found,
    route: &CompiledRoute,
) {
    let headers = &mut parts.headers;
    hop_by_hop::remove(headers);
    // The client is told to go on as soon as the backend's connection asks for the body.
    headers.remove(EXPECT);
    if parts.version == Version::HTTP_2 {
        join_cookies(parts);
    }
    let headers = &mut parts.headers;
    // Room for what is added, at once.
    headers.reserve(8);
    connection.told(authority).write(headers, connection.is_trusted);
    let rewrite = route.rewrite.as_ref();
    let host = rewrite.and_then(|rewrite| rewrite.host.as_deref()).unwrap_or(authority);
    let is_same_host = headers.get(HOST).is_some_and(|given| given == host);
    if !is_same_host && let Ok(host) = HeaderValue::from_str(host) {
        headers.insert(HOST, host);
    }
    route.request_headers.apply(headers);
    if let Some(path) = rewrite.and_then(|rewrite| rewrite.path.as_ref()) {
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("{}{query}", rewritten(path, parts.uri.path(), found.matched_path_bytes));
        parts.uri = path.parse().unwrap_or_default();
    } else if parts.uri.authority().is_some() {
        let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        parts.uri = Uri::from(path);
    }
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
}

/// What HTTP/2 has in the place of Host.
pub(crate) fn to_http2(parts: &mut Parts, is_https: bool) {
    let host = parts.headers.remove(HOST);
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut uri = std::mem::take(&mut parts.uri).into_parts();
    uri.scheme = Some(if is_https { Scheme::HTTPS } else { Scheme::HTTP });
    uri.authority = authority.or_else(|| Some(Authority::from_static("localhost")));
    uri.path_and_query.get_or_insert_with(|| PathAndQuery::from_static("/"));
    parts.uri = Uri::from_parts(uri).unwrap_or_default();
    parts.version = Version::HTTP_2;
}

/// HTTP/2 may send cookies in pieces; HTTP/1 has one line.
fn join_cookies(parts: &mut Parts) {
    let pieces: Vec<&[u8]> = parts.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if pieces.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&pieces.join(&b"; "[..]))
    {
        parts.headers.insert(COOKIE, joined);
    }
}

fn rewritten(rewrite: &PathRewrite, path: &str, matched_bytes: usize) -> String {
    match rewrite {
        PathRewrite::Full(path) => path.clone(),
        PathRewrite::Prefix(prefix) => {
            let rest = path.get(matched_bytes..).unwrap_or("");
            let prefix = prefix.strip_suffix('/').filter(|_| rest.starts_with('/')).unwrap_or(prefix);
            let joined = format!("{prefix}{rest}");
            if joined.starts_with('/') { joined } else { format!("/{joined}") }
        }
    }
}

/// Where a redirect leads: what it does not change stays as the client asked.
pub(crate) fn redirect_location(
    rule: &Redirect,
    connection: &Connection,
    authority: &str,
    request: &Request<Incoming>,
    found: Found,
) -> Option<String> {
    let asked = if connection.is_https { "https" } else { "http" };
    let scheme = rule.scheme.as_deref().unwrap_or(asked);
    let asked_host = host_of(authority);
    let host = rule.host.as_deref().unwrap_or(&asked_host);
    let implied = |scheme: &str| if scheme == "https" { 443 } else { 80 };
    // With another scheme, the client's port is not the one to go to.
    let kept = if rule.scheme.is_some() { None } else { port_of(authority) };
    let port = rule.port.or(kept).unwrap_or_else(|| implied(scheme));
    let path = match &rule.path {
        Some(rewrite) => rewritten(rewrite, request.uri().path(), found.matched_path_bytes),
        None => request.uri().path().to_owned(),
    };
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let port = if port == implied(scheme) { String::new() } else { format!(":{port}") };
    (!host.is_empty()).then(|| format!("{scheme}://{host}{port}{path}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_replaced() {
        let rows = [
            ("a prefix", "/api", "/v2", "/api/x", "/v2/x"),
            ("a prefix with a slash", "/api", "/v2/", "/api/x", "/v2/x"),
            ("a prefix that goes", "/api", "/", "/api/x", "/x"),
            ("nothing is left", "/api", "/", "/api", "/"),
            ("the whole path", "", "/v2", "/api", "/v2/api"),
        ];
        for (what, matched, prefix, path, expected) in rows {
            let rewrite = PathRewrite::Prefix(prefix.to_owned());
            assert_eq!(rewritten(&rewrite, path, matched.len()), expected, "{what}");
        }
    }
}
