//! What becomes of one object: the difference between what is stored and what a dry run answered.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use setpoint_api::requester::REQUESTED_BY;
use setpoint_core::count::counted;

use super::ENVIRONMENT;
use crate::apply::PART_OF;
use crate::change::{Edit, changes};

/// How long a shown value may be.
const LONGEST_VALUE: usize = 120;
/// What is shown of a Secret's values.
const SENSITIVE: &str = "(sensitive)";
/// How many fields of a new object are shown.
const MOST_FIELDS: usize = 40;

/// An object and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectChange {
    /// The kind with its group: `configmap`, `deployment.apps`.
    pub(crate) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) action: ObjectAction,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<FieldEdit>,
    /// What cannot be known before other objects are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ObjectAction {
    Create,
    Update,
    Delete,
    Unchanged,
}

/// A field before and after, as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FieldEdit {
    pub(crate) field: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
}

impl ObjectChange {
    /// What becomes of an object that is stored as `live` and would be stored as `wanted`. Of a new one, the fields are
    /// those that its author wrote.
    pub(crate) fn between(
        kind: String,
        namespace: Option<String>,
        name: String,
        live: Option<&Value>,
        wanted: Option<&Value>,
    ) -> ObjectChange {
        let (action, changes) = match (live, wanted) {
            (Some(live), Some(wanted)) => match edits(live, wanted) {
                edits if edits.is_empty() => (ObjectAction::Unchanged, edits),
                edits => (ObjectAction::Update, edits),
            },
            (None, Some(wanted)) => (ObjectAction::Create, fields(wanted)),
            (Some(_), None) => (ObjectAction::Delete, Vec::new()),
            (None, None) => (ObjectAction::Unchanged, Vec::new()),
        };
        ObjectChange { kind, namespace, name, action, changes, note: None }
    }

    /// Whether others stand on it, so that it goes only after them.
    pub(crate) fn is_ground(&self) -> bool {
        matches!(self.kind.as_str(), "namespace" | ENVIRONMENT | "customresourcedefinition.apiextensions.k8s.io")
    }

    /// The object with what becomes of its labels and annotations alone, which no guest shows; nothing if these stay.
    pub(super) fn only_marks(&self) -> Option<ObjectChange> {
        let is_mark = |edit: &&FieldEdit| edit.field.starts_with("metadata.");
        let changes: Vec<FieldEdit> = self.changes.iter().filter(is_mark).cloned().collect();
        (!changes.is_empty()).then(|| ObjectChange { changes, ..self.clone() })
    }

    /// `shop/settings`, or `lab` for what is in no namespace.
    pub(crate) fn title(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// An object without what a server says of it.
fn without_what_servers_write(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["creationTimestamp", "generation", "resourceVersion", "selfLink", "uid"] {
            metadata.remove(name);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(REQUESTED_BY);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

fn edits(live: &Value, wanted: &Value) -> Vec<FieldEdit> {
    let changes = changes(&without_what_servers_write(live), &without_what_servers_write(wanted));
    let edit = |change: crate::change::Change| {
        let (from, to) = match change.values {
            Some((from, to)) => (shown(&from), shown(&to)),
            None => (SENSITIVE.to_owned(), SENSITIVE.to_owned()),
        };
        FieldEdit {
            field: change.path,
            from: (change.edit != Edit::Added).then_some(from),
            to: (change.edit != Edit::Removed).then_some(to),
        }
    };
    changes.into_iter().map(edit).collect()
}

/// The fields that differ with their values in full, those of a Secret too: for a digest, and not to be shown.
pub(super) fn substance(live: &Value, wanted: &Value) -> Value {
    let nameless = |object: &Value| {
        let mut object = without_what_servers_write(object);
        // What does not say that it is a Secret is compared by its values.
        object.as_object_mut().map(|members| members.remove("kind"));
        object
    };
    changes(&nameless(live), &nameless(wanted)).into_iter().map(|change| json!([change.path, change.values])).collect()
}

/// What the author of a new object wrote, field by field: its marks, and all that is not metadata.
fn fields(object: &Value) -> Vec<FieldEdit> {
    let mut leaves = Vec::new();
    for part in ["labels", "annotations"] {
        let marks = object["metadata"][part].as_object().into_iter().flatten();
        for (name, value) in marks.filter(|(name, _)| name.as_str() != REQUESTED_BY && name.as_str() != PART_OF) {
            collect(&below(&format!("metadata.{part}"), name), value, &mut leaves);
        }
    }
    if let Some(members) = object.as_object() {
        let own = |name: &&String| !["apiVersion", "kind", "metadata", "status"].contains(&name.as_str());
        for name in members.keys().filter(own) {
            collect(name, &members[name], &mut leaves);
        }
    }
    let is_secret = object["kind"] == "Secret";
    let total = leaves.len();
    let mut fields: Vec<FieldEdit> = leaves
        .into_iter()
        .take(MOST_FIELDS)
        .map(|(field, value)| {
            let to = if is_secret && field != "type" { SENSITIVE.to_owned() } else { shown(value) };
            FieldEdit { field, from: None, to: Some(to) }
        })
        .collect();
    if total > MOST_FIELDS {
        let more = counted(total - MOST_FIELDS, "more field");
        fields.push(FieldEdit { field: "…".to_owned(), from: None, to: Some(more) });
    }
    fields
}

fn collect<'a>(path: &str, value: &'a Value, leaves: &mut Vec<(String, &'a Value)>) {
    let is_composite = |value: &Value| value.is_object() || value.is_array();
    match value {
        Value::Object(members) if !members.is_empty() => collect_members(path, members, leaves),
        Value::Array(items) if items.iter().any(is_composite) => {
            for (index, item) in items.iter().enumerate() {
                collect(&format!("{path}[{index}]"), item, leaves);
            }
        }
        leaf => leaves.push((path.to_owned(), leaf)),
    }
}

fn collect_members<'a>(path: &str, members: &'a Map<String, Value>, leaves: &mut Vec<(String, &'a Value)>) {
    for (name, value) in members {
        collect(&below(path, name), value, leaves);
    }
}

fn below(path: &str, name: &str) -> String {
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if is_word { format!("{path}.{name}") } else { format!("{path}[{}]", Value::from(name)) }
}

/// A value as JSON on one line, cut where it is long.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
