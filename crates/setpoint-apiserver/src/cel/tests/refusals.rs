//! Rules that are refused when their definition is admitted, with Kubernetes' words.

use serde_json::{Value as Json, json};
use setpoint_api::field::Path;

use crate::cel::Rules;

/// The schema of most rows: `rules` stand at its root.
fn with_rules(rules: Json) -> Json {
    json!({"type": "object", "x-kubernetes-validations": rules, "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer"}, "name": {"type": "string"},
            "names": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        }},
    }})
}

fn problems(schema: &Json) -> Vec<String> {
    match Rules::compile(schema, &Path::of("schema")) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn a_refusal_shows_the_rule_and_the_place() {
    let schema = with_rules(json!([{"rule": "self.nope > 1"}]));
    assert_eq!(
        problems(&schema),
        [concat!(
            r#"schema.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.nope \u003e 1","Message":"","#,
            r#""MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: "#,
            "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope > 1\n | ....^"
        )]
    );
}

#[test]
fn expressions_are_refused_with_reasons() {
    for (rule, expected) in [
        (
            "self.spec.size >",
            "ERROR: <input>:1:17: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | self.spec.size >\n | ................^",
        ),
        ("self.spec.size == 1 2", "1:21: Syntax error: extraneous input '2' expecting <EOF>"),
        ("self.spec.size == @1", "1:19: Syntax error: token recognition error at: '@'"),
        ("(self.spec.size == 1", "mismatched input '<EOF>' expecting ')'"),
        ("self.spec.names[0 == 'a'", "mismatched input '<EOF>' expecting ']'"),
        ("[1, 2 == 1", "mismatched input '<EOF>' expecting {']', ','}"),
        ("{'a' 1}.size() == 1", "mismatched input '1' expecting ':'"),
        ("size(1, == 1", "mismatched input '=='"),
        ("self. == 1", "no viable alternative at input '.=='"),
        ("true ? false", "mismatched input '<EOF>' expecting ':'"),
        ("'abc", "token recognition error at: ''abc'"),
        ("let == 1", "1:1: reserved identifier: let"),
        ("package(1)", "reserved identifier: package"),
        ("self.`a` == 1", "unsupported syntax: '`'"),
        ("", "Required value: rule is not specified"),
        ("   ", "Required value: rule is not specified"),
        ("self.spec.size", "cel expression must evaluate to a bool"),
        ("'true'", "cel expression must evaluate to a bool"),
        ("dyn(true)", "cel expression must evaluate to a bool"),
        ("null", "cel expression must evaluate to a bool"),
        ("unknown == 1", "1:1: undeclared reference to 'unknown' (in container '')"),
        ("unknown(1)", "1:8: undeclared reference to 'unknown' (in container '')"),
        ("self.spec.unknown()", "1:18: undeclared reference to 'unknown' (in container '')"),
        ("self.spec.size.contains('a')", "1:24: found no matching overload for 'contains' applied to 'int.(string)'"),
        ("self.spec.name.contains()", "found no matching overload for 'contains' applied to 'string.()'"),
        (
            "self.spec.name.contains('a', 'b')",
            "found no matching overload for 'contains' applied to 'string.(string, string)'",
        ),
        ("size() == 1", "found no matching overload for 'size' applied to '()'"),
        ("self.spec.size + 'a' == 'b'", "1:16: found no matching overload for '_+_' applied to '(int, string)'"),
        ("!self.spec.size", "found no matching overload for '!_' applied to '(int)'"),
        ("-self.spec.name == ''", "found no matching overload for '-_' applied to '(string)'"),
        ("self.spec.size ? true : false", "found no matching overload for '_?_:_' applied to '(int, bool, bool)'"),
        ("true ? 1 : 'a'", "found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
        ("self.spec.size && true", "1:10: expected type 'bool' but found 'int'"),
        (
            "self.spec.size.all(x, true)",
            "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("self.spec.names.all(x, x > 1)", "found no matching overload for '_>_' applied to '(string, int)'"),
        ("self.spec.labels.all(k, v, v == 1)", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.spec.names.all(x, y == 'a')", "undeclared reference to 'y' (in container '')"),
        ("self.spec.names.exists(x, true) && x == 1", "undeclared reference to 'x' (in container '')"),
        ("Type{field: 1} == 1", "undeclared reference to 'Type' (in container '')"),
        ("self.spec.labels[1] == 'a'", "found no matching overload for '_[_]' applied to '(map(string, string), int)'"),
        ("self.spec.?nope.hasValue()", "undefined field 'nope'"),
        ("authorizer.group('').check('get').allowed()", "undeclared reference to 'authorizer' (in container '')"),
        ("object.spec.size == 1", "undeclared reference to 'object' (in container '')"),
        ("self.spec.name.matches('[')", "1:24: invalid matches argument"),
    ] {
        let found = problems(&with_rules(json!([{"rule": rule}])));
        assert!(found.len() == 1 && found[0].contains(expected), "{rule}\n  expected {expected}\n  got {found:?}");
    }
}

#[test]
fn several_problems_are_told_in_the_order_of_the_text() {
    let found = problems(&with_rules(json!([{"rule": "self.b == 1 &&\n  self.a == 1", "message": "m"}])));
    assert_eq!(found.len(), 1);
    let lines: Vec<&str> = found[0].lines().collect();
    assert!(lines[0].ends_with("compilation failed: ERROR: <input>:1:5: undefined field 'b'"), "{lines:?}");
    assert_eq!(
        lines[1..],
        [" | self.b == 1 &&", " | ....^", "ERROR: <input>:2:7: undefined field 'a'", " |   self.a == 1", " | ......^",]
    );
}

#[test]
fn the_rest_of_a_rule_is_checked() {
    let name = "self.spec.name == ''";
    for (about, rule, expected) in [
        (
            "a blank message",
            json!({"rule": name, "message": " "}),
            "message: Invalid value: \" \": must be non-empty if specified",
        ),
        (
            "a message of two lines",
            json!({"rule": name, "message": "a\nb"}),
            "message: Invalid value: \"a\\nb\": must not contain line breaks",
        ),
        (
            "a rule of two lines without a message",
            json!({"rule": "true\n|| true"}),
            "message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            "a blank messageExpression",
            json!({"rule": name, "messageExpression": " "}),
            "messageExpression: Required value: messageExpression must be non-empty if specified",
        ),
        (
            "a messageExpression that is no text",
            json!({"rule": name, "messageExpression": "1"}),
            "messageExpression must evaluate to a string",
        ),
        (
            "a messageExpression that does not compile",
            json!({"rule": name, "messageExpression": "self.nope"}),
            "messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'nope'",
        ),
        (
            "an unknown reason",
            json!({"rule": name, "reason": "Nope"}),
            "reason: Unsupported value: \"Nope\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
        (
            "a blank fieldPath",
            json!({"rule": name, "fieldPath": " "}),
            "fieldPath: Invalid value: \" \": must be non-empty if specified",
        ),
        (
            "a fieldPath to no field",
            json!({"rule": name, "fieldPath": ".spec.nope"}),
            "fieldPath: Invalid value: \".spec.nope\": must be a valid path",
        ),
        ("a fieldPath without a dot", json!({"rule": name, "fieldPath": "spec"}), "must be a valid path"),
        ("a fieldPath into a list", json!({"rule": name, "fieldPath": ".spec.names[0]"}), "must be a valid path"),
        (
            "optionalOldSelf without oldSelf",
            json!({"rule": name, "optionalOldSelf": true}),
            "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
        (
            "oldSelf that is not optional",
            json!({"rule": "oldSelf.hasValue()"}),
            "found no matching overload for 'hasValue' applied to 'object.()'",
        ),
        (
            "optional oldSelf used as if it were not",
            json!({"rule": "oldSelf == self", "optionalOldSelf": true}),
            "found no matching overload for '_==_' applied to '(optional_type(object), object)'",
        ),
    ] {
        let found = problems(&with_rules(json!([rule])));
        assert!(
            found.iter().any(|problem| problem.contains(expected)),
            "{about}\n  expected {expected}\n  got {found:?}"
        );
    }
}

#[test]
fn old_values_are_known_only_where_elements_have_an_identity() {
    let rules = json!([{"rule": "self == oldSelf"}]);
    let list = |kind: Json, items: Json| {
        let mut list = json!({"type": "array", "items": items});
        if let (Json::Object(list), Json::Object(kind)) = (&mut list, kind) {
            list.extend(kind);
        }
        json!({"type": "object", "properties": {"list": list}})
    };
    let text = json!({"type": "string", "x-kubernetes-validations": rules});
    let keyed = json!({"type": "object", "properties": {"k": {"type": "string"}, "v": text}});
    let map = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]});
    let refusal = "oldSelf cannot be used on the uncorrelatable portion of the schema within schema.properties[list]";
    for (about, schema, refused) in [
        ("a list", list(json!({}), text.clone()), true),
        ("a set", list(json!({"x-kubernetes-list-type": "set"}), text.clone()), true),
        ("a map in disguise", list(map.clone(), keyed.clone()), false),
        ("a list of objects", list(json!({}), keyed.clone()), true),
        ("the list itself", list(json!({"x-kubernetes-validations": rules}), json!({"type": "string"})), false),
    ] {
        let found = problems(&schema);
        assert_eq!(found.iter().any(|problem| problem.contains(refusal)), refused, "{about}: {found:?}");
        assert_eq!(found.is_empty(), !refused, "{about}: {found:?}");
    }
    let found = problems(&list(json!({}), text));
    assert_eq!(
        found,
        [format!(
            "schema.properties[list].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": {refusal}"
        )]
    );
}

#[test]
fn rules_are_found_wherever_they_stand() {
    let wrong = json!([{"rule": "self.nope"}]);
    let object = json!({"type": "object", "x-kubernetes-validations": wrong});
    let schema = json!({"type": "object", "x-kubernetes-validations": wrong, "properties": {
        "map": {"type": "object", "additionalProperties": object},
        "list": {"type": "array", "items": object},
        "part": {"type": "object", "allOf": [{"x-kubernetes-validations": wrong}]},
    }});
    let found = problems(&schema);
    let places: Vec<&str> = found.iter().filter_map(|problem| problem.split(": ").next()).collect();
    assert_eq!(
        places,
        [
            "schema.properties[list].items.x-kubernetes-validations[0].rule",
            "schema.properties[map].additionalProperties.x-kubernetes-validations[0].rule",
            "schema.properties[part].allOf[0].x-kubernetes-validations[0].rule",
            "schema.x-kubernetes-validations[0].rule",
        ]
    );
}

#[test]
fn a_schema_without_rules_is_empty() {
    assert!(Rules::compile(&with_rules(json!([])), &Path::ROOT).expect("no rules are good rules").is_empty());
    assert!(!Rules::compile(&with_rules(json!([{"rule": "true"}])), &Path::ROOT).expect("a good rule").is_empty());
}
