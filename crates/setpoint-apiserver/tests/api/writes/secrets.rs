//! No answer to a faulty Secret repeats what is in it: answers are logged in many places.

use base64::prelude::{BASE64_STANDARD, Engine};
use http::Method;
use serde_json::{Value, json};

use crate::fixture::{Answer, Api};
use crate::objects::*;

/// A text and a number that nobody would write by chance. The text is no base64.
const TEXT: &str = "hunter-2-hunter-2";
const NUMBER: u64 = 731_946_582;

/// Looks for what was planted, as it is and in the forms that messages give to bytes.
#[track_caller]
fn assert_silent(row: &str, answer: &Answer) {
    assert!(answer.status >= 400, "{row}: {} {}", answer.status, answer.text());
    let hexadecimal: String = TEXT.bytes().map(|byte| format!("{byte:02x}")).collect();
    let said = format!("{} {:?}", answer.text(), answer.headers);
    for planted in [TEXT, &NUMBER.to_string(), &hexadecimal, &BASE64_STANDARD.encode(TEXT)] {
        assert!(!said.contains(planted), "{row}: {said}");
    }
}

#[tokio::test]
async fn faulty_secrets_are_refused_without_repeating_them() {
    let api = Api::new().await;
    api.post(SECRETS, secret("a")).await.expect(201);
    let path = format!("{SECRETS}/a");
    let encoded = BASE64_STANDARD.encode(TEXT);
    let rows = [
        ("texts that are one text", json!({"stringData": TEXT})),
        ("texts that are a number", json!({"stringData": NUMBER})),
        ("texts in a list", json!({"stringData": [TEXT]})),
        ("a text that is a number", json!({"stringData": {"p": NUMBER}})),
        ("a text that is a large number", json!({"stringData": {"p": NUMBER as f64 + 0.5}})),
        ("a text that is an object", json!({"stringData": {"p": {"q": TEXT}}})),
        ("a text that is a list", json!({"stringData": {"p": [TEXT]}})),
        ("data that is a text", json!({"data": TEXT})),
        ("data in a list", json!({"data": [encoded]})),
        ("bytes that are a number", json!({"data": {"p": NUMBER}})),
        ("bytes that are no base64", json!({"data": {"p": TEXT}})),
        ("bytes in an object", json!({"data": {"p": {"q": encoded}}})),
        ("a switch that is a text", json!({"immutable": TEXT})),
        ("a type that is a number", json!({"type": NUMBER})),
        ("a key that is none", json!({"stringData": {"not a key": TEXT}})),
        (
            "a registry's configuration that is a text",
            json!({"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": TEXT}}),
        ),
        (
            "a registry's configuration that is a string",
            json!({"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": format!("\"{TEXT}\"")}}),
        ),
        ("another type", json!({"type": "kubernetes.io/tls", "stringData": {"p": TEXT}})),
        ("another kind", json!({"kind": "ConfigMap", "stringData": {"p": TEXT}})),
        ("labels that are a text", json!({"metadata": {"name": "a", "labels": TEXT}})),
    ];
    for (row, fault) in rows {
        let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        object.as_object_mut().expect("an object").extend(fault.as_object().expect("an object").clone());
        let mut new = object.clone();
        new["metadata"]["name"] = "b".into();
        let operations: Vec<Value> = fault
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, value)| json!({"op": "add", "path": format!("/{field}"), "value": value}))
            .collect();
        let yaml = serde_json::to_string_pretty(&object).expect("JSON is YAML");
        let answers = [
            ("created", api.post(SECRETS, new).await),
            ("replaced", api.put(&path, object.clone()).await),
            ("replaced in YAML", api.send(Method::PUT, &path).body("application/yaml", yaml).await),
            ("merged", api.merge_patch(&path, fault.clone()).await),
            ("merged strategically", api.strategic_patch(&path, fault.clone()).await),
            ("patched", api.json_patch(&path, json!(operations)).await),
            ("applied", api.apply(&path, "one", object.clone()).await),
            ("applied by force", api.apply(format!("{path}?force=true"), "one", object).await),
        ];
        for (way, answer) in answers {
            assert_silent(&format!("{row}, {way}"), &answer);
        }
    }
}

