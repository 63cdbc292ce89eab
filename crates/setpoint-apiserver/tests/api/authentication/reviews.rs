//! What people are told of their own rights and of others'.

use http::Method;
use serde_json::json;

use super::*;

const GROUP: &str = "/apis/authorization.k8s.io/v1";

fn config_maps(verb: &str) -> Value {
    json!({"verb": verb, "resource": "configmaps", "namespace": "default"})
}

#[tokio::test]
async fn somebody_asks_what_they_may_do() {
    let api = Api::new().await;
    api.allow("alice", json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}])).await;
    let ask = async |spec: Value| {
        let review = api.post(SELF_ACCESS_REVIEWS, json!({"spec": spec})).acting_as("alice", &[]).await.expect(201);
        review["status"].clone()
    };
    let reason = r#"RBAC: allowed by ClusterRoleBinding "alice" of ClusterRole "alice" to User "alice""#;
    let allowed = json!({"allowed": true, "reason": reason});
    assert_eq!(ask(json!({"resourceAttributes": config_maps("get")})).await, allowed);
    assert_eq!(ask(json!({"resourceAttributes": config_maps("list")})).await, json!({"allowed": false}));
    let path = ask(json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}})).await;
    assert_eq!(path, json!({"allowed": false}));
    let asked = api.post(SELF_ACCESS_REVIEWS, json!({"spec": {"resourceAttributes": config_maps("get")}})).await;
    let asked = asked.expect(201);
    assert_eq!(asked["status"], json!({"allowed": true}), "who may do anything needs no reason");
    let owned = json!({".": {}, "f:namespace": {}, "f:resource": {}, "f:verb": {}});
    assert_eq!(asked.owned()["unknown"], json!({"f:spec": {"f:resourceAttributes": owned}}));
}

#[tokio::test]
async fn somebody_asks_what_others_may_do() {
    let api = Api::new().await;
    api.allow("alice", json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}])).await;
    let ask = async |path: &str, spec: Value| api.post(format!("{GROUP}/{path}"), json!({"spec": spec})).await;
    let reviews = "subjectaccessreviews";
    let local = "namespaces/default/localsubjectaccessreviews";
    for (path, user, groups, verb, allowed) in [
        (reviews, "alice", json!([]), "get", true),
        (reviews, "alice", json!([]), "list", false),
        (reviews, "bob", json!([]), "get", false),
        (reviews, "", json!(["system:masters"]), "list", true),
        (local, "alice", json!([]), "get", true),
        (local, "alice", json!([]), "delete", false),
    ] {
        let spec = json!({"user": user, "groups": groups, "resourceAttributes": config_maps(verb)});
        let answer = ask(path, spec).await.expect(201);
        assert_eq!(answer["status"]["allowed"], allowed, "{path} {user} {verb}");
    }
    let elsewhere =
        json!({"user": "alice", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "n"}});
    let words = [r#".authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "n""#];
    ask(local, elsewhere).await.refused(422, "Invalid", &words);
    let spec = json!({"user": "bob", "resourceAttributes": config_maps("get")});
    let asked = api.post(format!("{GROUP}/{reviews}"), json!({"spec": spec})).acting_as("alice", &[]).await;
    asked.refused(403, "Forbidden", &["cannot create resource \"subjectaccessreviews\""]);
}

#[tokio::test]
async fn somebody_is_told_their_rules() {
    let api = Api::new().await;
    api.allow("alice", json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}])).await;
    let path = format!("{GROUP}/selfsubjectrulesreviews");
    let ask = |spec: Value| api.post(&path, json!({"spec": spec})).acting_as("alice", &[]);
    let status = ask(json!({"namespace": "default"})).await.expect(201)["status"].clone();
    let rules = status["resourceRules"].as_array().expect("rules");
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]});
    assert!(rules.contains(&rule), "{status}");
    assert_eq!(status["incomplete"], false);
    let every = api.post(&path, json!({"spec": {"namespace": "default"}})).await.expect(201);
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert!(every["status"]["resourceRules"].as_array().expect("rules").contains(&everything), "{}", every.text());
    ask(json!({})).await.refused(400, "BadRequest", &["no namespace on request"]);
}

#[tokio::test]
async fn a_review_is_only_created() {
    let api = Api::new().await;
    for path in [SELF_ACCESS_REVIEWS, TOKEN_REVIEWS, SELF_REVIEWS] {
        api.get(path).await.refused(405, "MethodNotAllowed", &[]);
        api.get(format!("{path}?watch=1")).await.refused(405, "MethodNotAllowed", &[]);
        api.delete(path).await.refused(405, "MethodNotAllowed", &[]);
        api.get(format!("{path}/x")).await.refused(404, "NotFound", &[]);
        api.send(Method::PUT, format!("{path}/x")).await.refused(404, "NotFound", &[]);
    }
}

#[tokio::test]
async fn reviews_are_discovered_and_described() {
    let api = Api::new().await;
    let listed = api.get(GROUP).await.expect(200);
    let reviews: Vec<&Value> = listed["resources"].as_array().expect("resources").iter().collect();
    assert_eq!(reviews.len(), 4);
    for review in reviews {
        assert_eq!(review["verbs"], json!(["create"]), "{review}");
        assert!(review.get("storageVersionHash").is_none(), "{review}: nothing is stored");
    }
    let core = api.get("/api/v1").await.expect(200);
    let token = json!({
        "name": "serviceaccounts/token", "singularName": "", "namespaced": true, "kind": "TokenRequest",
        "group": "authentication.k8s.io", "version": "v1", "verbs": ["create"],
    });
    assert!(core["resources"].as_array().expect("resources").contains(&token));
    let document = api.get("/openapi/v3/apis/authorization.k8s.io/v1").await.expect(200);
    let schemas = &document["components"]["schemas"];
    assert!(schemas.get("io.k8s.api.authorization.v1.SelfSubjectAccessReview").is_some());
    assert!(schemas.get("io.k8s.api.authorization.v1.SelfSubjectAccessReviewList").is_none());
}
