//! PodDisruptionBudgets: how many of some pods must stay when pods are moved.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Fault, Node};
use setpoint_api::labels;
use setpoint_api::names;

use super::defaults::section;
use super::pod_spec::not_negative;
use super::share;
use super::shown;

#[derive(Debug)]
pub struct PodDisruptionBudget;

const COUNTS: [&str; 4] = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
const EVICTION_POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];
const REASON_MAX: usize = 1024;
const MESSAGE_MAX: usize = 32 * 1024;

const COLUMNS: [Column; 5] = [
    columns::NAME,
    columns::text("Min Available", "How many pods must stay."),
    columns::text("Max Unavailable", "How many pods may be missing."),
    columns::integer("Allowed Disruptions", "How many pods may be moved now."),
    columns::AGE,
];

impl Behaviour for PodDisruptionBudget {
    fn default(&self, object: &mut Value) {
        section(object, "spec");
        section(object, "status");
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] =
            json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        let spec = object.field("spec");
        let shares = [spec.field("minAvailable"), spec.field("maxUnavailable")];
        if shares.iter().all(Node::is_set) {
            errors.push(Fault::Invalid, &spec.path, || {
                let fields = [
                    ("MinAvailable", "minAvailable", Value::Null),
                    ("Selector", "selector", Value::Null),
                    ("MaxUnavailable", "maxUnavailable", Value::Null),
                    ("UnhealthyPodEvictionPolicy", "unhealthyPodEvictionPolicy", Value::Null),
                ];
                let spec = shown::fields(spec.value, &fields);
                format!("Invalid value: {spec}: minAvailable and maxUnavailable cannot be both set")
            });
        }
        for share in shares.into_iter().filter(Node::is_set) {
            share::validate(share, errors);
            share::validate_not_more_than_all(share, errors);
        }
        labels::validate_label_selector(spec.field("selector"), errors);
        let policy = spec.field("unhealthyPodEvictionPolicy");
        if policy.is_set() && !EVICTION_POLICIES.contains(&policy.str()) {
            errors.unsupported(&policy.path, policy.str(), &EVICTION_POLICIES);
        }
    }

    fn validate_update(&self, object: Node<'_, '_>, _old: &Value, part: Part, errors: &mut Errors) {
        match part {
            Part::Status => validate_status(object.field("status"), errors),
            _ => self.validate(object, errors),
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn left_undone(&self) -> Option<&'static str> {
        Some("evictions are not limited by it")
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let share = |field: &str| match &object["spec"][field] {
            Value::Null => Value::from("N/A"),
            Value::String(percentage) => percentage.as_str().into(),
            number => number.to_string().into(),
        };
        vec![
            columns::name_cell(object),
            share("minAvailable"),
            share("maxUnavailable"),
            object["status"]["disruptionsAllowed"].as_i64().unwrap_or(0).into(),
            columns::age_cell(object, now),
        ]
    }
}

fn validate_status(status: Node<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for condition in status.field("conditions").items() {
        let sort = condition.field("type");
        if !seen.insert(sort.str()) {
            errors.duplicate(&sort.path, sort.str());
        }
        validate_condition(condition, errors);
    }
    for field in COUNTS {
        not_negative(status.field(field).i64().unwrap_or(0), &status.path.field(field), errors);
    }
}

fn validate_condition(condition: Node<'_, '_>, errors: &mut Errors) {
    let (sort, state, reason) = (condition.field("type"), condition.field("status"), condition.field("reason"));
    if sort.str().is_empty() {
        errors.required(&sort.path, "must be set");
    }
    for message in names::qualified_name(sort.str()) {
        errors.invalid(&sort.path, sort.str(), &message);
    }
    if !["True", "False", "Unknown"].contains(&state.str()) {
        errors.unsupported(&state.path, state.str(), &["False", "True", "Unknown"]);
    }
    let generation = condition.field("observedGeneration");
    if let Some(number) = generation.i64().filter(|number| *number < 0) {
        errors.invalid(&generation.path, number, "must be greater than or equal to zero");
    }
    if !condition.field("lastTransitionTime").is_set() {
        errors.required(&condition.path.field("lastTransitionTime"), "must be set");
    }
    if reason.str().is_empty() {
        errors.required(&reason.path, "must be set");
    } else {
        validate_reason(reason, errors);
    }
    if condition.field("message").str().len() > MESSAGE_MAX {
        errors.too_long(&condition.path.field("message"), MESSAGE_MAX);
    }
}

