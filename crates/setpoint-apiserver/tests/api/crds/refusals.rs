//! Definitions that are refused: what their writer sees, and that nothing is defined.

use serde_json::json;

use super::*;
use crate::fixture::Api;

/// What a definition has instead, and what is said of which field.
type Row = (&'static str, fn(&mut Value), &'static [(&'static str, &'static str)]);

const SCHEMA: &str = "spec.validation.openAPIV3Schema";

fn schema(definition: &mut Value) -> &mut Value {
    &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
}

const ROWS: &[Row] = &[
    ("no group", |d| d["spec"]["group"] = json!(""), &[("spec.group", "Required value")]),
    (
        "a group without a dot",
        |d| d["spec"]["group"] = json!("nodots"),
        &[("spec.group", "should be a domain with at least one dot")],
    ),
    ("a scope that is none", |d| d["spec"]["scope"] = json!("Nope"), &[("spec.scope", r#"Unsupported value: "Nope""#)]),
    (
        "another name",
        |d| d["metadata"]["name"] = json!("other.example.com"),
        &[("metadata.name", r#"must be spec.names.plural+"."+spec.group"#)],
    ),
    (
        "no kind",
        |d| d["spec"]["names"]["kind"] = json!(""),
        &[("spec.names.kind", "Required value"), ("spec.names.listKind", "Required value")],
    ),
    (
        "a kind like its list",
        |d| d["spec"]["names"]["listKind"] = json!("Widget"),
        &[("spec.names.listKind", "kind and listKind may not be the same")],
    ),
    (
        "a short name that is none",
        |d| d["spec"]["names"]["shortNames"] = json!(["W"]),
        &[("spec.names.shortNames[0]", "a DNS-1035 label")],
    ),
    (
        "no schema",
        |d| d["spec"]["versions"][0]["schema"] = json!(null),
        &[("spec.versions[0].schema.openAPIV3Schema", "Required value")],
    ),
    (
        "no stored version",
        |d| d["spec"]["versions"][0]["storage"] = json!(false),
        &[
            ("spec.versions", "must have exactly one version marked as storage version"),
            ("status.storedVersions", "must have at least one stored version"),
        ],
    ),
    (
        "a version that is none",
        |d| d["spec"]["versions"][0]["name"] = json!("V_1"),
        &[("spec.versions[0].name", "a DNS-1035 label"), ("spec.version", "a DNS-1035 label")],
    ),
    (
        "a webhook to convert",
        |d| d["spec"]["conversion"] = json!({"strategy": "Webhook"}),
        &[("spec.conversion.strategy", "this server does not call webhooks")],
    ),
    (
        "everything kept",
        |d| d["spec"]["preserveUnknownFields"] = json!(true),
        &[("spec.preserveUnknownFields", "cannot set to true")],
    ),
    (
        "a warning without need",
        |d| d["spec"]["versions"][0]["deprecationWarning"] = json!("soon"),
        &[("spec.versions[0].deprecationWarning", "can only be set for deprecated versions")],
    ),
    (
        "a field without a type",
        |d| schema(d)["properties"] = json!({"a": {}}),
        &[("properties[spec].properties[a].type", "must not be empty for specified object fields")],
    ),
    (
        "a type that is none",
        |d| schema(d)["type"] = json!("nope"),
        &[("properties[spec].type", r#"Unsupported value: "nope""#)],
    ),
    (
        "a list of nothing",
        |d| schema(d)["properties"] = json!({"a": {"type": "array"}}),
        &[("properties[spec].properties[a].items", "must be specified")],
    ),
    (
        "a pattern that is none",
        |d| schema(d)["properties"] = json!({"a": {"type": "string", "pattern": "["}}),
        &[("properties[spec].properties[a].pattern", "must be a valid regular expression")],
    ),
    (
        "a default of another type",
        |d| schema(d)["properties"] = json!({"a": {"type": "string", "default": 5}}),
        &[("properties[spec].properties[a].default", "must be of type string")],
    ),
    (
        "a default that breaks a rule",
        |d| {
            let rules = json!([{"rule": "self < 3", "message": "too large"}]);
            schema(d)["properties"] =
                json!({"a": {"type": "integer", "default": 5, "x-kubernetes-validations": rules}});
        },
        &[("properties[spec].properties[a].default", "Invalid value: 5: too large")],
    ),
    (
        "a default that breaks a rule of a part of it",
        |d| {
            let part = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.startsWith('x')"}]});
            schema(d)["properties"] =
                json!({"a": {"type": "object", "default": {"b": "y"}, "properties": {"b": part}}});
        },
        &[("properties[spec].properties[a].default.b", "failed rule: self.startsWith('x')")],
    ),
    (
        "a default with unknown fields",
        |d| schema(d)["properties"] = json!({"a": {"type": "object", "default": {"b": 1}}}),
        &[("properties[spec].properties[a].default", "must not have unknown fields")],
    ),
    (
        "a limit of what is not specified",
        |d| schema(d)["anyOf"] = json!([{"properties": {"b": {"minimum": 1}}}]),
        &[(
            "properties[spec].properties[b]",
            "because it is defined in spec.validation.openAPIV3Schema.properties[spec].anyOf[0].properties[b]",
        )],
    ),
    (
        "an alternative with a type",
        |d| schema(d)["oneOf"] = json!([{"type": "object"}]),
        &[("properties[spec].oneOf[0].type", "must be empty to be structural")],
    ),
    (
        "fields and values",
        |d| schema(d)["additionalProperties"] = json!({"type": "string"}),
        &[("properties[spec].additionalProperties", "mutual exclusive")],
    ),
    ("a reference", |d| schema(d)["$ref"] = json!("#/x"), &[("properties[spec].$ref", "$ref is not supported")]),
    (
        "unique items",
        |d| schema(d)["properties"] = json!({"a": {"type": "array", "uniqueItems": true, "items": {"type": "string"}}}),
        &[("properties[spec].properties[a].uniqueItems", "runtime complexity becomes quadratic")],
    ),
    (
        "a keyed list without keys",
        |d| {
            schema(d)["properties"] =
                json!({"a": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}})
        },
        &[(
            "properties[spec].properties[a].x-kubernetes-list-map-keys",
            "must not be empty if x-kubernetes-list-type is map",
        )],
    ),
    (
        "a key that may be absent",
        |d| schema(d)["properties"] = json!({"a": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}),
        &[(
            "properties[spec].properties[a].items.properties[k].default",
            "must have a default or be a required property",
        )],
    ),
    (
        "unknown fields not kept",
        |d| schema(d)["x-kubernetes-preserve-unknown-fields"] = json!(false),
        &[("properties[spec].x-kubernetes-preserve-unknown-fields", "must be true or undefined")],
    ),
    (
        "a rule about no field",
        |d| schema(d)["x-kubernetes-validations"] = json!([{"rule": "self.nope > 1"}]),
        &[("properties[spec].x-kubernetes-validations[0].rule", "undefined field 'nope'")],
    ),
    (
        "a scale of nothing",
        |d| {
            d["spec"]["versions"][0]["subresources"] =
                json!({"scale": {"specReplicasPath": ".status.a", "statusReplicasPath": "b"}})
        },
        &[
            ("spec.subresources.scale.specReplicasPath", "should be a json path under .spec"),
            ("spec.subresources.scale.statusReplicasPath", "must be a simple json path starting with ."),
        ],
    ),
    (
        "a column without a path",
        |d| d["spec"]["versions"][0]["additionalPrinterColumns"] = json!([{"name": "A", "type": "text"}]),
        &[
            ("spec.additionalPrinterColumns[0].type", "must be one of boolean,date,integer,number,string"),
            ("spec.additionalPrinterColumns[0].JSONPath", "Required value"),
        ],
    ),
    (
        "a selector by metadata",
        |d| d["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".metadata.uid"}]),
        &[("spec.selectableFields[0].jsonPath", "must not point to fields in metadata")],
    ),
    (
        "a selector by an object",
        |d| d["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec"}]),
        &[("spec.selectableFields[0].jsonPath", "must point to a field of type string, boolean or integer")],
    ),
];

#[tokio::test]
async fn a_definition_that_makes_no_sense_defines_nothing() {
    let api = Api::new().await;
    let before = api.store.revision();
    for (row, change, faults) in ROWS {
        let mut definition = widgets(json!({"size": {"type": "integer"}}));
        change(&mut definition);
        let answer = api.post(DEFINITIONS, definition).await.refused(422, "Invalid", &[]);
        for (field, words) in *faults {
            let field = if field.starts_with("properties") { format!("{SCHEMA}.{field}") } else { (*field).to_owned() };
            let causes = answer["details"]["causes"].as_array().into_iter().flatten();
            let said = causes
                .filter(|cause| cause["field"] == field)
                .any(|c| c["message"].as_str().unwrap_or_default().contains(words));
            assert!(said, "{row}: {field} {words:?} is not in {}", answer.text());
        }
    }
    assert_eq!(api.store.revision(), before, "nothing was stored");
    api.get(WIDGETS).await.expect(404);
}

#[tokio::test]
async fn a_group_of_kubernetes_needs_approval() {
    let api = Api::new().await;
    let mut definition = widgets(json!({}));
    definition["metadata"]["name"] = json!("widgets.x.k8s.io");
    definition["spec"]["group"] = json!("x.k8s.io");
    let answer = api.post(DEFINITIONS, definition.clone()).await.refused(
        422,
        "Invalid",
        &["protected groups must have approval"],
    );
    assert!(answer.fields().contains("metadata.annotations[api-approved.kubernetes.io]"));
    definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "https://example.com/approved"});
    api.post(DEFINITIONS, definition).await.expect(201);
}

#[tokio::test]
async fn what_objects_are_stored_by_stays() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({}))).await.expect(201);
    let before = api.get(DEFINITION).await.expect(200).object;
    let rows = [
        ("the scope", json!({"spec": {"scope": "Cluster"}}), "spec.scope"),
        ("the group", json!({"spec": {"group": "other.example.com"}}), "spec.group"),
        ("the kind", json!({"spec": {"names": {"kind": "Gadget", "listKind": "GadgetList"}}}), "spec.names.kind"),
    ];
    for (row, patch, field) in rows {
        let answer = api.merge_patch(DEFINITION, patch).await.refused(422, "Invalid", &["field is immutable"]);
        assert!(answer.fields().contains(field), "{row}: {}", answer.text());
        assert_eq!(api.get(DEFINITION).await.expect(200).object, before, "{row}");
    }
    let update = widgets(json!({}));
    api.put(DEFINITION, update).await.refused(
        422,
        "Invalid",
        &["metadata.resourceVersion", "must be specified for an update"],
    );
}
