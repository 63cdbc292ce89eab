//! A client that watched all Pods while something was done: what it saw at every single change.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::cluster::{Cluster, PODS, is_ready, name, version_of};

const END: &str = "end-of-the-watch";

/// A moment, from which on Pods are watched.
pub(super) struct Probe {
    pods: BTreeMap<String, Value>,
    version: String,
}

/// What was seen of Pods that were not on their way out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) fewest_ready: usize,
    pub(super) most: usize,
    pub(super) changes: usize,
}

impl Probe {
    pub(super) async fn start(cluster: &Cluster) -> Result<Probe> {
        let list = cluster.client()?.get(PODS).await?.success()?;
        let pods = list["items"].as_array().into_iter().flatten();
        let pods = pods.map(|pod| (name(pod).to_owned(), pod.clone())).collect();
        Ok(Probe { pods, version: version_of(&list)?.to_owned() })
    }

    /// Looks at every change since the start, one by one. The server has kept them.
    pub(super) async fn end(mut self, cluster: &Cluster) -> Result<Seen> {
        let last = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": END},
            "spec": {"schedulingGates": [{"name": "example.com/never"}], "containers": [{"name": "c", "image": "c"}]},
        });
        cluster.create(PODS, &last).await?;
        let path = format!("{PODS}?watch=true&resourceVersion={}", self.version);
        let mut events = cluster.client()?.watch(&path).await?;
        let mut seen = Seen { fewest_ready: self.ready(), most: self.all(), changes: 0 };
        loop {
            let event = events.event().await?.context("the watch ended")?;
            let pod = &event["object"];
            if name(pod) == END {
                break;
            }
            match event["type"].as_str() {
                Some("DELETED") => drop(self.pods.remove(name(pod))),
                _ => drop(self.pods.insert(name(pod).to_owned(), pod.clone())),
            }
            seen.fewest_ready = seen.fewest_ready.min(self.ready());
            seen.most = seen.most.max(self.all());
            seen.changes += 1;
        }
        cluster.client()?.delete(&format!("{PODS}/{END}")).await?.success()?;
        Ok(seen)
    }

    fn ready(&self) -> usize {
        self.pods.values().filter(|pod| is_ready(pod)).count()
    }

    fn all(&self) -> usize {
        self.pods.values().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).count()
    }
}
