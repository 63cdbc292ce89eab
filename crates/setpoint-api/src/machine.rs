//! `Machine`: a long-lived named guest with a power state.
//!
//! A field of the guest that is not set is not managed: no default here may turn "not said" into something that is
//! bought. An empty list is set, and means none.

mod guest;
mod mute;
mod status;
mod validation;
mod variables;

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::guest::{EnvVar, EnvVarSource, Gpu, KeyReference, Port, PortError, PortProtocol, VariableSource, Volume};
pub use self::mute::{MUTE_DRIFT, MuteError, muted_fields};
pub use self::status::{DoneStep, DriftedField, Intent, MAX_DONE, MAX_DRIFT, MAX_INTENTS, MAX_WANTED, MachineStatus};
pub use self::variables::Resolved;

/// What keeps a Machine until nothing of it is left.
pub const FINALIZER: &str = "setpoint.dev/machine";
use crate::environment::Create;
use crate::rules::BYTES_PATTERN;

/// What a guest is to be like. What is not set is not managed.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[kube(
    group = "setpoint.dev",
    version = "v1alpha1",
    kind = "Machine",
    namespaced,
    status = "MachineStatus",
    derive = "PartialEq",
    doc = "A long-lived named guest with a power state: a container, a virtual machine, or a GPU pod.",
    shortname = "mc",
    category = "setpoint",
    validation = Rule::new(
        "has(oldSelf.spec.providerId) || !has(self.spec.providerId) || !has(oldSelf.status) || \
         !has(oldSelf.status.providerId) || self.spec.providerId == oldSelf.status.providerId"
    )
    .message("providerId is of another guest than the one that it has: make another Machine for it"),
    printcolumn(name = "Environment", type_ = "string", json_path = ".spec.environment"),
    printcolumn(name = "Guest", type_ = "string", json_path = ".status.providerId"),
    printcolumn(name = "Run", type_ = "string", json_path = ".status.run"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Synced", type_ = "string", json_path = r#".status.conditions[?(@.type=="Synced")].status"#),
    printcolumn(name = "Drifted", type_ = "string", json_path = r#".status.conditions[?(@.type=="Drifted")].status"#),
    printcolumn(name = "Cost/h", type_ = "string", json_path = ".status.hourlyCost"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Synced")].message"#,
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.providerId) || (has(self.providerId) && self.providerId == oldSelf.providerId)")
        .message("providerId cannot be changed once it is set"),
    validation = Rule::new("self.environment == oldSelf.environment")
        .message("a Machine cannot be moved to another environment: make another Machine there")
)]
pub struct MachineSpec {
    /// The Environment that the guest is in.
    #[schemars(length(min = 1, max = 253))]
    pub environment: String,
    /// The guest it insists on, by the provider's id, such as a Proxmox vmid. Once set, it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub provider_id: Option<String>,
    /// Whether the guest is made if it is not there.
    #[serde(default)]
    pub create: Create,
    /// What becomes of the guest when this object is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// How many cores it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_096))]
    pub cores: Option<u32>,
    /// How much memory it has, such as `4Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = BYTES_PATTERN))]
    pub memory: Option<String>,
    /// How large its own disk is, such as `40Gi`. A disk can grow, and never shrinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = BYTES_PATTERN))]
    pub disk: Option<String>,
    /// Which GPUs it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    /// What it is made from: an image or a template, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1_024))]
    pub image: Option<String>,
    /// What it runs, instead of what its image says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub command: Option<Vec<String>>,
    /// The arguments of what it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub args: Option<Vec<String>>,
    /// Its environment variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Option<Vec<EnvVar>>,
    /// Where `${NAME}` in `command`, `args` and the values of `env` is looked up, in this order, and nowhere else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub variables_from: Vec<VariableSource>,
    /// The ports it offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["port".into(), "protocol".into()]))]
    pub ports: Option<Vec<Port>>,
    /// The volumes it has beside its own disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub volumes: Option<Vec<Volume>>,
    /// What people should know about it, as the provider shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8_192))]
    pub description: Option<String>,
    /// Whether it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// Machines of the same namespace that must be as desired before this one is touched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub depends_on: Vec<String>,
    /// What only its deployer understands.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub parameters: BTreeMap<String, String>,
}

/// Whether a guest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Run {
    /// It runs.
    Running,
    /// It is shut down, and kept.
    Stopped,
}

/// What becomes of the guest when its object is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It is deleted, if the gate lets it be.
    #[default]
    Delete,
    /// It stays, and loses our mark.
    Retain,
}
