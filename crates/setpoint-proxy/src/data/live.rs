//! The table as it is served, with what has to outlive it: counters, health, connections in use.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use rustls::ClientConfig;

use super::affinity::Clients;
use super::tls::{Certificates, client_config};
use crate::assignment::PointCounter;
use crate::ejection::GroupHealth;
use crate::measure::{Measure, Measured, Outcome};
use crate::pick::{EndpointLoad, pick};
use crate::retry_budget::RetryBudget;
use crate::table::{GroupId, Protocol, RouteId, Serves, Table};

/// A table and its state. It is replaced as a whole; what has not changed is taken over.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) table: Table,
    routes: Vec<Arc<RouteState>>,
    groups: Vec<GroupState>,
    certificates: HashMap<String, Arc<Certificates>>,
    /// What of the table could not be used, by the name of a listener or group.
    pub(crate) faults: Vec<(String, String)>,
}

/// Counts by thread, so that threads do not wait for each other; they are added up when somebody asks.
#[derive(Debug)]
pub(crate) struct Measures {
    threads: Box<[Mutex<Option<Box<Measure>>>]>,
    pub(crate) in_flight: AtomicU32,
}

#[derive(Debug)]
pub(crate) struct RouteState {
    pub(crate) points: PointCounter,
    pub(crate) measures: Measures,
}

#[derive(Debug)]
pub(crate) struct GroupState {
    pub(crate) endpoints: Vec<Arc<EndpointState>>,
    pub(crate) shared: Arc<GroupShared>,
    health: Arc<Mutex<GroupHealth>>,
    pub(crate) tls: Option<Result<Arc<ClientConfig>, String>>,
}

#[derive(Debug)]
pub(crate) struct GroupShared {
    pub(crate) budget: RetryBudget,
    pub(crate) measures: Measures,
    pub(crate) clients: Mutex<Clients>,
}

/// One usable endpoint of a group.
#[derive(Debug)]
pub(crate) struct EndpointState {
    /// Never used twice in a process.
    pub(crate) id: u64,
    pub(crate) address: SocketAddr,
    pub(crate) in_flight: AtomicU32,
    failures: AtomicU32,
    ejected_until_ms: AtomicU64,
    /// False once no table names it any more: idle connections to it are closed.
    pub(crate) is_serving: AtomicBool,
}

static NEXT_ENDPOINT: AtomicU64 = AtomicU64::new(1);

impl Measures {
    fn new(threads: usize) -> Self {
        Self { threads: (0..threads).map(|_| Mutex::default()).collect(), in_flight: AtomicU32::new(0) }
    }

    pub(crate) fn record(&self, thread: usize, outcome: &Outcome, now_s: u64) {
        self.threads[thread].lock().get_or_insert_default().record(outcome, now_s);
    }

    pub(crate) fn sum(&self, now_s: u64) -> Measured {
        let mut sum = Measured { in_flight: self.in_flight.load(Relaxed).into(), ..Measured::default() };
        for thread in &self.threads {
            if let Some(measure) = thread.lock().as_deref() {
                sum.add(measure, now_s);
            }
        }
        sum
    }
}

impl EndpointState {
    fn new(address: SocketAddr) -> Self {
        Self {
            id: NEXT_ENDPOINT.fetch_add(1, Relaxed),
            address,
            in_flight: AtomicU32::new(0),
            failures: AtomicU32::new(0),
            ejected_until_ms: AtomicU64::new(0),
            is_serving: AtomicBool::new(true),
        }
    }
}

impl Live {
    /// The state for a table; what `previous` has of the same routes, groups and endpoints goes on.
    pub(crate) fn new(table: Table, previous: Option<&Live>, threads: usize) -> Self {
        let mut faults = Vec::new();
        let old_routes: HashMap<&str, &Arc<RouteState>> = previous
            .map(|live| live.table.routes().iter().map(|route| route.key.as_str()).zip(&live.routes).collect())
            .unwrap_or_default();
        let new_route = || Arc::new(RouteState { points: PointCounter::default(), measures: Measures::new(threads) });
        let routes = table
            .routes()
            .iter()
            .map(|route| old_routes.get(route.key.as_str()).map_or_else(new_route, |state| Arc::clone(state)))
            .collect();
        let groups =
            (0..table.groups().len()).map(|index| group_state(&table, index, previous, threads, &mut faults)).collect();
        let certificates = listener_certificates(&table, &mut faults);
        Self { table, routes, groups, certificates, faults }
    }

    pub(crate) fn route(&self, id: RouteId) -> &Arc<RouteState> {
        &self.routes[id.index()]
    }

    pub(crate) fn group(&self, id: GroupId) -> &GroupState {
        &self.groups[id.index()]
    }