#[tokio::test]
async fn patches_of_secrets_that_do_not_fit_are_not_repeated() {
    let api = Api::new().await;
    api.post(SECRETS, secret("a")).await.expect(201);
    let path = format!("{SECRETS}/a");
    let strategic = [
        ("an unknown directive", json!({"data": {"$patch": "bogus", "p": TEXT}})),
        ("a directive that is an object", json!({"data": {"$patch": {"p": TEXT}}})),
        ("a directive that is a number", json!({"data": {"$patch": NUMBER}})),
        ("texts in an order", json!({"$setElementOrder/data": ["x"], "data": [TEXT]})),
        ("objects in an order", json!({"$setElementOrder/data": [{"p": TEXT}]})),
        ("texts to delete", json!({"$deleteFromPrimitiveList/data": TEXT})),
        ("keys to keep", json!({"data": {"$retainKeys": ["q"], "p": TEXT}})),
    ];
    for (row, patch) in strategic {
        assert_silent(row, &api.strategic_patch(&path, patch).await);
    }
    let operations = [
        ("a test that fails", json!([{"op": "test", "path": "/data/key", "value": TEXT}])),
        ("a place that is not there", json!([{"op": "replace", "path": "/data/p", "value": TEXT}])),
        ("an unknown operation", json!([{"op": "plant", "path": "/data/p", "value": TEXT}])),
        ("no list", json!({"op": "add", "path": "/data/p", "value": TEXT})),
    ];
    for (row, patch) in operations {
        assert_silent(row, &api.json_patch(&path, patch).await);
    }
}

#[tokio::test]
async fn bodies_that_are_no_secrets_are_not_repeated() {
    let api = Api::new().await;
    api.post(SECRETS, secret("a")).await.expect(201);
    let path = format!("{SECRETS}/a");
    let bodies = [
        ("a text", format!("\"{TEXT}\"")),
        ("a number", NUMBER.to_string()),
        ("a list", format!("[\"{TEXT}\"]")),
        ("a text alone", TEXT.to_owned()),
        ("an end that is missing", format!("{{\"data\":{{\"p\":\"{TEXT}\"")),
        ("an end that is elsewhere", format!("{{\"stringData\":{{\"p\":\"{TEXT}\"]}}")),
        ("a word that is none", format!("{{\"stringData\":{{\"p\":\"{TEXT}\",\"q\":{TEXT}}}}}")),
        ("an escape that is none", format!("{{\"stringData\":{{\"p\":\"\\q{TEXT}\"}}}}")),
        ("an anchor that is none", format!("stringData: {{p: *{TEXT}}}")),
        ("a tag that is none", format!("stringData: {{p: !{TEXT} x}}")),
        ("a directive that is none", format!("%{TEXT}\n---\na: b")),
        ("an indent that is none", format!("stringData:\n  p: {TEXT}\n q: x")),
        ("a key and a text", format!("stringData: {TEXT}: {TEXT}")),
        ("two documents", format!("p: {TEXT}\n---\nq: {TEXT}")),
    ];
    for (row, body) in &bodies {
        for media_type in ["application/json", "application/yaml"] {
            let created = api.send(Method::POST, SECRETS).body(media_type, body.clone()).await;
            assert_silent(&format!("{row}, created as {media_type}"), &created);
            let replaced = api.send(Method::PUT, &path).body(media_type, body.clone()).await;
            assert_silent(&format!("{row}, replaced as {media_type}"), &replaced);
        }
        for kind in ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"] {
            let path = format!("{path}?fieldManager=one");
            let patch = api.send(Method::PATCH, path).body(&format!("application/{kind}"), body.clone());
            assert_silent(&format!("{row}, {kind}"), &patch.await);
        }
    }
}