/// A reason is a word in camel case.
fn validate_reason(reason: Node<'_, '_>, errors: &mut Errors) {
    let text = reason.str();
    let inside = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_,:".contains(&b));
    let good = inside && text.starts_with(|c: char| c.is_ascii_alphabetic()) && !text.ends_with([',', ':']);
    if !good {
        let rule = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric \
                    characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  \
                    or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
                    '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
        errors.invalid(&reason.path, text, rule);
    }
    if text.len() > REASON_MAX {
        errors.too_long(&reason.path, REASON_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::probe::{messages, update_messages};

    fn budget(spec: Value) -> Value {
        json!({"metadata": {"name": "web"}, "spec": spec})
    }

    #[test]
    fn budgets_are_checked() {
        let rows = [
            ("nothing said", json!({}), vec![]),
            ("a number", json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}), vec![]),
            ("a share", json!({"maxUnavailable": "50%", "unhealthyPodEvictionPolicy": "AlwaysAllow"}), vec![]),
            (
                "two ways",
                json!({"minAvailable": 1, "maxUnavailable": "1%"}),
                vec![
                    r#"spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":"1%","UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set"#,
                ],
            ),
            (
                "less than nothing",
                json!({"minAvailable": -1}),
                vec!["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                "more than all",
                json!({"maxUnavailable": "101%"}),
                vec![r#"spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%"#],
            ),
            (
                "no share",
                json!({"maxUnavailable": "half"}),
                vec![
                    "spec.maxUnavailable: Invalid value: \"half\": a valid percent string must be a numeric string followed by \
                     an ending '%'",
                ],
            ),
            (
                "a selector that is none",
                json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}),
                vec![
                    r#"spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator"#,
                ],
            ),
            (
                "a policy that is none",
                json!({"unhealthyPodEvictionPolicy": "Never"}),
                vec![
                    r#"spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget""#,
                ],
            ),
        ];
        for (name, spec, expected) in rows {
            assert_eq!(messages(&PodDisruptionBudget, &budget(spec)), expected, "{name}");
        }
    }

    #[test]
    fn a_status_is_checked() {
        let time = "2030-01-01T00:00:00Z";
        let condition = |reason: &str| json!({"type": "DisruptionAllowed", "status": "True", "reason": reason, "lastTransitionTime": time});
        let rows = [
            ("a good one", json!({"conditions": [condition("SufficientPods")], "expectedPods": 1}), vec![]),
            (
                "less than nothing",
                json!({"expectedPods": -1}),
                vec!["status.expectedPods: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                "a condition twice",
                json!({"conditions": [condition("A"), condition("B")]}),
                vec![r#"status.conditions[1].type: Duplicate value: "DisruptionAllowed""#],
            ),
            (
                "no reason",
                json!({"conditions": [condition("")]}),
                vec!["status.conditions[0].reason: Required value: must be set"],
            ),
            (
                "a sentence for a reason",
                json!({"conditions": [condition("it is so")]}),
                vec![
                    "status.conditions[0].reason: Invalid value: \"it is so\": a condition reason must start with alphabetic \
                     character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an \
                     alphanumeric character or '_'",
                ],
            ),
        ];
        for (name, status, expected) in rows {
            let mut object = budget(json!({}));
            object["status"] = status;
            let found = update_messages(&PodDisruptionBudget, &object, &budget(json!({})), Part::Status);
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn shares_are_shown() {
        let cells = PodDisruptionBudget.cells(&budget(json!({"minAvailable": 2})), Timestamp::UNIX_EPOCH);
        assert_eq!(cells[1..4], [json!("2"), json!("N/A"), json!(0)]);
    }
}
