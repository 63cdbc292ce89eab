//! The rules of Events, old and new.

use serde_json::{Value, json};

use crate::kinds::shown;
use setpoint_api::field::{Errors, Fault, Node};
use setpoint_api::labels;

const TEXT_MAX: usize = 128;
const MESSAGE_MAX: usize = 1024;

/// What holds of every Event. One with an `eventTime` is of the new sort and must say who reports it.
pub(super) fn validate(event: Node<'_, '_>, controller_field: &str, errors: &mut Errors) {
    let involved = event.field("involvedObject");
    let namespace = involved.field("namespace");
    let own = event.field("metadata").field("namespace").str();
    let timed = event.field("eventTime").is_set();
    let agrees = match (timed, namespace.str()) {
        (false, "") => matches!(own, "" | "default"),
        (false, other) => other == own,
        (true, "") => matches!(own, "default" | "kube-system"),
        (true, _) => true,
    };
    if !agrees {
        errors.invalid(&namespace.path, namespace.str(), "does not match event.namespace");
    }
    if !timed {
        return;
    }
    let controller = event.field("reportingComponent").str();
    let controller_path = event.path.field(controller_field);
    if controller.is_empty() {
        errors.required(&controller_path, "");
    }
    labels::validate_label_key(controller, &controller_path, errors);
    for name in ["reportingInstance", "action", "reason"] {
        let field = event.field(name);
        if field.str().is_empty() {
            errors.required(&field.path, "");
        }
        at_most(field, TEXT_MAX, errors);
    }
    at_most(event.field("message"), MESSAGE_MAX, errors);
}

/// What also holds of an Event that is created through `events.k8s.io`: it is of the new sort.
pub(super) fn validate_strict(event: Node<'_, '_>, errors: &mut Errors) {
    validate_series(event, errors);
    let time = event.field("eventTime");
    if !time.is_set() {
        errors.required(&time.path, "");
    }
    let kind = event.field("type");
    if !matches!(kind.str(), "Normal" | "Warning") {
        errors.invalid(&kind.path, "", &format!("has invalid value: {}", kind.str()));
    }
    for name in ["firstTimestamp", "lastTimestamp"] {
        let field = event.field(name);
        if field.is_set() {
            errors.invalid(&field.path, "", "needs to be unset");
        }
    }
    let count = event.field("count");
    if count.i64().unwrap_or_default() != 0 {
        errors.invalid(&count.path, "", "needs to be unset");
    }
    let source = event.field("source");
    if !source.field("component").str().is_empty() || !source.field("host").str().is_empty() {
        errors.invalid(&source.path, "", "needs to be unset");
    }
}

/// What may change through `events.k8s.io`: the series, and nothing else.
pub(super) fn validate_change(event: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    if *event.field("series").value != old["series"] {
        validate_series(event, errors);
    }
    let reference = |value: &Value| {
        let names = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];
        let shown = ["Kind", "Namespace", "Name", "UID", "APIVersion", "ResourceVersion", "FieldPath"];
        let fields: Vec<_> = shown.iter().zip(names).map(|(shown, name)| (*shown, name, json!(""))).collect();
        if value.is_null() { "\"null\"".to_owned() } else { shown::fields(value, &fields) }
    };
    let source =
        |value: &Value| shown::fields(value, &[("Component", "component", json!("")), ("Host", "host", json!(""))]);
    let text = |value: &Value| value.as_str().map_or_else(|| json!("").to_string(), |text| json!(text).to_string());
    let number = |value: &Value| value.as_i64().unwrap_or_default().to_string();
    let time = |value: &Value| value.to_string();
    type Show<'s> = &'s dyn Fn(&Value) -> String;
    let fields: [(&str, &str, Show<'_>); 13] = [
        ("involvedObject", "involvedObject", &reference),
        ("reason", "reason", &text),
        ("message", "message", &text),
        ("source", "source", &source),
        ("firstTimestamp", "firstTimestamp", &time),
        ("lastTimestamp", "lastTimestamp", &time),
        ("count", "count", &number),
        ("type", "type", &text),
        ("eventTime", "eventTime", &time),
        ("action", "action", &text),
        ("related", "related", &reference),
        ("reportingController", "reportingComponent", &text),
        ("reportingInstance", "reportingInstance", &text),
    ];
    for (path, name, show) in fields {
        let field = event.field(name);
        if show(field.value) != show(&old[name]) {
            let message = || format!("Invalid value: {}: field is immutable", show(field.value));
            errors.push(Fault::Invalid, &event.path.field(path), message);
        }
    }
}

