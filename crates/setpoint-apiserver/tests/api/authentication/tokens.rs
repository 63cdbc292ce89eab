//! Asking for tokens, and asking about them.

use serde_json::json;

use super::*;
use crate::fixture::{TOKEN, URL};
use crate::objects::*;

#[tokio::test]
async fn a_token_is_asked_for() {
    let api = Api::new().await;
    api.make_account("web").await;
    let path = format!("{ACCOUNTS}/web/token");
    let made = api.post(&path, json!({})).await.expect(201);
    assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("TokenRequest"), &json!("authentication.k8s.io/v1")));
    let spec = json!({"audiences": [URL], "expirationSeconds": 3600, "boundObjectRef": null});
    assert_eq!(made["spec"], spec, "for this server and an hour");
    assert_eq!(made.owned(), json!({"unknown/token": {"f:spec": {"f:expirationSeconds": {}}}}));
    assert_eq!(made["metadata"]["resourceVersion"], json!(null), "nothing is stored");
    let uid = api.get(format!("{ACCOUNTS}/web")).await.expect(200)["metadata"]["uid"].clone();
    assert_eq!((&made["metadata"]["name"], &made["metadata"]["uid"]), (&json!("web"), &uid));
    let asked = json!({"spec": {"audiences": ["a", "b"], "expirationSeconds": 600}});
    assert_eq!(api.post(&path, asked).await.expect(201)["spec"]["audiences"], json!(["a", "b"]));
}

#[tokio::test]
async fn a_token_that_cannot_be_had_is_refused() {
    let api = Api::new().await;
    api.make_account("web").await;
    let uid = api.post(PODS, pod("other")).await.expect(201)["metadata"]["uid"].clone();
    api.post(SECRETS, secret("s")).await.expect(201);
    let bound = |kind: &str, name: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}});
    let replaced = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": uid}});
    let rows = [
        ("too short", json!({"spec": {"expirationSeconds": 10}}), 422, "less than 10 minutes"),
        ("too long", json!({"spec": {"expirationSeconds": 4_294_967_297_i64}}), 422, "larger than 2^32 seconds"),
        ("for a Pod that is not there", json!({"spec": bound("Pod", "nope")}), 404, "pods \"nope\" not found"),
        (
            "for another's Pod",
            json!({"spec": bound("Pod", "other")}),
            400,
            "cannot bind token for serviceaccount \"web\" to pod running with different serviceaccount name.",
        ),
        (
            "for what it cannot be bound to",
            json!({"spec": bound("ConfigMap", "x")}),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            "for a Secret that was replaced",
            json!({"spec": replaced}),
            409,
            "does not match the UID in record. The object might have been deleted and then recreated",
        ),
        ("for another account", json!({"metadata": {"name": "db"}}), 422, "must match the service account name"),
        (
            "for an account that was replaced",
            json!({"metadata": {"uid": "u-0"}}),
            409,
            "the UID in the token request (u-0) does not match the UID of the service account",
        ),
        ("of another kind", json!({"kind": "Pod", "apiVersion": "v1"}), 400, "Pod"),
    ];
    for (row, request, status, words) in rows {
        let answer = api.post(format!("{ACCOUNTS}/web/token"), request).await.expect(status);
        assert!(answer.message().contains(words), "{row}: {}", answer.message());
    }
    let nobody = api.post(format!("{ACCOUNTS}/nope/token"), json!({})).await;
    nobody.refused(404, "NotFound", &["serviceaccounts \"nope\" not found"]);
    api.get(format!("{ACCOUNTS}/web/token")).await.refused(405, "MethodNotAllowed", &[]);
}

#[tokio::test]
async fn somebody_needs_the_right_to_make_tokens() {
    let api = Api::new().await;
    api.make_account("web").await;
    let path = format!("{ACCOUNTS}/web/token");
    let words = ["User \"alice\" cannot create resource \"serviceaccounts/token\" in API group \"\""];
    api.post(&path, json!({})).acting_as("alice", &[]).await.refused(403, "Forbidden", &words);
    api.allow("alice", json!([{"verbs": ["create"], "apiGroups": [""], "resources": ["serviceaccounts/token"]}])).await;
    api.post(&path, json!({})).acting_as("alice", &[]).await.expect(201);
}

#[tokio::test]
async fn a_token_is_asked_about() {
    let api = Api::new().await;
    api.make_account("web").await;
    let token = api.token_of("web", json!({"audiences": ["vault", "db"]})).await;
    let own = api.token_of("web", json!({})).await;
    let review = async |token: &str, audiences: &[&str]| {
        let spec = json!({"token": token, "audiences": audiences});
        api.post(TOKEN_REVIEWS, json!({"spec": spec})).await.expect(201)["status"].clone()
    };
    let known = review(&token, &["vault", "other"]).await;
    assert_eq!((&known["authenticated"], &known["audiences"]), (&json!(true), &json!(["vault"])));
    assert_eq!(known["user"]["username"], "system:serviceaccount:default:web");
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(known["user"]["groups"], groups);
    assert_eq!(review(&own, &[]).await["audiences"], json!([URL]));
    let person = json!({
        "authenticated": true, "audiences": [URL],
        "user": {"username": "tester", "groups": ["system:masters", "system:authenticated"]},
    });
    assert_eq!(review(TOKEN, &[]).await, person);
    let rows = [
        ("no token", "nonsense", &[][..], "invalid bearer token"),
        ("a person's, elsewhere", TOKEN, &["vault"], "invalid bearer token"),
        (
            "for others",
            &token,
            &["other"],
            r#"[invalid bearer token, token audiences ["vault" "db"] is invalid for the target audiences ["other"]]"#,
        ),
    ];
    for (row, token, audiences, error) in rows {
        assert_eq!(review(token, audiences).await, json!({"user": {}, "error": error}), "{row}");
    }
    api.delete(format!("{ACCOUNTS}/web")).await.expect(200);
    let error = "[invalid bearer token, serviceaccounts \"web\" not found]";
    assert_eq!(review(&own, &[]).await, json!({"user": {}, "error": error}), "at once");
    let empty = api.post(TOKEN_REVIEWS, json!({"spec": {"token": ""}})).await;
    empty.refused(400, "BadRequest", &["token is required for TokenReview in authentication"]);
}

#[tokio::test]
async fn a_watch_ends_with_what_its_token_stands_on() {
    let api = Api::new().await;
    let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    api.allow("system:serviceaccount:default:web", everything).await;
    let secret = json!({"metadata": {"name": "key"}});
    for (row, deleted) in [("the account", format!("{ACCOUNTS}/web")), ("its object", format!("{SECRETS}/key"))] {
        api.make_account("web").await;
        api.post(SECRETS, secret.clone()).await.expect(201);
        let bound = json!({"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "key"}});
        let token = api.token_of("web", bound).await;
        let watch = api.get(format!("{CONFIG_MAPS}?watch=1")).token(&token).watch().await;
        api.delete(deleted).await.expect(200);
        assert!(watch.rest().await.is_empty(), "{row}");
        for path in [ACCOUNTS, SECRETS] {
            api.delete(path).await.expect(200);
        }
    }
}

#[tokio::test]
async fn a_token_that_is_not_read_is_not_repeated() {
    let api = Api::new().await;
    let answer = api.send(http::Method::POST, TOKEN_REVIEWS).body("application/json", r#"{"s3cret"#).await.expect(400);
    let hex: String = b"s3cret".iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(!answer.text().contains("s3cret") && !answer.text().contains(&hex), "{}", answer.text());
}
