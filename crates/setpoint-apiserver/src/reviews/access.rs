//! May somebody do this: what an access review asks, what is wrong with one, and its answer.

use serde_json::{Map, Value, json};

use super::Review;
use crate::authentication::Identity;
use crate::authorization::{Attributes, Decision, Target};
use setpoint_api::field::{Errors, Fault, Node, Path};
use setpoint_api::names;

/// Whom a review is about; for one about oneself, its asker.
pub fn subject(review: Review, spec: &Value, asker: &Identity) -> Identity {
    if review == Review::SelfSubjectAccess {
        return asker.clone();
    }
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let extra = spec["extra"].as_object().into_iter().flatten();
    Identity {
        user: text("user"),
        uid: text("uid"),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.to_lowercase(), texts(values))).collect(),
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What is asked. Selectors are not looked at: no rule of a role does.
pub fn attributes<'a>(spec: &'a Value, user: &'a Identity) -> Attributes<'a> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let text = |field: &str| resource[field].as_str().unwrap_or_default();
    if resource.is_object() {
        let target = Target::Resource {
            group: text("group"),
            resource: text("resource"),
            subresource: text("subresource"),
            name: text("name"),
            namespace: text("namespace"),
        };
        return Attributes { user, verb: text("verb"), target };
    }
    let text = |field: &str| path[field].as_str().unwrap_or_default();
    Attributes { user, verb: text("verb"), target: Target::Path(text("path")) }
}

/// The answer.
pub fn status(decision: &Decision<'_>) -> Value {
    let mut status = Map::from_iter([("allowed".to_owned(), json!(decision.is_allowed()))]);
    let reason = decision.reason();
    if !reason.is_empty() {
        status.insert("reason".to_owned(), reason.into());
    }
    Value::Object(status)
}

