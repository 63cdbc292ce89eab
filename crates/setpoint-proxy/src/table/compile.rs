//! From the table's data to the table that is served: every name resolved, every value parsed, every fault found.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use http::{HeaderName, HeaderValue, Method};

use super::candidate::{Candidate, Rank};
use super::paths::{MAX_DEPTH, Paths, Root};
use super::{
    Action, CompiledAction, CompiledChanges, CompiledGroup, CompiledListener, CompiledRoute, CompiledSplit, Group,
    GroupId, HostPattern, PathMatch, PathRewrite, Route, RouteId, RouteMatch, RouteSet, Serves, SetId, Table,
    TableSpec,
};

/// Everything that is wrong with a table. It is refused as a whole: half a table would send requests to the wrong place.
#[derive(Debug, thiserror::Error)]
#[error("the table has faults: {}", faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("; "))]
pub struct TableError {
    pub faults: Vec<Fault>,
}

/// One fault, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `listeners[web]`, `routeSets[main][shop].matches[0].path`.
    pub at: String,
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// Thirty days: whoever waits longer waits without a limit.
const MAX_TIMEOUT_MS: u64 = 30 * 24 * 3_600_000;

#[derive(Default)]
struct Compiler {
    faults: Vec<Fault>,
    routes: Vec<CompiledRoute>,
    paths: Paths,
    groups: HashMap<String, GroupId>,
}

pub(super) fn compile(spec: TableSpec) -> Result<Table, TableError> {
    let mut compiler = Compiler::default();
    let groups = compiler.groups(&spec.groups);
    let mut sets = Vec::new();
    let mut set_ids = HashMap::new();
    for (name, routes) in &spec.route_sets {
        set_ids.insert(name.as_str(), SetId(sets.len() as u32));
        sets.push(compiler.route_set(name, routes));
    }
    compiler.paths.sort();
    let listeners = compiler.listeners(&spec, &set_ids);
    let Compiler { faults, routes, paths, groups: group_names } = compiler;
    match faults.is_empty() {
        true => Ok(Table { spec, listeners, sets, routes, groups, group_names, paths }),
        false => Err(TableError { faults }),
    }
}

impl Compiler {
    fn fault(&mut self, at: impl fmt::Display, what: impl Into<String>) {
        self.faults.push(Fault { at: at.to_string(), what: what.into() });
    }

    fn groups(&mut self, groups: &BTreeMap<String, Group>) -> Vec<CompiledGroup> {
        let mut compiled = Vec::new();
        for (name, group) in groups {
            self.groups.insert(name.clone(), GroupId(compiled.len() as u32));
            let usable = group.endpoints.iter().filter(|endpoint| crate::drain::takes_new_requests(endpoint));
            compiled.push(CompiledGroup {
                name: name.clone(),
                title: if group.title.is_empty() { name.clone() } else { group.title.clone() },
                unavailable: group.unavailable.clone(),
                protocol: group.protocol,
                tls: group.tls.clone(),
                affinity: group.affinity.clone(),
                ejection: group.ejection,
                usable: usable.map(|endpoint| endpoint.address).collect(),
                total: group.endpoints.len(),
            });
        }
        compiled
    }

    fn listeners(&mut self, spec: &TableSpec, sets: &HashMap<&str, SetId>) -> HashMap<String, CompiledListener> {
        let mut compiled = HashMap::new();
        let mut places = HashSet::new();
        for listener in &spec.listeners {
            let at = format!("listeners[{}]", listener.name);
            let is_udp = matches!(listener.serves, Serves::Udp { .. });
            if listener.address.port() != 0 && !places.insert((listener.address, is_udp)) {
                self.fault(&at, format!("another listener has {}", listener.address));
            }
            let serves = match &listener.serves {
                Serves::Http { routes, redirect_to_https_port } => sets
                    .get(routes.as_str())
                    .map(|set| CompiledListener::Http { set: *set, redirect_to_https_port: *redirect_to_https_port })
                    .ok_or_else(|| format!("there is no route set {routes:?}")),
                Serves::Https { routes, certificates } => {
                    if let Some(missing) = certificates.iter().find(|name| !spec.certificates.contains_key(*name)) {
                        self.fault(&at, format!("there is no certificate {missing:?}"));
                    }
                    sets.get(routes.as_str())
                        .map(|set| CompiledListener::Https { set: *set })
                        .ok_or_else(|| format!("there is no route set {routes:?}"))
                }
                Serves::Tcp { group } => self.group(group).map(|group| CompiledListener::Tcp { group }),
                Serves::Udp { group } => self.group(group).map(|group| CompiledListener::Udp { group }),
            };
            match serves {
                Ok(serves) => {
                    if compiled.insert(listener.name.clone(), serves).is_some() {
                        self.fault(&at, "another listener has this name");
                    }
                }
                Err(what) => self.fault(&at, what),
            }
        }
        compiled
    }

    fn group(&self, name: &str) -> Result<GroupId, String> {
        self.groups.get(name).copied().ok_or_else(|| format!("there is no group {name:?}"))
    }

    fn route_set(&mut self, name: &str, routes: &[Route]) -> RouteSet {
        let mut set = RouteSet::default();
        let mut names = HashSet::new();
        for (order, route) in routes.iter().enumerate() {
            let at = format!("routeSets[{name}][{}]", route.name);
            if !names.insert(&route.name) {
                self.fault(&at, "another route of the set has this name");
            }
            let id = RouteId(self.routes.len() as u32);
            if let Some(compiled) = self.route(&at, name, route) {
                self.routes.push(compiled);
                self.add_matches(&at, &mut set, id, order as u32, route);
            }
        }
        set
    }

