//! What is known of a Machine's guest, and what is on record about it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::price::Price;
use crate::step::{Action, Class};

/// How many calls may be on record whose outcome is not. There is one at a time; the rest are of crashes.
pub const MAX_INTENTS: usize = 16;
/// How many drifted fields are listed.
pub const MAX_DRIFT: usize = 256;
/// How many of the last steps are on record.
pub const MAX_DONE: usize = 32;
/// How many steps that are yet to be taken are listed.
pub const MAX_WANTED: usize = 64;

/// What is known of a Machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// The generation of the spec that this status is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`: the guest is there and runs as desired. `Synced`: the spec is carried out. `Drifted`: something that
    /// was carried out is no longer so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The guest, by its provider's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The guest's state, in the provider's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What the guest is like, field by field, as a person reads it. A sensitive value is shown as `(sensitive)`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub observed: BTreeMap<String, String>,
    /// When the guest was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub observed_at: Option<Timestamp>,
    /// The digest of what the guest was last made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_digest: Option<String>,
    /// The fields and keys of it that came from Secrets, such as `env.TOKEN`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub secret_fields: Vec<String>,
    /// Calls that were written down before they were made, and whose outcome is not known yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["id".into()]))]
    pub intents: Vec<Intent>,
    /// The last steps that were taken, oldest first: what was approved once is done once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub done: Vec<DoneStep>,
    /// The digests of the steps that are to be taken, where change sets list steps of it and that is known: what asks about
    /// others is outdated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub wanted: Option<Vec<String>>,
    /// Fields that are not as desired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["field".into()]))]
    pub drift: Vec<DriftedField>,
    /// What the guest costs per hour, now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly_cost: Option<Price>,
}

/// A call that was written down before it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// The call carries this id, so that the provider can tell a repetition.
    pub id: String,
    /// What is done.
    pub action: Action,
    /// What the step could cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The digest of the step.
    pub digest: String,
    /// When it was written down.
    #[schemars(with = "Time")]
    pub started_at: Timestamp,
    /// The term of the leader that wrote it down. One with an older term writes no more.
    pub epoch: i64,
    /// The guest it is done to; absent for a create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The change set, by its uid, whose approvals it uses; absent where it needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_set: Option<String>,
}

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoneStep {
    /// What was done.
    pub action: Action,
    /// The digest of the step.
    pub digest: String,
    /// When its outcome was observed.
    #[schemars(with = "Time")]
    pub at: Timestamp,
    /// The change set, by its uid, whose approvals it used; absent where it needed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_set: Option<String>,
    /// Whether no effect of it was seen: it was tried, or may have been, and that used its approvals.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
}

/// A field that is not as desired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftedField {
    /// The field, such as `memory` or `env.MODEL`.
    pub field: String,
    /// What is desired, as a person reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<String>,
    /// What was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// When it was first seen to differ.
    #[schemars(with = "Time")]
    pub since: Timestamp,
    /// Whether an annotation says that it may differ.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub muted: bool,
}
