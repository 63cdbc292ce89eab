//! The routing table as data: what is written to disk, sent to proxies and compared between versions.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::assignment::Assignment;
use crate::forwarded::IpRange;

/// Everything that a proxy needs to serve. It holds TLS keys: `Debug` does not show them, and its file is for its owner alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TableSpec {
    /// Grows with every change; proxies acknowledge it.
    pub version: u64,
    pub listeners: Vec<Listener>,
    /// Routes by the name of their set. Listeners refer to sets, so that HTTP and HTTPS can share one.
    pub route_sets: BTreeMap<String, Vec<Route>>,
    pub groups: BTreeMap<String, Group>,
    pub certificates: BTreeMap<String, Certificate>,
    /// Peers whose `X-Forwarded-*`, `Forwarded` and `X-Request-Id` are believed.
    pub trusted_proxies: Vec<IpRange>,
}

/// An address that the proxy listens at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    pub name: String,
    pub address: SocketAddr,
    pub serves: Serves,
}

/// What a listener does with what arrives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Serves {
    #[serde(rename_all = "camelCase")]
    Http {
        routes: String,
        /// Every request is redirected to HTTPS at this port.
        #[serde(default)]
        redirect_to_https_port: Option<u16>,
    },
    #[serde(rename_all = "camelCase")]
    Https {
        routes: String,
        /// Names of certificates; the first serves clients whose server name has none.
        certificates: Vec<String>,
    },
    Tcp {
        group: String,
    },
    Udp {
        group: String,
    },
}

/// One rule: which requests it takes, and what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Route {
    /// What logs, pages and measurements call it. Unique within its set.
    pub name: String,
    /// When its object was created, in seconds: of two equally specific rules the older wins, then the lower name.
    pub created_s: i64,
    /// Empty takes every host.
    pub hosts: Vec<HostPattern>,
    /// Any of them; empty takes every path.
    pub matches: Vec<RouteMatch>,
    pub action: Action,
    pub request_headers: HeaderChanges,
    pub response_headers: HeaderChanges,
    pub rewrite: Option<Rewrite>,
    pub timeouts: Timeouts,
    pub limits: Limits,
}

/// A host name that a route takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HostPattern {
    Exact(String),
    /// Every name below this one, however deep: Gateway API's `*.example.com`.
    Below(String),
    /// Every name one label below this one: Ingress' `*.example.com`.
    OneLabelBelow(String),
}

/// What a request must have; all of it must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteMatch {
    pub path: PathMatch,
    #[serde(default)]
    pub method: Option<String>,
    #[serde(default)]
    pub headers: Vec<NameValue>,
    #[serde(default)]
    pub query: Vec<NameValue>,
}

/// A path that a route takes. Paths are compared as they are sent, without decoding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PathMatch {
    Exact(String),
    /// By segment: `/a` takes `/a`, `/a/` and `/a/b`, and not `/ab`.
    Prefix(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameValue {
    pub name: String,
    pub value: String,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    Forward(Split),
    Redirect(Redirect),
}

impl Default for Action {
    fn default() -> Self {
        Self::Forward(Split::default())
    }
}

/// How the requests of a route are divided between groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Split {
    /// The counter of non-sticky requests goes on while this name stays.
    pub name: String,
    pub assignment: Assignment,
    pub sticky: Option<Sticky>,
}

/// What keeps a client on its side of a split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Sticky {
    #[serde(rename_all = "camelCase")]
    Cookie {
        name: String,
        #[serde(default)]
        max_age_s: Option<u32>,
    },
    Header {
        name: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Redirect {
    pub scheme: Option<String>,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub path: Option<PathRewrite>,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rewrite {
    pub host: Option<String>,
    pub path: Option<PathRewrite>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PathRewrite {
    /// The whole path, without the query.
    Full(String),
    /// The prefix that matched.
    Prefix(String),
}

/// Changes of headers, in the order set, add, remove.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderChanges {
    pub set: Vec<NameValue>,
    pub add: Vec<NameValue>,
    pub remove: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// From the request's head to the end of the response; none is without limit.
    pub request_ms: Option<u64>,
    /// For one attempt, until the head of its response.
    pub attempt_ms: Option<u64>,
    pub connect_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { request_ms: None, attempt_ms: None, connect_ms: 3_000 }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    pub request_body_bytes: Option<u64>,
    pub concurrent_requests: Option<u32>,
    /// How often a request is tried again on another endpoint.
    pub retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { request_body_bytes: None, concurrent_requests: None, retries: 2 }
    }
}

/// Endpoints that are equal to a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Group {
    /// What people call it: `Service default/web`.
    pub title: String,
    /// Why there is no usable endpoint, when there is none: `0 of 3 Pods are ready`.
    pub unavailable: Option<String>,
    pub protocol: Protocol,
    pub endpoints: Vec<Endpoint>,
    pub tls: Option<UpstreamTls>,
    pub affinity: Option<Affinity>,
    pub ejection: Ejection,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Protocol {
    #[default]
    Http1,
    /// HTTP/2 with prior knowledge, or by ALPN with TLS: gRPC.
    Http2,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    pub address: SocketAddr,
    pub ready: bool,
    #[serde(default)]
    pub terminating: bool,
}

/// TLS towards the endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamTls {
    pub server_name: String,
    /// The certificates of authorities that are believed, in PEM.
    pub ca_pem: String,
}

/// `sessionAffinity: ClientIP`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    pub timeout_s: u32,
}

/// When an endpoint that fails is left out for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ejection {
    /// So many failures in a row; zero never ejects.
    pub failures: u32,
    pub base_ms: u64,
    /// At least so many hundredths of the endpoints stay, and always one.
    pub floor_percent: u8,
}

impl Default for Ejection {
    fn default() -> Self {
        Self { failures: 5, base_ms: 10_000, floor_percent: 50 }
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// The server names it is for; `*.example.com` takes one label.
    pub hosts: Vec<String>,
    pub chain_pem: String,
    pub key_pem: String,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}
