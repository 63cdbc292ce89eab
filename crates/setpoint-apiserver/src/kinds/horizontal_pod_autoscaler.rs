//! HorizontalPodAutoscalers: how many pods something runs in, by what is measured of them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};
use setpoint_api::quantity::Quantity;

use super::autoscaler_metrics::{self, metric_cell, validate_reference};
use super::defaults::{fill, section};
use super::pod_spec::not_negative;

#[derive(Debug)]
pub struct HorizontalPodAutoscaler;

const STABILIZATION_MAX: i64 = 3600;
const PERIOD_MAX: i64 = 1800;
const PERIOD: i64 = 15;

const COLUMNS: [Column; 7] = [
    columns::NAME,
    columns::text("Reference", "What is scaled."),
    columns::text("Targets", "What is measured, and what it should be."),
    columns::text("MinPods", "The fewest pods there may be."),
    columns::text("MaxPods", "The most pods there may be."),
    columns::text("Replicas", "How many pods there are."),
    columns::AGE,
];

impl Behaviour for HorizontalPodAutoscaler {
    fn default(&self, object: &mut Value) {
        let spec = section(object, "spec");
        fill(spec, "minReplicas", 1);
        if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
            let target = json!({"type": "Utilization", "averageUtilization": 80});
            spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
        }
        if spec["behavior"].is_object() {
            fill_behaviour(&mut spec["behavior"]);
        }
        section(object, "status");
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"desiredReplicas": 0, "currentMetrics": null});
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validate_spec(object.field("spec"), &Value::Null, errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        if part == Part::Main {
            return validate_spec(object.field("spec"), &old["spec"], errors);
        }
        let status = object.field("status");
        for field in ["currentReplicas", "desiredReplicas"] {
            not_negative(status.field(field).i64().unwrap_or(0), &status.path.field(field), errors);
        }
    }

    fn left_undone(&self) -> Option<&'static str> {
        Some("nothing will be scaled")
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let target = |field: &str| spec["scaleTargetRef"][field].as_str().unwrap_or_default();
        let fewest = spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |count| count.to_string());
        vec![
            columns::name_cell(object),
            format!("{}/{}", target("kind"), target("name")).into(),
            metric_cell(&spec["metrics"], &status["currentMetrics"]).into(),
            fewest.into(),
            spec["maxReplicas"].as_i64().unwrap_or(0).into(),
            status["currentReplicas"].as_i64().unwrap_or(0).into(),
            columns::age_cell(object, now),
        ]
    }
}

/// Who says something about how it scales is asked for all of it.
fn fill_behaviour(behaviour: &mut Value) {
    let policy = |sort: &str, value: i64| json!({"type": sort, "value": value, "periodSeconds": PERIOD});
    let up = section(behaviour, "scaleUp");
    fill(up, "stabilizationWindowSeconds", 0);
    fill(up, "policies", json!([policy("Pods", 4), policy("Percent", 100)]));
    let down = section(behaviour, "scaleDown");
    fill(down, "policies", json!([policy("Percent", 100)]));
    for direction in ["scaleUp", "scaleDown"] {
        fill(&mut behaviour[direction], "selectPolicy", "Max");
    }
}

/// `old` is null for a new one.
fn validate_spec(spec: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let (fewest, most) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    let (at_least, at_most) = (fewest.i64().unwrap_or(1), most.i64().unwrap_or(0));
    if at_least < 1 {
        errors.invalid(&fewest.path, at_least, "must be greater than or equal to 1");
    }
    match at_most {
        0 => errors.required(&most.path, "must be set and greater than 0"),
        ..0 => errors.invalid(&most.path, at_most, "must be greater than or equal to 1"),
        _ => {}
    }
    if at_most < at_least {
        errors.invalid(&most.path, at_most, "must be greater than or equal to `minReplicas`");
    }
    let (target, before) = (spec.field("scaleTargetRef"), &old["scaleTargetRef"]);
    let known = ["apiVersion", "kind"].iter().all(|field| target.field(field).str() == before[field]);
    // A version that was taken once is not looked at again; the one kind of the core group that can be scaled needs none.
    let grouped = !known && target.field("kind").str() != "ReplicationController";
    validate_reference(target, grouped, errors);
    for metric in spec.field("metrics").items() {
        autoscaler_metrics::validate(metric, errors);
    }
    let behaviour = spec.field("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        let rules = behaviour.field(direction);
        if rules.is_set() {
            validate_rules(rules, errors);
        }
    }
}

fn validate_rules(rules: Node<'_, '_>, errors: &mut Errors) {
    let window = rules.field("stabilizationWindowSeconds");
    match window.i64().unwrap_or(0) {
        seconds @ ..0 => errors.invalid(&window.path, seconds, "must be greater than or equal to zero"),
        seconds if seconds > STABILIZATION_MAX => {
            errors.invalid(&window.path, seconds, &format!("must be less than or equal to {STABILIZATION_MAX}"));
        }
        _ => {}
    }
    let select = rules.field("selectPolicy");
    if select.is_set() && !["Disabled", "Max", "Min"].contains(&select.str()) {
        errors.unsupported(&select.path, select.str(), &["Disabled", "Max", "Min"]);
    }
    let policies = rules.field("policies");
    if policies.is_empty() {
        errors.required(&policies.path, "must specify at least one Policy");
    }
    for policy in policies.items() {
        validate_policy(policy, errors);
    }
    let tolerance = rules.field("tolerance");
    if let Some(share) = Quantity::parse(tolerance.str()).ok().filter(|share| share.is_negative()) {
        errors.invalid(&tolerance.path, share.to_string(), "must be greater than or equal to 0");
    }
}

fn validate_policy(policy: Node<'_, '_>, errors: &mut Errors) {
    let (sort, value, period) = (policy.field("type"), policy.field("value"), policy.field("periodSeconds"));
    if !["Percent", "Pods"].contains(&sort.str()) {
        errors.unsupported(&sort.path, sort.str(), &["Percent", "Pods"]);
    }
    for number in [value, period] {
        if let Some(found) = Some(number.i64().unwrap_or(0)).filter(|found| *found <= 0) {
            errors.invalid(&number.path, found, "must be greater than zero");
        }
    }
    if let Some(seconds) = period.i64().filter(|seconds| *seconds > PERIOD_MAX) {
        errors.invalid(&period.path, seconds, &format!("must be less than or equal to {PERIOD_MAX}"));
    }
}

#[cfg(test)]
mod tests;
