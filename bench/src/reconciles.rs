//! How much the controllers have done, by their own count.

use std::collections::BTreeMap;

use anyhow::Result;
use setpoint_testkit::Server;

/// Controllers that act on workloads. Leases and heartbeats of nodes go on while nothing happens.
const WORKLOADS: [&str; 6] = ["replicaset", "deployment", "job", "endpointslice", "scheduler", "node"];
/// How many rounds each controller has made.
const COUNT: &str = "setpoint_controller_reconcile_seconds_count";
/// How often places were looked at.
const LOOKS: &str = "setpoint_controller_looks_total";
/// How long keys waited before they were worked on.
const WAITS: &str = "setpoint_controller_queue_latency_seconds_bucket";

#[derive(Debug, Clone, Default)]
pub(crate) struct Reconciles {
    rounds: BTreeMap<String, u64>,
    /// How many keys waited no longer than this, by what Prometheus calls `le`.
    waits: BTreeMap<String, u64>,
    /// How often places were looked at: all of them, or what concerns a few Machines.
    looks: BTreeMap<String, u64>,
}

impl Reconciles {
    pub(crate) async fn read(server: &Server) -> Result<Reconciles> {
        let text = server.client()?.get("/metrics").await?.text();
        let mut reconciles = Reconciles::default();
        for line in text.lines() {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>().map(|value| value as u64) else { continue };
            let label = |name: &str| series.split(&format!("{name}=\"")).nth(1)?.split('"').next().map(str::to_owned);
            if series.starts_with(COUNT) {
                reconciles.rounds.insert(label("controller").unwrap_or_default(), value);
            } else if series.starts_with(WAITS) && label("controller").is_some_and(|name| WORKLOADS.contains(&&*name)) {
                *reconciles.waits.entry(label("le").unwrap_or_default()).or_default() += value;
            } else if series.starts_with(LOOKS) {
                reconciles.looks.insert(label("extent").unwrap_or_default(), value);
            }
        }
        anyhow::ensure!(!reconciles.rounds.is_empty(), "the server does not count reconciles");
        Ok(reconciles)
    }

    /// What was done since an earlier count.
    pub(crate) fn since(&self, before: &Reconciles) -> Reconciles {
        let less = |now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>| {
            let old = |key: &String| before.get(key).copied().unwrap_or_default();
            now.iter().map(|(key, value)| (key.clone(), value.saturating_sub(old(key)))).collect()
        };
        Reconciles {
            rounds: less(&self.rounds, &before.rounds),
            waits: less(&self.waits, &before.waits),
            looks: less(&self.looks, &before.looks),
        }
    }

    pub(crate) fn of(&self, controller: &str) -> u64 {
        self.rounds.get(controller).copied().unwrap_or_default()
    }

    /// How often all of a place was looked at (`everything`), or what concerns a few Machines (`machines`).
    pub(crate) fn looks(&self, extent: &str) -> u64 {
        self.looks.get(extent).copied().unwrap_or_default()
    }

    pub(crate) fn of_workloads(&self) -> u64 {
        WORKLOADS.iter().map(|controller| self.of(controller)).sum()
    }

    /// Which share of keys waited no longer than so many seconds.
    pub(crate) fn share_within(&self, seconds: &str) -> f64 {
        let all = self.waits.get("+Inf").copied().unwrap_or_default().max(1);
        self.waits.get(seconds).copied().unwrap_or_default() as f64 / all as f64
    }
}
