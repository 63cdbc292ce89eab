//! The policy that is in force, whatever the spec says by now.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EnvironmentSpec;

/// The policy of an environment that is in force. The controller of the environment copies the spec here: at once where that
/// loosens nothing, and otherwise when it is approved. Each step is judged by the stricter of both, field by field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyInForce {
    /// The spec that is in force.
    pub spec: EnvironmentSpec,
    /// Whether the environment is protected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
    /// Whether the provider was ever reached: from then on another configuration needs an approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_ready: bool,
    /// Who put the spec in force without the approvals that it needed, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlocked: Option<Unlock>,
}

/// A policy that was put in force without approvals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unlock {
    /// The user who did it.
    pub by: String,
    /// When.
    #[schemars(with = "Time")]
    pub at: Timestamp,
}
