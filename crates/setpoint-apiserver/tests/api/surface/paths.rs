//! Paths that lead nowhere and methods that nothing has.

use http::Method;
use serde_json::json;

use crate::fixture::Api;
use crate::objects::*;

#[tokio::test]
async fn a_path_outside_the_api_is_a_page_that_is_not_found() {
    let api = Api::new().await;
    for path in ["/nowhere", "/apis/none.example.com/v1", "/apis/none.example.com/v1/namespaces/default/things", "/ap"] {
        let answer = api.get(path).await.expect(404);
        assert_eq!(answer.text(), "404 page not found\n", "{path}");
        assert!(answer.header("content-type").starts_with("text/plain"), "{path}");
    }
}

#[tokio::test]
async fn a_path_within_the_api_is_a_resource_that_is_not_found() {
    let api = Api::new().await;
    for path in [
        "/api/v1/namespaces/default/gadgets",
        "/api/v1/gadgets/a",
        "/api/v2",
        "/apis/apps/v9/namespaces/default/deployments",
        "/apis/apps/v1/namespaces/default/gadgets",
        "/api/v1/namespaces/default/configmaps/a/gadget",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/configmaps/a",
    ] {
        let answer = api.get(path).await;
        let answer = answer.refused(404, "NotFound", &["the server could not find the requested resource"]);
        assert_eq!(answer["details"], json!({}), "{path}");
    }
}

#[tokio::test]
async fn a_method_that_a_path_does_not_have_is_not_allowed() {
    let api = Api::new().await;
    let rows = [
        (Method::POST, format!("{CONFIG_MAPS}/a")),
        (Method::PUT, CONFIG_MAPS.to_owned()),
        (Method::PATCH, CONFIG_MAPS.to_owned()),
        (Method::DELETE, NAMESPACES.to_owned()),
        (Method::POST, "/api/v1/configmaps".to_owned()),
        (Method::GET, format!("{PODS}/a/binding")),
        (Method::DELETE, format!("{DEPLOYMENTS}/a/scale")),
        (Method::POST, format!("{DEPLOYMENTS}/a/status")),
        (Method::OPTIONS, CONFIG_MAPS.to_owned()),
    ];
    for (method, path) in rows {
        let answer = api.send(method.clone(), &path).body("application/json", "{}").await;
        assert_eq!((answer.status, &answer["reason"]), (405, &json!("MethodNotAllowed")), "{method} {path}");
    }
}

#[tokio::test]
async fn a_path_cannot_leave_its_place() {
    let api = Api::new().await;
    api.post("/api/v1/namespaces/kube-public/configmaps", config_map("a")).await.expect(201);
    for path in [
        format!("{CONFIG_MAPS}/..%2F..%2Fkube-public%2Fconfigmaps%2Fa"),
        "/api/v1/namespaces/%2e%2e/configmaps/a".to_owned(),
        format!("{CONFIG_MAPS}/a%00"),
        format!("{CONFIG_MAPS}/%ff"),
    ] {
        let answer = api.get(&path).await;
        assert!((400..500).contains(&answer.status), "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn slashes_too_many_do_no_harm() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    api.get(format!("{CONFIG_MAPS}/a/")).await.expect(200);
}