/// Everything that must hold of a review before it is answered.
pub fn validate(review: Review, object: Node<'_, '_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let (resource, path) = (spec.field("resourceAttributes"), spec.field("nonResourceAttributes"));
    match (resource.is_set(), path.is_set()) {
        (true, true) => {
            invalid_path_attributes(path, "cannot be specified in combination with resourceAttributes", errors);
        }
        (false, false) => errors.invalid(
            &resource.path,
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => {}
    }
    if review != Review::SelfSubjectAccess && spec.field("user").str().is_empty() && spec.field("groups").is_empty() {
        errors.invalid(&spec.path.field("user"), "", "at least one of user or group must be specified");
    }
    validate_selector(resource.field("fieldSelector"), false, errors);
    validate_selector(resource.field("labelSelector"), true, errors);
    validate_metadata(review, object.field("metadata"), errors);
    if review == Review::LocalSubjectAccess {
        let namespace = resource.field("namespace");
        if resource.is_set() && namespace.str() != object.field("metadata").field("namespace").str() {
            errors.invalid(&namespace.path, namespace.str(), "must match metadata.namespace");
        }
        if path.is_set() {
            invalid_path_attributes(path, "disallowed on this kind of request", errors);
        }
    }
}

/// Shown as Go has the fields, which have no other names within Kubernetes.
fn invalid_path_attributes(attributes: Node<'_, '_>, detail: &str, errors: &mut Errors) {
    let text = |field: &str| Value::from(attributes.value[field].as_str().unwrap_or_default());
    errors.push(Fault::Invalid, &attributes.path, || {
        format!(r#"Invalid value: {{"Path":{},"Verb":{}}}: {detail}"#, text("path"), text("verb"))
    });
}

/// A question has no name and no labels: it is not kept.
fn validate_metadata(review: Review, metadata: Node<'_, '_>, errors: &mut Errors) {
    let is_local = review == Review::LocalSubjectAccess;
    let mut fields = metadata.value.as_object().into_iter().flatten();
    if fields.any(|(field, value)| !(value.is_null() || is_local && field == "namespace")) {
        let detail = if is_local { "must be empty except for namespace" } else { "must be empty" };
        errors.invalid(&metadata.path, metadata.value, detail);
    }
}

/// A selector in its text or in its parts. Operators that only newer clients know are let through.
fn validate_selector(selector: Node<'_, '_>, of_labels: bool, errors: &mut Errors) {
    if !selector.is_set() {
        return;
    }
    let (raw, requirements) = (selector.field("rawSelector"), selector.field("requirements"));
    match (raw.str().is_empty(), requirements.is_empty()) {
        (false, false) => errors.invalid(&raw.path, raw.str(), "may not specified at the same time as requirements"),
        (true, true) => {
            let detail = format!("when {} is specified, requirements or rawSelector is required", selector.path);
            errors.required(&requirements.path, &detail);
        }
        _ => {}
    }
    for requirement in requirements.items() {
        let (key, values) = (requirement.field("key"), requirement.field("values"));
        match requirement.field("operator").str() {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(&values.path, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.forbidden(&values.path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            _ => {}
        }
        if of_labels {
            let mut check = |path: &Path<'_>, value: &str, faults: Vec<String>| {
                faults.iter().for_each(|fault| errors.invalid(path, value, fault));
            };
            check(&key.path, key.str(), names::qualified_name(key.str()));
            values.items().for_each(|value| check(&value.path, value.str(), names::label_value(value.str())));
        } else if key.str().is_empty() {
            errors.required(&key.path, "must be specified");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(review: Review, object: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        validate(review, Node::root(object), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_review_asks_one_question_about_somebody() {
        let pods = json!({"verb": "get", "resource": "pods", "namespace": "n"});
        let selector = |kind: &str, selector: Value| {
            let mut attributes = pods.clone();
            attributes[kind] = selector;
            json!({"metadata": {}, "spec": {"resourceAttributes": attributes}})
        };
        let path = json!({"path": "/", "verb": "get"});
        use Review::{LocalSubjectAccess, SelfSubjectAccess, SubjectAccess};
        let rows: &[(&str, Review, Value, &[&str])] = &[
            ("about a resource", SelfSubjectAccess, json!({"spec": {"resourceAttributes": pods}}), &[]),
            ("about a path", SelfSubjectAccess, json!({"spec": {"nonResourceAttributes": path}}), &[]),
            (
                "about nothing",
                SelfSubjectAccess,
                json!({"spec": {}}),
                &[
                    "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
                ],
            ),
            (
                "about two things",
                SelfSubjectAccess,
                json!({"spec": {"resourceAttributes": pods, "nonResourceAttributes": path}}),
                &[
                    r#"spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: cannot be specified in combination with resourceAttributes"#,
                ],
            ),
            (
                "about nobody",
                SubjectAccess,
                json!({"spec": {"resourceAttributes": pods}}),
                &[r#"spec.user: Invalid value: "": at least one of user or group must be specified"#],
            ),
            ("about a group", SubjectAccess, json!({"spec": {"groups": ["g"], "resourceAttributes": pods}}), &[]),
            (
                "with a name",
                SelfSubjectAccess,
                json!({"metadata": {"name": "x"}, "spec": {"resourceAttributes": pods}}),
                &[r#"metadata: Invalid value: {"name":"x"}: must be empty"#],
            ),
            (
                "in its namespace",
                LocalSubjectAccess,
                json!({"metadata": {"namespace": "n"}, "spec": {"user": "u", "resourceAttributes": pods}}),
                &[],
            ),
            (
                "in another namespace",
                LocalSubjectAccess,
                json!({"metadata": {"namespace": "m"}, "spec": {"user": "u", "resourceAttributes": pods}}),
                &[r#"spec.resourceAttributes.namespace: Invalid value: "n": must match metadata.namespace"#],
            ),
            (
                "of a namespace, about a path",
                LocalSubjectAccess,
                json!({"metadata": {"namespace": "m"}, "spec": {"user": "u", "nonResourceAttributes": path}}),
                &[
                    r#"spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: disallowed on this kind of request"#,
                ],
            ),
            (
                "with an empty selector",
                SelfSubjectAccess,
                selector("fieldSelector", json!({})),
                &[
                    "spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
                ],
            ),
            (
                "with a selector said twice",
                SelfSubjectAccess,
                selector(
                    "labelSelector",
                    json!({"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "Exists"}]}),
                ),
                &[
                    r#"spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a=b": may not specified at the same time as requirements"#,
                ],
            ),
            (
                "with a selector that selects nothing",
                SelfSubjectAccess,
                selector("fieldSelector", json!({"requirements": [{"key": "", "operator": "In"}]})),
                &[
                    "spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                    "spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified",
                ],
            ),
            (
                "with an operator of the future",
                SelfSubjectAccess,
                selector("fieldSelector", json!({"requirements": [{"key": "a", "operator": "Near"}]})),
                &[],
            ),
        ];
        for (row, review, object, expected) in rows {
            assert_eq!(faults(*review, object), *expected, "{row}");
        }
    }

    #[test]
    fn a_review_about_oneself_cannot_be_about_another() {
        let asker = Identity::new("alice", ["devs"]);
        let spec = json!({"user": "bob", "groups": ["system:masters"], "uid": "u", "extra": {"Team": ["blue"]}});
        assert_eq!(subject(Review::SelfSubjectAccess, &spec, &asker), asker);
        let bob = subject(Review::SubjectAccess, &spec, &asker);
        assert_eq!((bob.user.as_str(), bob.uid.as_str(), bob.groups), ("bob", "u", vec!["system:masters".to_owned()]));
        assert_eq!(bob.extra["team"], ["blue"]);
    }
}
