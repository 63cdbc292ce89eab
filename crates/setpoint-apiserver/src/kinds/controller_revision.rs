//! ControllerRevisions: snapshots that a controller keeps of what it once ran.

use jiff::Timestamp;
use serde_json::Value;

use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};

use super::defaults::fill;
use super::immutable::validate_immutable;
use super::pod_spec::not_negative;

#[derive(Debug)]
pub struct ControllerRevision;

const COLUMNS: [Column; 4] = [
    columns::NAME,
    columns::text("Controller", "Whose snapshot it is."),
    columns::text("Revision", "Its place among the snapshots of one controller."),
    columns::AGE,
];

impl Behaviour for ControllerRevision {
    fn default(&self, object: &mut Value) {
        fill(object, "revision", 0);
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validate_revision(object, errors);
        let data = object.field("data");
        if !data.is_set() {
            errors.required(&data.path, "data is mandatory");
        } else if !data.value.is_object() {
            errors.required(&data.path, "data must be a valid JSON object");
        }
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, _part: Part, errors: &mut Errors) {
        validate_revision(object, errors);
        validate_immutable(object.field("data"), &old["data"], errors);
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![
            columns::name_cell(object),
            controller_of(object).unwrap_or_else(|| columns::NONE.to_owned()).into(),
            object["revision"].as_i64().unwrap_or(0).into(),
            columns::age_cell(object, now),
        ]
    }
}

fn validate_revision(object: Node<'_, '_>, errors: &mut Errors) {
    let revision = object.field("revision");
    not_negative(revision.i64().unwrap_or(0), &revision.path, errors);
}

/// The controller that owns an object, as `kubectl` names it: `statefulset.apps/web`.
fn controller_of(object: &Value) -> Option<String> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let kind = owner["kind"].as_str()?.to_lowercase();
    let name = owner["name"].as_str()?;
    match owner["apiVersion"].as_str().and_then(|version| version.split_once('/')) {
        Some((group, _)) => Some(format!("{kind}.{group}/{name}")),
        None => Some(format!("{kind}/{name}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_is_an_object_and_stays() {
        let rows = [
            ("good", json!({"data": {}, "revision": 1}), vec![]),
            ("no data", json!({"revision": 1}), vec!["data: Required value: data is mandatory"]),
            (
                "other data",
                json!({"data": [], "revision": 1}),
                vec!["data: Required value: data must be a valid JSON object"],
            ),
            (
                "a negative revision",
                json!({"data": {}, "revision": -1}),
                vec!["revision: Invalid value: -1: must be greater than or equal to 0"],
            ),
        ];
        let messages = |errors: Errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (name, object, expected) in rows {
            let mut errors = Errors::default();
            ControllerRevision.validate(Node::root(&object), &mut errors);
            assert_eq!(messages(errors), expected, "{name}");
        }
        let mut errors = Errors::default();
        let changed = json!({"data": {"a": 1}, "revision": 1});
        ControllerRevision.validate_update(Node::root(&changed), &json!({"data": {}}), Part::Main, &mut errors);
        assert_eq!(messages(errors), [r#"data: Invalid value: {"a":1}: field is immutable"#]);
    }

    #[test]
    fn the_controller_is_shown() {
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true});
        let object = json!({"metadata": {"ownerReferences": [owner]}});
        assert_eq!(controller_of(&object).as_deref(), Some("statefulset.apps/web"));
        assert_eq!(controller_of(&json!({})), None);
    }
}