    pub(crate) fn certificates(&self, listener: &str) -> Option<&Arc<Certificates>> {
        self.certificates.get(listener)
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Arc<EndpointState>> {
        self.groups.iter().flat_map(|group| &group.endpoints)
    }

    pub(crate) fn route_measures(&self) -> impl Iterator<Item = (&str, &Measures)> {
        self.table.routes().iter().zip(&self.routes).map(|(route, state)| (route.key.as_str(), &state.measures))
    }

    pub(crate) fn group_measures(&self) -> impl Iterator<Item = (&str, &Measures)> {
        self.table.groups().iter().zip(&self.groups).map(|(group, state)| (group.name.as_str(), &state.shared.measures))
    }
}

fn group_state(
    table: &Table,
    index: usize,
    previous: Option<&Live>,
    threads: usize,
    faults: &mut Vec<(String, String)>,
) -> GroupState {
    let group = &table.groups()[index];
    let old = previous.and_then(|live| {
        let id = live.table.group_named(&group.name)?;
        Some((live.table.group(id), live.group(id)))
    });
    let is_same_protocol = old.is_some_and(|(old, _)| old.protocol == group.protocol && old.tls == group.tls);
    let tls = group.tls.as_ref().map(|tls| match old {
        Some((_, GroupState { tls: Some(Ok(config)), .. })) if is_same_protocol => Ok(Arc::clone(config)),
        _ => client_config(tls, group.protocol == Protocol::Http2),
    });
    if let Some(Err(fault)) = &tls {
        faults.push((group.name.clone(), fault.clone()));
    }
    let shared = old.map_or_else(
        || {
            Arc::new(GroupShared {
                budget: RetryBudget::default(),
                measures: Measures::new(threads),
                clients: Mutex::default(),
            })
        },
        |(_, state)| Arc::clone(&state.shared),
    );
    if let Some((old, state)) = old
        && is_same_protocol
        && old.usable == group.usable
        && old.ejection == group.ejection
    {
        return GroupState { endpoints: state.endpoints.clone(), shared, health: Arc::clone(&state.health), tls };
    }
    let old_endpoints: HashMap<SocketAddr, usize> = match old {
        Some((_, state)) if is_same_protocol => {
            state.endpoints.iter().enumerate().map(|(place, endpoint)| (endpoint.address, place)).collect()
        }
        _ => HashMap::new(),
    };
    let places: Vec<Option<usize>> = group.usable.iter().map(|address| old_endpoints.get(address).copied()).collect();
    let endpoints = group.usable.iter().zip(&places).map(|(address, place)| match (old, place) {
        (Some((_, state)), Some(place)) => Arc::clone(&state.endpoints[*place]),
        _ => Arc::new(EndpointState::new(*address)),
    });
    let health = match old {
        Some((_, state)) => state.health.lock().for_endpoints(group.ejection, &places),
        None => GroupHealth::new(group.ejection, group.usable.len()),
    };
    GroupState { endpoints: endpoints.collect(), shared, health: Arc::new(Mutex::new(health)), tls }
}

fn listener_certificates(table: &Table, faults: &mut Vec<(String, String)>) -> HashMap<String, Arc<Certificates>> {
    let spec = table.spec();
    let mut listeners = HashMap::new();
    for listener in &spec.listeners {
        if let Serves::Https { certificates, .. } = &listener.serves {
            let named = certificates.iter().filter_map(|name| Some((name.as_str(), spec.certificates.get(name)?)));
            let (certificates, wrong) = Certificates::new(named);
            faults.extend(wrong.into_iter().map(|what| (listener.name.clone(), what)));
            listeners.insert(listener.name.clone(), Arc::new(certificates));
        }
    }
    listeners
}

impl GroupState {
    pub(crate) fn is_usable(&self) -> bool {
        !self.endpoints.is_empty()
    }

    /// An endpoint for a request, by its place; those that were tried come only when there is no other.
    pub(crate) fn pick(&self, random: u64, now_ms: u64, tried: &[usize]) -> Option<usize> {
        let load = |place: usize| {
            let endpoint = &self.endpoints[place];
            let is_usable = endpoint.ejected_until_ms.load(Relaxed) <= now_ms && !tried.contains(&place);
            EndpointLoad { in_flight: endpoint.in_flight.load(Relaxed), is_usable }
        };
        pick(self.endpoints.len(), random, load)
    }

    pub(crate) fn is_ejected(&self, place: usize, now_ms: u64) -> bool {
        self.endpoints[place].ejected_until_ms.load(Relaxed) > now_ms
    }

    pub(crate) fn note(&self, place: usize, is_success: bool, now_ms: u64) {
        let endpoint = &self.endpoints[place];
        if is_success {
            // Nearly always there was no failure, and nobody has to be told.
            if endpoint.failures.load(Relaxed) > 0 {
                endpoint.failures.store(0, Relaxed);
                self.health.lock().succeeded(place, now_ms);
            }
            return;
        }
        endpoint.failures.fetch_add(1, Relaxed);
        if let Some(until_ms) = self.health.lock().failed(place, now_ms) {
            endpoint.ejected_until_ms.store(until_ms, Relaxed);
            tracing::info!(address = %endpoint.address, until_ms, "an endpoint that fails is left out for a while");
        }
    }
}
