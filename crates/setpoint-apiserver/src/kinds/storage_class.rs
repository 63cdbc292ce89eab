//! StorageClasses: kinds of storage, and who makes volumes of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use serde_json::Value;

use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};
use setpoint_api::labels;
use setpoint_api::names;

use super::defaults::fill;
use super::immutable::validate_immutable;

#[derive(Debug)]
pub struct StorageClass;

const DEFAULT_ANNOTATION: &str = "storageclass.kubernetes.io/is-default-class";
const PARAMETERS_MAX: usize = 512;
const PARAMETERS_MAX_BYTES: usize = 256 * 1024;

const COLUMNS: [Column; 6] = [
    columns::NAME,
    columns::text("Provisioner", "Who makes the volumes."),
    columns::text("ReclaimPolicy", "What becomes of a volume whose claim is deleted."),
    columns::text("VolumeBindingMode", "When a volume is made."),
    columns::text("AllowVolumeExpansion", "Whether volumes can grow."),
    columns::AGE,
];

impl Behaviour for StorageClass {
    fn default(&self, object: &mut Value) {
        fill(object, "reclaimPolicy", "Delete");
        fill(object, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        let provisioner = object.field("provisioner");
        if provisioner.str().is_empty() {
            errors.required(&provisioner.path, "");
        } else {
            let lower = provisioner.str().to_lowercase();
            for message in names::qualified_name(&lower) {
                errors.invalid(&provisioner.path, &lower, &message);
            }
        }
        validate_parameters(object.field("parameters"), errors);
        let (reclaim, binding) = (object.field("reclaimPolicy"), object.field("volumeBindingMode"));
        if !["", "Delete", "Retain"].contains(&reclaim.str()) {
            errors.unsupported(&reclaim.path, reclaim.str(), &["Delete", "Retain"]);
        }
        if !["Immediate", "WaitForFirstConsumer"].contains(&binding.str()) {
            errors.unsupported(&binding.path, binding.str(), &["Immediate", "WaitForFirstConsumer"]);
        }
        validate_topologies(object.field("allowedTopologies"), errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, _part: Part, errors: &mut Errors) {
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            validate_immutable(object.field(field), &old[field], errors);
        }
    }

    fn left_undone(&self) -> Option<&'static str> {
        Some("no volumes will be provisioned")
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let is_default = object["metadata"]["annotations"][DEFAULT_ANNOTATION] == "true";
        let text = |field: &str| Value::from(object[field].as_str().unwrap_or_default());
        vec![
            if is_default { format!("{name} (default)") } else { name.to_owned() }.into(),
            text("provisioner"),
            text("reclaimPolicy"),
            text("volumeBindingMode"),
            object["allowVolumeExpansion"].as_bool().unwrap_or(false).into(),
            columns::age_cell(object, now),
        ]
    }
}

fn validate_parameters(parameters: Node<'_, '_>, errors: &mut Errors) {
    if parameters.len() > PARAMETERS_MAX {
        return errors.too_long(&parameters.path, PARAMETERS_MAX);
    }
    if parameters.entries().any(|(key, _)| key.is_empty()) {
        errors.invalid(&parameters.path, "", "field can not be empty.");
    }
    if parameters.entries().map(|(key, value)| key.len() + value.str().len()).sum::<usize>() > PARAMETERS_MAX_BYTES {
        errors.too_long(&parameters.path, PARAMETERS_MAX_BYTES);
    }
}

/// Where volumes may be made: no two terms may say the same, nor one term name a label twice.
fn validate_topologies(topologies: Node<'_, '_>, errors: &mut Errors) {
    let mut terms = HashSet::new();
    for term in topologies.items() {
        let mut labels_of_term: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let expressions = term.field("matchLabelExpressions");
        for expression in expressions.items() {
            let (key, values) = (expression.field("key"), expression.field("values"));
            if values.is_empty() {
                errors.required(&values.path, "");
            }
            let mut distinct = BTreeSet::new();
            for value in values.items() {
                if !distinct.insert(value.str()) {
                    errors.duplicate(&value.path, value.str());
                }
            }
            labels::validate_label_key(key.str(), &key.path, errors);
            if labels_of_term.insert(key.str(), distinct).is_some() {
                errors.duplicate(&key.path, key.str());
            }
        }
        if !terms.insert(labels_of_term) {
            errors.duplicate(&expressions.path, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::probe::{completed, messages, update_messages};

    fn class(more: Value) -> Value {
        let mut object = json!({"metadata": {"name": "fast"}, "provisioner": "example.com/disks"});
        object.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        object
    }

    #[test]
    fn classes_are_completed_and_checked() {
        let object = completed(&StorageClass, &class(json!({})));
        assert_eq!((&object["reclaimPolicy"], &object["volumeBindingMode"]), (&json!("Delete"), &json!("Immediate")));
        let zone = |values: Value| json!({"matchLabelExpressions": [{"key": "zone", "values": values}]});
        let rows = [
            ("a good one", json!({"parameters": {"type": "ssd"}}), vec![]),
            ("nobody", json!({"provisioner": ""}), vec!["provisioner: Required value"]),
            (
                "the unwise policy",
                json!({"reclaimPolicy": "Recycle"}),
                vec![r#"reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain""#],
            ),
            (
                "some other time",
                json!({"volumeBindingMode": "Later"}),
                vec![
                    r#"volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer""#,
                ],
            ),
            (
                "no key",
                json!({"parameters": {"": "a"}}),
                vec![r#"parameters: Invalid value: "": field can not be empty."#],
            ),
            ("two zones", json!({"allowedTopologies": [zone(json!(["a"])), zone(json!(["b"]))]}), vec![]),
            (
                "a zone twice",
                json!({"allowedTopologies": [zone(json!(["a"])), zone(json!(["a", "a"]))]}),
                vec![
                    r#"allowedTopologies[1].matchLabelExpressions[0].values[1]: Duplicate value: "a""#,
                    r#"allowedTopologies[1].matchLabelExpressions: Duplicate value: """#,
                ],
            ),
            (
                "a zone that is none",
                json!({"allowedTopologies": [zone(json!([]))]}),
                vec!["allowedTopologies[0].matchLabelExpressions[0].values: Required value"],
            ),
        ];
        for (name, more, expected) in rows {
            assert_eq!(messages(&StorageClass, &class(more)), expected, "{name}");
        }
    }

    #[test]
    fn a_class_means_the_same_for_ever() {
        let old = class(json!({}));
        let rows = [
            ("growth is allowed", json!({"allowVolumeExpansion": true}), vec![]),
            (
                "others make it",
                json!({"provisioner": "example.com/tapes"}),
                vec![r#"provisioner: Invalid value: "example.com/tapes": field is immutable"#],
            ),
            (
                "parameters",
                json!({"parameters": {"type": "ssd"}}),
                vec![r#"parameters: Invalid value: {"type":"ssd"}: field is immutable"#],
            ),
            (
                "what becomes of volumes",
                json!({"reclaimPolicy": "Retain"}),
                vec![r#"reclaimPolicy: Invalid value: "Retain": field is immutable"#],
            ),
            (
                "when volumes are made",
                json!({"volumeBindingMode": "WaitForFirstConsumer"}),
                vec![r#"volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable"#],
            ),
        ];
        for (name, more, expected) in rows {
            assert_eq!(update_messages(&StorageClass, &class(more), &old, Part::Main), expected, "{name}");
        }
    }
}
