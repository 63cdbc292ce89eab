//! What the server counts, in the form Prometheus reads.

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::request::Verb;
use crate::response::{self, Response};
use crate::server::Shared;

type Seconds = Family<Request, Histogram, fn() -> Histogram>;

/// Counters that requests update, and gauges that are read when somebody asks.
#[derive(Debug)]
pub struct Metrics {
    requests: Family<Outcome, Counter>,
    durations: Seconds,
    in_flight: Family<Kind, Gauge>,
    watches: Gauge,
    commits: Histogram,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    verb: &'static str,
    resource: String,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    verb: &'static str,
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    request_kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Objects {
    resource: String,
}

/// Counts something for as long as it lives.
#[derive(Debug)]
pub struct Held(Gauge);

impl Held {
    fn new(gauge: Gauge) -> Held {
        gauge.inc();
        Held(gauge)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn latency() -> Histogram {
    Histogram::new([0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            requests: Family::default(),
            durations: Family::new_with_constructor(latency),
            in_flight: Family::default(),
            watches: Gauge::default(),
            commits: latency(),
        }
    }
}

impl Metrics {
    pub fn observe(&self, verb: &'static str, resource: &str, code: StatusCode, took: Duration) {
        let resource = resource.to_owned();
        self.durations.get_or_create(&Request { verb, resource: resource.clone() }).observe(took.as_secs_f64());
        self.requests.get_or_create(&Outcome { verb, resource, code: code.as_u16() }).inc();
    }

    /// Counts a request as being worked on.
    pub fn in_flight(&self, verb: Verb) -> Held {
        let request_kind = if matches!(verb, Verb::Get | Verb::List | Verb::Watch) { "readOnly" } else { "mutating" };
        Held::new(self.in_flight.get_or_create(&Kind { request_kind }).clone())
    }

    /// Takes note of how long the store took to make a change durable.
    pub fn committed(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }

    /// Counts a watch as being open.
    pub fn watch(&self) -> Held {
        Held::new(self.watches.clone())
    }

    pub fn answer(&self, server: &Shared) -> Response {
        let mut registry = Registry::default();
        registry.register("apiserver_request", "Requests by verb, resource and code", self.requests.clone());
        registry.register_with_unit(
            "apiserver_request_duration",
            "Time until a request was answered, by verb and resource",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register("apiserver_current_inflight_requests", "Requests being worked on", self.in_flight.clone());
        registry.register("apiserver_longrunning_requests", "Open watches", self.watches.clone());

        let objects: Family<Objects, Gauge> = Family::default();
        for resource in server.registry.resources().filter(|resource| resource.stored_in.is_none()) {
            let count = server.store.count(&resource.directory(None));
            objects
                .get_or_create(&Objects { resource: resource.group_resource() })
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        registry.register("apiserver_storage_objects", "Stored objects by resource", objects);

        let statistics = server.store.statistics();
        let counted = |value: u64| {
            let counter: Counter = Counter::default();
            counter.inc_by(value);
            counter
        };
        registry.register_with_unit(
            "store_commit_duration",
            "Time until a change was durable",
            Unit::Seconds,
            self.commits.clone(),
        );
        registry.register("store_commits", "Commits acknowledged", counted(statistics.commits));
        registry.register(
            "store_batches",
            "Durable transactions; commits divided by these is the mean batch size",
            counted(statistics.batches),
        );
        let spent: Counter<f64, std::sync::atomic::AtomicU64> = Counter::default();
        spent.inc_by(Duration::from_micros(statistics.batch_micros).as_secs_f64());
        registry.register_with_unit("store_batch", "Time spent in durable transactions", Unit::Seconds, spent);
        let gauge = |value: u64| {
            let gauge: Gauge<i64, AtomicI64> = Gauge::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            gauge
        };
        registry.register("store_watches", "Open watches of the store", gauge(statistics.watches));
        registry.register("store_keys", "Keys held", gauge(statistics.keys));
        registry.register("store_revision", "The newest revision", gauge(server.store.revision()));

        let mut text = String::new();
        encode(&mut text, &registry).expect("writing to a string cannot fail");
        response::bytes(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
    }
}
