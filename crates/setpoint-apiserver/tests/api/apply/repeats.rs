//! What is said of a configuration that is applied again and changes nothing.

use http::Method;
use serde_json::json;

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
