//! Bodies that are no objects.

use http::Method;
use serde_json::json;

use crate::fixture::Api;
use crate::objects::*;

#[tokio::test]
async fn a_body_that_cannot_be_read_is_the_clients_fault() {
    let api = Api::new().await;
    let rows: [(&str, &str, &[u8]); 14] = [
        ("nothing", "application/json", b""),
        ("blanks", "application/json", b"  \n"),
        ("half an object", "application/json", br#"{"metadata":{"name":"#),
        ("two objects", "application/json", br#"{"metadata":{"name":"a"}} {"metadata":{"name":"b"}}"#),
        ("a list", "application/json", b"[]"),
        ("a string", "application/json", br#""a""#),
        ("a number", "application/json", b"7"),
        ("a lonely surrogate as a name", "application/json", br#"{"metadata":{"name":"\ud800"}}"#),
        ("bytes that are no text", "application/json", b"{\"metadata\":{\"name\":\"\xff\xfe\"}}"),
        ("a control character", "application/json", b"{\"metadata\":{\"name\":\"a\x01\"}}"),
        ("broken YAML", "application/yaml", b"a: ["),
        ("YAML that is a word", "application/yaml", b"hello"),
        ("a number too large to be", "application/json", br#"{"metadata":{"name":"a","generation":1e999}}"#),
        ("JSON with a comment", "application/json", br#"{/* hm */"metadata":{"name":"a"}}"#),
    ];
    for (row, media_type, body) in rows {
        let answer = api.send(Method::POST, CONFIG_MAPS).body(media_type, body.to_vec()).await;
        assert!((400..500).contains(&answer.status), "{row}: {} {}", answer.status, answer.text());
        assert_eq!(answer["kind"], "Status", "{row}");
        assert!(!answer.message().is_empty(), "{row}");
    }
    assert!(api.names(CONFIG_MAPS).await.is_empty());
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_refused_by_the_name_of_its_field() {
    let api = Api::new().await;
    let rows = [
        ("a name that is a number", CONFIG_MAPS, r#"{"metadata":{"name":7}}"#, "metadata.name"),
        ("labels that are a list", CONFIG_MAPS, r#"{"metadata":{"name":"a","labels":["b"]}}"#, "metadata.labels"),
        ("a label that is a number", CONFIG_MAPS, r#"{"metadata":{"name":"a","labels":{"b":1}}}"#, "metadata.labels"),
        ("metadata that is a word", CONFIG_MAPS, r#"{"metadata":"a"}"#, "metadata"),
        ("data that is a word", CONFIG_MAPS, r#"{"metadata":{"name":"a"},"data":"b"}"#, "data"),
        ("a time that is none", CONFIG_MAPS, r#"{"metadata":{"name":"a","creationTimestamp":"noon"}}"#, "noon"),
        ("containers that are a map", PODS, r#"{"metadata":{"name":"a"},"spec":{"containers":{}}}"#, "spec.containers"),
        (
            "a port that is a word",
            PODS,
            r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","ports":[{"containerPort":"x"}]}]}}"#,
            "containerPort",
        ),
        (
            "replicas that are a half",
            DEPLOYMENTS,
            r#"{"metadata":{"name":"a"},"spec":{"replicas":1.5}}"#,
            "spec.replicas",
        ),
        (
            "replicas too large to count",
            DEPLOYMENTS,
            r#"{"metadata":{"name":"a"},"spec":{"replicas":99999999999}}"#,
            "spec.replicas",
        ),
        ("a truth that is a word", CONFIG_MAPS, r#"{"metadata":{"name":"a"},"immutable":"yes"}"#, "immutable"),
    ];
    for (row, path, body, words) in rows {
        let answer = api.send(Method::POST, path).body("application/json", body).await;
        assert_eq!(answer.status, 400, "{row}: {}", answer.text());
        assert!(answer.message().contains(words), "{row}: {}", answer.message());
    }
}

#[tokio::test]
async fn an_invalid_object_is_refused_with_every_field_that_is_wrong() {
    let api = Api::new().await;
    let spec = json!({
        "restartPolicy": "Sometimes",
        "containers": [{"name": "Bad_Name", "image": "x", "ports": [{"containerPort": 70000}]}],
    });
    let answer = api.post(PODS, json!({"metadata": {"name": "p"}, "spec": spec})).await.refused(422, "Invalid", &[]);
    let expected = ["spec.containers[0].name", "spec.containers[0].ports[0].containerPort", "spec.restartPolicy"];
    assert_eq!(answer.fields(), expected.into());
    assert_eq!((&answer["details"]["kind"], &answer["details"]["name"]), (&json!("Pod"), &json!("p")));
}

#[tokio::test]
async fn a_body_too_large_is_refused_unread() {
    let api = Api::new().await;
    let mut object = config_map("a");
    object["data"]["filling"] = "x".repeat(3 * 1024 * 1024).into();
    let answer = api.post(CONFIG_MAPS, object).await.refused(413, "RequestEntityTooLarge", &[]);
    assert_eq!(answer.header("connection"), "close");
    assert!(api.names(CONFIG_MAPS).await.is_empty());
}

#[tokio::test]
async fn a_body_too_deep_is_refused() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let depth = 100_000;
    let json = format!(r#"{{"metadata":{{"name":"b"}},"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let yaml = format!("metadata: {{name: b}}\nx: {}{}\n", "[".repeat(depth), "]".repeat(depth));
    let rows = [
        (Method::POST, CONFIG_MAPS.to_owned(), "application/json", json.clone()),
        (Method::POST, CONFIG_MAPS.to_owned(), "application/yaml", yaml),
        (Method::PATCH, format!("{CONFIG_MAPS}/a"), "application/merge-patch+json", json.clone()),
        (Method::PATCH, format!("{CONFIG_MAPS}/a"), "application/strategic-merge-patch+json", json.clone()),
        (Method::PATCH, format!("{CONFIG_MAPS}/a"), "application/json-patch+json", json.clone()),
        (Method::DELETE, format!("{CONFIG_MAPS}/a"), "application/json", json),
    ];
    for (method, path, media_type, body) in rows {
        let answer = api.send(method.clone(), path).body(media_type, body).await;
        assert!((400..500).contains(&answer.status), "{method} {media_type}: {}", answer.text());
    }
    assert_eq!(api.names(CONFIG_MAPS).await, ["a"]);
}

#[tokio::test]
async fn yaml_that_grows_when_it_is_read_is_refused() {
    let api = Api::new().await;
    let mut yaml = String::from("metadata: {name: bomb}\nx0: &x0 [a, a, a, a, a, a, a, a, a, a]\n");
    for level in 1..12 {
        let below = format!("*x{}, ", level - 1).repeat(10);
        yaml.push_str(&format!("x{level}: &x{level} [{below}]\n"));
    }
    let answer = api.send(Method::POST, CONFIG_MAPS).body("application/yaml", yaml).await;
    assert!((400..500).contains(&answer.status), "{}", answer.status);
}

#[tokio::test]
async fn a_patch_that_grows_when_it_is_applied_is_refused() {
    let api = Api::new().await;
    let mut object = config_map("a");
    object["data"]["k"] = "x".repeat(100_000).into();
    api.post(CONFIG_MAPS, object).await.expect(201);
    let copies: Vec<_> =
        (0..100).map(|copy| json!({"op": "copy", "from": "/data/k", "path": format!("/data/k{copy}")})).collect();
    let answer = api.json_patch(format!("{CONFIG_MAPS}/a"), copies.into()).await;
    assert!((400..500).contains(&answer.status), "{}", answer.status);
}
