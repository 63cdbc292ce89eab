//! Our definitions are what a Kubernetes API server takes.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use setpoint_api::crds::all;
use setpoint_api::names;

use crate::fixture::schema;
use crate::structural::faults;

/// The largest that a definition may be, so that all of them install and list quickly.
const MAX_BYTES: usize = 100 * 1024;

/// Short names that every cluster has already.
const TAKEN: &[&str] = &[
    "cm", "crd", "crds", "cs", "csr", "cj", "deploy", "ds", "ep", "ev", "hpa", "ing", "limits", "netpol", "no", "ns",
    "pc", "pdb", "po", "pv", "pvc", "quota", "rc", "rs", "sa", "sc", "sts", "svc", "vap", "vapb",
];

#[test]
fn every_schema_is_structural() {
    for crd in all() {
        assert_eq!(faults(&schema(&crd)), [""; 0], "{:?}", crd.metadata.name);
    }
}

/// The check is worth what it finds.
#[test]
fn what_is_not_structural_is_found() {
    let rule = json!([{"rule": "self == oldSelf", "message": "m"}]);
    let rows = [
        ("a node without a type", json!({"description": "d"}), "a type is needed"),
        (
            "a reference",
            json!({"type": "object", "$ref": "#/x", "description": "d"}),
            "the keyword $ref is not supported",
        ),
        (
            "unique items",
            json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}, "description": "d"}),
            "the keyword uniqueItems is not supported",
        ),
        (
            "an unknown format",
            json!({"type": "integer", "format": "uint32", "description": "d"}),
            "the format is not known",
        ),
        ("a field nobody explains", json!({"type": "string"}), "a description is needed"),
        (
            "a struct that is also a map",
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}, "description": "d"}),
            "additionalProperties stand alone, and not at the root",
        ),
        ("a list of nothing", json!({"type": "array", "description": "d"}), "a list has items, and nothing else has"),
        (
            "a key that may be missing",
            json!({"type": "array", "description": "d", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string", "description": "d"}}}}),
            "the key k is required or has a default",
        ),
        (
            "a default of another type",
            json!({"type": "string", "default": 1, "description": "d"}),
            "the default does not fit",
        ),
        (
            "a default that is not a word",
            json!({"type": "string", "enum": ["a"], "default": "b", "description": "d"}),
            "the default does not fit",
        ),
        (
            "a default with a field that would be pruned",
            json!({"type": "object", "properties": {}, "default": {"x": 1}, "description": "d"}),
            "the default does not fit",
        ),
        (
            "a rule that compares in an atomic list",
            json!({"type": "array", "maxItems": 1, "description": "d", "items": {"type": "string", "x-kubernetes-validations": rule}}),
            "a rule compares old and new where they cannot be matched",
        ),
        (
            "a rule in a list without a bound",
            json!({"type": "array", "description": "d", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self != ''", "message": "m"}]}}),
            "a rule stands in a list or map without a bound",
        ),
        (
            "a rule that iterates without a bound",
            json!({"type": "object", "description": "d", "properties": {"l": {"type": "array", "description": "d", "items": {"type": "string"}}},
                "x-kubernetes-validations": [{"rule": "self.l.all(x, x != '')", "message": "m"}]}),
            "a rule iterates over what has no bound",
        ),
        (
            "what is required and unknown",
            json!({"type": "object", "required": ["x"], "description": "d"}),
            "x is required and not defined",
        ),
    ];
    for (name, node, expected) in rows {
        let found = faults(&json!({"type": "object", "properties": {"x": node}}));
        assert!(found.iter().any(|fault| fault.ends_with(expected)), "{name}: {found:?}");
    }
}

#[test]
fn definitions_are_named_as_they_must_be() {
    let mut seen = BTreeSet::new();
    for crd in all() {
        let name = crd.metadata.name.clone().expect("a name");
        let spec = &crd.spec;
        assert_eq!(name, format!("{}.{}", spec.names.plural, spec.group));
        assert!(spec.names.categories.as_ref().is_some_and(|all| all.contains(&"setpoint".to_owned())), "{name}");
        assert!(spec.names.short_names.as_ref().is_some_and(|all| !all.is_empty()), "{name} has no short name");
        let short = spec.names.short_names.iter().flatten();
        let singular = spec.names.singular.iter();
        for name in short.chain(singular).chain([&spec.names.plural]) {
            assert_eq!(names::dns1123_label(name), [""; 0], "{name}");
            assert!(!TAKEN.contains(&name.as_str()), "{name} is taken");
            assert!(seen.insert(name.clone()), "{name} names two kinds");
        }
        assert!(spec.versions.iter().filter(|version| version.storage).count() == 1, "{name}");
        assert!(spec.versions.iter().all(|version| version.served), "{name}");
    }
}

#[test]
fn every_kind_has_a_status_with_conditions() {
    for crd in all() {
        let name = &crd.metadata.name;
        assert!(crd.spec.versions[0].subresources.as_ref().is_some_and(|sub| sub.status.is_some()), "{name:?}");
        let schema = schema(&crd);
        let status = &schema["properties"]["status"]["properties"];
        assert!(status["observedGeneration"].is_object() && status["conditions"].is_object(), "{name:?}");
        assert_eq!(schema["required"], json!(["spec"]), "{name:?}");
    }
}

#[test]
fn columns_point_at_fields_that_exist() {
    for crd in all() {
        let schema = schema(&crd);
        let columns = crd.spec.versions[0].additional_printer_columns.clone().unwrap_or_default();
        assert!(columns.len() > 2, "{:?}", crd.metadata.name);
        for column in columns {
            let types = ["integer", "number", "string", "boolean", "date"];
            assert!(types.contains(&column.type_.as_str()), "{}", column.name);
            assert!(points_at_a_field(&schema, &column.json_path), "{:?}: {}", crd.metadata.name, column.json_path);
        }
    }
}

/// Follows `.a.b[?(@.type=="X")].c`.
fn points_at_a_field(schema: &Value, path: &str) -> bool {
    if path == ".metadata.creationTimestamp" {
        return true;
    }
    let plain = path.replace('"', "");
    let Some(plain) = plain.strip_prefix('.') else { return false };
    let mut node = schema;
    let mut rest = plain;
    while !rest.is_empty() {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        node = &node["properties"][&rest[..end]];
        rest = &rest[end..];
        if rest.starts_with("[?(@.type==") {
            node = &node["items"];
            rest = rest.split_once(")]").map_or("", |(_, rest)| rest);
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
    }
    node.is_object()
}

#[test]
fn definitions_are_small_sorted_and_the_same_every_time() {
    let one = all();
    let names: Vec<_> = one.iter().map(|crd| crd.metadata.name.clone()).collect();
    assert!(names.is_sorted());
    for crd in &one {
        let bytes = serde_json::to_vec(crd).unwrap().len();
        assert!(bytes <= MAX_BYTES, "{:?} has {bytes} bytes", crd.metadata.name);
    }
    assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&all()).unwrap());
}

/// A default in a spec turns "not said" into "said". These are all there are, and none of them is of a guest.
#[test]
fn a_machine_has_no_default_that_would_buy_something() {
    let machine = all().into_iter().find(|crd| crd.spec.names.kind == "Machine").expect("Machine");
    let schema = schema(&machine);
    let properties = schema["properties"]["spec"]["properties"].as_object().unwrap();
    let defaults: Vec<&str> = properties
        .iter()
        .filter(|(_, schema)| schema.get("default").is_some())
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(defaults, ["create", "deletionPolicy"]);
}
