//! One request from its arrival to the last byte of its answer: what is counted of it, and its line in the access log.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use http::{HeaderValue, Method, Uri, Version};

use super::access_log::Line;
use super::body::RequestBody;
use super::connection::Connection;
use super::live::Live;
use super::shared::unix_s;
use crate::measure::Outcome;
use crate::table::{GroupId, RouteId};

/// What nginx, too, takes down for a client that is gone before its answer.
const CLIENT_CLOSED: u16 = 499;

/// Ends when it is dropped, however that comes.
pub(crate) struct Exchange {
    connection: Rc<Connection>,
    started: Instant,
    /// The how-many-eth request of its connection it is.
    pub(crate) place: u64,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) host: Rc<str>,
    pub(crate) request_id: Option<HeaderValue>,
    pub(crate) body: Option<Rc<RequestBody>>,
    pub(crate) status: Option<u16>,
    pub(crate) response_bytes: u64,
    pub(crate) is_whole: bool,
    /// The backend broke its answer off.
    pub(crate) is_cut_off: bool,
    /// The table that the request was routed by; its places below are of this table.
    live: Arc<Live>,
    route: Option<RouteId>,
    group: Option<GroupId>,
    /// The group that had no usable endpoint and whose request this was.
    pub(crate) instead_of: Option<GroupId>,
    pub(crate) endpoint: Option<std::net::SocketAddr>,
    pub(crate) attempts: u32,
    pub(crate) reason: Option<&'static str>,
}

impl Exchange {
    pub(crate) fn begin(
        connection: &Rc<Connection>,
        live: Arc<Live>,
        method: Method,
        uri: Uri,
        version: Version,
    ) -> Box<Self> {
        connection.watch.begin_request();
        Box::new(Self {
            connection: Rc::clone(connection),
            started: Instant::now(),
            place: u64::MAX - 1,
            method,
            uri,
            version,
            host: Rc::default(),
            request_id: None,
            body: None,
            status: None,
            response_bytes: 0,
            is_whole: false,
            is_cut_off: false,
            live,
            route: None,
            group: None,
            instead_of: None,
            endpoint: None,
            attempts: 0,
            reason: None,
        })
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The request has a route: it counts as in flight there until it ends.
    pub(crate) fn take_route(&mut self, route: RouteId) {
        self.live.route(route).measures.in_flight.fetch_add(1, Relaxed);
        self.route = Some(route);
    }

    pub(crate) fn take_group(&mut self, group: GroupId) {
        self.live.group(group).shared.measures.in_flight.fetch_add(1, Relaxed);
        self.group = Some(group);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let worker = &self.connection.worker;
        self.connection.watch.end_request(worker.clock_ms());
        let latency_us = self.started.elapsed().as_micros() as u64;
        // Where there is no answer, the client did not wait for it: that is no failure of the backend.
        let status = self.status.unwrap_or(CLIENT_CLOSED);
        let outcome = Outcome {
            status: (!self.is_cut_off).then_some(status),
            latency_us,
            request_bytes: self.body.as_ref().map_or(0, |body| body.bytes.get()),
            response_bytes: self.response_bytes,
        };
        let now_s = unix_s();
        let live = &self.live;
        for measures in [
            self.route.map(|route| &live.route(route).measures),
            self.group.map(|group| &live.group(group).shared.measures),
        ]
        .into_iter()
        .flatten()
        {
            measures.in_flight.fetch_sub(1, Relaxed);
            measures.record(worker.thread, &outcome, now_s);
        }
        if let Some(empty) = self.instead_of {
            let failure = Outcome { status: Some(503), ..outcome };
            live.group(empty).shared.measures.record(worker.thread, &failure, now_s);
        }
        if let Some(log) = &worker.shared.access_log {
            log.write(&Line {
                client: self.connection.peer.ip(),
                is_https: self.connection.is_https,
                version: self.version,
                method: self.method.as_str(),
                host: &self.host,
                path: self.uri.path(),
                query: self.uri.query(),
                status,
                is_whole: self.is_whole,
                latency_us,
                request_bytes: outcome.request_bytes,
                response_bytes: outcome.response_bytes,
                route: self.route.map(|route| live.table.route(route).key.as_str()),
                group: self.group.map(|group| live.table.group(group).name.as_str()),
                endpoint: self.endpoint,
                attempts: self.attempts,
                reason: self.reason,
                request_id: self.request_id.as_ref().and_then(|id| id.to_str().ok()),
            });
        }
    }
}
