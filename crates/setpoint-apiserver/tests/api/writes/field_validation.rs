//! Fields that nobody knows, and fields that come twice.

use http::Method;
use serde_json::json;

use crate::fixture::Api;
use crate::objects::*;

const TWICE: &str = r#"{"metadata":{"name":"a"},"data":{"k":"first","k":"second"},"extra":1}"#;

#[tokio::test]
async fn unknown_fields_are_refused_told_or_passed_over_as_asked() {
    let api = Api::new().await;
    let rows = [
        ("Strict", 400, 0),
        ("Warn", 201, 1),
        ("Ignore", 201, 0),
        ("", 201, 1),
    ];
    for (mode, status, warnings) in rows {
        let mut object = config_map(&format!("a{}", mode.to_lowercase()));
        object["extra"] = 1.into();
        let answer = api.post(format!("{CONFIG_MAPS}?fieldValidation={mode}"), object).await.expect(status);
        assert_eq!(answer.warnings().len(), warnings, "{mode}: {:?}", answer.warnings());
        assert!(answer["extra"].is_null(), "{mode}: an unknown field is not kept");
        for warning in answer.warnings() {
            assert_eq!(warning, r#"299 - "unknown field \"extra\"""#, "{mode}");
        }
    }
    let answer = api.post(format!("{CONFIG_MAPS}?fieldValidation=Maybe"), config_map("b")).await;
    assert_eq!(answer.refused(422, "Invalid", &["Maybe"]).fields(), ["fieldValidation"].into());
}

#[tokio::test]
async fn a_strict_refusal_names_every_field_by_its_path() {
    let api = Api::new().await;
    let mut object = pod("p");
    object["spec"]["nodename"] = "n".into();
    object["spec"]["containers"][0]["imagee"] = "x".into();
    let answer = api.post(format!("{PODS}?fieldValidation=Strict"), object).await;
    answer.refused(
        400,
        "BadRequest",
        &["strict decoding error", r#"unknown field "spec.containers[0].imagee""#, r#"unknown field "spec.nodename""#],
    );
}

#[tokio::test]
async fn of_a_field_that_comes_twice_the_last_counts() {
    let api = Api::new().await;
    let send = |mode: &str| {
        let path = format!("{CONFIG_MAPS}?fieldValidation={mode}&dryRun=All");
        api.send(Method::POST, path).body("application/json", TWICE)
    };
    send("Strict").await.refused(400, "BadRequest", &[r#"duplicate field "data.k""#, r#"unknown field "extra""#]);
    let ignored = send("Ignore").await.expect(201);
    assert_eq!(ignored["data"]["k"], "second");
    assert!(ignored.warnings().is_empty());
    let warned = send("Warn").await.expect(201);
    assert_eq!(warned["data"]["k"], "second");
    assert!(warned.warnings().contains(&r#"299 - "unknown field \"extra\"""#), "{:?}", warned.warnings());
}

#[tokio::test]
async fn updates_and_patches_are_checked_too() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let strict = format!("{CONFIG_MAPS}/a?fieldValidation=Strict");
    let mut object = config_map("a");
    object["extra"] = 1.into();
    api.put(&strict, object).await.refused(400, "BadRequest", &["unknown field \"extra\""]);
    api.merge_patch(&strict, json!({"extra": 1})).await.refused(422, "Invalid", &["unknown field"]);
    let step = json!([{"op": "add", "path": "/extra", "value": 1}]);
    api.json_patch(&strict, step).await.refused(422, "Invalid", &["unknown field"]);
    api.strategic_patch(&strict, json!({"metadata": {"extra": 1}})).await.refused(422, "Invalid", &["unknown field"]);

    let warned = api.merge_patch(format!("{CONFIG_MAPS}/a"), json!({"extra": 1})).await.expect(200);
    assert_eq!(warned.warnings(), [r#"299 - "unknown field \"extra\"""#]);
}

#[tokio::test]
async fn yaml_is_checked_as_json_is() {
    let api = Api::new().await;
    let yaml = "metadata: {name: a}\ndata: {k: v}\nextra: 1\n";
    let send = |mode: &str| {
        let path = format!("{CONFIG_MAPS}?fieldValidation={mode}");
        api.send(Method::POST, path).body("application/yaml", yaml)
    };
    send("Strict").await.refused(400, "BadRequest", &["unknown field \"extra\""]);
    assert_eq!(send("Warn").await.expect(201)["data"]["k"], "v");
}
