//! ConfigMaps: named texts and bytes, which `immutable` freezes.

use jiff::Timestamp;
use serde_json::Value;

use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

/// All keys and values of a ConfigMap or a Secret together.
pub(super) const DATA_MAX: usize = 1 << 20;
/// What is said about a change of what `immutable` has frozen.
pub(super) const FROZEN: &str = "field is immutable when `immutable` is set";

#[derive(Debug, Clone, Copy)]
pub struct ConfigMap;

impl Behaviour for ConfigMap {
    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        let (data, binary) = (object.field("data"), object.field("binaryData"));
        let mut size = 0;
        for (key, value) in data.entries() {
            validate_key(key, value, errors);
            if binary.value.get(key).is_some() {
                errors.invalid(&value.path, key, "duplicate of key present in binaryData");
            }
            size += key.len() + value.str().len();
        }
        for (key, value) in binary.entries() {
            validate_key(key, value, errors);
            size += key.len() + decoded_len(value.str());
        }
        if size > DATA_MAX {
            errors.too_long(&object.path, DATA_MAX);
        }
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, _part: Part, errors: &mut Errors) {
        validate_frozen(object, old, &["data", "binaryData"], errors);
        self.validate(object, errors);
    }

    fn columns(&self) -> &[Column] {
        const COLUMNS: [Column; 3] =
            [columns::NAME, columns::text("Data", "The number of entries, of text and of bytes."), columns::AGE];
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let entries = entry_count(&object["data"]) + entry_count(&object["binaryData"]);
        vec![columns::name_cell(object), entries.into(), columns::age_cell(object, now)]
    }
}

/// Checks a key of data, at the path of its value.
pub(super) fn validate_key(key: &str, value: Node<'_, '_>, errors: &mut Errors) {
    for message in names::config_map_key(key) {
        errors.invalid(&value.path, key, &message);
    }
}

/// Refuses changes of what is frozen, thawing included.
pub(super) fn validate_frozen(object: Node<'_, '_>, old: &Value, fields: &[&str], errors: &mut Errors) {
    if old["immutable"] != true {
        return;
    }
    let immutable = object.field("immutable");
    if immutable.bool() != Some(true) {
        errors.forbidden(&immutable.path, FROZEN);
    }
    for name in fields {
        let field = object.field(name);
        let both_empty = field.is_empty() && entry_count(&old[*name]) == 0;
        if !both_empty && *field.value != old[*name] {
            errors.forbidden(&field.path, FROZEN);
        }
    }
}

pub(super) fn entry_count(map: &Value) -> usize {
    map.as_object().map_or(0, |entries| entries.len())
}

/// How many bytes a base64 text stands for.
pub(super) fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(check: impl Fn(Node<'_, '_>, &mut Errors), object: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check(Node::root(object), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn contents_are_checked() {
        let validate = |node: Node<'_, '_>, errors: &mut Errors| ConfigMap.validate(node, errors);
        let rows = [
            ("texts and bytes", json!({"data": {"a": "1"}, "binaryData": {"b": "AAEC"}}), vec![]),
            (
                "one key twice",
                json!({"data": {"a": "1"}, "binaryData": {"a": "AAEC"}}),
                vec![r#"data[a]: Invalid value: "a": duplicate of key present in binaryData"#],
            ),
            (
                "a key that leaves its directory",
                json!({"data": {"..": ""}}),
                vec![r#"data[..]: Invalid value: "..": must not be '..'"#],
            ),
            ("a mebibyte, with its key", json!({"data": {"a": "x".repeat(DATA_MAX - 1)}}), vec![]),
            (
                "more than a mebibyte",
                json!({"data": {"a": "x".repeat(DATA_MAX - 1)}, "binaryData": {"b": "AAEC"}}),
                vec![": Too long: may not be more than 1048576 bytes"],
            ),
            (
                "more than a mebibyte in keys alone",
                json!({"data": (0..4_200).map(|key| (format!("{key:0>250}"), json!(""))).collect::<serde_json::Map<_, _>>()}),
                vec![": Too long: may not be more than 1048576 bytes"],
            ),
        ];
        for (name, object, expected) in rows {
            assert_eq!(messages(validate, &object), expected, "{name}");
        }
    }

    #[test]
    fn what_is_immutable_stays() {
        let old = json!({"immutable": true, "data": {"a": "1"}});
        let update =
            |node: Node<'_, '_>, errors: &mut Errors| ConfigMap.validate_update(node, &old, Part::Main, errors);
        let rows = [
            ("the same", json!({"immutable": true, "data": {"a": "1"}, "binaryData": {}}), vec![]),
            ("another value", json!({"immutable": true, "data": {"a": "2"}}), vec!["data"]),
            ("thawed", json!({"data": {"a": "1"}}), vec!["immutable"]),
            (
                "bytes added",
                json!({"immutable": true, "data": {"a": "1"}, "binaryData": {"b": ""}}),
                vec!["binaryData"],
            ),
        ];
        for (name, object, fields) in rows {
            let expected: Vec<String> = fields.iter().map(|field| format!("{field}: Forbidden: {FROZEN}")).collect();
            assert_eq!(messages(update, &object), expected, "{name}");
        }
    }

    #[test]
    fn entries_are_counted() {
        let object = json!({"metadata": {"name": "a"}, "data": {"x": ""}, "binaryData": {"y": "", "z": ""}});
        assert_eq!(ConfigMap.cells(&object, Timestamp::UNIX_EPOCH), [json!("a"), json!(3), json!("<unknown>")]);
    }
}
