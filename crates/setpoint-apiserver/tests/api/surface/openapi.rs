//! The documents that describe the API.

use http::header::IF_NONE_MATCH;
use serde_json::json;

use crate::fixture::Api;

#[tokio::test]
async fn the_index_leads_to_every_document() {
    let api = Api::new().await;
    let index = api.get("/openapi/v3").await.expect(200);
    let paths = index["paths"].as_object().expect("the index has paths");
    assert!(paths.contains_key("api/v1") && paths.contains_key("apis/apps/v1"), "{:?}", paths.keys());
    for (name, entry) in paths {
        let address = entry["serverRelativeURL"].as_str().expect("an address");
        assert!(address.starts_with(&format!("/openapi/v3/{name}?hash=")), "{address}");
        let document = api.get(address).await.expect(200);
        assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")), "{name}");
        assert!(document.header("cache-control").contains("immutable"), "an address with a hash never changes");
    }
}

#[tokio::test]
async fn a_document_says_what_kubectl_apply_asks_of_it() {
    let api = Api::new().await;
    let document = api.get("/openapi/v3/apis/apps/v1").await.expect(200);
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let kind = &patch["x-kubernetes-group-version-kind"];
    assert_eq!(*kind, json!({"group": "apps", "version": "v1", "kind": "Deployment"}));
    let parameters = patch["parameters"].as_array().expect("a patch has parameters");
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"));
    let spec = &document["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"];
    assert_eq!(spec["properties"]["replicas"]["type"], "integer");
}

#[tokio::test]
async fn a_document_that_is_known_is_not_sent_again() {
    let api = Api::new().await;
    let document = api.get("/openapi/v3/api/v1").await.expect(200);
    let tag = document.header("etag").to_owned();
    assert!(tag.len() > 2 && tag.starts_with('"'), "{tag}");
    let known = api.get("/openapi/v3/api/v1").header(IF_NONE_MATCH, &tag).await.expect(304);
    assert!(known.body.is_empty());
    let other = api.get("/openapi/v3/api/v1").header(IF_NONE_MATCH, "\"older\"").await.expect(200);
    assert_eq!(other.body, document.body);
}

#[tokio::test]
async fn a_document_nobody_has_is_not_found() {
    let api = Api::new().await;
    for path in ["/openapi/v3/api/v9", "/openapi/v3/apis/none.example.com/v1", "/openapi/v3/nonsense"] {
        api.get(path).await.expect(404);
    }
}
