//! Labels, annotations and the label selectors that objects carry: their rules, and which labels a selector matches.

use serde_json::{Map, Value};

use crate::field::{Errors, Node, Path};
use crate::names;

/// All annotations of an object together, keys and values.
const ANNOTATIONS_MAX: usize = 256 << 10;

/// Checks every key and value of a map of labels.
pub fn validate_labels(labels: Node<'_, '_>, errors: &mut Errors) {
    for (key, value) in labels.entries() {
        validate_label_key(key, &labels.path, errors);
        for message in names::label_value(value.str()) {
            errors.invalid(&labels.path, value.str(), &message);
        }
    }
}

/// Checks one label key that stands at `path`.
pub fn validate_label_key(key: &str, path: &Path<'_>, errors: &mut Errors) {
    for message in names::qualified_name(key) {
        errors.invalid(path, key, &message);
    }
}

/// Checks every key of a map of annotations, in which case does not matter, and their size in all.
pub fn validate_annotations(annotations: Node<'_, '_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.entries() {
        size += key.len() + value.str().len();
        for message in names::qualified_name(&key.to_lowercase()) {
            errors.invalid(&annotations.path, key, &message);
        }
    }
    if size > ANNOTATIONS_MAX {
        errors.too_long(&annotations.path, ANNOTATIONS_MAX);
    }
}

/// Checks a selector of the form `{matchLabels, matchExpressions}`.
pub fn validate_label_selector(selector: Node<'_, '_>, errors: &mut Errors) {
    validate_labels(selector.field("matchLabels"), errors);
    for requirement in selector.field("matchExpressions").items() {
        validate_requirement(requirement, errors);
    }
}

fn validate_requirement(requirement: Node<'_, '_>, errors: &mut Errors) {
    let values = requirement.field("values");
    let operator = requirement.field("operator");
    match operator.str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&values.path, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&values.path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Exists" | "DoesNotExist" => {}
        other => errors.invalid(&operator.path, other, "not a valid selector operator"),
    }
    let key = requirement.field("key");
    validate_label_key(key.str(), &key.path, errors);
    for value in values.items() {
        for message in names::label_value(value.str()) {
            errors.invalid(&value.path, value.str(), &message);
        }
    }
}

/// Whether a selector of the form `{matchLabels, matchExpressions}` matches `labels`. An absent selector (null)
/// matches nothing, an empty one everything.
pub fn selector_matches(selector: &Value, labels: &Value) -> bool {
    let Some(selector) = selector.as_object() else { return false };
    let no_labels = Map::new();
    let labels = labels.as_object().unwrap_or(&no_labels);
    let equal = |wanted: &Map<String, Value>| wanted.iter().all(|(key, value)| labels.get(key) == Some(value));
    selector.get("matchLabels").and_then(Value::as_object).is_none_or(equal)
        && list(selector.get("matchExpressions")).iter().all(|requirement| requirement_matches(requirement, labels))
}

fn requirement_matches(requirement: &Value, labels: &Map<String, Value>) -> bool {
    let value = requirement["key"].as_str().and_then(|key| labels.get(key));
    let listed = || value.is_some_and(|value| list(requirement.get("values")).contains(value));
    match requirement["operator"].as_str() {
        Some("In") => listed(),
        Some("NotIn") => !listed(),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        _ => false,
    }
}

/// Whether a selector of the form `{matchLabels, matchExpressions}` restricts nothing.
pub fn is_empty_selector(selector: &Value) -> bool {
    selector["matchLabels"].as_object().is_none_or(Map::is_empty) && list(selector.get("matchExpressions")).is_empty()
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Check = fn(Node<'_, '_>, &mut Errors);

    fn errors_of(check: Check, value: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check(Node { value, path: Path::of("at") }, &mut errors);
        errors.iter().map(|error| error.to_string().split(" (e.g.").next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn labels_and_annotations_are_checked() {
        let alphanumeric = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                            alphanumeric character";
        let rows: [(&str, Check, Value, Vec<String>); 5] = [
            ("good labels", validate_labels, json!({"app": "web", "a.b/c": ""}), vec![]),
            (
                "a bad key is shown at the map",
                validate_labels,
                json!({"a b": "x"}),
                vec![format!(r#"at: Invalid value: "a b": name part {alphanumeric}"#)],
            ),
            (
                "a bad value is shown at the map",
                validate_labels,
                json!({"a": "-"}),
                vec![format!(
                    r#"at: Invalid value: "-": a valid label must be an empty string or {}"#,
                    alphanumeric.trim_start_matches("must ")
                )],
            ),
            (
                "annotation keys may have upper case",
                validate_annotations,
                json!({"EXAMPLE.com/x": "any text\n"}),
                vec![],
            ),
            (
                "annotations are limited in all",
                validate_annotations,
                json!({"a": "x".repeat(ANNOTATIONS_MAX)}),
                vec!["at: Too long: may not be more than 262144 bytes".to_owned()],
            ),
        ];
        for (name, check, value, expected) in rows {
            assert_eq!(errors_of(check, &value), expected, "{name}");
        }
    }

    #[test]
    fn selectors_are_checked() {
        let rows = [
            ("nothing set", json!({}), vec![]),
            (
                "In without values",
                json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
                vec![
                    "at.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                ],
            ),
            (
                "Exists with values",
                json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
                vec![
                    "at.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or \
                     'DoesNotExist'",
                ],
            ),
            (
                "an unknown operator",
                json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}),
                vec![r#"at.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator"#],
            ),
        ];
        for (name, value, expected) in rows {
            assert_eq!(errors_of(validate_label_selector, &value), expected, "{name}");
        }
    }

    #[test]
    fn selectors_match() {
        let labels = json!({"app": "web", "tier": "front"});
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        let rows = [
            ("an absent selector matches nothing", Value::Null, false),
            ("an empty one everything", json!({}), true),
            ("labels that are there", json!({"matchLabels": {"app": "web"}}), true),
            ("a label with another value", json!({"matchLabels": {"app": "db"}}), false),
            ("In", expression("In", &["db", "web"]), true),
            ("NotIn", expression("NotIn", &["db", "web"]), false),
            ("NotIn of others", expression("NotIn", &["db"]), true),
            ("Exists", expression("Exists", &[]), true),
            ("DoesNotExist", expression("DoesNotExist", &[]), false),
        ];
        for (name, selector, expected) in rows {
            assert_eq!(selector_matches(&selector, &labels), expected, "{name}");
        }
        assert!(is_empty_selector(&json!({"matchLabels": {}})));
        assert!(!is_empty_selector(&expression("Exists", &[])));
    }
}
