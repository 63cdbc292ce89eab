//! What controllers count, in the form Prometheus reads.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

type Seconds = Family<Of, Histogram, fn() -> Histogram>;

/// The counts of all controllers of a process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    depth: Family<Of, Gauge>,
    full_lanes: Family<Of, Gauge>,
    latency: Seconds,
    rounds: Seconds,
    retries: Family<Of, Counter>,
    panics: Family<Of, Counter>,
    gaps: Family<OfKind, Counter>,
    dropped: Family<OfSource, Counter>,
    looks: Family<OfExtent, Counter>,
    leading: Gauge,
}

/// The counts of one controller.
#[derive(Debug, Clone)]
pub struct Meter {
    /// Keys that wait for their turn.
    pub depth: Gauge,
    /// Lanes in which keys wait for others of the same lane.
    pub full_lanes: Gauge,
    /// Seconds from when a key was first added until work on it began.
    pub latency: Histogram,
    /// Seconds that a round took.
    pub rounds: Histogram,
    pub retries: Counter,
    pub panics: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    controller: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSource {
    source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfExtent {
    extent: &'static str,
}

fn seconds() -> Histogram {
    Histogram::new([0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
}

impl Default for Metrics {
    fn default() -> Metrics {
        let (latency, rounds): (Seconds, Seconds) =
            (Family::new_with_constructor(seconds), Family::new_with_constructor(seconds));
        let (depth, full_lanes): (Family<Of, Gauge>, Family<Of, Gauge>) = Default::default();
        let (retries, panics) = (Family::default(), Family::default());
        let (gaps, dropped, leading) = (Family::default(), Family::default(), Gauge::default());
        let looks: Family<OfExtent, Counter> = Family::default();
        let mut registry = Registry::with_prefix("setpoint_controller");
        registry.register("queue_depth", "Keys that wait for their turn", depth.clone());
        let help = "Lanes (of Machines: Environments) in which keys wait for others of the same lane";
        registry.register("queue_full_lanes", help, full_lanes.clone());
        let help = "Time from when a key was added until work on it began";
        registry.register_with_unit("queue_latency", help, Unit::Seconds, latency.clone());
        registry.register_with_unit("reconcile", "Time a round of work took", Unit::Seconds, rounds.clone());
        registry.register("retries", "Rounds that did not get on and come again", retries.clone());
        registry.register("panics", "Rounds that ended in a panic", panics.clone());
        registry.register("watch_gaps", "Times a watch was interrupted and taken up again", gaps.clone());
        registry.register("events_dropped", "Events that were not written, as they were too many", dropped.clone());
        registry.register("looks", "Times that a place was looked at", looks.clone());
        registry.register("leading", "Whether this process leads", leading.clone());
        let registry = Arc::new(registry);
        Metrics { registry, depth, full_lanes, latency, rounds, retries, panics, gaps, dropped, looks, leading }
    }
}

impl Metrics {
    /// All of it, for whoever shows it.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }

    pub fn of(&self, controller: &'static str) -> Meter {
        let of = &Of { controller };
        Meter {
            depth: self.depth.get_or_create_owned(of),
            full_lanes: self.full_lanes.get_or_create_owned(of),
            latency: self.latency.get_or_create_owned(of),
            rounds: self.rounds.get_or_create_owned(of),
            retries: self.retries.get_or_create_owned(of),
            panics: self.panics.get_or_create_owned(of),
        }
    }

    /// Times that the watch of a kind was interrupted.
    pub fn gaps(&self, kind: &'static str) -> Counter {
        self.gaps.get_or_create_owned(&OfKind { kind })
    }

    /// Events of a source that were not written.
    pub fn dropped(&self, source: &'static str) -> Counter {
        self.dropped.get_or_create_owned(&OfSource { source })
    }

    /// Times that all of a place was looked at.
    pub fn sweeps(&self) -> Counter {
        self.looks.get_or_create_owned(&OfExtent { extent: "everything" })
    }

    /// Times that what concerns a few Machines was looked at.
    pub fn glances(&self) -> Counter {
        self.looks.get_or_create_owned(&OfExtent { extent: "machines" })
    }

    pub fn leading(&self) -> &Gauge {
        &self.leading
    }
}

/// Counts for nobody to see.
impl Default for Meter {
    fn default() -> Meter {
        let (latency, rounds) = (seconds(), seconds());
        let (depth, full_lanes) = (Gauge::default(), Gauge::default());
        let (retries, panics) = (Counter::default(), Counter::default());
        Meter { depth, full_lanes, latency, rounds, retries, panics }
    }
}
