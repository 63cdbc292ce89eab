//! Gate: a place where work waits until people have decided.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::node::validate_id;
use super::reference::{validate_any_name, validate_kind, validate_namespace};
use crate::condition::Condition;
use crate::field::{Errors, Path};

/// Where the context of a change set's gate names the control plane, which who signs a review has to name.
pub const CLUSTER_UID: &str = "clusterUid";

/// What is to be approved, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "planspec.io",
    version = "v1alpha1",
    kind = "Gate",
    namespaced,
    status = "GateStatus",
    derive = "PartialEq",
    doc = "A place where work waits until people have decided.",
    shortname = "gt",
    category = "setpoint",
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.gateType"}"#,
    printcolumn = r#"{"name": "Target", "type": "string", "jsonPath": ".spec.targetRef.name"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Required", "type": "integer", "jsonPath": ".spec.requiredApprovers", "priority": 1}"#,
    printcolumn = r#"{"name": "Target-Kind", "type": "string", "jsonPath": ".spec.targetRef.kind", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct GateSpec {
    /// What kind of decision is asked for.
    pub gate_type: GateType,
    /// What the decision is about.
    pub target_ref: TargetReference,
    /// What is approved, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who may decide: users, groups or service accounts; anybody with the right to review if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviewers: Vec<String>,
    /// How many different people have to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = 1))]
    pub required_approvers: Option<i32>,
    /// What reviewers should see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::free_form::object")]
    pub context: Option<Value>,
}

/// The object that a gate is about, or a node within it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetReference {
    /// The group and version of the object; those of the gate if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind of the object.
    #[schemars(regex(pattern = "^[A-Z][a-zA-Z0-9]*$"))]
    pub kind: String,
    /// The name of the object.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its namespace; that of the gate if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its uid, where no later object of the same name is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The node of the object's graph, where only that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
}

/// What kind of decision a gate asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateType {
    /// Yes or no.
    #[default]
    Approval,
    /// A review of code or design.
    Review,
    /// A formal signature.
    SignOff,
}

/// What was decided so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateStatus {
    /// How far the decision is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<GatePhase>,
    /// What is true of the gate, and since when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What reviewers did, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub review_history: Vec<ReviewAction>,
    /// The decision, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<GateResolution>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The generation of the spec that was decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_generation: Option<i64>,
}

/// How far a decision is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GatePhase {
    /// Nothing waits here yet.
    Pending,
    /// Something waits for the decision.
    Waiting,
    /// What waited may go on.
    Approved,
    /// What waited must not go on.
    Rejected,
}

/// One thing that a reviewer did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewAction {
    /// Who did it.
    pub reviewer: String,
    /// What was done.
    pub action: ReviewActionType,
    /// When.
    #[schemars(with = "Time")]
    pub timestamp: Timestamp,
    /// What was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The generation of the spec that was looked at: approval of another one is stale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_generation: Option<i64>,
}

/// What a reviewer can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReviewActionType {
    Approve,
    Reject,
    Comment,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateResolution {
    /// What was decided.
    pub outcome: GateOutcome,
    /// Who decided it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<String>,
    /// When.
    #[schemars(with = "Time")]
    pub timestamp: Timestamp,
    /// What was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// What can be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    Approved,
    Rejected,
}

impl Gate {
    /// Tells everything that is wrong with the spec.
    pub fn validate(&self, errors: &mut Errors) {
        self.spec.validate(&Path::of("spec"), errors);
    }
}

impl GateSpec {
    /// How many different people have to approve: one, unless said otherwise.
    pub fn approvals_needed(&self) -> u32 {
        self.required_approvers.and_then(|count| u32::try_from(count).ok()).unwrap_or(1).max(1)
    }

    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        self.target_ref.validate(&path.field("targetRef"), errors);
        if let Some(count) = self.required_approvers.filter(|count| *count < 1) {
            errors.invalid(&path.field("requiredApprovers"), count, "must be greater than or equal to 1");
        }
        crate::free_form::validate_object(self.context.as_ref(), &path.field("context"), errors);
    }
}

impl TargetReference {
    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        if self.kind.is_empty() {
            errors.required(&path.field("kind"), "");
        } else {
            validate_kind(Some(&self.kind), &path.field("kind"), errors);
        }
        validate_any_name(&self.name, &path.field("name"), errors);
        validate_namespace(self.namespace.as_deref(), &path.field("namespace"), errors);
        if let Some(id) = &self.node_id {
            validate_id(id, &path.field("nodeId"), errors);
        }
    }
}
