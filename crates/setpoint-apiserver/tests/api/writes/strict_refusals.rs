//! Every way to write an unknown or a repeated field, strictly: it is named, and nothing is stored.

use http::Method;
use serde_json::{Value, json};

use crate::crds::{DEFINITIONS, WIDGETS, widget, widgets};
use crate::fixture::Api;
use crate::objects::*;

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

struct Row {
    name: &'static str,
    method: Method,
    path: String,
    media_type: &'static str,
    body: String,
    status: u16,
    reason: &'static str,
    says: &'static [&'static str],
}

impl Row {
    /// An object with something wrong, which is a bad request.
    fn object(
        name: &'static str,
        method: Method,
        path: &str,
        body: impl ToString,
        says: &'static [&'static str],
    ) -> Row {
        let (path, body) = (path.to_owned(), body.to_string());
        Row { name, method, path, media_type: "application/json", body, status: 400, reason: "BadRequest", says }
    }

    /// A patch that makes something wrong, which is an invalid object.
    fn patch(name: &'static str, kind: &'static str, path: &str, body: Value, says: &'static [&'static str]) -> Row {
        let row = Row::object(name, Method::PATCH, path, body, says);
        Row { media_type: kind, status: 422, reason: "Invalid", ..row }
    }

    fn yaml(name: &'static str, path: &str, body: &str, says: &'static [&'static str]) -> Row {
        Row { media_type: "application/yaml", ..Row::object(name, Method::POST, path, body, says) }
    }

    fn apply(name: &'static str, path: &str, body: &str, says: &'static [&'static str]) -> Row {
        let path = format!("{path}?fieldManager=one");
        Row { media_type: "application/apply-patch+yaml", ..Row::object(name, Method::PATCH, &path, body, says) }
    }
}

fn rows() -> Vec<Row> {
    const MERGE: &str = "application/merge-patch+json";
    const STEPS: &str = "application/json-patch+json";
    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    let (map, thing) = (format!("{CONFIG_MAPS}/kept"), format!("{WIDGETS}/kept"));
    let unknown = |mut object: Value| {
        object["extra"] = json!(1);
        object
    };
    let mut deep = deployment("new");
    deep["spec"]["template"]["spec"]["containers"][0]["imagee"] = json!("x");
    deep["spec"]["strateg"] = json!({});
    let mut definition = widgets(json!({"size": {"type": "integer", "minimun": 1}}));
    definition["metadata"]["name"] = json!("gadgets.example.com");
    definition["spec"]["scop"] = json!("x");
    let twice = |kind: &str, rest: &str| format!(r#"{{"kind":"{kind}","metadata":{{"name":"new"}},{rest}}}"#);
    vec![
        Row::object(
            "an unknown field",
            Method::POST,
            CONFIG_MAPS,
            unknown(config_map("new")),
            &[
                r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "extra""#,
            ],
        ),
        Row::object(
            "unknown fields, far below",
            Method::POST,
            DEPLOYMENTS,
            deep,
            &[r#"unknown field "spec.strateg""#, r#"unknown field "spec.template.spec.containers[0].imagee""#],
        ),
        Row::object(
            "a field twice",
            Method::POST,
            CONFIG_MAPS,
            twice("ConfigMap", r#""data":{"a":"1","a":"2"}"#),
            &[r#"strict decoding error: duplicate field "data.a""#],
        ),
        Row::object(
            "both",
            Method::POST,
            CONFIG_MAPS,
            twice("ConfigMap", r#""data":{"a":"1","a":"2"},"extra":1"#),
            &[r#"duplicate field "data.a""#, r#"unknown field "extra""#],
        ),
        Row::yaml(
            "an unknown field in YAML",
            CONFIG_MAPS,
            "metadata: {name: new}\nextra: 1\n",
            &[r#"unknown field "extra""#],
        ),
        Row::yaml(
            "a field twice in YAML",
            CONFIG_MAPS,
            "metadata: {name: new}\ndata:\n  a: one\n  a: two\n",
            &[r#"duplicate field "data.a""#],
        ),
        Row::object("an update", Method::PUT, &map, unknown(config_map("kept")), &[r#"unknown field "extra""#]),
        Row::patch("a merge", MERGE, &map, json!({"extra": 1}), &[r#"strict decoding error: unknown field "extra""#]),
        Row::patch(
            "a step",
            STEPS,
            &map,
            json!([{"op": "add", "path": "/extra", "value": 1}]),
            &[r#"unknown field "extra""#],
        ),
        Row::patch(
            "a strategic merge",
            STRATEGIC,
            &map,
            json!({"metadata": {"extra": 1}}),
            &[r#"unknown field "metadata.extra""#],
        ),
        Row::apply(
            "a configuration",
            &format!("{CONFIG_MAPS}/new"),
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"},"extra":1}"#,
            &[".extra: field not declared in schema"],
        ),
        Row::apply(
            "a key twice in a configuration",
            &format!("{CONFIG_MAPS}/new"),
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\ndata:\n  a: one\n  a: two\n",
            &[r#"duplicate field "data.a""#],
        ),
        Row::object(
            "a definition",
            Method::POST,
            DEFINITIONS,
            definition,
            &[
                r#"unknown field "spec.scop""#,
                r#"unknown field "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.size.minimun""#,
            ],
        ),
        Row::patch(
            "a change of a definition",
            MERGE,
            DEFINITION,
            json!({"spec": {"scop": 1}}),
            &[r#"unknown field "spec.scop""#],
        ),
        Row::object(
            "a custom object",
            Method::POST,
            WIDGETS,
            unknown(widget("new", json!({"size": 1, "colour": 2}))),
            &[
                r#"Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "extra", unknown field "spec.colour""#,
            ],
        ),
        Row::object(
            "a custom object's field twice",
            Method::POST,
            WIDGETS,
            r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"new"},"spec":{"size":1,"size":2}}"#,
            &[r#"duplicate field "spec.size""#],
        ),
        Row::object(
            "a custom object's metadata",
            Method::POST,
            WIDGETS,
            with(widget("new", json!({})), "extra", json!(1)),
            &[r#"unknown field "metadata.extra""#],
        ),
        Row::patch(
            "a custom object's merge",
            MERGE,
            &thing,
            json!({"spec": {"colour": 2}}),
            &[r#"unknown field "spec.colour""#],
        ),
        Row::patch(
            "a custom object's step",
            STEPS,
            &thing,
            json!([{"op": "add", "path": "/spec/colour", "value": 2}]),
            &[r#"unknown field "spec.colour""#],
        ),
        Row::object(
            "no way to validate",
            Method::POST,
            &format!("{CONFIG_MAPS}?fieldValidation=Maybe"),
            config_map("new"),
            &[],
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
    for Row { name, method, path, media_type, body, status, reason, says } in rows() {
        let mark = if path.contains('?') { '&' } else { '?' };
        let strictly =
            if path.contains("fieldValidation") { path } else { format!("{path}{mark}fieldValidation=Strict") };
        let answer = api.send(method, strictly).body(media_type, body).await;
        let (status, reason) = if says.is_empty() { (422, "Invalid") } else { (status, reason) };
        assert_eq!((answer.status, &answer["reason"]), (status, &json!(reason)), "{name}: {}", answer.text());
        for words in says {
            assert!(answer.message().contains(words), "{name}: {words} is not in {}", answer.message());
        }
        assert_eq!(api.store.revision(), before, "{name}: nothing is stored");
    }
}
