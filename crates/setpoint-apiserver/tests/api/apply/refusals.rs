//! Every apply that is refused, what its sender sees, and that nothing was stored.

use http::Method;
use serde_json::{Value, json};

use super::config;
use crate::fixture::Api;
use crate::objects::*;

struct Row {
    name: &'static str,
    query: &'static str,
    config: Value,
    status: u16,
    reason: &'static str,
    message: &'static str,
}

impl Row {
    fn refused(name: &'static str, config: Value, status: u16, reason: &'static str, message: &'static str) -> Row {
        Row { name, query: "?fieldManager=two", config, status, reason, message }
    }

    fn bad_request(name: &'static str, config: Value, message: &'static str) -> Row {
        Row::refused(name, config, 400, "BadRequest", message)
    }
}

fn with_metadata(field: &str, value: Value) -> Value {
    with(config("a", json!({"a": "2"})), field, value)
}

fn without_kind(field: &str) -> Value {
    let mut config = config("a", json!({}));
    config.as_object_mut().expect("an object").remove(field);
    config
}

fn rows() -> Vec<Row> {
    const UID: &str = "00000000-0000-0000-0000-000000000000";
    vec![
        Row {
            query: "",
            ..Row::refused(
                "nobody applies",
                config("a", json!({})),
                422,
                "Invalid",
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            )
        },
        Row {
            query: "?fieldManager=a%07b",
            ..Row::refused("a name that rings", config("a", json!({})), 422, "Invalid", "invalid character U+0007")
        },
        Row::refused(
            "somebody else's field",
            config("a", json!({"a": "2"})),
            409,
            "Conflict",
            "Apply failed with 1 conflict: conflict with \"one\": .data.a",
        ),
        Row::refused(
            "several fields of several managers",
            config("a", json!({"a": "2", "b": "2"})),
            409,
            "Conflict",
            "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\nconflicts with \"put\" using v1:\n- .data.b",
        ),
        Row::refused(
            "an old revision",
            with(config("a", json!({"c": "1"})), "resourceVersion", json!("1")),
            409,
            "Conflict",
            "the object has been modified",
        ),
        Row::refused(
            "another object's uid",
            with(config("a", json!({"c": "1"})), "uid", json!(UID)),
            422,
            "Invalid",
            "metadata.uid: Invalid value: \"00000000-0000-0000-0000-000000000000\": field is immutable",
        ),
        Row::bad_request(
            "another name",
            config("b", json!({"c": "1"})),
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        Row::bad_request(
            "another namespace",
            with(config("a", json!({"c": "1"})), "namespace", json!("kube-system")),
            "does not match the namespace sent on the request",
        ),
        Row::bad_request("no kind", without_kind("kind"), "invalid object type: /v1, Kind="),
        Row::bad_request("no version", without_kind("apiVersion"), "invalid object type: /, Kind=ConfigMap"),
        Row::bad_request("another kind", deployment("a"), "invalid object type: apps/v1, Kind=Deployment"),
        Row::bad_request("a record", with_metadata("managedFields", json!([])), "metadata.managedFields must be nil"),
        Row::bad_request(
            "a field that is none",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "nope": 1}),
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .nope: field not declared in schema",
        ),
        Row::bad_request(
            "a value of another type",
            config("a", json!({"c": 5})),
            ".data.c: expected a string, found a number",
        ),
        Row::bad_request(
            "the same element twice",
            with_metadata("finalizers", json!(["a/b", "a/b"])),
            ".metadata.finalizers: duplicate entries for key [=\"a/b\"]",
        ),
        Row::refused(
            "an object that breaks a rule",
            with(config("a", json!({})), "labels", json!({"-": "x"})),
            422,
            "Invalid",
            "metadata.labels: Invalid value: \"-\"",
        ),
    ]
}

