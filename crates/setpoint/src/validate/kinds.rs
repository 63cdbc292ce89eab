//! The kinds that documents are checked by: those of the server itself, with the same rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use setpoint_api::crds;
use setpoint_api::documents::{self, DocumentError};
use setpoint_api::field::{Errors, FieldError, Node};
use setpoint_api::planspec::{Gate, Goal, Plan};
use setpoint_apiserver::custom::definition;
use setpoint_apiserver::registry::Resource;
use setpoint_apiserver::schema::{DecodeError, Decoded, Schemas};
use setpoint_apiserver::{built_in, object_meta};
use setpoint_core::graph;

/// What is wrong with an object, and where. A problem of the object as a whole has no field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) field: String,
    pub(super) message: String,
}

/// What came of looking at an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Checked(Vec<Problem>),
    /// Nothing is known here of its kind, which may well be another server's.
    Unknown,
}

pub(super) struct Kinds {
    resources: BTreeMap<(String, String), Arc<Resource>>,
}

impl Kinds {
    /// Kubernetes' kinds, as far as this server has them, and our own.
    pub(super) fn new() -> Kinds {
        let schemas = Schemas::built_in();
        let built_in = built_in::registry(&schemas);
        let mut resources: Vec<Arc<Resource>> = built_in.resources().cloned().collect();
        for definition in crds::all() {
            let mut definition = serde_json::to_value(definition).expect("a definition is JSON");
            definition["status"] = json!({"acceptedNames": definition["spec"]["names"]});
            let of_definition = definition::resources(&definition, &schemas, &Arc::default());
            resources.extend(of_definition.into_iter().map(Arc::new));
        }
        let named = resources.into_iter().map(|resource| {
            let version = &resource.version;
            let version =
                if resource.group.is_empty() { version.to_string() } else { format!("{}/{version}", resource.group) };
            ((version, resource.kind.to_string()), resource)
        });
        Kinds { resources: named.collect() }
    }

    /// Everything that is wrong with an object, as far as it can be told without a server.
    pub(super) fn check(&self, object: &Value) -> Verdict {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let resource = self.resources.get(&(text("apiVersion"), text("kind")));
        let own = match documents::decode(object.clone()) {
            Err(DocumentError::UnknownKind { .. }) if resource.is_some() => Vec::new(),
            Err(DocumentError::UnknownKind { api_version, .. }) if !self.is_own(&api_version) => {
                return Verdict::Unknown;
            }
            Err(DocumentError::UnknownFields(fields)) => fields.iter().map(Problem::unknown).collect(),
            Err(error) => vec![Problem::whole(&error)],
            Ok(document) => document.unknown.iter().map(Problem::unknown).collect(),
        };
        let mut problems: Vec<Problem> = own;
        if let Some(resource) = resource {
            match errors(resource, object, &mut problems) {
                Ok(errors) => {
                    problems.extend(errors.iter().map(Problem::of));
                    problems.extend(
                        (errors.untold() > 0).then(|| Problem::whole(&format!("and {} more", errors.untold()))),
                    );
                }
                Err(error) => problems.push(Problem::undecodable(error)),
            }
        }
        Verdict::Checked(problems)
    }

    /// Whether a group is ours to know every kind of.
    fn is_own(&self, api_version: &str) -> bool {
        self.resources.keys().any(|(known, _)| known == api_version)
    }
}

/// What the server would say of a new object, in its order: types, defaults, metadata, then the rules of the kind.
fn errors(resource: &Resource, object: &Value, problems: &mut Vec<Problem>) -> Result<Errors, DecodeError> {
    let mut decoded = match &resource.custom {
        // What it does not know of our own kinds was said already, with what may have been meant.
        Some(custom) => {
            Decoded { remarks: Vec::new(), ..custom.decode(Decoded { object: object.clone(), remarks: Vec::new() })? }
        }
        None => resource.schema.decode(object)?,
    };
    problems.extend(decoded.remarks.drain(..).map(|remark| Problem { field: String::new(), message: remark }));
    let object = &mut decoded.object;
    resource.behaviour.default(object);
    resource.behaviour.prepare_create(object);
    if resource.namespaced && object["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
        object["metadata"]["namespace"] = json!("default");
    }
    if object["metadata"]["name"].is_null() && object["metadata"]["generateName"].is_string() {
        object["metadata"]["name"] =
            json!(format!("{}00000", object["metadata"]["generateName"].as_str().unwrap_or_default()));
    }
    let mut errors = Errors::default();
    let (root, name_rule) =
        (Node::root(object), |name: &str, prefix: bool| resource.behaviour.validate_name(name, prefix));
    object_meta::validate(root.field("metadata"), resource.namespaced, &name_rule, &mut errors);
    resource.behaviour.validate(Node::root(object), &mut errors);
    if errors.is_empty() {
        plan_spec(object, &mut errors);
    }
    Ok(errors)
}

/// PlanSpec's documents are stored as they are, and what is wrong with them is said in their status. Here it is said before.
fn plan_spec(object: &Value, errors: &mut Errors) {
    if object["apiVersion"] != "planspec.io/v1alpha1" {
        return;
    }
    match object["kind"].as_str() {
        Some("Goal") => with(object, |goal: Goal| goal.validate(errors)),
        Some("Plan") => with(object, |plan: Plan| graph::validate(&plan, errors)),
        Some("Gate") => with(object, |gate: Gate| gate.validate(errors)),
        _ => {}
    }
}

/// What its schema lets pass can be read.
fn with<K: DeserializeOwned>(object: &Value, check: impl FnOnce(K)) {
    if let Ok(kind) = serde_json::from_value(object.clone()) {
        check(kind);
    }
}

impl Problem {
    pub(super) fn whole(message: &impl ToString) -> Problem {
        Problem { field: String::new(), message: message.to_string() }
    }

    fn of(error: &FieldError) -> Problem {
        // What stands at the top has no name of its own.
        let field = if error.field == "<nil>" { String::new() } else { error.field.clone() };
        Problem { field, message: error.message.clone() }
    }

    fn unknown(field: &documents::UnknownField) -> Problem {
        let hint = field.suggestion.as_ref().map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default();
        Problem { field: field.path.clone(), message: format!("unknown field{hint}") }
    }

    fn undecodable(error: DecodeError) -> Problem {
        match error {
            DecodeError::Type { field, expected, found } => {
                Problem { field, message: format!("expected {expected}, found {found}") }
            }
            other => Problem::whole(&other),
        }
    }
}
