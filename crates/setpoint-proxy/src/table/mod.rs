//! The immutable routing table: compiled once from its data, then asked for every request, without I/O.
//!
//! Ingress, Gateway API, Services and Apps compile into the same [`TableSpec`], so one set of rules decides for all of them:
//! the most specific host, then an exact path, then the longest prefix, then a method, more headers, more query parameters;
//! the older object, the lower name and the earlier rule settle the rest. Finding a route costs a look-up for each label of
//! the host and each segment of the path, however many routes there are.

mod candidate;
mod compile;
mod headers;
mod host;
mod paths;
mod spec;
mod split;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::SocketAddr;

use http::{HeaderMap, Method};

use self::candidate::Candidate;
pub use self::compile::{Fault, TableError};
pub use self::headers::CompiledChanges;
pub use self::host::{host_of, port_of};
use self::host::{is_one_label_below, parents};
use self::paths::{Paths, Root};
pub use self::spec::{
    Action, Affinity, Certificate, Ejection, Endpoint, Group, HeaderChanges, HostPattern, Limits, Listener, NameValue,
    PathMatch, PathRewrite, Protocol, Redirect, Rewrite, Route, RouteMatch, Serves, Split, Sticky, TableSpec, Timeouts,
    UpstreamTls,
};
pub use self::split::{Choice, CompiledSplit};

/// A route of this table, by its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteId(u32);

/// A group of this table, by its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(u32);

/// A set of routes of this table, by its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetId(u32);

impl RouteId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl GroupId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What of a request decides where it goes. The host is in lower case and without its port.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    pub host: &'a str,
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub method: &'a Method,
    pub headers: &'a HeaderMap,
}

/// The route that a request takes, and how many bytes of its path the match covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub route: RouteId,
    pub matched_path_bytes: usize,
}

/// Why no route takes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// No route has this host.
    Host,
    /// A route has this host, and none of its matches fits.
    Path,
}

/// The table as it is served.
#[derive(Debug)]
pub struct Table {
    spec: TableSpec,
    listeners: HashMap<String, CompiledListener>,
    sets: Vec<RouteSet>,
    routes: Vec<CompiledRoute>,
    groups: Vec<CompiledGroup>,
    group_names: HashMap<String, GroupId>,
    paths: Paths,
}

/// What a listener serves, with names resolved.
#[derive(Clone, Debug)]
pub enum CompiledListener {
    Http { set: SetId, redirect_to_https_port: Option<u16> },
    Https { set: SetId },
    Tcp { group: GroupId },
    Udp { group: GroupId },
}

#[derive(Debug, Default)]
struct RouteSet {
    exact: HashMap<Box<str>, Root>,
    below: HashMap<Box<str>, Root>,
    any: Option<Root>,
}

/// A route with everything parsed that a request needs.
#[derive(Debug)]
pub struct CompiledRoute {
    pub name: String,
    /// The name of its set and its own.
    pub key: String,
    pub action: CompiledAction,
    pub request_headers: CompiledChanges,
    pub response_headers: CompiledChanges,
    pub rewrite: Option<Rewrite>,
    pub timeouts: Timeouts,
    pub limits: Limits,
}

#[derive(Debug)]
pub enum CompiledAction {
    Forward(CompiledSplit),
    Redirect(Redirect),
}

/// A group with its usable endpoints apart.
#[derive(Debug)]
pub struct CompiledGroup {
    pub name: String,
    pub title: String,
    pub unavailable: Option<String>,
    pub protocol: Protocol,
    pub tls: Option<UpstreamTls>,
    pub affinity: Option<Affinity>,
    pub ejection: Ejection,
    /// The endpoints that may get new requests.
    pub usable: Vec<SocketAddr>,
    pub total: usize,
}

impl Table {
    pub fn compile(spec: TableSpec) -> Result<Self, TableError> {
        compile::compile(spec)
    }

    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    pub fn version(&self) -> u64 {
        self.spec.version
    }

    pub fn listener(&self, name: &str) -> Option<&CompiledListener> {
        self.listeners.get(name)
    }

    pub fn route(&self, id: RouteId) -> &CompiledRoute {
        &self.routes[id.index()]
    }

    pub fn routes(&self) -> &[CompiledRoute] {
        &self.routes
    }

    pub fn group(&self, id: GroupId) -> &CompiledGroup {
        &self.groups[id.index()]
    }

    pub fn groups(&self) -> &[CompiledGroup] {
        &self.groups
    }

    pub fn group_named(&self, name: &str) -> Option<GroupId> {
        self.group_names.get(name).copied()
    }

    /// The route that takes a request. Rules of a more specific host come first; where none of them fits, those of less
    /// specific hosts are asked.
    pub fn find(&self, set: SetId, request: &RequestHead<'_>) -> Result<Found, NotFound> {
        let set = &self.sets[set.0 as usize];
        let mut is_host_known = false;
        let mut look = |root: Option<&Root>, is_one_label: bool| {
            let accepts = |it: &Candidate| (is_one_label || !it.one_label) && it.accepts(request);
            let root = root?;
            is_host_known = true;
            let (candidate, matched_path_bytes) = self.paths.find(*root, request.path, accepts)?;
            Some(Found { route: candidate.route, matched_path_bytes })
        };
        look(set.exact.get(request.host), true)
            .or_else(|| {
                if set.below.is_empty() {
                    return None;
                }
                parents(request.host)
                    .find_map(|parent| look(set.below.get(parent), is_one_label_below(request.host, parent)))
            })
            .or_else(|| look(set.any.as_ref(), true))
            .ok_or(if is_host_known { NotFound::Path } else { NotFound::Host })
    }
}
