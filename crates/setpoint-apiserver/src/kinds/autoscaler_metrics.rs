//! What an autoscaler measures, and what it should be.

use serde_json::Value;

use crate::columns;
use setpoint_api::field::{Errors, Node};
use setpoint_api::names;
use setpoint_api::quantity::Quantity;

use super::endpoints::report;
use super::pod_spec::container_resource;
use super::typed_reference;

/// The sorts of metrics in the order in which they are looked for, each with the field that describes it.
const SORTS: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const SUPPORTED: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const METRICS_SHOWN: usize = 2;

/// Checks a reference to an object in any version. `grouped` says that it must be in a group.
pub(super) fn validate_reference(reference: Node<'_, '_>, grouped: bool, errors: &mut Errors) {
    typed_reference::validate_name(reference, errors);
    let version = reference.field("apiVersion");
    let detail = match version.str().matches('/').count() {
        2.. => format!("unexpected GroupVersion string: {}", version.str()),
        0 if grouped => "apiVersion must specify API group".to_owned(),
        1 if grouped && version.str().starts_with('/') => "apiVersion must specify API group".to_owned(),
        _ => return,
    };
    errors.invalid(&version.path, version.str(), &detail);
}

/// Checks one metric: it is of one sort, and only that is described.
pub(super) fn validate(metric: Node<'_, '_>, errors: &mut Errors) {
    let sort = metric.field("type");
    if sort.str().is_empty() {
        errors.required(&sort.path, "must specify a metric source type");
    }
    let expected = SORTS.iter().find(|(name, _)| *name == sort.str()).map(|(_, field)| *field);
    if expected.is_none() {
        errors.unsupported(&sort.path, sort.str(), &SUPPORTED);
    }
    let present: Vec<&str> = SORTS.iter().map(|(_, field)| *field).filter(|f| metric.field(f).is_set()).collect();
    if let Some(first) = present.first() {
        validate_source(metric.field(first), first, errors);
    }
    match expected {
        Some(field) if !present.contains(&field) => {
            errors.required(&metric.path.field(field), "must populate information for the given metric source");
        }
        Some(_) => {}
        None => errors.unsupported(&sort.path, sort.str(), &SUPPORTED),
    }
    if present.len() > 1 {
        for other in present.iter().filter(|field| Some(**field) != expected) {
            errors.forbidden(&metric.path.field(other), "must populate the given metric source only");
        }
    }
}

fn validate_source(source: Node<'_, '_>, sort: &str, errors: &mut Errors) {
    match sort {
        "resource" => {
            if source.field("name").str().is_empty() {
                errors.required(&source.path.field("name"), "must specify a resource name");
            }
        }
        "containerResource" => validate_container(source, errors),
        _ => {
            if sort == "object" {
                validate_reference(source.field("describedObject"), false, errors);
            }
            validate_identifier(source.field("metric"), errors);
        }
    }
    validate_target(source.field("target"), sort, errors);
}

fn validate_container(source: Node<'_, '_>, errors: &mut Errors) {
    let (name, container) = (source.field("name"), source.field("container"));
    if name.str().is_empty() {
        errors.required(&name.path, "must specify a resource name");
    } else {
        container_resource(name.str(), &name.path, errors);
    }
    if container.str().is_empty() {
        errors.required(&container.path, "must specify a container");
    } else {
        report(container, names::dns1123_label, errors);
    }
}

fn validate_identifier(metric: Node<'_, '_>, errors: &mut Errors) {
    let name = metric.field("name");
    if name.str().is_empty() {
        errors.required(&name.path, "must specify a metric name");
    } else {
        report(name, names::path_segment, errors);
    }
}

