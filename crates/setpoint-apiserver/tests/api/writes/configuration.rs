//! ConfigMaps and Secrets.

use serde_json::{Value, json};

use crate::fixture::Api;
use crate::objects::*;

fn immutable(mut object: Value) -> Value {
    object["immutable"] = true.into();
    object
}

#[tokio::test]
async fn what_is_immutable_stays_as_it_is() {
    let api = Api::new().await;
    for (collection, object) in [(CONFIG_MAPS, config_map("a")), (SECRETS, secret("a"))] {
        let path = format!("{collection}/a");
        api.post(collection, immutable(object)).await.expect(201);
        let rows = [
            ("a value", json!({"data": {"key": "bmV3"}}), "data"),
            ("all values", json!({"data": null}), "data"),
            ("the promise", json!({"immutable": false}), "immutable"),
            ("the promise's absence", json!({"immutable": null}), "immutable"),
        ];
        for (row, patch, field) in rows {
            let answer = api.merge_patch(&path, patch).await;
            let answer = answer.refused(422, "Invalid", &["field is immutable when `immutable` is set"]);
            assert_eq!(answer.fields(), [field].into(), "{collection}: {row}");
        }
        api.merge_patch(&path, json!({"metadata": {"labels": {"free": "yes"}}})).await.expect(200);
        api.delete(&path).await.expect(200);
    }
}

#[tokio::test]
async fn a_secret_takes_plain_strings_and_never_shows_them() {
    let api = Api::new().await;
    let mut object = secret("a");
    object["stringData"] = json!({"key": "shut", "more": "words"});
    let created = api.post(SECRETS, object).await.expect(201);
    assert_eq!(created["data"], json!({"key": "c2h1dA==", "more": "d29yZHM="}), "a plain string counts more");
    assert!(created["stringData"].is_null());
    assert_eq!(created["type"], "Opaque");

    let patched = api.merge_patch(format!("{SECRETS}/a"), json!({"stringData": {"more": "x"}})).await.expect(200);
    assert_eq!(patched["data"], json!({"key": "c2h1dA==", "more": "eA=="}));
}

#[tokio::test]
async fn a_secret_keeps_its_type() {
    let api = Api::new().await;
    api.post(SECRETS, secret("a")).await.expect(201);
    let answer = api.merge_patch(format!("{SECRETS}/a"), json!({"type": "example.com/other"})).await;
    assert_eq!(answer.refused(422, "Invalid", &["field is immutable"]).fields(), ["type"].into());
}

#[tokio::test]
async fn data_that_is_not_base64_is_refused() {
    let api = Api::new().await;
    let mut object = secret("a");
    object["data"] = json!({"key": "not base64!"});
    api.post(SECRETS, object).await.refused(400, "BadRequest", &["base64"]);
}

#[tokio::test]
async fn keys_are_checked_by_name() {
    let api = Api::new().await;
    let mut object = config_map("a");
    object["data"] = json!({"no/slash": "1"});
    let answer = api.post(CONFIG_MAPS, object).await.refused(422, "Invalid", &[]);
    assert_eq!(answer.fields(), ["data[no/slash]"].into());
}

#[tokio::test]
async fn a_refused_secret_is_not_repeated_to_its_reader() {
    let api = Api::new().await;
    let mut object = secret("a");
    object["type"] = "kubernetes.io/dockerconfigjson".into();
    object["data"] = json!(null);
    object["stringData"] = json!({".dockerconfigjson": "hunter2 is no JSON"});
    let answer = api.post(SECRETS, object).await.refused(422, "Invalid", &["data[.dockerconfigjson]"]);
    assert!(!answer.text().contains("hunter2"));
}
