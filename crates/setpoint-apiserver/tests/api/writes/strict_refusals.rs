//! Every way to write an unknown or a repeated field, strictly: it is named, and nothing is stored.

use http::Method;
use serde_json::{Value, json};

use crate::crds::{DEFINITION, DEFINITIONS, WIDGETS, widget, widgets};
use crate::fixture::{Api, Sending};
use crate::objects::*;

/// What is sent, and what is said of it.
type Row = (&'static str, Sending, &'static [&'static str]);

fn strict(path: &str) -> String {
    format!("{path}?fieldValidation=Strict")
}

fn unknown(mut object: Value) -> Value {
    object["extra"] = json!(1);
    object
}

/// Whole objects, of which something is not known or comes twice.
fn objects(api: &Api) -> Vec<Row> {
    let send =
        |path: &str, media_type: &str, body: &'static str| api.send(Method::POST, strict(path)).body(media_type, body);
    let apply = |body: &'static str| {
        let path = format!("{}&fieldManager=one", strict(&format!("{CONFIG_MAPS}/new")));
        api.send(Method::PATCH, path).body("application/apply-patch+yaml", body)
    };
    let (json, yaml) = ("application/json", "application/yaml");
    let mut deep = deployment("new");
    deep["spec"]["template"]["spec"]["containers"][0]["imagee"] = json!("x");
    deep["spec"]["strateg"] = json!({});
    let mut definition = widgets(json!({"size": {"type": "integer", "minimun": 1}}));
    definition["metadata"]["name"] = json!("gadgets.example.com");
    definition["spec"]["scop"] = json!("x");
    let odd = unknown(widget("new", json!({"size": 1, "colour": 2})));
    let metadata = with(widget("new", json!({})), "extra", json!(1));
    vec![
        (
            "an unknown field",
            api.post(strict(CONFIG_MAPS), unknown(config_map("new"))),
            &[
                r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "extra""#,
            ],
        ),
        (
            "unknown fields, far below",
            api.post(strict(DEPLOYMENTS), deep),
            &[r#"unknown field "spec.strateg""#, r#"unknown field "spec.template.spec.containers[0].imagee""#],
        ),
        (
            "a field twice",
            send(CONFIG_MAPS, json, r#"{"metadata":{"name":"new"},"data":{"a":"1","a":"2"}}"#),
            &[r#"strict decoding error: duplicate field "data.a""#],
        ),
        (
            "both",
            send(CONFIG_MAPS, json, r#"{"metadata":{"name":"new"},"data":{"a":"1","a":"2"},"extra":1}"#),
            &[r#"duplicate field "data.a""#, r#"unknown field "extra""#],
        ),
        (
            "an unknown field in YAML",
            send(CONFIG_MAPS, yaml, "metadata: {name: new}\nextra: 1\n"),
            &[r#"unknown field "extra""#],
        ),
        (
            "a field twice in YAML",
            send(CONFIG_MAPS, yaml, "metadata: {name: new}\ndata:\n  a: one\n  a: two\n"),
            &[r#"duplicate field "data.a""#],
        ),
        (
            "an update",
            api.put(strict(&format!("{CONFIG_MAPS}/kept")), unknown(config_map("kept"))),
            &[r#"unknown field "extra""#],
        ),
        (
            "a configuration",
            apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: new}, extra: 1}"),
            &[".extra: field not declared in schema"],
        ),
        (
            "a field twice in a configuration",
            apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\ndata:\n  a: one\n  a: two\n"),
            &[r#"duplicate field "data.a""#],
        ),
        (
            "a definition",
            api.post(strict(DEFINITIONS), definition),
            &[
                r#"unknown field "spec.scop""#,
                r#"unknown field "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.size.minimun""#,
            ],
        ),
        (
            "a custom object",
            api.post(strict(WIDGETS), odd),
            &[
                r#"cannot be handled as a Widget: strict decoding error: unknown field "extra", unknown field "spec.colour""#,
            ],
        ),
        (
            "a custom object's field twice",
            send(
                WIDGETS,
                json,
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"new"},"spec":{"size":1,"size":2}}"#,
            ),
            &[r#"duplicate field "spec.size""#],
        ),
        ("a custom object's metadata", api.post(strict(WIDGETS), metadata), &[r#"unknown field "metadata.extra""#]),
    ]
}

/// Changes that would add something that is not known.
fn patches(api: &Api) -> Vec<Row> {
    let (map, custom) = (strict(&format!("{CONFIG_MAPS}/kept")), strict(&format!("{WIDGETS}/kept")));
    let step = |path: &str| json!([{"op": "add", "path": path, "value": 2}]);
    let colour = &[r#"unknown field "spec.colour""#];
    vec![
        ("a merge", api.merge_patch(&map, json!({"extra": 1})), &[r#"strict decoding error: unknown field "extra""#]),
        ("a step", api.json_patch(&map, step("/extra")), &[r#"unknown field "extra""#]),
        (
            "a strategic merge",
            api.strategic_patch(&map, json!({"metadata": {"extra": 1}})),
            &[r#"unknown field "metadata.extra""#],
        ),
        (
            "a merge into a definition",
            api.merge_patch(strict(DEFINITION), json!({"spec": {"scop": 1}})),
            &[r#"unknown field "spec.scop""#],
        ),
        ("a merge into a custom object", api.merge_patch(&custom, json!({"spec": {"colour": 2}})), colour),
        ("a step into a custom object", api.json_patch(&custom, step("/spec/colour")), colour),
        (
            "a validation that is none",
            api.post(format!("{CONFIG_MAPS}?fieldValidation=Maybe"), config_map("new")),
            &[r#"fieldValidation: Unsupported value: "Maybe""#],
        ),
    ]
}

#[tokio::test]
async fn what_is_refused_strictly_is_named_and_not_stored() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({"size": {"type": "integer"}}))).await.expect(201);
    api.post(CONFIG_MAPS, config_map("kept")).await.expect(201);
    api.post(WIDGETS, widget("kept", json!({"size": 1}))).await.expect(201);
    let before = api.store.revision();
    let objects = objects(&api).into_iter().map(|row| (400, "BadRequest", row));
    let patches = patches(&api).into_iter().map(|row| (422, "Invalid", row));
    for (status, reason, (row, sending, says)) in objects.chain(patches) {
        let answer = sending.await;
        assert_eq!((answer.status, &answer["reason"]), (status, &json!(reason)), "{row}: {}", answer.text());
        for words in says {
            assert!(answer.message().contains(words), "{row}: {words} is not in {}", answer.message());
        }
        assert_eq!(api.store.revision(), before, "{row}: nothing is stored");
    }
}
