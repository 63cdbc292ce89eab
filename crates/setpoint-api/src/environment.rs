//! `Environment`: a place where things run, and its rules.

mod approval;
mod guardrails;
mod notifications;
mod validation;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::approval::{Approval, ApprovalRule, ApproverKey, REQUIREMENTS, Requirement};
pub use self::guardrails::Guardrails;
pub use self::notifications::{Notifications, Webhook};
use crate::condition::Condition;
use crate::price::Price;
use crate::step::{Action, Target};

/// How many entries the ledger holds. While it is full of entries of the last hour, no step that counts is taken.
pub const MAX_LEDGER: usize = 1_000;
/// How many orphans are listed; all are counted.
pub const MAX_ORPHANS: usize = 100;

/// What an environment is, and what may be done in it.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "setpoint.dev",
    version = "v1alpha1",
    kind = "Environment",
    status = "EnvironmentStatus",
    derive = "PartialEq",
    doc = "A place where things run, and its rules: the deployer and its configuration, guardrails, and who approves what.",
    shortname = "env",
    category = "setpoint",
    printcolumn(name = "Deployer", type_ = "string", json_path = ".spec.deployer.name"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Instances", type_ = "integer", json_path = ".status.instances"),
    printcolumn(name = "Cost/h", type_ = "string", json_path = ".status.hourlyCost"),
    printcolumn(name = "Drifted", type_ = "integer", json_path = ".status.drifted"),
    printcolumn(name = "Orphans", type_ = "integer", json_path = ".status.orphanCount", priority = 1),
    printcolumn(name = "Observed", type_ = "date", json_path = ".status.observedAt", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentSpec {
    /// The deployer that acts here. It cannot be changed: the guests of one deployer mean nothing to another.
    #[x_kube(validation = Rule::new("self.name == oldSelf.name").message("the deployer of an environment cannot be changed"))]
    pub deployer: DeployerReference,
    /// The configuration of the deployer, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::free_form::object")]
    pub config: Option<Map<String, Value>>,
    /// The Secret with the deployer's credentials. A changed Secret takes effect without a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretReference>,
    /// Whether guests that are desired and absent are made. `Never` overrides what a Machine says.
    #[serde(default)]
    pub create: Create,
    /// Limits that hold whatever is desired and whoever approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guardrails: Option<Guardrails>,
    /// Who must approve which steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Who is told when a person is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notifications: Option<Notifications>,
    /// What is done with a guest that carries our mark and belongs to nothing.
    #[serde(default)]
    pub orphan_policy: OrphanPolicy,
    /// How often the provider is asked for what is there.
    #[serde(default = "default_observe_interval_seconds")]
    #[schemars(range(min = 1, max = 86_400))]
    pub observe_interval_seconds: u32,
    /// How long requests under way are waited for before a guest that gives up its traffic is stopped. It is for guests of
    /// no App: each Revision of an App says its own.
    #[serde(default = "crate::revision::default_drain_seconds")]
    #[schemars(range(min = 0, max = 86_400))]
    pub drain_seconds: u32,
}

/// A deployer by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployerReference {
    /// The name it is registered under, such as `process` or `runpod`.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The version that is wanted, such as `1` or `1.2.3`; whichever is registered, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^v?[0-9]+(\.[0-9]+){0,2}(-[0-9A-Za-z.-]+)?$"))]
    pub version: Option<String>,
}

/// A Secret in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// The namespace of the Secret.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// The name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Whether a guest that is desired and absent is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Create {
    /// It is made.
    #[default]
    Always,
    /// It is said to be missing, and never made.
    Never,
}

/// What is done with a guest that carries our mark and belongs to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum OrphanPolicy {
    /// It is listed in the status.
    #[default]
    Report,
    /// It is deleted, if the gate lets it be.
    Delete,
}

/// What is known of an environment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentStatus {
    /// The generation of the spec that this status is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`: the provider can be reached with the credentials. `WithinLimits`: no guardrail holds anything back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The Node by which Pods are scheduled here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// What the provider has in all, as quantities: `cores`, `memory`, `gpus`, `instances`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, String>,
    /// What the provider asks for what it offers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["item".into()]))]
    pub prices: Vec<ItemPrice>,
    /// What everything of ours costs per hour, now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly_cost: Option<Price>,
    /// How many instances of ours there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<u32>,
    /// How many GPUs they hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// How many Machines are not as desired, muted fields aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drifted: Option<u32>,
    /// How many guests carry our mark and belong to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphan_count: Option<u32>,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["providerId".into()]))]
    pub orphans: Vec<Orphan>,
    /// When the provider last answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub observed_at: Option<Timestamp>,
    /// What was done lately and counts against a budget, oldest first, so that a restart forgets nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1_000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub ledger: Vec<LedgerEntry>,
}

/// What one thing costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemPrice {
    /// What is offered, such as a type of GPU.
    pub item: String,
    /// What one costs per hour.
    pub hourly: Price,
    /// How many could be had when it was last asked; absent where the provider does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<u32>,
}

/// A guest that carries our mark and belongs to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// The guest, by its provider's id.
    pub provider_id: String,
    /// Its name at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it was first seen without an owner.
    #[schemars(with = "Time")]
    pub since: Timestamp,
    /// What it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly_cost: Option<Price>,
}

/// One step that was taken and counts against a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// When it was begun.
    #[schemars(with = "Time")]
    pub time: Timestamp,
    /// What was done; absent where traffic was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// The object it served.
    pub target: Target,
    /// The digest of the step.
    pub digest: String,
    /// The call it was done by. A call that is tried again counts once; the same step by another call counts again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// Whether something was destroyed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub destroyed: bool,
    /// By how much the hourly cost changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly_cost_delta: Option<Price>,
    /// How many basis points of traffic were moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_bps: Option<u32>,
}

fn default_observe_interval_seconds() -> u32 {
    30
}
