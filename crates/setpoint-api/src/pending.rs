//! The steps of an object that need an approval, as its controller last planned them.
//!
//! The controller of an object writes them into the object's status; the ChangeSet controller reads them there and opens
//! change sets. So there is one writer of change sets, and it never plans.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::step::Step;

/// How many steps of one object are listed. An Environment with more orphans lists the rest when these are done.
pub const MAX_PENDING: usize = 1_000;

/// The steps of an object that need an approval, whether or not they have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingSteps {
    /// The generation of the object that they were planned for.
    pub generation: i64,
    /// When the observation was made that they were planned from.
    #[schemars(with = "Time")]
    pub observed_at: Timestamp,
    /// Whether a step that is not listed is known not to be wanted.
    pub certainty: Certainty,
    /// The steps, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1_000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub steps: Vec<Step>,
}

/// Whether a step that is not listed is known not to be wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Certainty {
    /// The observation was complete, and the plan said nothing of waiting or refusal: what is not listed is not wanted.
    Known,
    /// The place was not reachable, shown only in part or busy, a call is under way, or something is waited for: nothing is
    /// known of steps that are not listed.
    Unknown,
}
