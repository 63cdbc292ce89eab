//! How far a rollout has come: the little that must be remembered, in the App's status.
//!
//! Everything else (which revision serves, how many of its instances are ready) is observed anew each time. What stands
//! here was written before anything was done under it, so that a crash between the two loses nothing.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::revision::RevisionPhase;
use crate::traffic_split::SplitEntry;

/// How far a rollout has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutState {
    /// What is going on.
    pub phase: RolloutPhase,
    /// The revision that is to serve everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The revision that served when the rollout began, and to which an abort goes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether steps are left out: an undo goes straight to its revision.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub direct: bool,
    /// The stage the rollout is in, counted from 0: the preview if there is one, the steps, and all traffic.
    pub stage: u32,
    /// When this stage, or this phase, was entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>")]
    pub since: Option<Timestamp>,
    /// Why the rollout stands still, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseReason>,
    /// The split this rollout last asked for. Any other is a person's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<AskedSplit>,
    /// The farthest the target has come in this stage, and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The revision that an undo put in the place of the App's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Pin>,
    /// The id of the last request that was heeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heeded: Option<String>,
    /// Why it is as it is, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What is going on with a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
pub enum RolloutPhase {
    /// Nothing was rolled out yet.
    #[default]
    Pending,
    /// Traffic is on its way to the target.
    Progressing,
    /// Traffic is on its way back.
    Aborting,
    /// Traffic is back where it was; the target is given up until a retry, an undo or a new template.
    Aborted,
    /// The target serves.
    Complete,
}

impl fmt::Display for RolloutPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a rollout stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum PauseReason {
    /// A person asked for it.
    Requested,
    /// A person set the split by hand.
    ManualSplit,
    /// An analysis had too little to go by.
    Inconclusive,
}

impl fmt::Display for PauseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PauseReason::Requested => "a person asked for it",
            PauseReason::ManualSplit => "a person set the split by hand",
            PauseReason::Inconclusive => "an analysis had too few requests to judge by",
        })
    }
}

/// A split that was asked for, and what stood before it until it took effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskedSplit {
    /// What was asked for.
    #[schemars(length(max = 32))]
    pub entries: Vec<SplitEntry>,
    /// What stood before; absent once what was asked for has been seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub before: Option<Vec<SplitEntry>>,
}

/// The farthest a target has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Its phase.
    pub phase: RevisionPhase,
    /// The most of its instances that were ready at once: what goes up and down is no progress.
    pub ready: u32,
    /// Its weight.
    pub weight_bps: u32,
    /// When it came there.
    #[schemars(with = "k8s_openapi::apimachinery::pkg::apis::meta::v1::Time")]
    pub at: Timestamp,
}

/// A revision that an undo put in the place of another, for as long as the App's template is that other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// The revision that serves.
    pub revision: String,
    /// The revision of the App's template, which does not.
    pub instead_of: String,
}

/// What a person asks of a rollout. It is heeded once: a new request needs a new id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.revision) || self.verb == 'Undo'",
    "message": "only Undo names a revision",
}]))]
pub struct RolloutRequest {
    /// Any text that is new.
    #[schemars(length(min = 1, max = 128))]
    pub id: String,
    /// What is asked.
    pub verb: RolloutVerb,
    /// For Undo: the revision to go back to; absent: the one that served before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub revision: Option<String>,
}

/// What can be asked of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum RolloutVerb {
    /// Stand still.
    Pause,
    /// Go on: end a pause, or a preview or pause step that waits for a person.
    Resume,
    /// Leave the present step behind, whatever it waits for.
    Skip,
    /// Leave all steps behind: move all traffic as soon as the new revision can bear it.
    Promote,
    /// Go back to the revision that served before, and stay there.
    Abort,
    /// Go to a kept revision, with the configuration it had.
    Undo,
    /// Try an aborted revision again.
    Retry,
}

impl fmt::Display for RolloutVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
