//! `ChangeSet`: what will be done in an environment, for people to see and to approve.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::condition::Condition;
use crate::field::{Errors, Path};
use crate::price::Price;
use crate::rules;
use crate::step::{Counts, Refusal, Step, Target, Waiting};

/// How many objects a change set may be asked about.
pub const MAX_OBJECTS: usize = 1_000;
/// How many steps a change set holds.
pub const MAX_STEPS: usize = 1_000;
/// How many nonces a change set remembers.
pub const MAX_NONCES: usize = 1_000;

const SPEC: Path<'static> = Path::of("spec");

/// What is asked for. It cannot be changed: another question is another change set.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "setpoint.dev",
    version = "v1alpha1",
    kind = "ChangeSet",
    namespaced,
    status = "ChangeSetStatus",
    derive = "PartialEq",
    doc = "What will be done in an environment: steps with reasons, differences, classes, cost and a digest each. It authorizes steps by digest and carries no Secrets.",
    shortname = "cset",
    category = "setpoint",
    printcolumn(name = "Environment", type_ = "string", json_path = ".spec.environment"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Creates", type_ = "integer", json_path = ".status.counts.creates"),
    printcolumn(name = "Updates", type_ = "integer", json_path = ".status.counts.updates"),
    printcolumn(name = "Deletes", type_ = "integer", json_path = ".status.counts.deletes"),
    printcolumn(name = "Cost/h", type_ = "string", json_path = ".status.hourlyCostDelta"),
    printcolumn(name = "Requested by", type_ = "string", json_path = ".spec.requestedBy", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf").message("the spec of a change set cannot be changed"))]
pub struct ChangeSetSpec {
    /// The Environment that the steps are taken in.
    #[schemars(length(min = 1, max = 253))]
    pub environment: String,
    /// Whether the steps are only shown, or taken once they are approved.
    pub mode: Mode,
    /// The objects as they would be, from a dry run by who asks. Without any, it is about those that are stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "objects_schema")]
    pub objects: Vec<Map<String, Value>>,
    /// The objects that would be deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1_000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub deletes: Vec<Target>,
    /// The user who asks.
    #[schemars(length(min = 1, max = 253))]
    pub requested_by: String,
}

/// What becomes of the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// They are shown.
    Preview,
    /// They are taken, each as soon as it may be.
    Execute,
}

/// What will be done, and how far it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSetStatus {
    /// The generation of the spec that this status is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The steps in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1_000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub steps: Vec<Step>,
    /// What is not done now, and what it waits on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1_000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub waiting: Vec<Waiting>,
    /// What cannot be fulfilled as it is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1_000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub refused: Vec<Refusal>,
    /// How much it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// By how much the hourly cost changes; absent where a price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly_cost_delta: Option<Price>,
    /// The digest of all steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The Gate that it waits on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_ref: Option<GateReference>,
    /// How far each step is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1_000))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["id".into()]))]
    pub step_states: Vec<StepStatus>,
    /// The nonces under which listed keys signed, so that none is used twice, not even after its review was deleted. Once
    /// there is no room, no more signed approvals count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1_000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub nonces: Vec<UsedNonce>,
    /// `Planned`: the steps are computed. `Approved`: nothing waits for a person. `Complete`: every step is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Where a Machine's controller asks: the generation of the Machine that it asks about. With any other, nothing has leave
    /// by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_generation: Option<i64>,
    /// When the observation was made that the steps were computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub observed_at: Option<Timestamp>,
}

/// How far a change set is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// The steps are not computed yet.
    Pending,
    /// The steps are shown, and that is all.
    Planned,
    /// A person is waited for.
    Waiting,
    /// Steps are being taken.
    Running,
    /// Everything is done.
    Succeeded,
    /// A step failed, and is not tried again.
    Failed,
    /// Reality moved or an object was written again, and no step is what it was.
    Stale,
}

/// A Gate of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateReference {
    /// The name of the Gate.
    pub name: String,
}

/// How far one step is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// The step, by its id.
    pub id: String,
    /// The digest of the step: with another one, it is another step.
    pub digest: String,
    /// How far it is.
    pub state: StepState,
    /// Why, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Since when.
    #[schemars(with = "Time")]
    pub since: Timestamp,
    /// Whether its approvals are used up although it is not done: it was tried and no effect of it was seen, it was done by
    /// the leave of another change set, or what it is for was not written, was written otherwise, or is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spent: bool,
    /// The object, by its uid, for which it is being taken, or that was as the change set says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The generation of the object with which it is as the change set says: with any other the step has no leave by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

