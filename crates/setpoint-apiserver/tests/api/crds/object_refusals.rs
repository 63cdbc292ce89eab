//! Every custom object that is refused: what its writer sees, and that nothing was stored.

use serde_json::json;

use super::*;
use crate::fixture::{Answer, Api};

/// A definition with at least one field for everything that can be demanded of a value.
fn demanding() -> Value {
    let keyed =
        json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}});
    let mut widgets = widgets(json!({
        "text": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "choice": {"type": "string", "enum": ["a", "b"]},
        "number": {"type": "number", "multipleOf": 0.5, "minimum": 1, "exclusiveMinimum": true, "maximum": 9},
        "small": {"type": "integer", "format": "int32"},
        "flag": {"type": "boolean"},
        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "keyed": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": keyed,
        },
        "map": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer"}},
        "nested": {"type": "object", "required": ["must"], "properties": {"must": {"type": "string"}}},
        "one": {
            "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "not": {"type": "string", "not": {"enum": ["never"]}},
        "when": {"type": "string", "format": "date-time"},
        "mail": {"type": "string", "format": "email"},
        "port": {"x-kubernetes-int-or-string": true},
        "raw": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "even": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0", "message": "must be even"}]},
        "plain": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5"}]},
        "told": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [
            {"rule": "self != 'no'", "messageExpression": "'not ' + self", "reason": "FieldValueForbidden"},
        ]},
        "pair": {
            "type": "object", "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}},
            "x-kubernetes-validations": [{
                "rule": "!has(self.low) || !has(self.high) || self.low <= self.high",
                "message": "low is above high", "fieldPath": ".low", "reason": "FieldValueInvalid",
            }],
        },
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "it is fixed"}]},
    }));
    let version = &mut widgets["spec"]["versions"][0];
    let status = json!({"type": "object", "properties": {"ready": {"type": "integer"}}});
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = status;
    version["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.small", "statusReplicasPath": ".status.ready",
    }});
    widgets
}

