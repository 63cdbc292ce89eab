//! Objects that rules refuse: where, with what words, and when an old object matters.

use serde_json::{Value as Json, json};
use setpoint_api::field::{Errors, Path};

use crate::cel::{Budget, Rules};

struct Found {
    errors: Vec<String>,
    reasons: Vec<&'static str>,
    warnings: Vec<String>,
}

fn validate(schema: &Json, object: &Json, old: Option<&Json>) -> Found {
    validate_within(schema, object, old, Budget::default())
}

fn validate_within(schema: &Json, object: &Json, old: Option<&Json>, budget: Budget) -> Found {
    let rules = Rules::compile(schema, &Path::of("schema")).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut errors = Errors::default();
    rules.validate(object, old, budget, &mut errors);
    Found {
        errors: errors.iter().map(ToString::to_string).collect(),
        reasons: errors.iter().map(|error| error.fault.reason()).collect(),
        warnings: errors.into_remarks(),
    }
}

/// A widget with rules of every sort.
fn widget() -> Json {
    json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", "properties": {
        "min": {"type": "integer"},
        "max": {"type": "integer"},
        "fixed": {"type": "string", "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "fixed may not change"},
        ]},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [{
            "rule": "self.all(t, t.startsWith('t'))",
            "messageExpression": "'bad tags, the first is ' + self[0]",
            "reason": "FieldValueForbidden",
        }]},
    }, "x-kubernetes-validations": [
        {"rule": "!has(self.min) || !has(self.max) || self.min <= self.max", "message": "min above max",
         "fieldPath": ".min", "reason": "FieldValueInvalid"},
        {"rule": "!has(self.max) || self.max < 100"},
    ]}}, "x-kubernetes-validations": [
        {"rule": "self.metadata.name != 'forbidden'", "message": "name not allowed"},
        {"rule": "!has(oldSelf.spec.max) || has(self.spec.max)", "message": "max may not be removed"},
    ]})
}

