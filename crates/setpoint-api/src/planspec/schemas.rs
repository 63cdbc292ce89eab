//! The schemas of the three kinds are structural, and say what the types say.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::{Gate, Goal, Plan};

fn schemas() -> [(&'static str, Value); 3] {
    [("Goal", Goal::crd()), ("Plan", Plan::crd()), ("Gate", Gate::crd())].map(|(kind, crd)| {
        (kind, serde_json::to_value(&crd).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
    })
}

fn visit(schema: &Value, path: &str, see: &mut impl FnMut(&Value, &str)) {
    see(schema, path);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        visit(property, &format!("{path}.{name}"), see);
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = schema.get(below).filter(|below| below.is_object()) {
            visit(below, &format!("{path}[]"), see);
        }
    }
}

#[test]
fn schemas_are_structural() {
    for (kind, schema) in schemas() {
        visit(&schema, kind, &mut |schema, path| {
            let free = schema["x-kubernetes-preserve-unknown-fields"] == json!(true);
            assert!(schema["type"].is_string() || free, "{path} has no type: {schema}");
            for word in ["$ref", "oneOf", "anyOf", "allOf", "not", "definitions"] {
                assert!(schema.get(word).is_none(), "{path} has {word}");
            }
        });
    }
}

#[test]
fn every_field_of_ours_is_described() {
    for (kind, schema) in schemas() {
        for part in ["spec", "status"] {
            visit(&schema["properties"][part], &format!("{kind}.{part}"), &mut |schema, path| {
                let described = schema["description"].is_string() || path.ends_with("[]") || path.ends_with(part);
                assert!(described, "{path} is not described");
            });
        }
    }
}

#[test]
fn schemas_say_what_the_documents_may_hold() {
    let schemas = schemas();
    let at = |pointer: &str| {
        let (kind, path) = pointer.split_once('.').expect("a kind and a path");
        let (_, schema) = schemas.iter().find(|(name, _)| *name == kind).expect("one of the three");
        let mut at = schema;
        for step in path.split('.') {
            at = if step == "[]" { &at["items"] } else { &at["properties"][step] };
        }
        at
    };
    let node = "Plan.spec.graph.nodes.[]";
    let rows = [
        ("constraints are free", at("Goal.spec.constraints"), "x-kubernetes-preserve-unknown-fields", json!(true)),
        ("constraints are an object", at("Goal.spec.constraints"), "type", json!("object")),
        ("priority is not negative", at("Goal.spec.priority"), "minimum", json!(0.0)),
        (
            "a goal's content is free",
            at("Goal.spec.context.[].content"),
            "x-kubernetes-preserve-unknown-fields",
            json!(true),
        ),
        ("inputs are free", at(&format!("{node}.inputs")), "x-kubernetes-preserve-unknown-fields", json!(true)),
        ("nodes are known by id", at("Plan.spec.graph.nodes"), "x-kubernetes-list-map-keys", json!(["id"])),
        ("a plan has a node", at("Plan.spec.graph.nodes"), "minItems", json!(1)),
        ("retries are at most ten", at(&format!("{node}.retries")), "maximum", json!(10.0)),
        ("edges are hard unless they say soft", at("Plan.spec.graph.edges.[].type"), "default", json!("hard")),
        (
            "criteria are required unless they say not",
            at(&format!("{node}.acceptanceCriteria.[].required")),
            "default",
            json!(true),
        ),
        (
            "payloads are free",
            at(&format!("{node}.acceptanceCriteria.[].payload")),
            "x-kubernetes-preserve-unknown-fields",
            json!(true),
        ),
        (
            "the library's spelling is known",
            at(&format!("{node}.acceptanceCriteria.[].webhook_url")),
            "type",
            json!("string"),
        ),
        ("one approver is enough unless it says more", at("Gate.spec.requiredApprovers"), "default", json!(1)),
        ("a gate's context is free", at("Gate.spec.context"), "x-kubernetes-preserve-unknown-fields", json!(true)),
        ("conditions are known by type", at("Gate.status.conditions"), "x-kubernetes-list-map-keys", json!(["type"])),
    ];
    for (name, schema, word, value) in rows {
        assert_eq!(schema[word], value, "{name}: {schema}");
    }
    let rules = |schema: &Value| {
        let rules = schema["x-kubernetes-validations"].as_array().cloned().unwrap_or_default();
        rules.iter().map(|rule| rule["message"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(rules(at("Plan.spec")), ["series and version go together"]);
    assert_eq!(rules(at(node)).len(), 5, "what each kind of node needs");
    assert_eq!(rules(at(&format!("{node}.externalRef"))).len(), 3, "what each type of external reference needs");
}

#[test]
fn kinds_are_found_by_their_names() {
    let rows = [("goals", "gl", Goal::crd()), ("plans", "pl", Plan::crd()), ("gates", "gt", Gate::crd())];
    for (plural, short, crd) in rows {
        assert_eq!(crd.metadata.name.as_deref(), Some(format!("{plural}.planspec.io").as_str()));
        assert_eq!(crd.spec.names.short_names, Some(vec![short.to_owned()]), "{plural}");
        assert_eq!(crd.spec.names.categories, Some(vec!["setpoint".to_owned()]), "{plural}");
        assert!(crd.spec.versions[0].subresources.as_ref().is_some_and(|sub| sub.status.is_some()), "{plural}");
        assert!(
            crd.spec.versions[0].additional_printer_columns.as_ref().is_some_and(|columns| columns.len() >= 5),
            "{plural}"
        );
    }
}