#[tokio::test]
async fn a_refused_apply_changes_nothing() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    api.apply(&path, "one", config("a", json!({"a": "1"}))).await.expect(201);
    api.merge_patch(format!("{path}?fieldManager=put"), json!({"data": {"b": "1"}})).await.expect(200);
    let before = (api.store.revision(), api.get(&path).await.object);
    for Row { name, query, config, status, reason, message } in rows() {
        let patch = api.send(Method::PATCH, format!("{path}{query}"));
        let answer = patch.body("application/apply-patch+yaml", config.to_string()).await;
        assert_eq!((answer.status, &answer["reason"]), (status, &json!(reason)), "{name}: {}", answer.text());
        assert!(answer.message().contains(message), "{name}: {}", answer.message());
        assert_eq!((api.store.revision(), api.get(&path).await.object), before, "{name}");
    }
}

#[tokio::test]
async fn a_conflict_names_each_field_and_its_owner() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    api.apply(&path, "one", config("a", json!({"a": "1", "b": "1"}))).await.expect(201);
    let refused = api.apply(&path, "two", config("a", json!({"a": "2", "b": "2"}))).await.expect(409);
    let cause =
        |field: &str| json!({"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": field});
    assert_eq!(refused["details"], json!({"causes": [cause(".data.a"), cause(".data.b")]}));
    let taken = api.apply(format!("{path}?force=true"), "two", config("a", json!({"a": "2"}))).await.expect(200);
    assert_eq!(taken.owned(), json!({"one": {"f:data": {"f:b": {}}}, "two": {"f:data": {"f:a": {}}}}));
}

#[tokio::test]
async fn what_is_not_there_is_made_only_from_a_whole_configuration() {
    const UID: &str = "00000000-0000-0000-0000-000000000000";
    let api = Api::new().await;
    let before = api.store.revision();
    let rows = [
        ("a uid", "none", with(config("none", json!({})), "uid", json!(UID)), 409, "no existing object was found"),
        ("another name", "none", config("b", json!({})), 400, "does not match the name on the URL (none)"),
        ("no name", "none", json!({"apiVersion": "v1", "kind": "ConfigMap"}), 400, "name must be provided"),
        ("a bad name", "-", config("-", json!({})), 422, "metadata.name: Invalid value"),
    ];
    for (row, name, config, status, message) in rows {
        let answer = api.apply(format!("{CONFIG_MAPS}/{name}"), "one", config).await;
        assert_eq!(answer.status, status, "{row}: {}", answer.text());
        assert!(answer.message().contains(message), "{row}: {}", answer.message());
    }
    let elsewhere = api.apply("/api/v1/namespaces/nowhere/configmaps/a", "one", config("a", json!({})));
    elsewhere.await.refused(404, "NotFound", &["namespaces \"nowhere\" not found"]);
    assert_eq!(api.store.revision(), before);
    let stale = with(config("new", json!({})), "resourceVersion", json!("1"));
    api.apply(format!("{CONFIG_MAPS}/new"), "one", stale).await.expect(201);
}

#[tokio::test]
async fn what_is_no_configuration_is_refused() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let rows = [
        ("broken YAML", "?fieldManager=one", "a: [", 400),
        ("a list", "?fieldManager=one", "[]", 400),
        ("nothing", "?fieldManager=one", "", 400),
        (
            "a key twice, strictly",
            "?fieldManager=one&fieldValidation=Strict",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1","a":"2"}}"#,
            400,
        ),
    ];
    for (row, query, body, status) in rows {
        let patch = api.send(Method::PATCH, format!("{path}{query}"));
        let answer = patch.body("application/apply-patch+yaml", body).await;
        assert_eq!((answer.status, &answer["kind"]), (status, &json!("Status")), "{row}: {}", answer.text());
    }
    let cbor = api.send(Method::PATCH, format!("{path}?fieldManager=one")).body("application/apply-patch+cbor", "x");
    cbor.await.refused(415, "UnsupportedMediaType", &[]);
    api.get(&path).await.refused(404, "NotFound", &[]);
    let force = api.merge_patch(format!("{path}?force=true"), json!({}));
    force.await.refused(422, "Invalid", &["force: Forbidden: may not be specified for non-apply patch"]);
}
