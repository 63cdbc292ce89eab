//! ReplicaSets: a number of pods of one template.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};

use super::defaults::{fill, section};
use super::immutable::validate_immutable;
use super::pod_spec::{not_negative, not_negative_if_set};
use super::pod_template::{self, fill_template, hostname_warnings, template_cells, validate_replicated};

#[derive(Debug)]
pub struct ReplicaSet;

const COLUMNS: [Column; 8] = [
    columns::NAME,
    columns::integer("Desired", "How many pods are wanted."),
    columns::integer("Current", "How many pods there are."),
    columns::integer("Ready", "How many pods are ready."),
    columns::AGE,
    pod_template::CONTAINERS,
    pod_template::IMAGES,
    pod_template::SELECTOR,
];

impl Behaviour for ReplicaSet {
    fn default(&self, object: &mut Value) {
        fill_template(object);
        fill(&mut object["spec"], "replicas", 1);
        fill(section(object, "status"), "replicas", 0);
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"replicas": 0});
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        let spec = object.field("spec");
        not_negative_if_set(spec.field("replicas"), errors);
        not_negative_if_set(spec.field("minReadySeconds"), errors);
        validate_replicated(spec, errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        if part == Part::Status {
            return validate_replica_counts(object.field("status"), "fullyLabeledReplicas", errors);
        }
        self.validate(object, errors);
        let spec = object.field("spec");
        validate_immutable(spec.field("selector"), &old["spec"]["selector"], errors);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn warnings(&self, object: Node<'_, '_>, old: Option<&Value>) -> Vec<String> {
        hostname_warnings(object, old)
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = |value: &Value| Value::from(value.as_i64().unwrap_or(0));
        let (spec, status) = (&object["spec"], &object["status"]);
        let counts = [count(&spec["replicas"]), count(&status["replicas"]), count(&status["readyReplicas"])];
        let mut cells = vec![columns::name_cell(object)];
        cells.extend(counts);
        cells.push(columns::age_cell(object, now));
        cells.extend(template_cells(object));
        cells
    }
}

/// Checks the counts in the status of a ReplicaSet or Deployment, which cannot be negative, nor contradict each other.
/// `particular` is the one count that only that kind has.
pub(super) fn validate_replica_counts(status: Node<'_, '_>, particular: &str, errors: &mut Errors) {
    let of = |field: &str| status.field(field).i64().unwrap_or(0);
    for field in ["observedGeneration", "replicas", particular, "readyReplicas", "availableReplicas"] {
        not_negative(of(field), &status.path.field(field), errors);
    }
    for field in ["unavailableReplicas", "terminatingReplicas", "collisionCount"] {
        not_negative_if_set(status.field(field), errors);
    }
    for field in [particular, "readyReplicas", "availableReplicas"] {
        if of(field) > of("replicas") {
            errors.invalid(&status.path.field(field), of(field), "cannot be greater than status.replicas");
        }
    }
    if of("availableReplicas") > of("readyReplicas") {
        let detail = "cannot be greater than readyReplicas";
        errors.invalid(&status.path.field("availableReplicas"), of("availableReplicas"), detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_in_a_status_agree() {
        let rows = [
            ("nothing yet", json!({"replicas": 0}), vec![]),
            ("all ready", json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1}), vec![]),
            (
                "a negative count",
                json!({"replicas": -1}),
                vec![
                    "status.replicas: Invalid value: -1: must be greater than or equal to 0",
                    "status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas",
                    "status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas",
                    "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas",
                ],
            ),
            (
                "more available than ready",
                json!({"replicas": 3, "readyReplicas": 1, "availableReplicas": 2}),
                vec!["status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas"],
            ),
        ];
        for (name, status, expected) in rows {
            let object = json!({"status": status});
            let mut errors = Errors::default();
            ReplicaSet.validate_update(Node::root(&object), &json!({}), Part::Status, &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{name}");
        }
    }
}
