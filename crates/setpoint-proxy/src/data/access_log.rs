//! The access log: one line of JSON for each request, without credentials and without the values of query parameters.
//!
//! Lines are written by a thread of their own. A log that cannot keep up loses lines and says how many; requests never wait.

use std::fmt::Write as _;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use http::Version;

/// So many lines may wait to be written.
const WAITING: usize = 8_192;

/// Where lines go.
#[derive(Debug)]
pub struct AccessLog {
    lines: SyncSender<String>,
    lost: Arc<AtomicU64>,
}

/// What is told of a request.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) client: IpAddr,
    pub(crate) is_https: bool,
    pub(crate) version: Version,
    pub(crate) method: &'a str,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) status: u16,
    pub(crate) is_whole: bool,
    pub(crate) latency_us: u64,
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
    pub(crate) route: Option<&'a str>,
    pub(crate) group: Option<&'a str>,
    pub(crate) endpoint: Option<SocketAddr>,
    pub(crate) attempts: u32,
    pub(crate) reason: Option<&'static str>,
    pub(crate) request_id: Option<&'a str>,
}

impl AccessLog {
    /// A log that writes to `writer` until it is dropped.
    pub fn to(writer: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let reported = Arc::clone(&lost);
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write_all(writer, &waiting, &reported))?;
        Ok(Self { lines, lost })
    }

    pub(crate) fn write(&self, line: &Line<'_>) {
        if self.lines.try_send(line.to_json()).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

fn write_all(mut writer: impl Write, lines: &Receiver<String>, lost: &AtomicU64) {
    let mut batch = String::new();
    while let Ok(line) = lines.recv() {
        batch.push_str(&line);
        while batch.len() < 64 * 1024
            && let Ok(line) = lines.try_recv()
        {
            batch.push_str(&line);
        }
        let missing = lost.swap(0, Relaxed);
        if missing > 0 {
            let _infallible = writeln!(batch, "{{\"lostLines\":{missing}}}");
        }
        if let Err(error) = writer.write_all(batch.as_bytes()).and_then(|()| writer.flush()) {
            tracing::warn!(%error, "the access log cannot be written");
        }
        batch.clear();
    }
}

impl Line<'_> {
    fn to_json(&self) -> String {
        let mut json = String::with_capacity(384);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let _infallible =
            write!(json, "{{\"time\":{}.{:03},\"client\":\"{}\"", now.as_secs(), now.subsec_millis(), self.client);
        text(&mut json, "scheme", if self.is_https { "https" } else { "http" });
        let _infallible = write!(json, ",\"protocol\":\"{:?}\"", self.version);
        text(&mut json, "method", self.method);
        text(&mut json, "host", self.host);
        text(&mut json, "path", self.path);
        if let Some(query) = self.query.filter(|query| !query.is_empty()) {
            text(&mut json, "queryNames", &names(query));
        }
        let Self { status, latency_us, request_bytes, response_bytes, attempts, .. } = self;
        let _infallible = write!(
            json,
            ",\"status\":{status},\"latencyUs\":{latency_us},\"requestBytes\":{request_bytes},\"responseBytes\":{response_bytes}"
        );
        let _infallible = write!(json, ",\"attempts\":{attempts},\"complete\":{}", self.is_whole);
        let optional =
            [("route", self.route), ("group", self.group), ("reason", self.reason), ("requestId", self.request_id)];
        for (name, value) in optional.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            text(&mut json, name, value);
        }
        if let Some(endpoint) = self.endpoint {
            let _infallible = write!(json, ",\"endpoint\":\"{endpoint}\"");
        }
        json.push_str("}\n");
        json
    }
}

/// The names of a query's parameters; their values may be secrets. What is no pair could be a secret as a whole.
fn names(query: &str) -> String {
    let names = query.split('&').map(|pair| pair.split_once('=').map_or("?", |(name, _)| name));
    names.collect::<Vec<_>>().join(",")
}

fn text(json: &mut String, name: &str, value: &str) {
    let _infallible = write!(json, ",\"{name}\":\"");
    for letter in value.chars() {
        let _infallible = match letter {
            '"' => write!(json, "\\\""),
            '\\' => write!(json, "\\\\"),
            letter if letter.is_control() => write!(json, "\\u{:04x}", u32::from(letter)),
            letter => {
                json.push(letter);
                Ok(())
            }
        };
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_without_secrets() {
        let line = Line {
            client: [192, 0, 2, 1].into(),
            is_https: true,
            version: Version::HTTP_11,
            method: "GET",
            host: "a.test",
            path: "/a\"b\\c\u{1}",
            query: Some("token=s3cret&page=2&bare-s3cret"),
            status: 200,
            is_whole: true,
            latency_us: 12,
            request_bytes: 0,
            response_bytes: 5,
            route: Some("main/shop"),
            group: None,
            endpoint: Some(([127, 0, 0, 1], 80).into()),
            attempts: 1,
            reason: None,
            request_id: Some("42"),
        };
        let json = line.to_json();
        assert!(!json.contains("s3cret"), "{json}");
        let value: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        assert_eq!(value["path"], "/a\"b\\c\u{1}");
        assert_eq!(value["queryNames"], "token,page,?");
        assert_eq!(value["endpoint"], "127.0.0.1:80");
        assert_eq!(value["status"], 200);
    }
}
