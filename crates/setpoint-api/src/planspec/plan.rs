//! Plan: a way to a Goal, as a graph of work.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::context::ContextItem;
use super::node::Node;
use super::reference::ObjectReference;
use crate::condition::Condition;
use crate::field::{Errors, Path};

/// A way to a goal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "planspec.io",
    version = "v1alpha1",
    kind = "Plan",
    namespaced,
    status = "PlanStatus",
    derive = "PartialEq",
    doc = "A way to a Goal, as a graph of work.",
    shortname = "pl",
    category = "setpoint",
    printcolumn = r#"{"name": "Goal", "type": "string", "jsonPath": ".spec.goalRef.name"}"#,
    printcolumn = r#"{"name": "Series", "type": "string", "jsonPath": ".spec.series"}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".spec.version"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "integer", "jsonPath": ".status.nodeCount", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.series) == has(self.version)").message("series and version go together"))]
pub struct PlanSpec {
    /// What the plan does, in words for people.
    #[schemars(length(min = 1))]
    pub description: String,
    /// The goal it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal_ref: Option<ObjectReference>,
    /// The family of plans it belongs to; the highest version of a family counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// Its version within the series, such as `2`, `1.10` or `v2.0.0-rc.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Plans that it replaces, each together with the lower versions of its series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supersedes: Vec<ObjectReference>,
    /// What helps whoever carries it out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<ContextItem>,
    /// The work.
    pub graph: Graph,
}

/// Work, and what comes before what.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Graph {
    /// The pieces of work.
    #[schemars(
        length(min = 1, max = 100_000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"])
    )]
    pub nodes: Vec<Node>,
    /// What comes before what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<Edge>,
}

/// One node that comes before another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Edge {
    /// The node that comes first.
    pub from: String,
    /// The node that comes after it.
    pub to: String,
    /// Whether the second has to wait until the first is done.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "hard"))]
    pub type_: Option<EdgeType>,
}

/// Whether an edge makes its second node wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EdgeType {
    /// The second waits until the first is done.
    #[default]
    Hard,
    /// The second may begin before.
    Soft,
}

/// What is known of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// Whether the plan can be carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PlanPhase>,
    /// How many nodes it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_count: Option<i64>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is true of the plan, and since when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Whether a plan can be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlanPhase {
    /// It can.
    Ready,
    /// It is wrong somewhere.
    Invalid,
}

impl Plan {
    /// Tells everything that is wrong with the fields of the spec. Whether the graph as a whole holds together is a
    /// question for the core.
    pub fn validate(&self, errors: &mut Errors) {
        self.spec.validate(&Path::of("spec"), errors);
    }
}

impl PlanSpec {
    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        if self.description.is_empty() {
            errors.required(&path.field("description"), "");
        }
        if let Some(goal) = &self.goal_ref {
            goal.validate(&path.field("goalRef"), errors);
        }
        match (&self.series, &self.version) {
            (Some(_), None) => errors.required(&path.field("version"), "series and version go together"),
            (None, Some(_)) => errors.required(&path.field("series"), "series and version go together"),
            _ => {}
        }
        let supersedes = path.field("supersedes");
        for (index, plan) in self.supersedes.iter().enumerate() {
            plan.validate(&supersedes.index(index), errors);
        }
        self.graph.validate(&path.field("graph"), errors);
    }
}

impl Graph {
    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        let nodes = path.field("nodes");
        if self.nodes.is_empty() {
            errors.required(&nodes, "a plan needs at least one node");
        }
        for (index, node) in self.nodes.iter().enumerate() {
            node.validate(&nodes.index(index), errors);
        }
    }
}
