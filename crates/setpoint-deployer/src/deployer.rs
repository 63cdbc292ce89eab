//! The contract of a deployer: what runs revisions of Apps, and divides traffic between them.
//!
//! Every call comes through [`Checked`](crate::Checked), which knows all revisions of the App and the split: what reaches a
//! deployer names revisions that exist, in an order that their life allows, and splits that are 10 000 together.
//!
//! What every deployer promises, and `conformance` proves by what is observed:
//!
//! - Every verb twice is as once, and a verb only begins something: that it came about is to be observed.
//! - A verb touches its own App's instances and split, never a sibling's.
//! - A deployer never writes our state; another one over the same place sees and does the same.
//! - `drain` gives instances `drain_seconds` to finish and no longer. `archive` of what is gone is done already.
//! - What `apply_split` returns is what it applied, and what is observed afterwards.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use setpoint_api::revision::{RevisionPhase, RevisionSpec};
use setpoint_api::traffic_split::SplitEntry;
use setpoint_core::observation::Completeness;
use setpoint_core::split::{Granularity, Split};

use crate::error::Result;
use crate::provider::Answer;

/// What runs revisions. Shared as `Arc<dyn Deployer>`.
pub trait Deployer: fmt::Debug + Send + Sync + 'static {
    /// How finely it can divide traffic.
    fn granularity(&self) -> Granularity;

    /// What is there of an App: its revisions' instances and the split in effect. Changes nothing.
    fn observe<'a>(&'a self, app: &'a AppName) -> Answer<'a, ObservedApp>;

    /// Prepares a revision: checks that it can run here. Nothing of it runs.
    fn stage<'a>(&'a self, revision: &'a RevisionOrder) -> Answer<'a, ()>;

    /// Begins to start a revision's instances, as many as are asked for.
    fn warm<'a>(&'a self, revision: &'a RevisionOrder) -> Answer<'a, ()>;

    /// Lets a revision's instances finish, and stops them at the latest after its `drain_seconds`.
    fn drain<'a>(&'a self, revision: &'a RevisionOrder) -> Answer<'a, ()>;

    /// Removes everything of a revision.
    fn archive<'a>(&'a self, app: &'a AppName, revision: &'a str) -> Answer<'a, ()>;

    /// Divides an App's traffic, and returns what was applied: the split itself, or the nearest that the granularity allows.
    fn apply_split<'a>(&'a self, app: &'a AppName, split: &'a Split) -> Answer<'a, Applied>;

    /// What the data path of an App is to be told: one block for each entry of the split, in order; nothing without a split.
    /// An implementation may only add what the provider discovered.
    fn runtime_config<'a>(&'a self, deployment: &'a Deployment) -> Answer<'a, RuntimeConfig> {
        let config = RuntimeConfig::project(deployment);
        Box::pin(async move { config })
    }
}

/// An App by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppName {
    pub namespace: String,
    pub name: String,
}

/// Everything that is on record of an App when something is to be done to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    pub app: AppName,
    /// Its revisions by name; and those of others, so that a wrong name can be told from a strange one.
    pub revisions: BTreeMap<String, KnownRevision>,
    /// The split on record, as it was written.
    pub split: Option<Vec<SplitEntry>>,
}

/// A revision that is on record.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownRevision {
    pub uid: String,
    pub spec: RevisionSpec,
    pub phase: RevisionPhase,
    /// How many instances are wanted.
    pub replicas: u32,
    /// How many there are, those that are stopping included, and how many of them are ready.
    pub existing: u32,
    pub ready: u32,
}

/// A revision that something is to be done with.
#[derive(Debug, Clone, PartialEq)]
pub struct RevisionOrder {
    pub app: AppName,
    pub name: String,
    pub uid: String,
    pub spec: RevisionSpec,
    pub replicas: u32,
    /// The intent under which it is done.
    pub intent: String,
}

/// What was applied, and to which App.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub app: AppName,
    pub entries: Vec<SplitEntry>,
}

/// What is there of an App.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedApp {
    pub completeness: Completeness,
    /// By the revisions' names; one of which nothing is there is not in it.
    pub revisions: BTreeMap<String, ObservedRevision>,
    /// The split in effect.
    pub split: Option<Vec<SplitEntry>>,
    pub observed_at: Timestamp,
}

/// What is there of a revision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObservedRevision {
    pub is_staged: bool,
    /// Instances that are to run; those that drain are not among them.
    pub running: u32,
    pub ready: u32,
    pub draining: u32,
    /// Where its ready instances can be reached.
    pub endpoints: Vec<String>,
}

/// What the data path of an App is to be told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeConfig {
    pub blocks: Vec<RuntimeBlock>,
}

/// One entry of a split, with what is needed to serve it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeBlock {
    pub revision: String,
    pub digest: String,
    pub weight_bps: u32,
    pub parameters: BTreeMap<String, String>,
    /// Where the revision can be reached, as far as the provider has found out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<String>,
}

impl RuntimeConfig {
    /// The projection of an App's split and revisions.
    pub fn project(deployment: &Deployment) -> Result<RuntimeConfig> {
        let mut blocks = Vec::new();
        for SplitEntry { revision, weight_bps } in deployment.split.iter().flatten() {
            let known = deployment.own(revision)?;
            blocks.push(RuntimeBlock {
                revision: revision.clone(),
                digest: known.spec.digest.clone(),
                weight_bps: *weight_bps,
                parameters: known.spec.parameters.clone(),
                endpoints: Vec::new(),
            });
        }
        Ok(RuntimeConfig { blocks })
    }
}

impl fmt::Display for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
