//! Custom objects: what is filled in, what is dropped, what is refused.

use http::Method;
use serde_json::json;

use super::*;
use crate::fixture::{Api, TABLE};

async fn serving(fields: Value) -> Api {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(fields)).await.expect(201);
    api
}

#[tokio::test]
async fn defaults_are_filled_in_and_unknown_fields_dropped() {
    let api = serving(json!({
        "size": {"type": "integer", "default": 3},
        "nested": {"type": "object", "default": {}, "properties": {"x": {"type": "string", "default": "y"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "note": {"type": "string", "nullable": true},
    }))
    .await;
    let spec = json!({"size": null, "note": null, "nope": 1, "free": {"any": [1]}, "nested": {"bad": 1}});
    let mut object = widget("a", spec);
    object["other"] = json!(1);
    object["metadata"]["odd"] = json!(1);
    let made = api.post(WIDGETS, object.clone()).await.expect(201);
    assert_eq!(made["spec"], json!({"free": {"any": [1]}, "nested": {"x": "y"}, "note": null, "size": 3}));
    let unknown = ["metadata.odd", "other", "spec.nested.bad", "spec.nope"];
    let expected: Vec<String> = unknown.iter().map(|field| format!(r#"299 - "unknown field \"{field}\"""#)).collect();
    assert_eq!(made.warnings(), expected);
    assert_eq!(api.get(format!("{WIDGETS}/a")).await.expect(200).object, made.object);

    object["metadata"]["name"] = json!("b");
    let strict = api.post(format!("{WIDGETS}?fieldValidation=Strict"), object.clone()).await;
    strict.refused(
        400,
        "BadRequest",
        &[r#"strict decoding error: unknown field "metadata.odd", unknown field "other""#],
    );
    assert_eq!(api.names(WIDGETS).await, ["a"]);
    let ignored = api.post(format!("{WIDGETS}?fieldValidation=Ignore"), object).await.expect(201);
    assert!(ignored.warnings().is_empty());
}

#[tokio::test]
async fn fields_that_come_twice_are_refused_told_or_passed_over_as_asked() {
    let api = serving(json!({"size": {"type": "integer"}})).await;
    let twice = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1,"size":2,"nope":1}}"#;
    let send = |mode: &str| {
        let path = format!("{WIDGETS}?fieldValidation={mode}&dryRun=All");
        api.send(Method::POST, path).body("application/json", twice)
    };
    let words = r#"strict decoding error: duplicate field "spec.size", unknown field "spec.nope""#;
    send("Strict").await.refused(400, "BadRequest", &[words]);
    let warned = send("Warn").await.expect(201);
    assert_eq!(warned["spec"], json!({"size": 2}));
    let told = [r#"299 - "duplicate field \"spec.size\"""#, r#"299 - "unknown field \"spec.nope\"""#];
    assert_eq!(warned.warnings(), told);
    assert!(send("Ignore").await.expect(201).warnings().is_empty());
}

#[tokio::test]
async fn an_apply_has_only_fields_that_are_known_whatever_is_asked() {
    let api = serving(json!({"size": {"type": "integer"}})).await;
    for mode in ["Strict", "Warn", "Ignore"] {
        let path = format!("{WIDGETS}/a?fieldManager=one&fieldValidation={mode}");
        let object = widget("a", json!({"size": 1, "nope": 2})).to_string();
        let answer = api.send(Method::PATCH, path).body("application/apply-patch+yaml", object).await;
        answer.refused(400, "BadRequest", &[".spec.nope: field not declared in schema"]);
    }
    assert!(api.names(WIDGETS).await.is_empty());
}

#[tokio::test]
async fn an_object_that_is_not_as_defined_is_not_stored() {
    let api = serving(json!({
        "name": {"type": "string", "maxLength": 3},
        "port": {"x-kubernetes-int-or-string": true},
        "raw": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "even": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0", "message": "must be even"}]},
    }))
    .await;
    let rows = [
        ("too long", json!({"name": "long"}), "spec.name", "Too long: may not be more than 3 bytes"),
        ("of another type", json!({"name": 1}), "spec.name", "spec.name in body must be of type string"),
        ("neither number nor text", json!({"port": true}), "spec.port", "must be of type integer,string"),
        ("an object that is none", json!({"raw": {"z": 1}}), "spec.raw.kind", "Required value"),
        ("twice in a set", json!({"set": ["a", "a"]}), "spec.set[1]", r#"Duplicate value: "a""#),
        ("against a rule", json!({"even": 3}), "spec.even", "must be even"),
    ];
    for (row, spec, field, words) in rows {
        let answer = api.post(WIDGETS, widget("a", spec)).await.refused(422, "Invalid", &[words]);
        assert!(answer.fields().contains(field), "{row}: {}", answer.text());
    }
    let mut other = widget("a", json!({}));
    other["kind"] = json!("Gadget");
    api.post(WIDGETS, other).await.refused(422, "Invalid", &["kind: Invalid value: \"Gadget\": must be Widget"]);
    let mut other = widget("a", json!({}));
    other["apiVersion"] = json!("example.com/v9");
    api.post(WIDGETS, other).await.refused(
        400,
        "BadRequest",
        &["does not match the expected API version (example.com/v1)"],
    );
    assert!(api.names(WIDGETS).await.is_empty());
}

#[tokio::test]
async fn a_refused_change_changes_nothing() {
    let api = serving(json!({"size": {"type": "integer", "maximum": 9}})).await;
    let path = format!("{WIDGETS}/a");
    let made = api.post(WIDGETS, widget("a", json!({"size": 1}))).await.expect(201);
    api.merge_patch(&path, json!({"spec": {"size": 10}})).await.refused(422, "Invalid", &["less than or equal to 9"]);
    api.merge_patch(&path, json!({"spec": "x"})).await.refused(
        422,
        "Invalid",
        &["spec in body must be of type object"],
    );
    let strategic = api.strategic_patch(&path, json!({"spec": {"size": 2}})).await;
    strategic.refused(415, "UnsupportedMediaType", &["application/merge-patch+json"]);
    api.put(&path, widget("a", json!({}))).await.refused(422, "Invalid", &["must be specified for an update"]);
    assert_eq!(api.get(&path).await.expect(200).object, made.object);
    let changed = api.merge_patch(&path, json!({"spec": {"size": 2}})).await.expect(200);
    assert_eq!(changed["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_schema_may_become_stricter_than_what_is_stored() {
    let api = serving(json!({"a": {"type": "string"}, "b": {"type": "string"}})).await;
    let path = format!("{WIDGETS}/w");
    api.post(WIDGETS, widget("w", json!({"a": "long", "b": "x"}))).await.expect(201);
    let limit = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maxLength", "value": 2}]);
    api.json_patch(DEFINITION, limit).await.expect(200);
    api.merge_patch(&path, json!({"spec": {"b": "y"}})).await.expect(200);
    api.merge_patch(&path, json!({"spec": {"a": "longer"}})).await.refused(422, "Invalid", &["Too long"]);
}

#[tokio::test]
async fn status_and_scale_are_parts_of_their_own() {
    let api = Api::new().await;
    let mut widgets = widgets(json!({"size": {"type": "integer", "minimum": 0}}));
    let version = &mut widgets["spec"]["versions"][0];
    let fields = json!({"ready": {"type": "integer"}, "selector": {"type": "string"}});
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({"type": "object", "properties": fields});
    version["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready", "labelSelectorPath": ".status.selector",
    }});
    version["additionalPrinterColumns"] = json!([{"name": "Ready", "type": "integer", "jsonPath": ".status.ready"}]);
    api.post(DEFINITIONS, widgets).await.expect(201);

    let path = format!("{WIDGETS}/a");
    let mut object = widget("a", json!({"size": 2}));
    object["status"] = json!({"ready": 9});
    assert_eq!(api.post(WIDGETS, object).await.expect(201)["status"], json!(null), "status is not the creator's");
    api.merge_patch(&path, json!({"status": {"ready": 5}})).await.expect(200);
    let status = json!({"status": {"ready": 1, "selector": "a=b"}, "spec": {"size": 8}});
    let written = api.merge_patch(format!("{path}/status"), status).await.expect(200);
    assert_eq!((&written["spec"]["size"], &written["metadata"]["generation"]), (&json!(2), &json!(1)));
    let wrong = api.merge_patch(format!("{path}/status"), json!({"status": {"ready": "x"}})).await;
    wrong.refused(422, "Invalid", &["status.ready: Invalid value: \"string\": ready in body must be of type integer"]);

    let scale = api.get(format!("{path}/scale")).await.expect(200);
    assert_eq!(scale["status"], json!({"replicas": 1, "selector": "a=b"}));
    api.merge_patch(format!("{path}/scale"), json!({"spec": {"replicas": 6}})).await.expect(200);
    let scaled = api.get(&path).await.expect(200);
    assert_eq!((&scaled["spec"]["size"], &scaled["metadata"]["generation"]), (&json!(6), &json!(2)));
    let negative = api.merge_patch(format!("{path}/scale"), json!({"spec": {"replicas": -1}})).await;
    negative.refused(422, "Invalid", &[".spec.size: Invalid value: -1: should be a non-negative integer"]);

    let table = api.get(WIDGETS).accept(TABLE).await.expect(200);
    assert_eq!(table["columnDefinitions"][1]["name"], "Ready");
    assert_eq!(table["rows"][0]["cells"], json!(["a", 1]));
}

#[tokio::test]
async fn a_rule_that_failed_before_is_only_remarked_upon() {
    let api = serving(json!({"size": {"type": "integer"}, "colour": {"type": "string"}})).await;
    let path = format!("{WIDGETS}/a");
    api.post(WIDGETS, widget("a", json!({"size": 5, "colour": "red"}))).await.expect(201);
    let place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/x-kubernetes-validations";
    let rule = json!({"rule": "self < 3", "message": "too large"});
    api.json_patch(DEFINITION, json!([{"op": "add", "path": place, "value": [rule]}])).await.expect(200);
    let changed = api.merge_patch(&path, json!({"spec": {"colour": "blue"}})).await.expect(200);
    assert_eq!(changed.warnings(), [r#"299 - "spec.size: Invalid value: 5: too large""#]);
    api.merge_patch(&path, json!({"spec": {"size": 6}})).await.refused(422, "Invalid", &["too large"]);
    let good = api.merge_patch(&path, json!({"spec": {"size": 2}})).await.expect(200);
    assert!(good.warnings().is_empty());
}

#[tokio::test]
async fn a_rule_that_runs_away_is_stopped() {
    let api = Api::new().await;
    let mut definition = widgets(json!({"list": {"type": "array", "items": {"type": "integer"}}}));
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": "self.list.all(a, self.list.all(b, self.list.all(c, a + b >= c || true)))", "message": "m"}]);
    api.post(DEFINITIONS, definition).await.expect(201);
    api.post(WIDGETS, widget("short", json!({"list": [1, 2, 3]}))).await.expect(201);
    let list: Vec<u32> = (0..5_000).collect();
    let words = "no further validation rules will be run due to call cost exceeds limit for rule: m";
    api.post(WIDGETS, widget("long", json!({"list": list}))).await.refused(422, "Invalid", &[words]);
    assert_eq!(api.names(WIDGETS).await, ["short"]);
}

#[tokio::test]
async fn what_is_specified_keeps_its_list_type_beside_what_is_not() {
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
        "items": {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}}},
    });
    let api = Api::new().await;
    let mut definition = widgets(json!({"ports": ports}));
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] =
        json!(true);
    api.post(DEFINITIONS, definition).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let config = |port: u32| widget("a", json!({"ports": [{"port": port}], "free": {format!("by-{port}"): [port]}}));
    api.apply(&path, "one", config(80)).await.expect(201);
    let both = api.apply(&path, "two", config(443)).await.expect(200);
    assert_eq!(both["spec"]["ports"], json!([{"port": 80}, {"port": 443}]), "elements are merged");
    assert_eq!(both["spec"]["free"], json!({"by-80": [80], "by-443": [443]}), "maps are, too");
    let other = widget("a", json!({"free": {"by-80": [81]}}));
    api.apply(&path, "three", other).await.refused(409, "Conflict", &["conflict with \"one\": .spec.free.by-80"]);
}

#[tokio::test]
async fn a_whole_number_is_one_however_it_is_written() {
    let api = Api::new().await;
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let fields = json!({"size": {"type": "integer"}, "share": {"type": "number"}, "any": any});
    api.post(DEFINITIONS, widgets(fields)).await.expect(201);
    let object = r#"{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
        "spec": {"size": 1.0, "share": 2.0, "any": {"zero": -0, "large": 1e2, "half": 0.5, "huge": 1e300}}}"#;
    let made = api.send(Method::POST, WIDGETS).body("application/json", object).await.expect(201);
    let expected = r#"{"any":{"half":0.5,"huge":1e300,"large":100,"zero":0},"share":2,"size":1}"#;
    assert_eq!(made["spec"].to_string().replace("e+", "e"), expected);
    let yaml = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: b}, spec: {size: 0644, any: {mode: 017, one: 1.0}}}";
    let made = api.send(Method::POST, WIDGETS).body("application/yaml", yaml).await.expect(201);
    assert_eq!(made["spec"], json!({"size": 420, "any": {"mode": 15, "one": 1}}));
    let patched = api.merge_patch(format!("{WIDGETS}/a"), json!({"spec": {"size": 3.0}})).await.expect(200);
    assert_eq!(patched["spec"]["size"].to_string(), "3");
}
