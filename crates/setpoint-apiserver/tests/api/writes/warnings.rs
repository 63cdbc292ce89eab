//! What a client is told beside the answer.

use serde_json::json;

use crate::fixture::Api;
use crate::objects::*;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

#[tokio::test]
async fn a_deprecated_kind_says_so_every_time() {
    let api = Api::new().await;
    let path = "/api/v1/namespaces/default/endpoints";
    let told = [r#"299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice""#];
    assert_eq!(api.post(path, json!({"metadata": {"name": "a"}})).await.expect(201).warnings(), told);
    assert_eq!(api.get(path).await.expect(200).warnings(), told);
    let refused = json!({"metadata": {"name": "b"}, "subsets": [{"addresses": [{"ip": "nowhere"}]}]});
    assert_eq!(api.post(path, refused).await.expect(422).warnings(), told);
    assert!(api.get(SERVICES).await.expect(200).warnings().is_empty());
}

#[tokio::test]
async fn who_deletes_a_job_without_a_word_on_its_pods_is_warned() {
    let api = Api::new().await;
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.com/c:1"}]}});
    for (name, query, warned) in [("a", "", 1), ("b", "?propagationPolicy=Background", 0)] {
        api.post(JOBS, json!({"metadata": {"name": name}, "spec": {"template": template}})).await.expect(201);
        let deleted = api.delete(format!("{JOBS}/{name}{query}")).await.expect(200);
        assert_eq!(deleted.warnings().len(), warned, "{query:?}: {:?}", deleted.warnings());
    }
}
