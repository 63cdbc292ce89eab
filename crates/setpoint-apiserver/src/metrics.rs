//! What the server counts, in the form Prometheus reads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use setpoint_store::Statistics;

use crate::audit;
use crate::fairness::{Standing, Work};
use crate::registry::Resource;
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
    /// What others in this process count.
    published: RwLock<Vec<Arc<Registry>>>,
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
            published: RwLock::default(),
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

    /// Counts a watch as being open.
    pub fn watch(&self) -> Held {
        Held::new(self.watches.clone())
    }

    pub fn publish(&self, metrics: Arc<Registry>) {
        self.published.write().push(metrics);
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

        registry.register_collector(Box::new(GuardMetrics::read(server)));
        registry.register_collector(Box::new(StoreMetrics::read(server)));
        let mut text = String::new();
        let published = self.published.read().clone();
        let mut registries = std::iter::once(&registry).chain(published.iter().map(|registry| &**registry));
        let encoded = registries.try_for_each(|registry| encode_registry(&mut text, registry));
        encoded.and_then(|()| encode_eof(&mut text)).expect("writing to a string cannot fail");
        response::bytes(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
    }
}

/// Who is served and who waits, and what the audit log lost.
#[derive(Debug)]
struct GuardMetrics {
    lanes: [(&'static str, Standing); 2],
    refused: u64,
    audit_lost: u64,
    audit_left_out: u64,
    decisions: Option<DecisionFigures>,
}

/// What is not in the decision log, or not yet.
#[derive(Debug)]
struct DecisionFigures {
    lost: u64,
    left_out: u64,
    removed_early: u64,
    behind: u64,
}

impl DecisionFigures {
    fn read(server: &Shared, log: &audit::Decisions) -> DecisionFigures {
        DecisionFigures {
            lost: log.lost(),
            left_out: log.left_out(),
            removed_early: log.removed_early(),
            behind: server.store.revision().saturating_sub(log.followed()),
        }
    }
}

impl GuardMetrics {
    fn read(server: &Shared) -> GuardMetrics {
        let lane = |name, work| (name, server.fairness.standing(work));
        GuardMetrics {
            lanes: [lane("pieces", Work::Piece), lane("writes", Work::Write)],
            refused: server.fairness.refusals(),
            audit_lost: server.audit.as_ref().map_or(0, audit::Log::lost),
            audit_left_out: server.audit.as_ref().map_or(0, audit::Log::left_out),
            decisions: server.decisions.get().map(|log| DecisionFigures::read(server, log)),
        }
    }
}

impl Collector for GuardMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        type Of = fn(&Standing) -> usize;
        let gauges: [(&str, &str, Of); 2] = [
            (
                "setpoint_seats_taken",
                "Seats taken: by pieces of work at the processor, and by writes under way",
                |lane| lane.seated,
            ),
            ("setpoint_seats_awaited", "Pieces of work, and writes, that wait for a seat", |lane| lane.queued),
        ];
        for (name, help, of) in gauges {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (kind, standing) in &self.lanes {
                let value = u64::try_from(of(standing)).unwrap_or(u64::MAX);
                ConstGauge::new(value).encode(metric.encode_family(&[("for", *kind)])?)?;
            }
        }
        for (name, help, value) in [
            ("setpoint_requests_refused", "Requests refused as too many", self.refused),
            ("setpoint_audit_lost", "Audit events that could not be written", self.audit_lost),
            ("setpoint_audit_left_out", "Audit events about strangers beyond what is kept", self.audit_left_out),
        ] {
            ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        self.decisions.as_ref().map_or(Ok(()), |figures| figures.encode(&mut encoder))
    }
}

impl DecisionFigures {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in [
            ("setpoint_decisions_lost", "Refusals and grants that could not be written to the decision log", self.lost),
            ("setpoint_decisions_left_out", "Refusals beyond what the decision log keeps of them", self.left_out),
            (
                "setpoint_decisions_removed_early",
                "Files of the decision log that were removed for their size before they were too old",
                self.removed_early,
            ),
        ] {
            ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let (name, help) = ("setpoint_decisions_behind", "Commits that the decision log has yet to look at");
        ConstGauge::new(self.behind).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}

/// What the store says of itself, read when somebody asks.
#[derive(Debug)]
struct StoreMetrics {
    /// How many objects of which resource.
    objects: Vec<(String, u64)>,
    revision: u64,
    statistics: Statistics,
}

impl StoreMetrics {
    fn read(server: &Shared) -> StoreMetrics {
        let registry = server.registry();
        let count =
            |resource: &Arc<Resource>| (resource.group_resource(), server.store.count(&resource.directory(None)));
        StoreMetrics {
            objects: registry.kept().map(count).collect(),
            revision: server.store.revision(),
            statistics: server.store.statistics(),
        }
    }
}

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut objects = encoder.encode_descriptor(
            "apiserver_storage_objects",
            "Stored objects by resource",
            None,
            MetricType::Gauge,
        )?;
        for (resource, count) in &self.objects {
            let labels = [("resource", resource.as_str())];
            ConstGauge::new(*count).encode(objects.encode_family(&labels)?)?;
        }
        let Statistics { batch_commits, batch_duration_micros, watches, keys } = &self.statistics;
        let total = encoder.encode_descriptor("store_commits", "Commits acknowledged", None, MetricType::Counter)?;
        ConstCounter::new(batch_commits.sum).encode(total)?;
        let sizes = "Commits that share a durable transaction";
        let metric = encoder.encode_descriptor("store_batch_commits", sizes, None, MetricType::Histogram)?;
        encode_histogram(metric, batch_commits, 1.0)?;
        let unit = Some(&Unit::Seconds);
        let help = "Time a durable transaction took";
        let metric = encoder.encode_descriptor("store_commit_duration", help, unit, MetricType::Histogram)?;
        encode_histogram(metric, batch_duration_micros, 1e6)?;
        for (name, help, value) in [
            ("store_watches", "Open watches of the store", *watches),
            ("store_keys", "Keys held", *keys),
            ("store_revision", "The newest revision", self.revision),
        ] {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

/// Writes a histogram of the store's, `per_unit` of whose values make one of the metric's unit.
fn encode_histogram(
    mut metric: MetricEncoder<'_>,
    histogram: &setpoint_store::Histogram,
    per_unit: f64,
) -> fmt::Result {
    let bounds = histogram.bounds.iter().map(|bound| *bound as f64 / per_unit).chain([f64::MAX]);
    let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts.iter().copied()).collect();
    metric.encode_histogram::<NoLabelSet>(histogram.sum as f64 / per_unit, histogram.count(), &buckets, None)
}