/// A spec that is refused, the field that is named, and what is said of it.
type Row = (&'static str, Value, &'static str, &'static str);

fn rows() -> Vec<Row> {
    vec![
        ("too short", json!({"text": "a"}), "spec.text", "should be at least 2 chars long"),
        ("too long", json!({"text": "abcde"}), "spec.text", "Too long: may not be more than 4 bytes"),
        ("against a pattern", json!({"text": "A1"}), "spec.text", "should match '^[a-z]+$'"),
        ("no choice", json!({"choice": "c"}), "spec.choice", r#"Unsupported value: "c": supported values: "a", "b""#),
        ("no multiple", json!({"number": 1.7}), "spec.number", "should be a multiple of 0.5"),
        ("too small", json!({"number": 1}), "spec.number", "should be greater than 1"),
        ("too large", json!({"number": 9.5}), "spec.number", "should be less than or equal to 9"),
        ("out of its format", json!({"small": 3_000_000_000_u64}), "<nil>", "integer with format int32 in spec.small"),
        ("text for a number", json!({"small": "1"}), "spec.small", "must be of type integer: \"string\""),
        ("text for a flag", json!({"flag": "true"}), "spec.flag", "must be of type boolean: \"string\""),
        (
            "nothing where something must be",
            json!({"flag": null, "nested": null, "text": [null]}),
            "spec.text",
            "string",
        ),
        ("too few", json!({"list": []}), "spec.list", "should have at least 1 items"),
        ("too many", json!({"list": ["a", "b", "c"]}), "spec.list", "Too many: 3: must have at most 2 items"),
        ("a wrong element", json!({"list": [1]}), "spec.list[0]", "must be of type string: \"integer\""),
        ("twice in a set", json!({"set": ["a", "a"]}), "spec.set[1]", r#"Duplicate value: "a""#),
        ("a key twice", json!({"keyed": [{"k": "1"}, {"k": "1"}]}), "spec.keyed[1]", r#"Duplicate value: {"k":"1"}"#),
        ("no key", json!({"keyed": [{"v": "1"}]}), "spec.keyed[0].k", "Required value"),
        ("too many entries", json!({"map": {"a": 1, "b": 2}}), "spec.map", "Too many: 2: must have at most 1 item"),
        ("a wrong entry", json!({"map": {"a": "1"}}), "spec.map.a", "must be of type integer: \"string\""),
        ("a missing field", json!({"nested": {}}), "spec.nested.must", "Required value"),
        ("both of two", json!({"one": {"a": "1", "b": "2"}}), "<nil>", "must validate one and only one schema (oneOf)"),
        ("what it must not be", json!({"not": "never"}), "<nil>", "must not validate the schema (not)"),
        ("no time", json!({"when": "today"}), "spec.when", "must be of type date-time: \"today\""),
        ("no address", json!({"mail": "x"}), "spec.mail", "must be of type email: \"x\""),
        ("neither number nor text", json!({"port": true}), "spec.port", "must be of type integer,string: \"boolean\""),
        ("an object that is none", json!({"raw": {"z": 1}}), "spec.raw.kind", "Required value"),
        ("against a rule", json!({"even": 3}), "spec.even", "Invalid value: 3: must be even"),
        ("against a rule that says nothing", json!({"plain": 5}), "spec.plain", "failed rule: self < 5"),
        ("against a rule that tells why", json!({"told": "no"}), "spec.told", "Forbidden: not no"),
        ("against a rule elsewhere", json!({"pair": {"low": 2, "high": 1}}), "spec.pair.low", "low is above high"),
    ]
}

fn says(answer: &Answer, field: &str, words: &str) -> bool {
    let causes = answer["details"]["causes"].as_array().into_iter().flatten();
    causes
        .filter(|cause| cause["field"] == field)
        .any(|cause| cause["message"].as_str().is_some_and(|message| message.contains(words)))
}

#[tokio::test]
async fn what_is_not_as_defined_is_neither_made_nor_changed_to() {
    let api = Api::new().await;
    api.post(DEFINITIONS, demanding()).await.expect(201);
    let path = format!("{WIDGETS}/kept");
    let kept = api.post(WIDGETS, widget("kept", json!({"fixed": "x", "small": 1}))).await.expect(201).object;
    let before = api.store.revision();
    for (row, spec, field, words) in rows() {
        let mut whole = kept.clone();
        for (name, value) in spec.as_object().into_iter().flatten() {
            whole["spec"][name] = value.clone();
        }
        let sent = [
            ("created", api.post(WIDGETS, widget("new", spec.clone())).await),
            ("replaced", api.put(&path, whole).await),
            ("patched", api.merge_patch(&path, json!({"spec": spec})).await),
        ];
        for (how, answer) in sent {
            assert_eq!((answer.status, &answer["reason"]), (422, &json!("Invalid")), "{row}, {how}: {}", answer.text());
            assert!(says(&answer, field, words), "{row}, {how}: {}", answer.text());
            assert_eq!(answer["details"]["kind"], "Widget", "{row}, {how}");
        }
        assert_eq!(api.store.revision(), before, "{row}: nothing is stored");
    }
    assert_eq!(api.get(&path).await.expect(200).object, kept);
    api.get(format!("{WIDGETS}/new")).await.refused(404, "NotFound", &[r#"widgets.example.com "new" not found"#]);
}

#[tokio::test]
async fn what_cannot_be_done_to_a_custom_object_is_not_done() {
    let api = Api::new().await;
    api.post(DEFINITIONS, demanding()).await.expect(201);
    let path = format!("{WIDGETS}/kept");
    let kept = api.post(WIDGETS, widget("kept", json!({"fixed": "x", "small": 1}))).await.expect(201).object;
    let before = api.store.revision();
    let named = |name: &str| widget(name, json!({}));
    let altered = |field: &str, value: Value| {
        let mut object = kept.clone();
        object[field] = value;
        object
    };
    let old = json!({"name": "kept", "resourceVersion": "1", "uid": kept["metadata"]["uid"]});
    let on = |part: &str| format!("{path}/{part}");
    let step = |step: Value| api.json_patch(&path, json!([step]));
    let by_two = |spec: Value| api.apply(&path, "two", widget("kept", spec));
    let mut status = named("kept");
    status["status"] = json!({"nope": 1});
    let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 1}});
    scale["metadata"] = json!({"name": "other"});

    let taken = r#"conflict with "unknown" using example.com/v1: .spec.small"#;
    let invalid = [
        ("a bad name", api.post(WIDGETS, named("Bad_Name")), "metadata.name: Invalid value"),
        ("no name", api.post(WIDGETS, altered("metadata", json!({}))), "name or generateName is required"),
        ("another kind", api.post(WIDGETS, altered("kind", json!("Gadget"))), "must be Widget"),
        ("no revision", api.put(&path, named("kept")), "must be specified for an update"),
        (
            "what was fixed",
            api.merge_patch(&path, json!({"spec": {"fixed": "y"}})),
            r#"Invalid value: "y": it is fixed"#,
        ),
        ("a test that fails", step(json!({"op": "test", "path": "/spec/small", "value": 9})), ""),
        ("a path to nowhere", step(json!({"op": "remove", "path": "/spec/none"})), ""),
        ("a wrong value applied", by_two(json!({"even": 3})), "must be even"),
        (
            "a wrong status",
            api.merge_patch(on("status"), json!({"status": {"ready": "x"}})),
            "status.ready: Invalid value",
        ),
        ("a negative scale", api.merge_patch(on("scale"), json!({"spec": {"replicas": -1}})), "non-negative integer"),
    ];
    let bad_request = [
        (
            "another version",
            api.post(WIDGETS, altered("apiVersion", json!("example.com/v9"))),
            "does not match the expected",
        ),
        ("no kind", api.post(WIDGETS, json!({"metadata": {"name": "new"}})), ""),
        ("metadata that is none", api.post(WIDGETS, altered("metadata", json!([]))), ""),
        ("a list", api.post(WIDGETS, json!([])), ""),
        ("a patch that is none", api.merge_patch(&path, json!([1])), ""),
        ("a field that is none", by_two(json!({"none": 2})), ".spec.none: field not declared in schema"),
        (
            "a key twice, applied",
            by_two(json!({"keyed": [{"k": "1"}, {"k": "1"}]})),
            r#"duplicate entries for key [k="1"]"#,
        ),
        ("a status that is none", api.apply(on("status"), "two", status), ".status.nope: field not declared in schema"),
        ("a scale of another name", api.put(on("scale"), scale), "does not match the name on the URL"),
        (
            "no selector",
            api.get(format!("{WIDGETS}?fieldSelector=spec.small%3D1")),
            "field label not supported: spec.small",
        ),
    ];
    let not_found = [
        ("not there", api.put(format!("{WIDGETS}/none"), named("none")), r#"widgets.example.com "none" not found"#),
        ("no such part", api.get(on("nope")), "not found"),
        (
            "no namespace",
            api.post(WIDGETS.replace("default", "nowhere"), named("new")),
            r#"namespaces "nowhere" not found"#,
        ),
    ];
    let conflict = [
        ("an old revision", api.put(&path, altered("metadata", old)), "the object has been modified"),
        ("another's field", by_two(json!({"small": 2})), taken),
    ];
    let others = [
        (409, "AlreadyExists", ("there already", api.post(WIDGETS, named("kept")), "already exists")),
        (415, "UnsupportedMediaType", ("a strategic merge", api.strategic_patch(&path, json!({})), "merge-patch+json")),
    ];
    let sent = invalid.into_iter().map(|row| (422, "Invalid", row));
    let sent = sent.chain(bad_request.into_iter().map(|row| (400, "BadRequest", row)));
    let sent = sent.chain(not_found.into_iter().map(|row| (404, "NotFound", row)));
    let sent = sent.chain(conflict.into_iter().map(|row| (409, "Conflict", row))).chain(others);
    for (status, reason, (row, sending, words)) in sent {
        let answer = sending.await;
        assert_eq!((answer.status, &answer["reason"]), (status, &json!(reason)), "{row}: {}", answer.text());
        assert!(answer.message().contains(words), "{row}: {}", answer.text());
        assert_eq!(api.store.revision(), before, "{row}: nothing is stored");
    }
    assert_eq!(api.get(&path).await.expect(200).object, kept);
    assert_eq!(api.names(WIDGETS).await, ["kept"]);
}
