//! Which form an answer has and which a body may have.

use std::io::Read as _;

use http::Method;
use http::header::ACCEPT_ENCODING;
use serde_json::json;

use crate::fixture::{Api, names};
use crate::objects::*;

#[tokio::test]
async fn the_first_form_the_server_has_is_served() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let rows = [
        ("*/*", "application/json", "ConfigMap"),
        ("application/vnd.kubernetes.protobuf,application/json", "application/json", "ConfigMap"),
        ("application/json;as=Later;v=v1;g=meta.k8s.io,application/json", "application/json", "ConfigMap"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json", "Table"),
        ("text/html,application/*;q=0.8", "application/json", "ConfigMap"),
    ];
    for (accept, media_type, kind) in rows {
        let answer = api.get(format!("{CONFIG_MAPS}/a")).accept(accept).await.expect(200);
        assert_eq!((answer.header("content-type"), &answer["kind"]), (media_type, &json!(kind)), "{accept}");
    }
}

#[tokio::test]
async fn a_form_nobody_has_is_not_acceptable() {
    let api = Api::new().await;
    for accept in [
        "text/html",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Later;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
    ] {
        let answer = api.get(CONFIG_MAPS).accept(accept).await.refused(406, "NotAcceptable", &[]);
        assert_eq!(answer.header("content-type"), "application/json", "{accept}");
    }
}

#[tokio::test]
async fn an_unacceptable_write_is_not_made() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).accept("text/html").await.refused(406, "NotAcceptable", &[]);
    assert!(api.names(CONFIG_MAPS).await.is_empty());
}

#[tokio::test]
async fn a_body_is_json_or_yaml() {
    let api = Api::new().await;
    let rows = [
        ("application/json", r#"{"metadata":{"name":"json"}}"#, 201),
        ("application/json; charset=utf-8", r#"{"metadata":{"name":"charset"}}"#, 201),
        ("application/yaml", "metadata:\n  name: yaml\n", 201),
        ("text/plain", r#"{"metadata":{"name":"text"}}"#, 415),
        ("application/xml", "<a/>", 415),
    ];
    for (media_type, body, status) in rows {
        let answer = api.send(Method::POST, CONFIG_MAPS).body(media_type, body).await;
        assert_eq!(answer.status, status, "{media_type}: {}", answer.text());
    }
    assert_eq!(api.names(CONFIG_MAPS).await, ["charset", "json", "yaml"]);
}

#[tokio::test]
async fn protobuf_is_refused_by_name() {
    let api = Api::new().await;
    let body: &[u8] = b"k8s\0\x0a\x0d\x0a\x02v1\x12\x07Unknown";
    let answer = api.send(Method::POST, CONFIG_MAPS).body("application/vnd.kubernetes.protobuf", body).await;
    assert_eq!(answer.status, 415, "{}", answer.text());
    let patch = api.send(Method::PATCH, format!("{CONFIG_MAPS}/a")).body("application/apply-patch+cbor", body).await;
    patch.refused(415, "UnsupportedMediaType", &[]);
}

#[tokio::test]
async fn only_a_large_answer_is_compressed_and_only_when_asked() {
    let api = Api::new().await;
    let small = api.get(CONFIG_MAPS).header(ACCEPT_ENCODING, "gzip").await.expect(200);
    assert_eq!(small.header("content-encoding"), "");

    for index in 0..20 {
        let mut object = config_map(&format!("m{index:02}"));
        object["data"]["filling"] = "lorem ipsum ".repeat(1000).into();
        api.post(CONFIG_MAPS, object).await.expect(201);
    }
    let plain = api.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(plain.header("content-encoding"), "");
    assert_eq!(plain.header("content-length"), plain.body.len().to_string());
    let refused = api.get(CONFIG_MAPS).header(ACCEPT_ENCODING, "gzip;q=0").await.expect(200);
    assert_eq!(refused.header("content-encoding"), "");

    let packed = api.get(CONFIG_MAPS).header(ACCEPT_ENCODING, "deflate, gzip").await.expect(200);
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.header("content-length").is_empty() && packed.body.len() < plain.body.len() / 4);
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.body.as_ref()).read_to_string(&mut text).expect("the body is gzip");
    let unpacked: serde_json::Value = serde_json::from_str(&text).expect("and within, JSON");
    assert_eq!(names(&unpacked["items"]), names(&plain["items"]));
}