fn named(name: &str, spec: Json) -> Json {
    json!({"apiVersion": "g/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

#[test]
fn failures_read_as_kubernetes_writes_them() {
    let good = named("a", json!({"min": 1, "max": 2, "fixed": "x", "tags": ["t"]}));
    for (about, object, old, expected) in [
        ("a good object", good.clone(), None, vec![]),
        ("a field path", named("a", json!({"min": 5, "max": 1})), None, vec!["spec.min: Invalid value: min above max"]),
        (
            "no message",
            named("a", json!({"max": 500})),
            None,
            vec!["spec: Invalid value: failed rule: !has(self.max) || self.max < 100"],
        ),
        (
            "a message that is computed",
            named("a", json!({"tags": ["t1", "x"]})),
            None,
            vec!["spec.tags: Forbidden: bad tags, the first is t1"],
        ),
        ("the object itself", named("forbidden", json!({})), None, vec!["<nil>: Invalid value: name not allowed"]),
        (
            "a changed value",
            named("a", json!({"max": 2, "fixed": "y"})),
            Some(good.clone()),
            vec!["spec.fixed: Invalid value: \"y\": fixed may not change"],
        ),
        ("a removed value has no transition", named("a", json!({"max": 2})), Some(good.clone()), vec![]),
        (
            "a transition of the object",
            named("a", json!({})),
            Some(good.clone()),
            vec!["<nil>: Invalid value: max may not be removed"],
        ),
        ("no transition without an old object", named("a", json!({"fixed": "z"})), None, vec![]),
        (
            "several failures",
            named("b", json!({"min": 5, "max": 1, "tags": ["x"]})),
            None,
            vec!["spec.min: Invalid value: min above max", "spec.tags: Forbidden: bad tags, the first is x"],
        ),
        ("null is not validated", named("a", json!({"tags": null})), None, vec![]),
    ] {
        let found = validate(&widget(), &object, old.as_ref());
        assert_eq!(found.errors, expected, "{about}");
    }
}

fn text_with(rule: Json) -> Json {
    json!({"type": "object", "properties": {"text": {"type": "string", "x-kubernetes-validations": [rule]}}})
}

#[test]
fn rules_are_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Rules>();
}

#[test]
fn reasons_and_messages() {
    let long = "x".repeat(6_000);
    for (about, rule, expected, reason) in [
        ("no reason", json!({"rule": "false"}), "text: Invalid value: \"v\": failed rule: false", "FieldValueInvalid"),
        (
            "required",
            json!({"rule": "false", "reason": "FieldValueRequired", "message": "m"}),
            "text: Required value: m",
            "FieldValueRequired",
        ),
        (
            "forbidden",
            json!({"rule": "false", "reason": "FieldValueForbidden", "message": "m"}),
            "text: Forbidden: m",
            "FieldValueForbidden",
        ),
        (
            "duplicate",
            json!({"rule": "false", "reason": "FieldValueDuplicate", "message": "m"}),
            "text: Duplicate value: \"v\"",
            "FieldValueDuplicate",
        ),
        (
            "a message is trimmed",
            json!({"rule": "false", "message": "  m "}),
            "text: Invalid value: \"v\": m",
            "FieldValueInvalid",
        ),
        (
            "an expression comes before the message",
            json!({"rule": "false", "message": "m", "messageExpression": "'e ' + self"}),
            "text: Invalid value: \"v\": e v",
            "FieldValueInvalid",
        ),
        (
            "an expression that fails",
            json!({"rule": "false", "message": "m", "messageExpression": "[self][1]"}),
            "text: Invalid value: \"v\": m",
            "FieldValueInvalid",
        ),
        (
            "an expression that is empty",
            json!({"rule": "false", "message": "m", "messageExpression": "' '"}),
            "text: Invalid value: \"v\": m",
            "FieldValueInvalid",
        ),
        (
            "an expression of two lines",
            json!({"rule": "false", "messageExpression": "'a\\nb'"}),
            "text: Invalid value: \"v\": failed rule: false",
            "FieldValueInvalid",
        ),
        (
            "an expression that is too long",
            json!({"rule": "false", "messageExpression": format!("'{long}'")}),
            "text: Invalid value: \"v\": failed rule: false",
            "FieldValueInvalid",
        ),
        (
            "a rule that fails",
            json!({"rule": "1 / 0 == 1"}),
            "text: Invalid value: \"string\": division by zero evaluating rule: 1 / 0 == 1",
            "FieldValueInvalid",
        ),
        (
            "a rule that fails and has a message",
            json!({"rule": "1 / 0 == 1", "message": "m"}),
            "text: Invalid value: \"string\": division by zero evaluating rule: m",
            "FieldValueInvalid",
        ),
        (
            "arguments of the wrong types",
            json!({"rule": "dyn(self) + 1 == 2"}),
            "text: Invalid value: \"string\": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: dyn(self) + 1 == 2",
            "FieldValueInvalid",
        ),
    ] {
        let found = validate(&text_with(rule), &json!({"text": "v"}), None);
        assert_eq!((found.errors, found.reasons), (vec![expected.to_owned()], vec![reason]), "{about}");
    }
}

#[test]
fn rules_run_at_every_place_they_cover() {
    let positive = json!([{"rule": "self > 0", "message": "must be positive"}]);
    let number = json!({"type": "integer", "x-kubernetes-validations": positive});
    let schema = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": number},
        "map": {"type": "object", "additionalProperties": number},
        "deep": {"type": "array", "items": {"type": "object", "properties": {"a.b": number}}},
        "part": {"type": "integer", "allOf": [{"x-kubernetes-validations": positive}]},
    }});
    let object = json!({"list": [1, -1], "map": {"good": 1, "bad/key": 0}, "deep": [{}, {"a.b": -2}], "part": -3});
    assert_eq!(
        validate(&schema, &object, None).errors,
        [
            "deep[1].a.b: Invalid value: -2: must be positive",
            "list[1]: Invalid value: -1: must be positive",
            "map[bad/key]: Invalid value: 0: must be positive",
            "part: Invalid value: -3: must be positive",
        ]
    );
}

