//! Goal: what is to be achieved. Which Plan serves it is decided by the resolver and said in the status.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::ContextItem;
use super::duration::Duration;
use super::node::validate_id;
use super::reference::ObjectReference;
use crate::condition::Condition;
use crate::field::{Errors, Node, Path};
use crate::labels;

/// What is to be achieved, and how to tell that it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "planspec.io",
    version = "v1alpha1",
    kind = "Goal",
    namespaced,
    status = "GoalStatus",
    derive = "PartialEq",
    doc = "An objective, with the criteria by which it is met. The Plan that serves it is in its status.",
    shortname = "gl",
    category = "setpoint",
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Plan", "type": "string", "jsonPath": ".status.activePlanRef.name"}"#,
    printcolumn = r#"{"name": "Priority", "type": "integer", "jsonPath": ".spec.priority", "priority": 1}"#,
    printcolumn = r#"{"name": "Description", "type": "string", "jsonPath": ".spec.description", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct GoalSpec {
    /// What is to be achieved, in words for people.
    #[schemars(length(min = 1))]
    pub description: String,
    /// What any way to the goal has to respect, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::free_form::object")]
    pub constraints: BTreeMap<String, Value>,
    /// When the goal is met: all of these hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance_criteria: Vec<AcceptanceCriterion>,
    /// Which of the plans that name this goal may serve it; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_selector: Option<LabelSelector>,
    /// How long reaching the goal may take, such as `24h` or `7d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// How important the goal is beside others; more is more important.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub priority: Option<i32>,
    /// What helps whoever works on the goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<ContextItem>,
}

/// One thing that holds when the goal is met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptanceCriterion {
    /// A name for the criterion within the goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What has to hold, in words for people.
    pub description: String,
}

/// What is known of the goal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GoalStatus {
    /// How far the goal is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<GoalPhase>,
    /// The plan that serves the goal; absent while none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_plan_ref: Option<ObjectReference>,
    /// The other plans that name this goal, and why each was not chosen. The nearest come first, and at most 50 are
    /// listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<GoalCandidate>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is true of the goal, and since when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A plan that could have served the goal and does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GoalCandidate {
    /// The plan.
    pub plan_ref: ObjectReference,
    /// Why it was not chosen, in one word: `NotSelected`, `Invalid`, `Superseded`, `LowerVersion` or `TieBroken`.
    pub reason: String,
    /// The same in a sentence.
    pub message: String,
}

/// How far a goal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GoalPhase {
    /// No plan serves it.
    Pending,
    /// A plan is being made.
    Planning,
    /// A plan serves it and can be carried out.
    Ready,
    /// The plan is being carried out.
    Executing,
    /// All criteria are met.
    Succeeded,
    /// It could not be met.
    Failed,
    /// Somebody called it off.
    Cancelled,
}

impl GoalPhase {
    /// Whether the goal is over: nothing that is decided later changes it.
    pub fn is_terminal(self) -> bool {
        matches!(self, GoalPhase::Succeeded | GoalPhase::Failed | GoalPhase::Cancelled)
    }
}

impl Goal {
    /// Tells everything that is wrong with the spec.
    pub fn validate(&self, errors: &mut Errors) {
        self.spec.validate(&Path::of("spec"), errors);
    }
}

impl GoalSpec {
    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        if self.description.is_empty() {
            errors.required(&path.field("description"), "");
        }
        self.validate_criteria(&path.field("acceptanceCriteria"), errors);
        if let Some(selector) = &self.plan_selector {
            let value = serde_json::to_value(selector).expect("a selector is written as JSON without fail");
            labels::validate_label_selector(Node { value: &value, path: path.field("planSelector") }, errors);
        }
        if let Some(timeout) = &self.timeout {
            timeout.validate(&path.field("timeout"), errors);
        }
        if let Some(priority) = self.priority.filter(|priority| *priority < 0) {
            errors.invalid(&path.field("priority"), priority, "must be greater than or equal to 0");
        }
    }

    fn validate_criteria(&self, path: &Path<'_>, errors: &mut Errors) {
        let mut seen = std::collections::BTreeSet::new();
        for (index, criterion) in self.acceptance_criteria.iter().enumerate() {
            let Some(id) = &criterion.id else { continue };
            let at = path.index(index);
            validate_id(id, &at.field("id"), errors);
            if !seen.insert(id) {
                errors.duplicate(&at.field("id"), id);
            }
        }
    }
}
