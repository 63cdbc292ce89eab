//! Namespaces: named by a label, active until they are deleted, gone when nobody has a finalizer on them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::defaults;
use crate::columns;
use crate::kind::{Behaviour, Column, Part, SelectableField};
use crate::object_meta;
use setpoint_api::field::{Errors, Node, Path};
use setpoint_api::labels;
use setpoint_api::names;

/// The part of a Namespace that removes `spec.finalizers`.
pub const FINALIZE: Part = Part::Other("finalize");
/// The finalizer that stands until a deleted namespace has been emptied.
pub const FINALIZER: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// Namespaces that are never deleted.
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

#[derive(Debug, Clone, Copy)]
pub struct Namespace;

/// Why a namespace may not be deleted; none if it may.
pub fn deletion_refusal(name: &str) -> Option<&'static str> {
    PROTECTED.contains(&name).then_some("this namespace may not be deleted")
}

impl Behaviour for Namespace {
    fn default(&self, object: &mut Value) {
        label_with_name(object);
        defaults::section(object, "spec");
        defaults::fill_text(defaults::section(object, "status"), "phase", "Active");
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"phase": "Active"});
        let finalizers = &mut defaults::section(object, "spec")["finalizers"];
        match finalizers {
            Value::Array(names) if names.iter().any(|name| name == FINALIZER) => {}
            Value::Array(names) => names.push(FINALIZER.into()),
            _ => *finalizers = json!([FINALIZER]),
        }
        label_with_name(object);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        match part {
            Part::Main => object["spec"] = old["spec"].clone(),
            FINALIZE => object["status"] = old["status"].clone(),
            _ => {}
        }
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        names::object_name(names::dns1123_label, name, prefix)
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        let spec = object.field("spec");
        let finalizers = spec.field("finalizers");
        for finalizer in finalizers.items() {
            validate_finalizer(finalizer.str(), &finalizers.path, errors);
        }
    }

    fn validate_update(&self, object: Node<'_, '_>, _old: &Value, part: Part, errors: &mut Errors) {
        match part {
            Part::Main => self.validate(object, errors),
            Part::Status => validate_phase(object, errors),
            Part::Other(_) => {
                for finalizer in object.field("spec").field("finalizers").items() {
                    validate_finalizer(finalizer.str(), &finalizer.path, errors);
                }
            }
        }
    }

    fn columns(&self) -> &[Column] {
        const COLUMNS: [Column; 3] =
            [columns::NAME, columns::text("Status", "The status of the namespace"), columns::AGE];
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name_cell(object), object["status"]["phase"].clone(), columns::age_cell(object, now)]
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        &[SelectableField {
            name: "status.phase",
            value: |object| object["status"]["phase"].as_str().unwrap_or_default().to_owned(),
        }]
    }
}

/// Selectors can choose a namespace by its name, because the name is a label too, whatever its writer says.
fn label_with_name(object: &mut Value) {
    let metadata = defaults::section(object, "metadata");
    if let Some(name) = metadata["name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned) {
        defaults::section(metadata, "labels")[NAME_LABEL] = Value::from(name);
    }
}

fn validate_finalizer(name: &str, path: &Path<'_>, errors: &mut Errors) {
    labels::validate_label_key(name, path, errors);
    object_meta::validate_standard_finalizer(name, path, errors);
}

fn validate_phase(object: Node<'_, '_>, errors: &mut Errors) {
    let (expected, detail) = if object.field("metadata").field("deletionTimestamp").is_set() {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    } else {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    };
    let status = object.field("status");
    let phase = status.field("phase").str();
    if phase != expected {
        errors.invalid(&status.path.field("Phase"), phase, detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(object: Value, part: Part) -> Vec<String> {
        let mut errors = Errors::default();
        Namespace.validate_update(Node::root(&object), &Value::Null, part, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_new_namespace_is_active_named_and_held() {
        let mut object =
            json!({"metadata": {"name": "a", "labels": {NAME_LABEL: "b"}}, "spec": {"finalizers": ["x/y"]}});
        Namespace.default(&mut object);
        Namespace.prepare_create(&mut object);
        let expected = json!({
            "metadata": {"name": "a", "labels": {NAME_LABEL: "a"}},
            "spec": {"finalizers": ["x/y", "kubernetes"]},
            "status": {"phase": "Active"},
        });
        assert_eq!(object, expected);
        Namespace.prepare_create(&mut object);
        assert_eq!(object, expected);
    }

    #[test]
    fn only_finalize_changes_finalizers() {
        let old = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"}});
        let mut object = json!({"spec": {}, "status": {"phase": "Active"}});
        Namespace.prepare_update(&mut object, &old, FINALIZE);
        assert_eq!(object, json!({"spec": {}, "status": {"phase": "Terminating"}}));
        Namespace.prepare_update(&mut object, &old, Part::Main);
        assert_eq!(object["spec"], old["spec"]);
    }

    #[test]
    fn the_phase_follows_deletion() {
        let deleted = json!({"metadata": {"deletionTimestamp": "t"}, "status": {"phase": "Active"}});
        assert_eq!(
            messages(deleted.clone(), Part::Status),
            [r#"status.Phase: Invalid value: "Active": may only be 'Terminating' if `deletionTimestamp` is not empty"#]
        );
        assert_eq!(
            messages(json!({"status": {"phase": "Terminating"}}), Part::Status),
            [r#"status.Phase: Invalid value: "Terminating": may only be 'Active' if `deletionTimestamp` is empty"#]
        );
        let mut object = deleted;
        object["status"]["phase"] = json!("Terminating");
        assert!(messages(object, Part::Status).is_empty());
    }

    #[test]
    fn finalizers_belong_to_somebody() {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        let object = json!({"spec": {"finalizers": ["kubernetes", "mine"]}});
        assert_eq!(
            messages(object.clone(), Part::Main),
            [format!(r#"spec.finalizers: Invalid value: "mine": {detail}"#)]
        );
        assert_eq!(messages(object, FINALIZE), [format!(r#"spec.finalizers[1]: Invalid value: "mine": {detail}"#)]);
    }

    #[test]
    fn some_namespaces_stay() {
        assert_eq!(deletion_refusal("kube-system"), Some("this namespace may not be deleted"));
        assert_eq!(deletion_refusal("mine"), None);
    }
}