#[test]
fn elements_of_a_keyed_list_are_compared_with_their_former_selves() {
    let schema = json!({"type": "object", "properties": {"list": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "n"],
        "items": {"type": "object", "properties": {
            "k": {"type": "string"}, "n": {"type": "integer"},
            "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "may only grow"}]},
        }},
    }}});
    let old = json!({"list": [{"k": "a", "n": 1, "v": 5}, {"k": "b", "n": 1, "v": 5}]});
    let new = json!({"list": [{"k": "b", "n": 1, "v": 4}, {"k": "a", "n": 2, "v": 1}, {"k": "a", "n": 1, "v": 6}]});
    assert_eq!(validate(&schema, &new, Some(&old)).errors, ["list[0].v: Invalid value: 4: may only grow"]);
}

#[test]
fn an_optional_old_value_lets_a_rule_run_on_create() {
    let schema = text_with(json!({
        "rule": "oldSelf.hasValue() ? self == oldSelf.value() : self == 'first'",
        "message": "must stay", "optionalOldSelf": true,
    }));
    let text = |text: &str| json!({"text": text});
    for (about, object, old, good) in [
        ("a good first value", text("first"), None, true),
        ("another first value", text("x"), None, false),
        ("the same value", text("x"), Some(text("x")), true),
        ("a changed value", text("y"), Some(text("x")), false),
        ("a first value on update", text("first"), Some(json!({})), true),
    ] {
        assert_eq!(validate(&schema, &object, old.as_ref()).errors.is_empty(), good, "{about}");
    }
}

#[test]
fn what_was_wrong_before_is_only_warned_of() {
    let schema = json!({"type": "object", "properties": {
        "text": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "is bad"}]},
        "other": {"type": "string"},
        "list": {"type": "array", "items": {
            "type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "is bad"}],
        }},
    }});
    for (about, old, new, errors, warnings) in [
        ("unchanged", json!({"text": "bad"}), json!({"text": "bad", "other": "x"}), 0, 1),
        ("changed", json!({"text": "worse"}), json!({"text": "bad"}), 1, 0),
        ("added", json!({}), json!({"text": "bad"}), 1, 0),
        ("an unchanged list", json!({"list": ["bad"]}), json!({"list": ["bad"], "other": "x"}), 0, 1),
        ("a changed list", json!({"list": ["bad"]}), json!({"list": ["bad", "x"]}), 1, 0),
    ] {
        let found = validate(&schema, &new, Some(&old));
        assert_eq!((found.errors.len(), found.warnings.len()), (errors, warnings), "{about}");
    }
    let same = json!({"text": "bad"});
    assert_eq!(validate(&schema, &same, Some(&same)).warnings, ["text: Invalid value: \"bad\": is bad"]);
}

#[test]
fn a_spent_budget_ends_validation() {
    let slow = "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))";
    let two = json!([{"rule": slow}, {"rule": "false"}]);
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "x-kubernetes-validations": two}, "b": {"type": "string", "x-kubernetes-validations": two},
    }});
    let object = json!({"a": "", "b": ""});
    let found = validate(&schema, &object, None);
    assert_eq!(
        found.errors,
        [format!(
            "a: Invalid value: \"string\": 'operation cancelled: actual cost limit exceeded': no further validation rules \
         will be run due to call cost exceeds limit for rule: {slow}"
        )]
    );
    let small = Budget { per_object: 100, ..Budget::default() };
    let out = "a: Invalid value: \"string\": validation failed due to running out of cost budget, no further \
               validation rules will be run";
    assert_eq!(validate_within(&schema, &object, None, small).errors, [out]);
    let told = text_with(json!({"rule": "false", "messageExpression": format!("{slow} ? 'a' : 'b'")}));
    let found = validate(&told, &json!({"text": ""}), None);
    assert_eq!(
        found.errors,
        [format!(
            "text: Invalid value: \"string\": no further validation rules will be run due to call cost exceeds limit for \
         messageExpression: \"{slow} ? 'a' : 'b'\""
        )]
    );
}