fn validate_series(event: Node<'_, '_>, errors: &mut Errors) {
    let series = event.field("series");
    if !series.is_set() {
        return;
    }
    let count = series.field("count");
    if count.i64().unwrap_or_default() < 2 {
        errors.invalid(&count.path, "", "should be at least 2");
    }
    let observed = series.field("lastObservedTime");
    if !observed.is_set() {
        errors.required(&observed.path, "");
    }
}

fn at_most(text: Node<'_, '_>, max: usize, errors: &mut Errors) {
    if text.str().len() > max {
        errors.invalid(&text.path, "", &format!("can have at most {max} characters"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(check: impl Fn(Node<'_, '_>, &mut Errors), event: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check(Node::root(event), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    fn timed() -> Value {
        json!({
            "metadata": {"namespace": "n"}, "involvedObject": {"namespace": "other", "kind": "Pod"}, "type": "Normal",
            "eventTime": "2030-01-01T00:00:00.000000Z", "reportingComponent": "example.com/c", "reportingInstance": "i",
            "action": "do", "reason": "Why",
        })
    }

    #[test]
    fn old_events_stand_beside_their_object() {
        let check = |node: Node<'_, '_>, errors: &mut Errors| validate(node, "reportingComponent", errors);
        let event = |own: &str, involved: &str| json!({"metadata": {"namespace": own}, "involvedObject": {"namespace": involved}});
        let mismatch = |namespace: &str| {
            vec![format!(
                "involvedObject.namespace: Invalid value: {}: does not match event.namespace",
                json!(namespace)
            )]
        };
        let rows = [
            ("the same namespace", event("n", "n"), vec![]),
            ("another", event("n", "m"), mismatch("m")),
            ("none, in default", event("default", ""), vec![]),
            ("none, elsewhere", event("n", ""), mismatch("")),
        ];
        for (name, event, expected) in rows {
            assert_eq!(messages(check, &event), expected, "{name}");
        }
    }

    #[test]
    fn new_events_say_who_and_what() {
        let check = |node: Node<'_, '_>, errors: &mut Errors| {
            validate(node, "reportingController", errors);
            validate_strict(node, errors);
        };
        assert!(messages(check, &timed()).is_empty());
        let mut event = timed();
        event["reportingInstance"] = json!("");
        event["reason"] = json!("x".repeat(129));
        event["type"] = json!("Odd");
        event["count"] = json!(3);
        event["series"] = json!({"count": 1});
        assert_eq!(
            messages(check, &event),
            [
                "reportingInstance: Required value",
                r#"reason: Invalid value: "": can have at most 128 characters"#,
                r#"series.count: Invalid value: "": should be at least 2"#,
                "series.lastObservedTime: Required value",
                r#"type: Invalid value: "": has invalid value: Odd"#,
                r#"count: Invalid value: "": needs to be unset"#,
            ]
        );
    }

    #[test]
    fn new_events_change_in_their_series_only() {
        let mut event = timed();
        event["series"] = json!({"count": 2, "lastObservedTime": "2030-01-01T00:01:00.000000Z"});
        let check = |node: Node<'_, '_>, errors: &mut Errors| validate_change(node, &timed(), errors);
        assert!(messages(check, &event).is_empty());
        event["message"] = json!("again");
        event["involvedObject"]["name"] = json!("p");
        assert_eq!(
            messages(check, &event),
            [
                concat!(
                    r#"involvedObject: Invalid value: {"Kind":"Pod","Namespace":"other","Name":"p","UID":"","#,
                    r#""APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable"#
                ),
                r#"message: Invalid value: "again": field is immutable"#,
            ]
        );
    }
}