/// A nonce, and the review that used it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsedNonce {
    /// Whose nonce it is.
    pub reviewer: String,
    /// The nonce.
    pub nonce: String,
    /// The review, by its uid.
    pub review: String,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StepState {
    /// Its turn has not come.
    Pending,
    /// It waits for a person, or for a budget.
    Waiting,
    /// It may be taken.
    Approved,
    /// It is being taken.
    Running,
    /// It was taken, and observed to be.
    Done,
    /// It failed.
    Failed,
    /// It is no longer what was approved.
    Stale,
}

impl StepStatus {
    /// Whether the leave of its change set is used up: it was taken, or can be taken by it no more.
    pub fn is_used_up(&self) -> bool {
        self.state == StepState::Done || self.spent
    }
}

impl ChangeSetStatus {
    /// The generations of objects with which these are as the change set says, by the digests of their steps. Of a step that
    /// is not among them, that is not known.
    pub fn generations(&self) -> BTreeMap<&str, i64> {
        let of_all = self.steps.iter().filter_map(|step| Some((step.digest.as_str(), self.object_generation?)));
        let of_each = self.step_states.iter().filter_map(|state| Some((state.digest.as_str(), state.generation?)));
        of_all.chain(of_each).collect()
    }
}

impl ChangeSet {
    /// Everything that is wrong with it.
    pub fn validate(&self) -> Errors {
        let mut errors = Errors::default();
        let spec = &self.spec;
        rules::object_name(&SPEC.field("environment"), &spec.environment, &mut errors);
        let requested_by = SPEC.field("requestedBy");
        if spec.requested_by.is_empty() {
            errors.required(&requested_by, "the user who asks");
        }
        rules::one_line(&requested_by, &spec.requested_by, 253, &mut errors);
        rules::count(&SPEC.field("deletes"), spec.deletes.len(), MAX_OBJECTS, &mut errors);
        let path = SPEC.field("objects");
        rules::count(&path, spec.objects.len(), MAX_OBJECTS, &mut errors);
        for (index, object) in spec.objects.iter().enumerate().take(MAX_OBJECTS) {
            validate_object(&path.index(index), object, &mut errors);
        }
        errors
    }

    /// Everything that is wrong with it as the successor of `old`.
    pub fn validate_update(&self, old: &ChangeSet) -> Errors {
        let mut errors = self.validate();
        if self.spec != old.spec {
            errors.forbidden(&SPEC, "the spec of a change set cannot be changed");
        }
        errors
    }
}

fn validate_object(path: &Path<'_>, object: &Map<String, Value>, errors: &mut Errors) {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    for name in ["apiVersion", "kind"] {
        if text(name).is_empty() {
            errors.required(&path.field(name), "");
        }
    }
    let name = object.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
    if name.unwrap_or_default().is_empty() {
        let metadata = path.field("metadata");
        errors.required(&metadata.field("name"), "");
    }
    if text("kind") == "Secret" || object.values().any(holds_a_secret) {
        errors.forbidden(&path.field("kind"), "a change set never carries Secrets");
    } else if text("kind").ends_with("List") && object.get("items").is_some_and(Value::is_array) {
        errors.forbidden(&path.field("kind"), "a change set names its objects one by one, not in lists");
    }
}

/// Whether a Secret with its content stands somewhere inside, as in the items of a list.
fn holds_a_secret(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(holds_a_secret),
        Value::Object(members) => {
            let is_secret = members.get("kind").is_some_and(|kind| kind == "Secret");
            let has_content = ["data", "stringData"].iter().any(|name| members.contains_key(*name));
            (is_secret && has_content) || members.values().any(holds_a_secret)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Whole objects of any kind but Secret.
fn objects_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": MAX_OBJECTS,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "description": "An object as it would be.",
            "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [
                { "rule": "self.kind != 'Secret'", "message": "a change set never carries Secrets" },
                {
                    "rule": "!(self.kind in ['List', 'SecretList'])",
                    "message": "a change set names its objects one by one, not in lists",
                },
            ],
        },
    })
}
