//! What a schema does to a value: a table of what is said of it, and the laws of pruning and defaulting.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::default::default;
use super::prune::prune;
use super::structure::Structure;
use super::validate::{Place, validate, validate_update};
use setpoint_api::field::Errors;

fn object_with(field: Value) -> Structure {
    Structure::compile(&json!({"type": "object", "properties": {"a": field}}))
}

fn said(field: Value, value: Value) -> Vec<String> {
    let mut errors = Errors::default();
    validate(&json!({"a": value}), &object_with(field), &Place::OBJECT, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn values_are_what_their_schema_asks_for() {
    let rows = [
        ("a text", json!({"type": "string"}), json!("x"), vec![]),
        (
            "no text",
            json!({"type": "string"}),
            json!(1),
            vec![r#"a: Invalid value: "integer": a in body must be of type string: "integer""#],
        ),
        (
            "null",
            json!({"type": "string"}),
            json!(null),
            vec![r#"a: Invalid value: "null": a in body must be of type string: "null""#],
        ),
        ("null that may be", json!({"type": "string", "nullable": true}), json!(null), vec![]),
        ("a whole number with a fraction", json!({"type": "integer"}), json!(2.0), vec![]),
        (
            "a fraction",
            json!({"type": "integer"}),
            json!(1.5),
            vec![
                r#"a: Invalid value: "number": a in body must be of type integer: "number""#,
                r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in a"#,
            ],
        ),
        (
            "a number too large for its format",
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000_i64),
            vec![r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in a"#],
        ),
        (
            "at a limit",
            json!({"type": "number", "maximum": 2, "exclusiveMaximum": true}),
            json!(2),
            vec!["a: Invalid value: 2: a in body should be less than 2"],
        ),
        (
            "below a limit",
            json!({"type": "number", "minimum": 1.5}),
            json!(1.2),
            vec!["a: Invalid value: 1.2: a in body should be greater than or equal to 1.5"],
        ),
        (
            "no multiple",
            json!({"type": "integer", "multipleOf": 3}),
            json!(4),
            vec!["a: Invalid value: 4: a in body should be a multiple of 3"],
        ),
        ("counted in characters", json!({"type": "string", "maxLength": 2}), json!("éé"), vec![]),
        (
            "no such value",
            json!({"type": "integer", "enum": [1, 2]}),
            json!(3),
            vec![r#"a: Unsupported value: 3: supported values: "1", "2""#],
        ),
        (
            "too few",
            json!({"type": "array", "minItems": 2, "items": {"type": "string"}}),
            json!(["x"]),
            vec!["a: Invalid value: 1: a in body should have at least 2 items"],
        ),
        (
            "too many fields",
            json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({"x": "", "y": ""}),
            vec!["a: Too many: 2: must have at most 1 item"],
        ),
        (
            "too few fields",
            json!({"type": "object", "minProperties": 1}),
            json!({}),
            vec!["a: Invalid value: 0: a in body should have at least 1 properties"],
        ),
        (
            "no alternative",
            json!({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}),
            json!(3),
            vec![
                r#"<nil>: Invalid value: "": "a" must validate at least one schema (anyOf)"#,
                "a: Invalid value: 3: a in body should be greater than or equal to 5",
            ],
        ),
        (
            "two alternatives",
            json!({"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]}),
            json!(3),
            vec![
                r#"<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
            ],
        ),
        (
            "what it must not be",
            json!({"type": "integer", "not": {"minimum": 1}}),
            json!(3),
            vec![r#"<nil>: Invalid value: "": "a" must not validate the schema (not)"#],
        ),
        (
            "one of all",
            json!({"type": "integer", "allOf": [{"minimum": 5}, {"minimum": 1}]}),
            json!(3),
            vec![
                "a: Invalid value: 3: a in body should be greater than or equal to 5",
                r#"<nil>: Invalid value: "": "a" must validate all the schemas (allOf)"#,
            ],
        ),
        (
            "a field that is missing",
            json!({"type": "object", "required": ["b"]}),
            json!({}),
            vec!["a.b: Required value"],
        ),
        (
            "a format",
            json!({"type": "string", "format": "ipv4"}),
            json!("1.2"),
            vec![r#"a: Invalid value: "1.2": a in body must be of type ipv4: "1.2""#],
        ),
    ];
    for (name, schema, value, expected) in rows {
        assert_eq!(said(schema, value), expected, "{name}");
    }
}

#[test]
fn what_was_wrong_before_may_stay() {
    let schema = Structure::compile(&json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1},
        "keyed": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}},
        },
    }}));
    let old = json!({"a": "long", "keyed": [{"k": "1", "v": 5}]});
    let rows = [
        ("nothing of it changes", json!({"a": "long", "keyed": [{"k": "2", "v": 1}, {"k": "1", "v": 5}]}), 0),
        ("it changes", json!({"a": "longer", "keyed": []}), 1),
        ("an element changes", json!({"a": "long", "keyed": [{"k": "1", "v": 6}]}), 1),
    ];
    for (name, new, expected) in rows {
        let mut errors = Errors::default();
        validate_update(&new, &old, &schema, &Place::OBJECT, &mut errors);
        assert_eq!(errors.len(), expected, "{name}: {errors:?}");
    }
}

#[test]
fn pruning_says_what_it_took() {
    let schema = Structure::compile(&json!({"type": "object", "properties": {
        "known": {"type": "object", "properties": {"x": {"type": "string"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "strict": {"type": "object", "properties": {"x": {"type": "string"}}},
        }},
        "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}}}},
        "raw": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
    }}));
    let mut object = json!({
        "apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, "other": 1,
        "known": {"x": "", "y": 1},
        "free": {"any": {"thing": 1}, "strict": {"y": 1}},
        "list": [{"x": ""}, {"y": 1}],
        "map": {"k": {"y": 1}},
        "raw": {"apiVersion": "v1", "kind": "K", "metadata": {"labels": {}}, "spec": {"z": 1}, "status": {}},
    });
    let pruned = prune(&mut object, &schema);
    let expected = ["free.strict.y", "known.y", "list[1].y", "map.k.y", "other", "raw.spec.z", "raw.status"];
    assert_eq!(pruned, expected);
    assert_eq!(object["free"], json!({"any": {"thing": 1}, "strict": {}}));
    assert_eq!(object["raw"]["metadata"], json!({"labels": {}}));
}

/// A schema whose defaults are what it asks for: they have no fields that it does not specify.
fn schema() -> impl Strategy<Value = Value> {
    let flags = || (any::<bool>(), any::<bool>());
    let leaf = (prop_oneof![Just("string"), Just("integer")], flags()).prop_map(|(kind, (nullable, defaulted))| {
        let mut schema = json!({"type": kind, "nullable": nullable});
        if defaulted {
            schema["default"] = if kind == "string" { json!("d") } else { json!(7) };
        }
        schema
    });
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let object = (proptest::collection::btree_map("[a-d]", inner.clone(), 0..4), flags(), any::<bool>());
        prop_oneof![
            object.prop_map(|(properties, (nullable, defaulted), preserves)| {
                let mut schema = json!({"type": "object", "nullable": nullable, "properties": properties});
                if defaulted {
                    schema["default"] = json!({});
                }
                if preserves {
                    schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
                }
                schema
            }),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.prop_map(|values| json!({"type": "object", "additionalProperties": values})),
        ]
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<i8>().prop_map(Value::from), "[a-c]{0,2}".prop_map(Value::from)];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-e]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_twice_is_pruning_once(schema in schema(), value in value()) {
        let structure = Structure::compile(&json!({"type": "object", "properties": {"a": schema}}));
        let mut once = json!({"a": value});
        prune(&mut once, &structure);
        let mut twice = once.clone();
        prop_assert!(prune(&mut twice, &structure).is_empty());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(schema in schema(), value in value()) {
        let structure = Structure::compile(&json!({"type": "object", "properties": {"a": schema}}));
        let mut once = json!({"a": value});
        default(&mut once, &structure);
        let mut twice = once.clone();
        default(&mut twice, &structure);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn an_object_that_was_stored_is_shown_as_it_is(schema in schema(), value in value()) {
        let structure = Structure::compile(&json!({"type": "object", "properties": {"a": schema}}));
        let mut stored = json!({"a": value});
        prune(&mut stored, &structure);
        default(&mut stored, &structure);
        let mut shown: Value = serde_json::from_str(&stored.to_string()).expect("what is written as JSON is read as JSON");
        prop_assert!(prune(&mut shown, &structure).is_empty());
        default(&mut shown, &structure);
        prop_assert_eq!(stored, shown);
    }

    #[test]
    fn a_default_is_never_pruned(schema in schema(), value in value()) {
        let structure = Structure::compile(&json!({"type": "object", "properties": {"a": schema}}));
        let mut object = json!({"a": value});
        prune(&mut object, &structure);
        default(&mut object, &structure);
        prop_assert!(prune(&mut object, &structure).is_empty());
    }
}

#[test]
fn fields_that_are_alike_are_held_once() {
    let text = |description: &str| json!({"type": "string", "maxLength": 5, "description": description});
    let list = |length: u64| json!({"type": "array", "items": {"type": "string", "maxLength": length}});
    let schema = Structure::compile(&json!({"type": "object", "properties": {
        "a": text("one"), "b": text("another"), "c": {"type": "string", "maxLength": 6}, "d": list(5), "e": list(5), "f": list(6),
        "g": {"type": "object", "properties": {"a": text("deep")}},
    }}));
    let held = |name: &str| std::ptr::from_ref(schema.property(name).expect("a field"));
    let rows = [("a", "b", true), ("a", "c", false), ("d", "e", true), ("d", "f", false), ("a", "g", false)];
    for (one, other, same) in rows {
        assert_eq!(held(one) == held(other), same, "{one} and {other}");
    }
    let deep = schema.property("g").and_then(|inner| inner.property("a")).expect("a field");
    assert_eq!(std::ptr::from_ref(deep), held("a"), "however deep");
}
