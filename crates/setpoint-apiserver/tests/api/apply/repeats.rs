//! What is said of a configuration that is applied again and changes nothing.

use http::Method;
use serde_json::json;

use crate::crds::{DEFINITIONS, WIDGETS, widget, widgets};
use crate::fixture::{Api, Sending};
use crate::objects::*;

#[tokio::test]
async fn fields_that_come_twice_are_judged_each_time_as_asked() {
    let api = Api::new().await;
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1","a":"2"}}"#;
    let apply = |mode: &str| -> Sending {
        let path = format!("{CONFIG_MAPS}/a?fieldManager=one&fieldValidation={mode}");
        api.send(Method::PATCH, path).body("application/apply-patch+yaml", body)
    };
    apply("Ignore").await.expect(201);
    for _ in 0..2 {
        assert!(apply("Ignore").await.expect(200).warnings().is_empty());
    }
    apply("Strict").await.refused(400, "BadRequest", &[r#"duplicate field "data.a""#]);
    assert_eq!(apply("Warn").await.expect(200).warnings(), [r#"299 - "duplicate field \"data.a\"""#]);
}

#[tokio::test]
async fn what_a_kind_warns_of_is_told_each_time() {
    let api = Api::new().await;
    let pair = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": "kubernetes.io/tls",
        "data": {"tls.crt": "", "tls.key": ""}});
    let created = api.apply(format!("{SECRETS}/a"), "one", pair.clone()).await.expect(201);
    assert_eq!(created.warnings(), [r#"299 - "tls: failed to find any PEM data in certificate input""#]);
    for _ in 0..3 {
        let again = api.apply(format!("{SECRETS}/a"), "one", pair.clone()).await.expect(200);
        assert_eq!((again.warnings(), again.revision()), (created.warnings(), created.revision()));
    }
}

#[tokio::test]
async fn what_is_emptied_stays_and_the_same_again_changes_nothing() {
    let api = Api::new().await;
    let text = json!({"type": "string"});
    let fields = json!({
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"q": text}}},
        "keyed": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": text}},
        },
        "usual": {"type": "string", "default": "u"},
    });
    api.post(DEFINITIONS, widgets(fields)).await.expect(201);
    let rows = [
        ("a set", json!({"set": ["a", "b"]}), json!({"set": []})),
        ("a map", json!({"map": {"a": {"q": "1"}}}), json!({"map": {}})),
        ("a value of a map", json!({"map": {"a": {"q": "1"}}}), json!({"map": {"a": {}}})),
        ("a list by key", json!({"keyed": [{"k": "1"}]}), json!({"keyed": []})),
    ];
    for (number, (row, full, emptied)) in rows.into_iter().enumerate() {
        let (name, path) = (format!("w{number}"), format!("{WIDGETS}/w{number}"));
        api.apply(&path, "one", widget(&name, full)).await.expect(201);
        let first = api.apply(&path, "one", widget(&name, emptied.clone())).await.expect(200);
        let mut expected = emptied.clone();
        expected["usual"] = json!("u");
        assert_eq!(first["spec"], expected, "{row}");
        for _ in 0..2 {
            let again = api.apply(&path, "one", widget(&name, emptied.clone())).await.expect(200);
            assert_eq!(again.object, first.object, "{row}, applied again");
        }
    }
}
