//! A node of a Plan's graph: a task, a gate, a group of nodes, or something outside that is waited for.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::ContextItem;
use super::criterion::Criterion;
use super::duration::Duration;
use super::reference::{ObjectReference, ResourceReference};
use crate::field::{Errors, Path};

const ID_MAX: usize = 63;
const RETRIES_MAX: i32 = 10;

/// A node of a plan's graph.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.kind == 'Gate' ? has(self.gateRef) : !has(self.gateRef)")
        .message("a Gate node needs gateRef, and no other may have it"),
    validation = Rule::new("(self.kind == 'Group') == (has(self.children) && size(self.children) > 0)")
        .message("a Group node needs children, and no other may have them"),
    validation = Rule::new("self.kind == 'Group' || !has(self.mode)").message("only a Group node may have a mode"),
    validation = Rule::new("self.kind == 'External' ? has(self.externalRef) : !has(self.externalRef)")
        .message("an External node needs externalRef, and no other may have it"),
    validation = Rule::new("self.kind == 'External' || !has(self.pollInterval)")
        .message("only an External node may have a pollInterval")
)]
pub struct Node {
    /// The name of the node within its plan.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"))]
    pub id: String,
    /// What kind of node it is.
    pub kind: NodeKind,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is done, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// For a task: what whoever does it has to be able to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capability_refs: Vec<ObjectReference>,
    /// For a task: what it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::free_form::object")]
    pub inputs: Option<Value>,
    /// For a task: the names of what it makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub outputs: Option<Vec<String>>,
    /// How long the node may take, such as `4h` or `1d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// For a task: how often it is tried again after it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub retries: Option<i32>,
    /// The condition on which the node is carried out at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What helps whoever does it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<ContextItem>,
    /// For a gate: the Gate that is waited on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_ref: Option<ObjectReference>,
    /// For a task: how to tell that it is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance_criteria: Vec<Criterion>,
    /// For a task: how much work it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_effort: Option<Effort>,
    /// The nodes that come before this one; another way to write edges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// For a group: the nodes in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub children: Vec<String>,
    /// For a group: whether its nodes go side by side or one after another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<GroupMode>,
    /// For an external node: what is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_ref: Option<ExternalReference>,
    /// For an external node: how often to look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_interval: Option<Duration>,
}

/// What kind of node it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum NodeKind {
    /// Work.
    #[default]
    Task,
    /// A decision by people.
    Gate,
    /// Other nodes, together.
    Group,
    /// Something that happens elsewhere.
    External,
}

/// How the nodes of a group go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GroupMode {
    /// Side by side.
    Parallel,
    /// One after another, as they are listed.
    Sequence,
}

/// How much work a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    Small,
    Medium,
    Large,
    Xlarge,
}

/// Something outside the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type != 'uri' || has(self.uri)").message("type uri needs uri"),
    validation = Rule::new("self.type != 'resource' || has(self.resourceRef)").message("type resource needs resourceRef"),
    validation = Rule::new("self.type != 'webhook' || has(self.webhookUrl)").message("type webhook needs webhookUrl")
)]
pub struct ExternalReference {
    /// Where it is.
    #[serde(rename = "type")]
    pub type_: ExternalType,
    /// For `uri`: its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// For `resource`: the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_ref: Option<ResourceReference>,
    /// For `webhook`: the URL that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
}

/// Where something outside the plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExternalType {
    /// At an address.
    Uri,
    /// In an object of this API.
    Resource,
    /// Behind a webhook.
    Webhook,
}

impl Node {
    pub(super) fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        if self.id.is_empty() {
            errors.required(&path.field("id"), "");
        } else {
            validate_id(&self.id, &path.field("id"), errors);
        }
        self.validate_kind(path, errors);
        self.validate_work(path, errors);
        self.validate_references(path, errors);
    }

    /// A node has what makes it a node of its kind, and nothing that would make it one of another. (Published documents
    /// put `retries`, `inputs` and the like on any kind; they are kept, and mean something on tasks.)
    fn validate_kind(&self, path: &Path<'_>, errors: &mut Errors) {
        let fields = [
            ("gateRef", NodeKind::Gate, true, self.gate_ref.is_some()),
            ("children", NodeKind::Group, true, !self.children.is_empty()),
            ("mode", NodeKind::Group, false, self.mode.is_some()),
            ("externalRef", NodeKind::External, true, self.external_ref.is_some()),
            ("pollInterval", NodeKind::External, false, self.poll_interval.is_some()),
        ];
        for (field, kind, needed, present) in fields {
            if self.kind == kind && needed && !present {
                errors.required(&path.field(field), &format!("for a node of kind {kind:?}"));
            }
            if self.kind != kind && present {
                errors.forbidden(&path.field(field), &format!("may only be set on a node of kind {kind:?}"));
            }
        }
    }

    fn validate_work(&self, path: &Path<'_>, errors: &mut Errors) {
        crate::free_form::validate_object(self.inputs.as_ref(), &path.field("inputs"), errors);
        no_duplicates(self.outputs.as_deref().unwrap_or_default(), &path.field("outputs"), errors);
        no_duplicates(&self.children, &path.field("children"), errors);
        if let Some(retries) = self.retries.filter(|retries| !(0..=RETRIES_MAX).contains(retries)) {
            errors.invalid(&path.field("retries"), retries, "must be between 0 and 10, inclusive");
        }
        for (field, duration) in [("timeout", &self.timeout), ("pollInterval", &self.poll_interval)] {
            if let Some(duration) = duration {
                duration.validate(&path.field(field), errors);
            }
        }
        let criteria = path.field("acceptanceCriteria");
        for (index, criterion) in self.acceptance_criteria.iter().enumerate() {
            criterion.validate(&criteria.index(index), errors);
        }
    }

    fn validate_references(&self, path: &Path<'_>, errors: &mut Errors) {
        let capabilities = path.field("capabilityRefs");
        for (index, capability) in self.capability_refs.iter().enumerate() {
            capability.validate(&capabilities.index(index), errors);
        }
        if let Some(gate) = &self.gate_ref {
            gate.validate(&path.field("gateRef"), errors);
        }
        if let Some(external) = &self.external_ref {
            external.validate(&path.field("externalRef"), errors);
        }
    }
}

impl ExternalReference {
    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        let (needed, word, present) = match self.type_ {
            ExternalType::Uri => ("uri", "uri", self.uri.is_some()),
            ExternalType::Resource => ("resourceRef", "resource", self.resource_ref.is_some()),
            ExternalType::Webhook => ("webhookUrl", "webhook", self.webhook_url.is_some()),
        };
        if !present {
            errors.required(&path.field(needed), &format!("for a reference of type {word}"));
        }
        if let Some(resource) = &self.resource_ref {
            resource.validate(&path.field("resourceRef"), errors);
        }
    }
}

/// Checks a name within a document: a DNS label, in which the published rules allow underscores too.
pub(super) fn validate_id(id: &str, path: &Path<'_>, errors: &mut Errors) {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let inner = |byte: u8| edge(Some(byte)) || byte == b'-' || byte == b'_';
    let bytes = id.as_bytes();
    if !edge(bytes.first().copied()) || !edge(bytes.last().copied()) || !bytes.iter().all(|byte| inner(*byte)) {
        errors.invalid(
            path,
            id,
            "must be lower-case letters, digits, '-' and '_', and begin and end with a letter or digit",
        );
    }
    if id.len() > ID_MAX {
        errors.too_long(path, ID_MAX);
    }
}

fn no_duplicates(items: &[String], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        if !seen.insert(item) {
            errors.duplicate(&path.index(index), item);
        }
    }
}