    fn route(&mut self, at: &str, set: &str, route: &Route) -> Option<CompiledRoute> {
        let before = self.faults.len();
        let action = match &route.action {
            Action::Redirect(redirect) => {
                if !matches!(redirect.status, 301 | 302 | 303 | 307 | 308) {
                    let status = redirect.status;
                    self.fault(format!("{at}.redirect.status"), format!("{status} is not a redirect"));
                }
                CompiledAction::Redirect(redirect.clone())
            }
            Action::Forward(split) => match CompiledSplit::new(split, |name| self.group(name)) {
                Ok(split) => CompiledAction::Forward(split),
                Err(what) => {
                    self.fault(format!("{at}.split"), what);
                    return None;
                }
            },
        };
        let times = [route.timeouts.request_ms, route.timeouts.attempt_ms, Some(route.timeouts.connect_ms)];
        if times.into_iter().flatten().any(|ms| ms == 0 || ms > MAX_TIMEOUT_MS) {
            self.fault(format!("{at}.timeouts"), format!("a time is not between 1 and {MAX_TIMEOUT_MS} ms"));
        }
        let rewrites = [route.rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref())];
        for rewrite in rewrites.into_iter().flatten() {
            let (PathRewrite::Full(path) | PathRewrite::Prefix(path)) = rewrite;
            if !path.starts_with('/') || path.parse::<http::uri::PathAndQuery>().is_err() || path.contains(['?', '#']) {
                self.fault(format!("{at}.rewrite.path"), format!("{path:?} is not an absolute path"));
            }
        }
        if let Some(host) = route.rewrite.as_ref().and_then(|rewrite| rewrite.host.as_ref())
            && HeaderValue::from_str(host).is_err()
        {
            self.fault(format!("{at}.rewrite.host"), format!("{host:?} is not a host"));
        }
        let request_headers = self.changes(&format!("{at}.requestHeaders"), &route.request_headers);
        let response_headers = self.changes(&format!("{at}.responseHeaders"), &route.response_headers);
        (self.faults.len() == before).then(|| CompiledRoute {
            name: route.name.clone(),
            key: format!("{set}/{}", route.name),
            action,
            request_headers,
            response_headers,
            rewrite: route.rewrite.clone(),
            timeouts: route.timeouts.clone(),
            limits: route.limits.clone(),
        })
    }

    fn changes(&mut self, at: &str, changes: &super::HeaderChanges) -> CompiledChanges {
        CompiledChanges::new(changes).unwrap_or_else(|what| {
            self.fault(at, what);
            CompiledChanges::default()
        })
    }

    fn add_matches(&mut self, at: &str, set: &mut RouteSet, id: RouteId, order: u32, route: &Route) {
        let everything = [RouteMatch {
            path: PathMatch::Prefix("/".to_owned()),
            method: None,
            headers: Vec::new(),
            query: Vec::new(),
        }];
        let matches = if route.matches.is_empty() { &everything[..] } else { &route.matches };
        for (number, wanted) in matches.iter().enumerate() {
            let at = format!("{at}.matches[{number}]");
            let rank = Rank { created_s: route.created_s, name: route.name.clone(), order: (order, number as u32) };
            let Some(candidate) = self.candidate(&at, id, rank, wanted) else { continue };
            if route.hosts.is_empty() {
                let root = *set.any.get_or_insert_with(|| self.paths.add_root());
                self.add(root, &wanted.path, candidate.clone());
            }
            for host in &route.hosts {
                let (map, name, one_label) = match host {
                    HostPattern::Exact(name) => (&mut set.exact, name, false),
                    HostPattern::Below(name) => (&mut set.below, name, false),
                    HostPattern::OneLabelBelow(name) => (&mut set.below, name, true),
                };
                if name.is_empty() || name.bytes().any(|byte| byte.is_ascii_uppercase()) || name.contains('*') {
                    self.fault(&at, format!("{name:?} is not a host name in lower case"));
                    continue;
                }
                let root = *map.entry(name.as_str().into()).or_insert_with(|| self.paths.add_root());
                self.add(root, &wanted.path, Candidate { one_label, ..candidate.clone() });
            }
        }
    }

    fn add(&mut self, root: Root, path: &PathMatch, candidate: Candidate) {
        match path {
            PathMatch::Exact(path) => self.paths.add_exact(root, path, candidate),
            PathMatch::Prefix(path) => self.paths.add_prefix(root, path, candidate),
        }
    }

    fn candidate(&mut self, at: &str, route: RouteId, rank: Rank, wanted: &RouteMatch) -> Option<Candidate> {
        let before = self.faults.len();
        let (PathMatch::Exact(path) | PathMatch::Prefix(path)) = &wanted.path;
        if !path.starts_with('/') {
            self.fault(format!("{at}.path"), format!("{path:?} does not begin with a slash"));
        }
        if path.matches('/').count() > MAX_DEPTH {
            self.fault(format!("{at}.path"), format!("it has more than {MAX_DEPTH} segments"));
        }
        let method = wanted.method.as_ref().and_then(|method| match Method::from_bytes(method.as_bytes()) {
            Ok(method) => Some(method),
            Err(_) => {
                self.fault(format!("{at}.method"), format!("{method:?} is not a method"));
                None
            }
        });
        let mut headers = Vec::new();
        for header in &wanted.headers {
            match (header.name.parse::<HeaderName>(), HeaderValue::from_str(&header.value)) {
                (Ok(name), Ok(value)) => headers.push((name, value)),
                _ => self.fault(format!("{at}.headers"), format!("{:?} is not a header", header.name)),
            }
        }
        let query = wanted.query.iter().map(|pair| (pair.name.clone(), pair.value.clone())).collect();
        (self.faults.len() == before).then_some(Candidate { route, one_label: false, method, headers, query, rank })
    }
}