/// What a metric should be can be said in three ways, of which each sort takes some.
fn validate_target(target: Node<'_, '_>, sort: &str, errors: &mut Errors) {
    let kind = target.field("type");
    if kind.str().is_empty() {
        errors.required(&kind.path, "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind.str()) {
        errors.invalid(&kind.path, kind.str(), "must be either Utilization, Value, or AverageValue");
    }
    let (value, average) = (target.field("value"), target.field("averageValue"));
    let utilization = target.field("averageUtilization");
    for amount in [value, average] {
        if let Some(found) = Quantity::parse(amount.str()).ok().filter(|found| *found <= Quantity::ZERO) {
            errors.invalid(&amount.path, found.to_string(), "must be positive");
        }
    }
    if let Some(percent) = utilization.i64().filter(|percent| *percent < 1) {
        errors.invalid(&utilization.path, percent, "must be greater than 0");
    }
    match (sort, value.is_set(), average.is_set(), utilization.is_set()) {
        ("object", false, false, _) => errors.required(&average.path, "must set either a target value or averageValue"),
        ("external", false, false, _) => {
            errors.required(&average.path, "must set either a target value for metric or a per-pod target");
        }
        ("external", true, true, _) => {
            errors.forbidden(&value.path, "may not set both a target value for metric and a per-pod target");
        }
        ("pods", _, false, _) => errors.required(&average.path, "must specify a positive target averageValue"),
        ("resource" | "containerResource", _, false, false) => {
            errors.required(&utilization.path, "must set either a target raw value or a target utilization");
        }
        ("resource" | "containerResource", _, true, true) => {
            errors.forbidden(&average.path, "may not set both a target raw value and a target utilization");
        }
        _ => {}
    }
}

/// The first metrics, each as what it is and what it should be.
pub(super) fn metric_cell(metrics: &Value, current: &Value) -> String {
    let metrics = metrics.as_array().map(Vec::as_slice).unwrap_or_default();
    let shown: Vec<String> =
        metrics.iter().take(METRICS_SHOWN).enumerate().map(|(n, m)| show(m, &current[n])).collect();
    match metrics.len().checked_sub(METRICS_SHOWN) {
        _ if metrics.is_empty() => columns::NONE.to_owned(),
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} + {more} more...", shown.join(", ")),
    }
}

fn show(metric: &Value, current: &Value) -> String {
    let sort = metric["type"].as_str().unwrap_or_default();
    let Some((_, field)) = SORTS.iter().find(|(name, _)| *name == sort) else {
        return "<unknown type>".to_owned();
    };
    let (source, found) = (&metric[field], &current[field]["current"]);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let percent = |value: &Value| value.as_i64().map(|share| format!("{share}%"));
    let target = &source["target"];
    let pair = |found: Option<String>, wanted: Option<String>, absent: &str| {
        let found = found.unwrap_or_else(|| columns::UNKNOWN.to_owned());
        format!("{found}/{}", wanted.unwrap_or_else(|| absent.to_owned()))
    };
    let average = || pair(text(&found["averageValue"]), text(&target["averageValue"]), "0");
    let resource = matches!(*field, "resource" | "containerResource");
    match (resource, target["averageValue"].is_string()) {
        (true, is_average) => {
            let share =
                || pair(percent(&found["averageUtilization"]), percent(&target["averageUtilization"]), "<auto>");
            let value = if is_average { average() } else { share() };
            format!("{}: {value}", source["name"].as_str().unwrap_or_default())
        }
        (false, _) if *field == "pods" => average(),
        (false, true) => format!("{} (avg)", average()),
        (false, false) => pair(text(&found["value"]), text(&target["value"]), "0"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metrics_are_shown() {
        let cpu = |target: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        let share = cpu(json!({"type": "Utilization", "averageUtilization": 80}));
        let queue =
            json!({"type": "External", "external": {"metric": {"name": "q"}, "target": {"averageValue": "30"}}});
        let requests = json!({"type": "Pods", "pods": {"metric": {"name": "r"}, "target": {"averageValue": "1k"}}});
        let rows = [
            ("none", json!([]), json!(null), "<none>"),
            ("not measured yet", json!([share]), json!(null), "cpu: <unknown>/80%"),
            (
                "measured",
                json!([share]),
                json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 15}}}]),
                "cpu: 15%/80%",
            ),
            ("an amount", json!([cpu(json!({"averageValue": "500m"}))]), json!(null), "cpu: <unknown>/500m"),
            ("an average", json!([queue]), json!(null), "<unknown>/30 (avg)"),
            ("several", json!([share, requests, queue]), json!(null), "cpu: <unknown>/80%, <unknown>/1k + 1 more..."),
        ];
        for (name, metrics, current, expected) in rows {
            assert_eq!(metric_cell(&metrics, &current), expected, "{name}");
        }
    }
}
